struct Params { // keep in step with AttnInputsParams
    heads: u32,
    kvh: u32,
    hd: u32,
    rot: u32,
    x_stride: u32,
    positions: u32,
    eps: f32,
    each: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>; // [T, x_stride], from 0 on: q [H, HD], k [KVH, HD], v [KVH, HD]
@group(0) @binding(3) var<storage, read> norms: array<f32>; // q's weights, then k's: [H + KVH, HD], with each [2, HD]
@group(0) @binding(4) var<storage, read> table: array<f32>; // [positions, rot/2, 2]: cos, sin
@group(0) @binding(5) var<storage, read> rows: array<u32>; // row maps: position to cache row
@group(0) @binding(6) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(7) var<storage, read_write> y: array<f32>; // [T, H + KVH, HD]
@group(0) @binding(8) var<storage, read_write> k_cache: array<f32>; // [rows, KVH, HD]
@group(0) @binding(9) var<storage, read_write> v_cache: array<f32>; // [rows, KVH, HD]

const RED_WG: u32 = 64u;

// A workgroup owns one head of q or k of one sequence, with a key also its value: all of its tokens.
@compute @workgroup_size(RED_WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let all = p.heads + p.kvh;
    let number = group_number(group, groups);
    if (number >= step.seqs * all) {
        return;
    }
    let seq = seqs[number / all];
    let head = number % all;
    let is_k = head >= p.heads;
    let first = head * p.hd;
    // What the norm runs over: the head, or all heads of q or of k.
    let q_size = p.heads * p.hd;
    let low = select(select(0u, q_size, is_k), first, p.each == 1u);
    let size = select(select(q_size, p.kvh * p.hd, is_k), p.hd, p.each == 1u);
    let weight = select(first, select(0u, p.hd, is_k), p.each == 1u);
    let half = p.rot / 2u;
    for (var n: u32 = 0u; n < seq.count; n = n + 1u) {
        let at = (seq.start + n) * p.x_stride;
        var sum: f32 = 0.0;
        for (var c: u32 = i; c < size; c = c + RED_WG) {
            sum = sum + x[at + low + c] * x[at + low + c];
        }
        let by = inverseSqrt(group_sum(sum, i) / f32(size) + p.eps);
        let position = seq.past + n;
        let angle = min(position, p.positions - 1u) * half;
        let cached = (rows[seq.map + position] * p.kvh + head - p.heads) * p.hd; // of a key
        for (var c: u32 = i; c < p.hd; c = c + RED_WG) {
            var v: f32 = x[at + first + c] * by * norms[weight + c];
            if (c < p.rot) {
                let second = c >= half;
                let other = select(c + half, c - half, second);
                let w = x[at + first + other] * by * norms[weight + other];
                let turn = (angle + min(c, other)) * 2u;
                v = v * table[turn] + select(-w, w, second) * table[turn + 1u];
            }
            y[(seq.start + n) * all * p.hd + first + c] = v;
            if (is_k) {
                k_cache[cached + c] = v;
                v_cache[cached + c] = x[at + first + p.kvh * p.hd + c];
            }
        }
    }
}
