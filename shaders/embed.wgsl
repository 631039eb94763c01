struct Params { // keep in step with EmbedParams
    d: u32,
    entries: u32,
    rows: u32,
    pad0: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> table: array<u32>; // [entries, D], W_KIND
@group(0) @binding(3) var<storage, read> ids: array<u32>; // [R]
@group(0) @binding(4) var<storage, read_write> y: array<f32>; // [R, D]

const W_KIND: u32 = 0u;

// A workgroup owns 64 neighbouring elements of y.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let e = group_number(group, groups) * 64u + i;
    if (e >= select(step.tokens, step.outs, p.rows == 1u) * p.d) {
        return;
    }
    let row = min(ids[e / p.d], p.entries - 1u);
    let at = row * p.d + e % p.d;
    y[e] = unpack(table[word_of(at)], at);
}
