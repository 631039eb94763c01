struct Params { // keep in step with MatMulParams
    d: u32,
    n: u32,
    x_stride: u32,
    y_stride: u32,
    y_col: u32,
    rows: u32,
    add: u32,
    pad0: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>; // [R, x_stride], first D of a row used
@group(0) @binding(3) var<storage, read> w: array<vec2<u32>>; // [N, D], W_KIND: two or four elements a vector
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>; // [R, y_stride], columns y_col..y_col+N

const W_KIND: u32 = 0u;
const TILE: u32 = 128u; // rows and columns of y that a workgroup owns
const DEPTH: u32 = 16u; // inner elements staged at a time
const TILE4: u32 = TILE / 4u;
const HALF: u32 = DEPTH * TILE4;

var<workgroup> sh_xw: array<vec4<f32>, 2u * HALF>; // x: [DEPTH, TILE], four rows a vector; then w likewise, four columns

fn word(i: u32) -> u32 {
    return w[i / 2u][i % 2u];
}

// Four elements of a row of x from column d on.
fn x_at(r: u32, d: u32, rows: u32) -> vec4<f32> {
    if (r < rows && d < p.d) {
        return x[(r * p.x_stride + d) / 4u];
    }
    return vec4<f32>(0.0);
}

// Four elements of row c of w from column d on.
fn w_at(c: u32, d: u32) -> vec4<f32> {
    if (c >= p.n || d >= p.d) {
        return vec4<f32>(0.0);
    }
    let at = c * p.d + d;
    if (W_KIND == 0u) {
        return vec4<f32>(bitcast<vec2<f32>>(w[at / 2u]), bitcast<vec2<f32>>(w[at / 2u + 1u]));
    }
    if (W_KIND == 3u) {
        return four8(word(at / 4u)) * scale_of(c, d);
    }
    if (W_KIND == 4u) {
        return four4(word(at / 8u) >> (16u * ((at / 4u) & 1u))) * scale_of(c, d);
    }
    let both = w[at / 4u];
    if (W_KIND == 1u) {
        return vec4<f32>(unpack2x16float(both.x), unpack2x16float(both.y));
    }
    return vec4<f32>(bitcast<f32>(both.x << 16u), bitcast<f32>(both.x & 0xffff0000u), bitcast<f32>(both.y << 16u), bitcast<f32>(both.y & 0xffff0000u));
}

fn put(r: u32, c: u32, v: vec4<f32>, rows: u32) {
    if (r < rows && c < p.n) {
        let o = (r * p.y_stride + p.y_col + c) / 4u;
        if (p.add == 1u) {
            y[o] = y[o] + v;
        } else {
            y[o] = v;
        }
    }
}

// A workgroup owns a TILE × TILE tile of y; an invocation four blocks of 4 × 4 in it, half a tile
// apart, so that neighbours read neighbouring vectors.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let rows = select(step.tokens, step.outs, p.rows == 1u);
    let tiles = (p.n + TILE - 1u) / TILE;
    let number = group_number(group, groups);
    let row0 = (number / tiles) * TILE;
    let col0 = (number % tiles) * TILE;
    // Who stages what: 4 × 4 elements of x, or of w.
    let is_x = i < 128u;
    let four = i % 32u;
    let depth4 = ((i / 32u) % 4u) * 4u;
    let into = select(HALF, 0u, is_x) + depth4 * TILE4 + four;
    // Who computes what: a warp of 32 covers 4 × 8 blocks.
    let ty = (i / 64u) * 4u + (i % 32u) / 8u;
    let tx = ((i / 32u) % 2u) * 8u + i % 8u;

    var acc: array<vec4<f32>, 16> = array<vec4<f32>, 16>(
        vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0),
        vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0));
    var n0: vec4<f32> = vec4<f32>(0.0);
    var n1: vec4<f32> = vec4<f32>(0.0);
    var n2: vec4<f32> = vec4<f32>(0.0);
    var n3: vec4<f32> = vec4<f32>(0.0);
    if (is_x) {
        let r = row0 + four * 4u;
        n0 = x_at(r, depth4, rows);
        n1 = x_at(r + 1u, depth4, rows);
        n2 = x_at(r + 2u, depth4, rows);
        n3 = x_at(r + 3u, depth4, rows);
    } else {
        let c = col0 + four * 4u;
        n0 = w_at(c, depth4);
        n1 = w_at(c + 1u, depth4);
        n2 = w_at(c + 2u, depth4);
        n3 = w_at(c + 3u, depth4);
    }
    for (var d0: u32 = 0u; d0 < p.d; d0 = d0 + DEPTH) {
        sh_xw[into] = vec4<f32>(n0.x, n1.x, n2.x, n3.x);
        sh_xw[into + TILE4] = vec4<f32>(n0.y, n1.y, n2.y, n3.y);
        sh_xw[into + 2u * TILE4] = vec4<f32>(n0.z, n1.z, n2.z, n3.z);
        sh_xw[into + 3u * TILE4] = vec4<f32>(n0.w, n1.w, n2.w, n3.w);
        workgroupBarrier();
        // The next tile is on its way while this one is used.
        let d = d0 + DEPTH + depth4;
        if (is_x) {
            let r = row0 + four * 4u;
            n0 = x_at(r, d, rows);
            n1 = x_at(r + 1u, d, rows);
            n2 = x_at(r + 2u, d, rows);
            n3 = x_at(r + 3u, d, rows);
        } else {
            let c = col0 + four * 4u;
            n0 = w_at(c, d);
            n1 = w_at(c + 1u, d);
            n2 = w_at(c + 2u, d);
            n3 = w_at(c + 3u, d);
        }
        for (var k: u32 = 0u; k < DEPTH; k = k + 1u) {
            let a = sh_xw[k * TILE4 + ty];
            let b = sh_xw[k * TILE4 + 16u + ty];
            let u = sh_xw[HALF + k * TILE4 + tx];
            let v = sh_xw[HALF + k * TILE4 + 16u + tx];
            acc[0] = acc[0] + a.x * u;
            acc[1] = acc[1] + a.x * v;
            acc[2] = acc[2] + a.y * u;
            acc[3] = acc[3] + a.y * v;
            acc[4] = acc[4] + a.z * u;
            acc[5] = acc[5] + a.z * v;
            acc[6] = acc[6] + a.w * u;
            acc[7] = acc[7] + a.w * v;
            acc[8] = acc[8] + b.x * u;
            acc[9] = acc[9] + b.x * v;
            acc[10] = acc[10] + b.y * u;
            acc[11] = acc[11] + b.y * v;
            acc[12] = acc[12] + b.z * u;
            acc[13] = acc[13] + b.z * v;
            acc[14] = acc[14] + b.w * u;
            acc[15] = acc[15] + b.w * v;
        }
        workgroupBarrier();
    }
    for (var j: u32 = 0u; j < 4u; j = j + 1u) {
        let r = row0 + ty * 4u + j;
        let c = col0 + tx * 4u;
        put(r, c, acc[2u * j], rows);
        put(r, c + 64u, acc[2u * j + 1u], rows);
        put(r + 64u, c, acc[8u + 2u * j], rows);
        put(r + 64u, c + 64u, acc[9u + 2u * j], rows);
    }
}
