struct Params { // keep in step with EmbedParams
    d: u32,
    n: u32, // entries
    rows: u32,
    first: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> w: array<u32>; // the table [n, D], W_KIND
@group(0) @binding(3) var<storage, read> ids: array<u32>; // [R]
@group(0) @binding(4) var<storage, read_write> y: array<f32>; // [R, D]

const W_KIND: u32 = 0u;

fn word(i: u32) -> u32 {
    return w[i];
}

// A workgroup owns 64 neighbouring elements of y.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let e = group_number(group, groups) * 64u + i;
    if (e >= select(step.tokens, step.outs, p.rows == 1u) * p.d) {
        return;
    }
    let id = ids[e / p.d];
    if (id < p.first) {
        return;
    }
    let row = min(id - p.first, p.n - 1u);
    let d = e % p.d;
    let at = row * p.d + d;
    y[e] = unpack(w[word_of(at)], at) * scale_of(row, d);
}
