struct Params { // keep in step with RMSNormParams
    d: u32,
    x_stride: u32,
    y_stride: u32,
    rows: u32,
    eps: f32,
    add: u32,
    x_col: u32,
    y_col: u32,
    heads: u32,
    w_col: u32,
    pad1: u32,
    pad2: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>; // [R, x_stride], columns x_col..x_col+heads·D
@group(0) @binding(3) var<storage, read> weight: array<f32>; // columns w_col..w_col+D
@group(0) @binding(4) var<storage, read_write> y: array<f32>; // [R, y_stride], columns y_col..y_col+heads·D

const RED_WG: u32 = 64u;

// A workgroup owns one head of a row.
@compute @workgroup_size(RED_WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let heads = max(p.heads, 1u);
    let number = group_number(group, groups);
    let row = number / heads;
    let x0 = row * p.x_stride + p.x_col + number % heads * p.d;
    let y0 = row * p.y_stride + p.y_col + number % heads * p.d;
    let live = row < select(step.tokens, step.outs, p.rows == 1u);
    var sum: f32 = 0.0;
    if (live) {
        for (var c: u32 = i; c < p.d; c = c + RED_WG) {
            let v = x[x0 + c];
            sum = sum + v * v;
        }
    }
    let scale = inverseSqrt(group_sum(sum, i) / f32(p.d) + p.eps);
    if (live) {
        for (var c: u32 = i; c < p.d; c = c + RED_WG) {
            let v = x[x0 + c] * scale * weight[p.w_col + c];
            if (p.add == 1u) {
                y[y0 + c] = y[y0 + c] + v;
            } else {
                y[y0 + c] = v;
            }
        }
    }
}
