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
const SPAN: u32 = 256u; // keys that a workgroup sees
const WG: u32 = 128u;
const HD4: u32 = HD / 4u;
const GROUPS: u32 = WG / HD4; // invocations that share four head dims, each with its part of the keys
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_q: array<vec4<f32>, HD4>;
var<workgroup> sh_s: array<f32, SPAN>; // scores, then their exponentials
var<workgroup> sh_row: array<u32, SPAN>; // where the keys and values begin
var<workgroup> sh_top: array<f32, WG>;
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

    if (i < HD4) {
        let at = t * p.q_stride + p.q_col + h * HD + 4u * i;
        sh_q[i] = vec4<f32>(q[at], q[at + 1u], q[at + 2u], q[at + 3u]);
    }
    workgroupBarrier();
    var top: f32 = LOWEST;
    for (var j: u32 = i; j < SPAN; j = j + WG) {
        let at = (rows[seq.map + min(first + j, keys - 1u)] * p.kvh + kvh) * HD4;
        var score: f32 = LOWEST;
        if (first + j >= oldest && first + j < keys) {
            var sum: vec4<f32> = vec4<f32>(0.0);
            for (var d: u32 = 0u; d < HD4; d = d + 1u) {
                sum = sum + sh_q[d] * k_cache[at + d];
            }
            score = ((sum.x + sum.y) + (sum.z + sum.w)) * p.scale;
        }
        sh_row[j] = at;
        sh_s[j] = score;
        top = max(top, score);
    }
    sh_top[i] = top;
    workgroupBarrier();
    for (var j: u32 = 0u; j < WG; j = j + 1u) {
        top = max(top, sh_top[j]);
    }
    for (var j: u32 = i; j < SPAN; j = j + WG) {
        sh_s[j] = select(0.0, exp(sh_s[j] - top), first + j >= oldest && first + j < keys);
    }
    workgroupBarrier();

    let lane = i % HD4;
    var sum: vec4<f32> = vec4<f32>(0.0);
    if (i < GROUPS * HD4) {
        let until = min(SPAN, max(keys, first) - first);
        for (var j: u32 = i / HD4; j < until; j = j + GROUPS) {
            sum = sum + sh_s[j] * v_cache[sh_row[j] + lane];
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
