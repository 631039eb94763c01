struct Params { // keep in step with RoPEParams
    heads: u32,
    hd: u32,
    rot: u32,
    stride: u32,
    col: u32,
    positions: u32,
    pad0: u32,
    pad1: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> table: array<f32>; // [positions, rot/2, 2]: cos, sin
@group(0) @binding(3) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(4) var<storage, read> token_seq: array<u32>; // [T]
@group(0) @binding(5) var<storage, read_write> x: array<f32>; // [T, stride], columns col..col+heads·hd

// A workgroup owns 64 neighbouring pairs (i, i + rot/2) of the rotated part of some heads.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let half = p.rot / 2u;
    let e = group_number(group, groups) * 64u + i;
    if (e >= step.tokens * p.heads * half) {
        return;
    }
    let t = e / (p.heads * half);
    let h = (e / half) % p.heads;
    let j = e % half;
    let seq = seqs[token_seq[t]];
    let position = min(seq.past + t - seq.start, p.positions - 1u);
    let c = table[(position * half + j) * 2u];
    let s = table[(position * half + j) * 2u + 1u];
    let at = t * p.stride + p.col + h * p.hd + j;
    let a = x[at];
    let b = x[at + half];
    x[at] = a * c - b * s;
    x[at + half] = b * c + a * s;
}
