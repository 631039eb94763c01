struct Params { // keep in step with L2NormParams
    heads: u32,
    k: u32,
    stride: u32,
    pad0: u32,
    q_scale: f32,
    pad1: u32,
    pad2: u32,
    pad3: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> x: array<f32>; // [T, stride]: q [heads, K], k [heads, K], …

// A workgroup owns 8 heads, of q or of k, of some tokens; 8 lanes share each.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let row = group_number(group, groups) * 8u + i / 8u;
    let lane = i % 8u;
    let t = row / (2u * p.heads);
    let h = row % (2u * p.heads);
    let live = t < step.tokens;
    let at = t * p.stride + h * p.k;
    var sum: f32 = 0.0;
    if (live) {
        for (var j: u32 = lane; j < p.k; j = j + 8u) {
            sum = sum + x[at + j] * x[at + j];
        }
    }
    let scale = inverseSqrt(lane_sum(sum, i) + 1e-6) * select(1.0, p.q_scale, h < p.heads);
    if (live) {
        for (var j: u32 = lane; j < p.k; j = j + 8u) {
            x[at + j] = x[at + j] * scale;
        }
    }
}
