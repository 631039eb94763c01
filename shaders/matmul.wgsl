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
@group(0) @binding(2) var<storage, read> x: array<f32>; // [R, x_stride], first D of a row used
@group(0) @binding(3) var<storage, read> w: array<u32>; // [N, D], W_KIND
@group(0) @binding(4) var<storage, read_write> y: array<f32>; // [R, y_stride], columns y_col..y_col+N

const W_KIND: u32 = 0u;
const TILE: u32 = 64u; // rows and columns of y that a workgroup owns
const DEPTH: u32 = 16u; // inner elements staged at a time
const TILE4: u32 = TILE / 4u;

var<workgroup> sh_x: array<vec4<f32>, DEPTH * TILE4>; // [DEPTH, TILE], four rows a vector
var<workgroup> sh_w: array<vec4<f32>, DEPTH * TILE4>; // [DEPTH, TILE], four columns a vector

fn word(i: u32) -> u32 {
    return w[i];
}

fn x_at(r: u32, d: u32, rows: u32) -> f32 {
    if (r < rows && d < p.d) {
        return x[r * p.x_stride + d];
    }
    return 0.0;
}

fn w_at(c: u32, d: u32) -> f32 {
    if (c < p.n && d < p.d) {
        let at = c * p.d + d;
        return unpack(w[word_of(at)], at) * scale_of(c, d);
    }
    return 0.0;
}

fn put(r: u32, c: u32, v: vec4<f32>, rows: u32) {
    if (r >= rows) {
        return;
    }
    for (var k: u32 = 0u; k < 4u; k = k + 1u) {
        if (c + k < p.n) {
            let o = r * p.y_stride + p.y_col + c + k;
            if (p.add == 1u) {
                y[o] = y[o] + v[k];
            } else {
                y[o] = v[k];
            }
        }
    }
}

// A workgroup owns a TILE × TILE tile of y, an invocation 8 × 8 of it.
@compute @workgroup_size(8, 8)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let rows = select(step.tokens, step.outs, p.rows == 1u);
    let tiles = (p.n + TILE - 1u) / TILE;
    let number = group_number(group, groups);
    let row0 = (number / tiles) * TILE;
    let col0 = (number % tiles) * TILE;
    // acc[2j] and acc[2j+1] are row j of the invocation's tile.
    var acc: array<vec4<f32>, 16> = array<vec4<f32>, 16>(
        vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0),
        vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0));
    for (var d0: u32 = 0u; d0 < p.d; d0 = d0 + DEPTH) {
        for (var e: u32 = i; e < DEPTH * TILE4; e = e + 64u) {
            let d = d0 + e % DEPTH;
            let q = e / DEPTH;
            let r = row0 + q * 4u;
            let c = col0 + q * 4u;
            sh_x[(e % DEPTH) * TILE4 + q] = vec4<f32>(x_at(r, d, rows), x_at(r + 1u, d, rows), x_at(r + 2u, d, rows), x_at(r + 3u, d, rows));
            sh_w[(e % DEPTH) * TILE4 + q] = vec4<f32>(w_at(c, d), w_at(c + 1u, d), w_at(c + 2u, d), w_at(c + 3u, d));
        }
        workgroupBarrier();
        for (var k: u32 = 0u; k < DEPTH; k = k + 1u) {
            let a = sh_x[k * TILE4 + local.y * 2u];
            let b = sh_x[k * TILE4 + local.y * 2u + 1u];
            let u = sh_w[k * TILE4 + local.x * 2u];
            let v = sh_w[k * TILE4 + local.x * 2u + 1u];
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
    for (var j: u32 = 0u; j < 8u; j = j + 1u) {
        let r = row0 + local.y * 8u + j;
        let c = col0 + local.x * 8u;
        put(r, c, acc[2u * j], rows);
        put(r, c + 4u, acc[2u * j + 1u], rows);
    }
}
