struct Params { // keep in step with KVWriteParams
    d: u32,
    k_stride: u32,
    k_col: u32,
    v_stride: u32,
    v_col: u32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> k: array<f32>; // [T, k_stride], columns k_col..k_col+d
@group(0) @binding(3) var<storage, read> v: array<f32>; // [T, v_stride], columns v_col..v_col+d
@group(0) @binding(4) var<storage, read> rows: array<u32>; // row maps: position to cache row
@group(0) @binding(5) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(6) var<storage, read> token_seq: array<u32>; // [T]
@group(0) @binding(7) var<storage, read_write> k_cache: array<f32>; // [rows, d]
@group(0) @binding(8) var<storage, read_write> v_cache: array<f32>; // [rows, d]

// A workgroup owns 64 neighbouring elements of the play's keys, and of its values.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let e = group_number(group, groups) * 64u + i;
    let t = e / p.d;
    let d = e % p.d;
    if (t >= step.tokens) {
        return;
    }
    let seq = seqs[token_seq[t]];
    let at = rows[seq.map + seq.past + t - seq.start] * p.d + d;
    k_cache[at] = k[t * p.k_stride + p.k_col + d];
    v_cache[at] = v[t * p.v_stride + p.v_col + d];
}
