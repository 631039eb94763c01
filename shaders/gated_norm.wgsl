struct Params { // keep in step with GatedNormParams
    h: u32,
    v: u32,
    gate_stride: u32,
    gate_col: u32,
    eps: f32,
    no_gate: u32,
    pad0: u32,
    pad1: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> gate: array<f32>; // [T, gate_stride], columns gate_col..gate_col+H·V
@group(0) @binding(3) var<storage, read> weight: array<f32>; // [V]
@group(0) @binding(4) var<storage, read> o: array<f32>; // [T, H, V]
@group(0) @binding(5) var<storage, read_write> y: array<f32>; // [T, H, V]

// A workgroup owns 8 (token, head) rows; 8 lanes share each.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let row = group_number(group, groups) * 8u + i / 8u;
    let lane = i % 8u;
    let t = row / p.h;
    let h = row % p.h;
    let live = t < step.tokens;
    let at = row * p.v;
    var sum: f32 = 0.0;
    if (live) {
        for (var j: u32 = lane; j < p.v; j = j + 8u) {
            sum = sum + o[at + j] * o[at + j];
        }
    }
    let scale = inverseSqrt(lane_sum(sum, i) / f32(p.v) + p.eps);
    if (live) {
        for (var j: u32 = lane; j < p.v; j = j + 8u) {
            let g = gate[t * p.gate_stride + p.gate_col + h * p.v + j];
            y[at + j] = o[at + j] * scale * weight[j] * select(silu(g), 1.0, p.no_gate != 0u);
        }
    }
}
