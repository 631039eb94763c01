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
const TQ: u32 = 16u; // queries of a tile
const TK: u32 = 32u; // keys of a tile
const LANES: u32 = 8u; // invocations that share a query
const WG: u32 = TQ * LANES;
const SLABS: u32 = (HD + 31u) / 32u; // slabs of 32 head dims, staged one at a time
const ROW: u32 = 9u; // vec4 from one staged row to the next, one of them padding
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_q: array<vec4<f32>, TQ * ROW>; // [TQ, 32]
var<workgroup> sh_kv: array<vec4<f32>, TK * ROW>; // [TK, 32], keys and then values
var<workgroup> sh_s: array<f32, TQ * TK>; // scores
var<workgroup> sh_p: array<f32, TQ * TK>; // their exponentials
var<workgroup> sh_row: array<u32, TK>; // cache rows of the tile's keys

fn q_element(at: u32, d: u32) -> f32 {
    if (d < HD) {
        return q[at + d];
    }
    return 0.0;
}

fn k_element(at: u32, d: u32) -> f32 {
    if (d < HD) {
        return k_cache[at + d];
    }
    return 0.0;
}

fn v_element(at: u32, d: u32) -> f32 {
    if (d < HD) {
        return v_cache[at + d];
    }
    return 0.0;
}

// A workgroup owns the outputs of one head for TQ neighbouring tokens. They may belong to several
// sequences: it runs through those one after the other.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let tiles = (step.tokens + TQ - 1u) / TQ;
    let number = group_number(group, groups);
    if (number >= tiles * p.h) {
        return;
    }
    let h = number % p.h;
    let kvh = h / (p.h / p.kvh);
    let first = (number / p.h) * TQ;
    let end = min(first + TQ, step.tokens);
    let r = i / LANES;
    let lane = i % LANES;
    let t = first + r;

    var top: f32 = LOWEST; // running maximum of the scores
    var total: f32 = 0.0; // running sum of their exponentials
    var acc: array<vec4<f32>, SLABS> = array<vec4<f32>, SLABS>();
    for (var slab: u32 = 0u; slab < SLABS; slab = slab + 1u) {
        acc[slab] = vec4<f32>(0.0);
    }

    var begin: u32 = first;
    while (begin < end) {
        let seq = seqs[token_seq[begin]];
        let until = min(end, max(seq.start + seq.count, begin + 1u));
        let mine = t >= begin && t < until;
        let position = seq.past + t - seq.start;
        let keys = seq.past + until - seq.start; // that the last of these queries sees
        let oldest = seq.past + begin - seq.start + 1u;
        let k0 = select(0u, oldest - min(oldest, p.window), p.window > 0u);
        for (var j0: u32 = k0; j0 < keys; j0 = j0 + TK) {
            if (i < TK) {
                sh_row[i] = (rows[seq.map + min(j0 + i, keys - 1u)] * p.kvh + kvh) * HD;
            }
            var score: vec4<f32> = vec4<f32>(0.0);
            for (var slab: u32 = 0u; slab < SLABS; slab = slab + 1u) {
                workgroupBarrier();
                let d = slab * 32u + lane * 4u;
                var x: vec4<f32> = vec4<f32>(0.0);
                if (t < end) {
                    let at = t * p.q_stride + p.q_col + h * HD;
                    x = vec4<f32>(q_element(at, d), q_element(at, d + 1u), q_element(at, d + 2u), q_element(at, d + 3u));
                }
                sh_q[r * ROW + lane] = x;
                for (var j: u32 = r; j < TK; j = j + TQ) {
                    let at = sh_row[j];
                    sh_kv[j * ROW + lane] = vec4<f32>(k_element(at, d), k_element(at, d + 1u), k_element(at, d + 2u), k_element(at, d + 3u));
                }
                workgroupBarrier();
                for (var d4: u32 = 0u; d4 < 8u; d4 = d4 + 1u) {
                    let y = sh_q[r * ROW + d4];
                    score = score + vec4<f32>(
                        dot(y, sh_kv[lane * ROW + d4]),
                        dot(y, sh_kv[(lane + 8u) * ROW + d4]),
                        dot(y, sh_kv[(lane + 16u) * ROW + d4]),
                        dot(y, sh_kv[(lane + 24u) * ROW + d4]));
                }
            }
            for (var n: u32 = 0u; n < 4u; n = n + 1u) {
                let j = j0 + lane + n * LANES;
                let seen = mine && j <= position && (p.window == 0u || j + p.window > position);
                sh_s[r * TK + lane + n * LANES] = select(LOWEST, score[n] * p.scale, seen);
            }
            workgroupBarrier();
            var high: f32 = top;
            for (var j: u32 = 0u; j < TK; j = j + 1u) {
                high = max(high, sh_s[r * TK + j]);
            }
            let fade = exp(top - high);
            top = high;
            for (var n: u32 = 0u; n < 4u; n = n + 1u) {
                let j = j0 + lane + n * LANES;
                let seen = mine && j <= position && (p.window == 0u || j + p.window > position);
                sh_p[r * TK + lane + n * LANES] = select(0.0, exp(sh_s[r * TK + lane + n * LANES] - top), seen);
            }
            for (var slab: u32 = 0u; slab < SLABS; slab = slab + 1u) {
                let d = slab * 32u + lane * 4u;
                for (var j: u32 = r; j < TK; j = j + TQ) {
                    let at = sh_row[j];
                    sh_kv[j * ROW + lane] = vec4<f32>(v_element(at, d), v_element(at, d + 1u), v_element(at, d + 2u), v_element(at, d + 3u));
                }
                workgroupBarrier();
                var sum: vec4<f32> = acc[slab] * fade;
                for (var j: u32 = 0u; j < TK; j = j + 1u) {
                    sum = sum + sh_p[r * TK + j] * sh_kv[j * ROW + lane];
                }
                acc[slab] = sum;
                workgroupBarrier();
            }
            total = total * fade;
            for (var j: u32 = 0u; j < TK; j = j + 1u) {
                total = total + sh_p[r * TK + j];
            }
        }
        begin = until;
    }

    if (t < end) {
        for (var slab: u32 = 0u; slab < SLABS; slab = slab + 1u) {
            for (var n: u32 = 0u; n < 4u; n = n + 1u) {
                let d = slab * 32u + lane * 4u + n;
                if (d < HD) {
                    o[(t * p.h + h) * HD + d] = acc[slab][n] / total;
                }
            }
        }
    }
}
