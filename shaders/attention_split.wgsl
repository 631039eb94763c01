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
@group(0) @binding(3) var<storage, read> k_cache: array<vec4<f32>>; // [rows, KVH, HD]
@group(0) @binding(4) var<storage, read> v_cache: array<vec4<f32>>; // [rows, KVH, HD]
@group(0) @binding(5) var<storage, read> rows: array<u32>; // row maps: position to cache row
@group(0) @binding(6) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(7) var<storage, read> token_seq: array<u32>; // [T]
@group(0) @binding(8) var<storage, read_write> parts: array<f32>; // [T, H, spans, HD + 2]: the sum over the span's values, largest score, sum of exponentials

const HD: u32 = 32u;
const SPAN: u32 = 128u; // keys that a workgroup sees
const WG: u32 = 128u;
const HD4: u32 = HD / 4u;
const LANES: u32 = 8u; // invocations that share a key's score
const OWN: u32 = (HD4 + LANES - 1u) / LANES; // vec4 of the query that each of them holds
const GROUPS: u32 = WG / HD4; // parts of the keys, each with HD4 invocations for the values
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_part: array<f32, SPAN * (LANES + 1u)>; // parts of the scores; a key's are apart from the next one's by an odd number
var<workgroup> sh_s: array<f32, SPAN>; // scores, then their exponentials
var<workgroup> sh_row: array<u32, SPAN>; // where the keys and values begin
var<workgroup> sh_o: array<vec4<f32>, WG>;

// A workgroup owns what one token and head sees in one span of the cache.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let spans = (step.keys + SPAN - 1u) / SPAN;
    let number = group_number(group, groups);
    if (number >= step.tokens * p.h * spans) {
        return;
    }
    let t = number / (p.h * spans);
    let h = (number / spans) % p.h;
    let kvh = h / (p.h / p.kvh);
    let seq = seqs[token_seq[t]];
    let keys = seq.past + t - seq.start + 1u;
    let oldest = select(0u, keys - min(keys, p.window), p.window > 0u);
    let first = (number % spans) * SPAN;

    // Neighbouring invocations read neighbouring words: of a key, and below of a value.
    let lane = i % LANES;
    var own: array<vec4<f32>, OWN> = array<vec4<f32>, OWN>();
    for (var n: u32 = 0u; n < OWN; n = n + 1u) {
        own[n] = vec4<f32>(0.0);
        if (lane + n * LANES < HD4) {
            let at = t * p.q_stride + p.q_col + h * HD + 4u * (lane + n * LANES);
            own[n] = vec4<f32>(q[at], q[at + 1u], q[at + 2u], q[at + 3u]);
        }
    }
    for (var j: u32 = i / LANES; j < SPAN; j = j + WG / LANES) {
        let at = (rows[seq.map + min(first + j, keys - 1u)] * p.kvh + kvh) * HD4;
        var sum: vec4<f32> = vec4<f32>(0.0);
        for (var n: u32 = 0u; n < OWN; n = n + 1u) {
            if (lane + n * LANES < HD4) {
                sum = sum + own[n] * k_cache[at + lane + n * LANES];
            }
        }
        sh_part[j * (LANES + 1u) + lane] = (sum.x + sum.y) + (sum.z + sum.w);
        if (lane == 0u) {
            sh_row[j] = at;
        }
    }
    workgroupBarrier();
    for (var j: u32 = i; j < SPAN; j = j + WG) {
        var score: f32 = 0.0;
        for (var n: u32 = 0u; n < LANES; n = n + 1u) {
            score = score + sh_part[j * (LANES + 1u) + n];
        }
        sh_s[j] = select(LOWEST, score * p.scale, first + j >= oldest && first + j < keys);
    }
    workgroupBarrier();
    var top: f32 = LOWEST;
    for (var j: u32 = 0u; j < SPAN; j = j + 1u) {
        top = max(top, sh_s[j]);
    }
    workgroupBarrier();
    for (var j: u32 = i; j < SPAN; j = j + WG) {
        sh_s[j] = select(0.0, exp(sh_s[j] - top), first + j >= oldest && first + j < keys);
    }
    workgroupBarrier();

    var sum: vec4<f32> = vec4<f32>(0.0);
    if (i < GROUPS * HD4) {
        let until = min(SPAN, max(keys, first) - first);
        for (var j: u32 = i / HD4; j < until; j = j + GROUPS) {
            sum = sum + sh_s[j] * v_cache[sh_row[j] + i % HD4];
        }
    }
    sh_o[i] = sum;
    workgroupBarrier();
    let into = number * (HD + 2u);
    if (i < HD4) {
        for (var g: u32 = 1u; g < GROUPS; g = g + 1u) {
            sum = sum + sh_o[g * HD4 + i];
        }
        for (var n: u32 = 0u; n < 4u; n = n + 1u) {
            parts[into + 4u * i + n] = sum[n];
        }
    }
    if (i == WG - 1u) {
        var total: f32 = 0.0;
        for (var j: u32 = 0u; j < SPAN; j = j + 1u) {
            total = total + sh_s[j];
        }
        parts[into + HD] = top;
        parts[into + HD + 1u] = total;
    }
}
