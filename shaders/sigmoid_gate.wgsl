struct Params { // keep in step with SigmoidGateParams
    d: u32,
    gate_stride: u32,
    gate_col: u32,
    pad0: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> gate: array<f32>; // [T, gate_stride], columns gate_col..gate_col+D
@group(0) @binding(3) var<storage, read_write> y: array<f32>; // [T, D]

// A workgroup owns 64 neighbouring elements of y.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let e = group_number(group, groups) * 64u + i;
    if (e >= step.tokens * p.d) {
        return;
    }
    y[e] = y[e] * sigmoid(gate[e / p.d * p.gate_stride + p.gate_col + e % p.d]);
}
