struct Params { // keep in step with ConvParams
    c: u32,
    w: u32,
    x_stride: u32,
    x_col: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>; // [T, x_stride], columns x_col..x_col+C
@group(0) @binding(3) var<storage, read> weight: array<f32>; // [C, W]
@group(0) @binding(4) var<storage, read> tail: array<f32>; // [slots, W-1, C], oldest first
@group(0) @binding(5) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(6) var<storage, read> token_seq: array<u32>; // [T]
@group(0) @binding(7) var<storage, read_write> y: array<f32>; // [T, C]

// A workgroup owns 64 neighbouring elements of y.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let e = group_number(group, groups) * 64u + i;
    if (e >= step.tokens * p.c) {
        return;
    }
    let t = e / p.c;
    let c = e % p.c;
    let seq = seqs[token_seq[t]];
    let n = t - seq.start; // tokens of this play before t
    var sum: f32 = 0.0;
    for (var j: u32 = 0u; j < p.w; j = j + 1u) {
        // Tap j reads the token W-1-j before t, from the tail where it came in an earlier play.
        let back = p.w - 1u - j;
        var v: f32 = 0.0;
        if (back <= n) {
            v = x[(t - back) * p.x_stride + p.x_col + c];
        } else if (seq.slot_in != NO_SLOT) {
            v = tail[(seq.slot_in * (p.w - 1u) + n + j) * p.c + c];
        }
        sum = sum + weight[c * p.w + j] * v;
    }
    y[e] = silu(sum);
}
