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
const TQ: u32 = 32u; // queries of a tile
const TK: u32 = 32u; // keys of a tile
const LANES: u32 = 8u; // invocations that share two queries, half a tile apart
const HALF: u32 = TQ / 2u;
const WG: u32 = HALF * LANES;
const SLABS: u32 = (HD + 31u) / 32u; // slabs of 32 head dims, staged one at a time
const PARTS: u32 = (HD + 127u) / 128u; // of the output's head dims: drivers do not keep more slabs in registers
const OWN: u32 = (SLABS + PARTS - 1u) / PARTS; // slabs of a part
const ROW: u32 = 9u; // vec4 from one staged row to the next, one of them padding
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_q: array<vec4<f32>, TQ * 8u>; // [TQ, 32]
var<workgroup> sh_kv: array<vec4<f32>, TK * ROW>; // [TK, 32], keys and then values
var<workgroup> sh_p: array<f32, TQ * TK>; // exponentials of the scores
var<workgroup> sh_lane: array<f32, TQ * LANES>; // each lane's largest score, at last its sum
var<workgroup> sh_row: array<u32, TK>; // cache rows of the tile's keys

fn q4(at: u32, d: u32) -> vec4<f32> {
    var x: vec4<f32> = vec4<f32>(0.0);
    for (var n: u32 = 0u; n < 4u; n = n + 1u) {
        if (d + n < HD) {
            x[n] = q[at + d + n];
        }
    }
    return x;
}

fn k4(at: u32, d: u32) -> vec4<f32> {
    var x: vec4<f32> = vec4<f32>(0.0);
    for (var n: u32 = 0u; n < 4u; n = n + 1u) {
        if (d + n < HD) {
            x[n] = k_cache[at + d + n];
        }
    }
    return x;
}

fn v4(at: u32, d: u32) -> vec4<f32> {
    var x: vec4<f32> = vec4<f32>(0.0);
    for (var n: u32 = 0u; n < 4u; n = n + 1u) {
        if (d + n < HD) {
            x[n] = v_cache[at + d + n];
        }
    }
    return x;
}

// A workgroup owns the outputs of one head, or of one of its parts, for TQ neighbouring tokens. They
// may belong to several sequences: it runs through those one after the other.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let tiles = (step.tokens + TQ - 1u) / TQ;
    let number = group_number(group, groups);
    if (number >= tiles * p.h * PARTS) {
        return;
    }
    let h = (number / PARTS) % p.h;
    let kvh = h / (p.h / p.kvh);
    let slab0 = (number % PARTS) * OWN;
    let first = (number / (p.h * PARTS)) * TQ;
    let end = min(first + TQ, step.tokens);
    let r = i / LANES;
    let lane = i % LANES;
    let t = vec2<u32>(first + r, first + r + HALF);

    var top: vec2<f32> = vec2<f32>(LOWEST); // running maximum of the scores
    var total: vec2<f32> = vec2<f32>(0.0); // running sum of this lane's exponentials
    var acc: array<vec4<f32>, OWN> = array<vec4<f32>, OWN>();
    var bcc: array<vec4<f32>, OWN> = array<vec4<f32>, OWN>();
    for (var slab: u32 = 0u; slab < OWN; slab = slab + 1u) {
        acc[slab] = vec4<f32>(0.0);
        bcc[slab] = vec4<f32>(0.0);
    }

    var begin: u32 = first;
    while (begin < end) {
        let seq = seqs[token_seq[begin]];
        let until = min(end, max(seq.start + seq.count, begin + 1u));
        let mine = (t >= vec2<u32>(begin)) & (t < vec2<u32>(until));
        let position = vec2<u32>(seq.past - seq.start) + t;
        let keys = seq.past + until - seq.start; // that the last of these queries sees
        let oldest = seq.past + begin - seq.start + 1u;
        let k0 = select(0u, oldest - min(oldest, p.window), p.window > 0u);
        for (var j0: u32 = k0; j0 < keys; j0 = j0 + TK) {
            if (i < TK) {
                sh_row[i] = (rows[seq.map + min(j0 + i, keys - 1u)] * p.kvh + kvh) * HD;
            }
            var a: vec4<f32> = vec4<f32>(0.0); // scores of the first query
            var b: vec4<f32> = vec4<f32>(0.0);
            for (var slab: u32 = 0u; slab < SLABS; slab = slab + 1u) {
                workgroupBarrier();
                let d = slab * 32u + lane * 4u;
                for (var n: u32 = r; n < TQ; n = n + HALF) {
                    var x: vec4<f32> = vec4<f32>(0.0);
                    if (first + n < end) {
                        x = q4((first + n) * p.q_stride + p.q_col + h * HD, d);
                    }
                    sh_q[n * 8u + lane] = x;
                }
                for (var j: u32 = r; j < TK; j = j + HALF) {
                    sh_kv[j * ROW + lane] = k4(sh_row[j], d);
                }
                workgroupBarrier();
                for (var d4: u32 = 0u; d4 < 8u; d4 = d4 + 1u) {
                    let x = sh_q[r * 8u + d4];
                    let y = sh_q[(r + HALF) * 8u + d4];
                    let s0 = sh_kv[lane * ROW + d4];
                    let s1 = sh_kv[(lane + 8u) * ROW + d4];
                    let s2 = sh_kv[(lane + 16u) * ROW + d4];
                    let s3 = sh_kv[(lane + 24u) * ROW + d4];
                    a = a + vec4<f32>(dot(x, s0), dot(x, s1), dot(x, s2), dot(x, s3));
                    b = b + vec4<f32>(dot(y, s0), dot(y, s1), dot(y, s2), dot(y, s3));
                }
            }
            var high: vec2<f32> = vec2<f32>(LOWEST);
            for (var n: u32 = 0u; n < 4u; n = n + 1u) {
                let j = vec2<u32>(j0 + lane + n * LANES);
                let seen = mine & (j <= position) & ((j + p.window > position) | vec2<bool>(p.window == 0u));
                a[n] = select(LOWEST, a[n] * p.scale, seen.x);
                b[n] = select(LOWEST, b[n] * p.scale, seen.y);
                high = max(high, vec2<f32>(a[n], b[n]));
            }
            sh_lane[r * LANES + lane] = high.x;
            sh_lane[(r + HALF) * LANES + lane] = high.y;
            workgroupBarrier();
            high = top;
            for (var n: u32 = 0u; n < LANES; n = n + 1u) {
                high = max(high, vec2<f32>(sh_lane[r * LANES + n], sh_lane[(r + HALF) * LANES + n]));
            }
            let fade = exp(top - high);
            top = high;
            total = total * fade;
            for (var n: u32 = 0u; n < 4u; n = n + 1u) {
                // A score that is not seen is LOWEST; so may be the maximum, until one is seen.
                let e = vec2<f32>(select(exp(a[n] - top.x), 0.0, a[n] == LOWEST), select(exp(b[n] - top.y), 0.0, b[n] == LOWEST));
                sh_p[r * TK + lane + n * LANES] = e.x;
                sh_p[(r + HALF) * TK + lane + n * LANES] = e.y;
                total = total + e;
            }
            for (var slab: u32 = 0u; slab < OWN; slab = slab + 1u) {
                let d = (slab0 + slab) * 32u + lane * 4u;
                for (var j: u32 = r; j < TK; j = j + HALF) {
                    sh_kv[j * ROW + lane] = v4(sh_row[j], d);
                }
                workgroupBarrier();
                var sum: vec4<f32> = acc[slab] * fade.x;
                var more: vec4<f32> = bcc[slab] * fade.y;
                for (var j: u32 = 0u; j < TK; j = j + 1u) {
                    let v = sh_kv[j * ROW + lane];
                    sum = sum + sh_p[r * TK + j] * v;
                    more = more + sh_p[(r + HALF) * TK + j] * v;
                }
                acc[slab] = sum;
                bcc[slab] = more;
                workgroupBarrier();
            }
        }
        begin = until;
    }

    sh_lane[r * LANES + lane] = total.x;
    sh_lane[(r + HALF) * LANES + lane] = total.y;
    workgroupBarrier();
    total = vec2<f32>(0.0);
    for (var n: u32 = 0u; n < LANES; n = n + 1u) {
        total = total + vec2<f32>(sh_lane[r * LANES + n], sh_lane[(r + HALF) * LANES + n]);
    }
    for (var slab: u32 = 0u; slab < OWN; slab = slab + 1u) {
        for (var n: u32 = 0u; n < 4u; n = n + 1u) {
            let d = (slab0 + slab) * 32u + lane * 4u + n;
            if (d < HD && t.x < end) {
                o[(t.x * p.h + h) * HD + d] = acc[slab][n] / total.x;
            }
            if (d < HD && t.y < end) {
                o[(t.y * p.h + h) * HD + d] = bcc[slab][n] / total.y;
            }
        }
    }
}
