struct Params { // keep in step with GatesParams
    h: u32,
    x_stride: u32,
    a_col: u32,
    b_col: u32,
    beta_scale: f32,
    beta_max: f32,
    no_decay: u32,
    pad0: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>; // [T, x_stride], columns a_col and b_col on
@group(0) @binding(3) var<storage, read> rates: array<f32>; // [2, H]: A_log, dt_bias
@group(0) @binding(4) var<storage, read_write> gates: array<f32>; // [T, 2H]: log decay, then beta

// A workgroup owns 64 neighbouring (token, head) pairs.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let e = group_number(group, groups) * 64u + i;
    if (e >= step.tokens * p.h) {
        return;
    }
    let t = e / p.h;
    let h = e % p.h;
    let z = x[t * p.x_stride + p.a_col + h] + rates[p.h + h];
    gates[t * 2u * p.h + h] = select(log_decay(rates[h], z), 0.0, p.no_decay != 0u);
    let beta = p.beta_scale * sigmoid(x[t * p.x_stride + p.b_col + h]);
    gates[t * 2u * p.h + p.h + h] = select(beta, min(beta, p.beta_max), p.beta_max > 0.0);
}
