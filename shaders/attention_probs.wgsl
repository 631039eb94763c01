struct Params { // keep in step with AttentionParams
    h: u32,
    kvh: u32,
    q_stride: u32,
    q_col: u32,
    window: u32,
    probs_stride: u32,
    scale: f32,
    pad0: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> q: array<f32>; // [T, q_stride], from q_col on: [H, HD]
@group(0) @binding(3) var<storage, read> k_cache: array<f32>; // [rows, KVH, HD]
@group(0) @binding(4) var<storage, read> rows: array<u32>; // row maps: position to cache row
@group(0) @binding(5) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(6) var<storage, read> token_seq: array<u32>; // [T]
@group(0) @binding(7) var<storage, read_write> probs: array<f32>; // [T, H, probs_stride]

const HD: u32 = 32u;
const WG: u32 = 64u;
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_q: array<f32, HD>;
var<workgroup> sh_top: array<f32, WG>;
var<workgroup> sh_total: array<f32, WG>;

fn score(at: u32) -> f32 {
    var sum: f32 = 0.0;
    for (var d: u32 = 0u; d < HD; d = d + 1u) {
        sum = sum + sh_q[d] * k_cache[at + d];
    }
    return sum * p.scale;
}

// A workgroup owns one row of probs: a token and head. The scores are computed twice, once for
// their maximum and sum, once to be written.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let number = group_number(group, groups);
    if (number >= step.tokens * p.h) {
        return;
    }
    let t = number / p.h;
    let h = number % p.h;
    let kvh = h / (p.h / p.kvh);
    let seq = seqs[token_seq[t]];
    let keys = seq.past + t - seq.start + 1u;
    let k0 = select(0u, keys - min(keys, p.window), p.window > 0u);

    for (var d: u32 = i; d < HD; d = d + WG) {
        sh_q[d] = q[t * p.q_stride + p.q_col + h * HD + d];
    }
    workgroupBarrier();
    var top: f32 = LOWEST;
    var total: f32 = 0.0;
    for (var j: u32 = k0 + i; j < keys; j = j + WG) {
        let s = score((rows[seq.map + j] * p.kvh + kvh) * HD);
        let high = max(top, s);
        total = total * exp(top - high) + exp(s - high);
        top = high;
    }
    sh_top[i] = top;
    sh_total[i] = total;
    workgroupBarrier();
    for (var j: u32 = 0u; j < WG; j = j + 1u) {
        top = max(top, sh_top[j]);
    }
    total = 0.0;
    for (var j: u32 = 0u; j < WG; j = j + 1u) {
        total = total + sh_total[j] * exp(sh_top[j] - top);
    }
    for (var j: u32 = i; j < p.probs_stride; j = j + WG) {
        var x: f32 = 0.0;
        if (j >= k0 && j < keys) {
            x = exp(score((rows[seq.map + j] * p.kvh + kvh) * HD) - top) / total;
        }
        probs[number * p.probs_stride + j] = x;
    }
}
