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
@group(0) @binding(4) var<storage, read> v_cache: array<f32>; // [rows, KVH, HD]
@group(0) @binding(5) var<storage, read> rows: array<u32>; // row maps: position to cache row
@group(0) @binding(6) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(7) var<storage, read> token_seq: array<u32>; // [T]
@group(0) @binding(8) var<storage, read_write> o: array<f32>; // [T, H, HD]

const HD: u32 = 32u;
const WG: u32 = 64u; // keys of a tile, one an invocation
const ACC: u32 = (HD + WG - 1u) / WG;
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_q: array<f32, HD>;
var<workgroup> sh_s: array<f32, WG>; // scores
var<workgroup> sh_p: array<f32, WG>; // their exponentials
var<workgroup> sh_row: array<u32, WG>; // where the tile's keys and values begin
var<workgroup> sh_o: array<f32, ACC * WG>;

// A workgroup owns the output of one token and head. Its invocations share the keys of a tile for
// the scores; for the values, each owns some head dims and, where those are few, a part of the keys.
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
    let lanes = select(select(select(8u, 16u, HD > 8u), 32u, HD > 16u), 64u, HD > 32u);
    let lane = i % lanes;
    let part = i / lanes;

    for (var d: u32 = i; d < HD; d = d + WG) {
        sh_q[d] = q[t * p.q_stride + p.q_col + h * HD + d];
    }
    workgroupBarrier();

    var top: f32 = LOWEST;
    var total: f32 = 0.0;
    var acc: array<f32, ACC> = array<f32, ACC>();
    for (var n: u32 = 0u; n < ACC; n = n + 1u) {
        acc[n] = 0.0;
    }
    for (var j0: u32 = k0; j0 < keys; j0 = j0 + WG) {
        let seen = j0 + i < keys;
        let at = (rows[seq.map + min(j0 + i, keys - 1u)] * p.kvh + kvh) * HD;
        var score: f32 = LOWEST;
        if (seen) {
            var sum: f32 = 0.0;
            for (var d: u32 = 0u; d < HD; d = d + 1u) {
                sum = sum + sh_q[d] * k_cache[at + d];
            }
            score = sum * p.scale;
        }
        sh_s[i] = score;
        workgroupBarrier();
        var high: f32 = top;
        for (var j: u32 = 0u; j < WG; j = j + 1u) {
            high = max(high, sh_s[j]);
        }
        let fade = exp(top - high);
        top = high;
        sh_p[i] = select(0.0, exp(score - top), seen);
        sh_row[i] = at;
        workgroupBarrier();
        let n_keys = min(WG, keys - j0);
        total = total * fade;
        for (var j: u32 = 0u; j < n_keys; j = j + 1u) {
            total = total + sh_p[j];
        }
        for (var n: u32 = 0u; n < ACC; n = n + 1u) {
            let d = n * WG + lane;
            if (d < HD) {
                var sum: f32 = acc[n] * fade;
                for (var j: u32 = part; j < n_keys; j = j + WG / lanes) {
                    sum = sum + sh_p[j] * v_cache[sh_row[j] + d];
                }
                acc[n] = sum;
            }
        }
    }

    for (var n: u32 = 0u; n < ACC; n = n + 1u) {
        sh_o[n * WG + i] = acc[n];
    }
    workgroupBarrier();
    for (var d: u32 = i; d < HD; d = d + WG) {
        var sum: f32 = 0.0;
        for (var j: u32 = d % WG; j < WG; j = j + lanes) {
            sum = sum + sh_o[(d / WG) * WG + j];
        }
        o[(t * p.h + h) * HD + d] = sum / total;
    }
}
