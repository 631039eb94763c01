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
@group(0) @binding(3) var<storage, read> w: array<u32>; // [N, D], GLU: [2, N, D]; W_KIND
@group(0) @binding(4) var<storage, read_write> y: array<f32>; // [R, y_stride], columns y_col..y_col+N

const W_KIND: u32 = 0u;
const GLU: u32 = 0u; // 1: y = silu(first N rows of w · x) · (last N); W_KIND up to 2
const WG: u32 = 16u;

fn word(i: u32) -> u32 {
    return w[i];
}

// The two halves of a word.
fn both(word: u32) -> vec2<f32> {
    if (W_KIND == 1u) {
        return unpack2x16float(word);
    }
    return vec2<f32>(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
}

// Row n of w times the row of x that begins at xr.
fn product(n: u32, xr: u32) -> f32 {
    let at = n * p.d;
    var sum: f32 = 0.0;
    if (W_KIND == 3u) {
        for (var d: u32 = 0u; d < p.d; d = d + 4u) {
            sum = sum + dot(vec4<f32>(x[xr + d], x[xr + d + 1u], x[xr + d + 2u], x[xr + d + 3u]), four8(w[(at + d) >> 2u]));
        }
        sum = sum * scale_of(n, 0u);
    } else if (W_KIND == 4u) {
        for (var d: u32 = 0u; d < p.d; d = d + 8u) {
            let both = w[(at + d) >> 3u];
            let part = dot(vec4<f32>(x[xr + d], x[xr + d + 1u], x[xr + d + 2u], x[xr + d + 3u]), four4(both))
                + dot(vec4<f32>(x[xr + d + 4u], x[xr + d + 5u], x[xr + d + 6u], x[xr + d + 7u]), four4(both >> 16u));
            sum = sum + part * scale_of(n, d);
        }
    } else if (W_KIND == 0u && p.d % 8u == 0u) { // where a turn of a loop costs as much as its sums
        for (var d: u32 = 0u; d < p.d; d = d + 8u) {
            let v = at + d;
            let i = xr + d;
            sum = sum + dot(vec4<f32>(x[i], x[i + 1u], x[i + 2u], x[i + 3u]), bitcast<vec4<f32>>(vec4<u32>(w[v], w[v + 1u], w[v + 2u], w[v + 3u])))
                + dot(vec4<f32>(x[i + 4u], x[i + 5u], x[i + 6u], x[i + 7u]), bitcast<vec4<f32>>(vec4<u32>(w[v + 4u], w[v + 5u], w[v + 6u], w[v + 7u])));
        }
    } else if (W_KIND != 0u && p.d % 8u == 0u) {
        for (var d: u32 = 0u; d < p.d; d = d + 8u) {
            let v = (at + d) >> 1u;
            let i = xr + d;
            sum = sum + dot(vec4<f32>(x[i], x[i + 1u], x[i + 2u], x[i + 3u]), vec4<f32>(both(w[v]), both(w[v + 1u])))
                + dot(vec4<f32>(x[i + 4u], x[i + 5u], x[i + 6u], x[i + 7u]), vec4<f32>(both(w[v + 2u]), both(w[v + 3u])));
        }
    } else if (W_KIND != 0u && p.d % 2u == 0u) {
        for (var d: u32 = 0u; d < p.d; d = d + 2u) {
            let word = w[(at + d) >> 1u];
            sum = sum + x[xr + d] * unpack(word, 0u) + x[xr + d + 1u] * unpack(word, 1u);
        }
    } else {
        for (var d: u32 = 0u; d < p.d; d = d + 1u) {
            sum = sum + x[xr + d] * unpack(w[word_of(at + d)], at + d);
        }
    }
    return sum;
}

// A workgroup owns WG neighbouring elements of one row of y, an invocation one of them.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let rows = select(step.tokens, step.outs, p.rows == 1u);
    let blocks = (p.n + WG - 1u) / WG;
    let number = group_number(group, groups);
    let r = number / blocks;
    let n = (number % blocks) * WG + i;
    if (r >= rows || n >= p.n) {
        return;
    }
    var sum: f32 = product(n, r * p.x_stride);
    if (GLU == 1u) {
        sum = silu(sum) * product(p.n + n, r * p.x_stride);
    }
    let o = r * p.y_stride + p.y_col + n;
    if (p.add == 1u) {
        y[o] = y[o] + sum;
    } else {
        y[o] = sum;
    }
}
