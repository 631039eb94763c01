struct Params { // keep in step with HeadMaskParams
    off: vec4<u32>,
    h: u32,
    d: u32,
    pad0: u32,
    pad1: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> x: array<f32>; // [T, H, D]

// A workgroup owns 64 neighbouring elements of x.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let e = group_number(group, groups) * 64u + i;
    if (e >= step.tokens * p.h * p.d) {
        return;
    }
    let h = (e / p.d) % p.h;
    if (((p.off[h / 32u] >> (h % 32u)) & 1u) != 0u) {
        x[e] = 0.0;
    }
}
