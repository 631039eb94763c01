struct Params { // keep in step with CopyParams
    d: u32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>; // [T, D]
@group(0) @binding(3) var<storage, read_write> y: array<f32>; // [T, D]

// A workgroup owns 64 neighbouring elements of y.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let e = group_number(group, groups) * 64u + i;
    if (e < step.tokens * p.d) {
        y[e] = x[e];
    }
}
