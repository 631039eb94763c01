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
@group(0) @binding(8) var<storage, read_write> parts: array<vec4<f32>>; // [T, H, spans, HD + 4]: the sum over the span's values; largest score, sum of exponentials

const HD: u32 = 32u;
const SPAN: u32 = 128u; // keys that a workgroup sees, an invocation each
const HD4: u32 = HD / 4u;
const LANES: u32 = 8u; // invocations that share a key's score
const GROUPS: u32 = SPAN / HD4; // parts of the keys, each with HD4 invocations for the values
const AHEAD: u32 = 4u; // values on their way at a time
const FEW: u32 = 8u; // numbers that an invocation brings together
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_q: array<vec4<f32>, HD4>;
var<workgroup> sh_part: array<f32, SPAN * (LANES + 1u)>; // parts of the scores; a key's are apart from the next one's by an odd number
var<workgroup> sh_s: array<f32, SPAN>; // exponentials
var<workgroup> sh_few: array<f32, SPAN / FEW>;
var<workgroup> sh_row: array<u32, SPAN>; // where the keys and values begin
var<workgroup> sh_o: array<vec4<f32>, SPAN>;

// A workgroup owns what one token and head sees in one span of the cache.
@compute @workgroup_size(SPAN)
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
    let key = (number % spans) * SPAN + i;
    let seen = key >= oldest && key < keys;

    // Beyond the last key its row is read again, and weighs nothing.
    sh_row[i] = (rows[seq.map + min(key, keys - 1u)] * p.kvh + kvh) * HD4;
    if (i < HD4) {
        let at = t * p.q_stride + p.q_col + h * HD + 4u * i;
        sh_q[i] = vec4<f32>(q[at], q[at + 1u], q[at + 2u], q[at + 3u]);
    }
    workgroupBarrier();
    // Neighbouring invocations read neighbouring words: of a key, and below of a value.
    let lane = i % LANES;
    for (var j: u32 = i / LANES; j < SPAN; j = j + SPAN / LANES) {
        let at = sh_row[j];
        var sum: vec4<f32> = vec4<f32>(0.0);
        for (var d: u32 = lane; d < HD4; d = d + LANES) {
            sum = sum + sh_q[d] * k_cache[at + d];
        }
        sh_part[j * (LANES + 1u) + lane] = (sum.x + sum.y) + (sum.z + sum.w);
    }
    workgroupBarrier();
    var score: f32 = 0.0;
    for (var n: u32 = 0u; n < LANES; n = n + 1u) {
        score = score + sh_part[i * (LANES + 1u) + n];
    }
    score = select(LOWEST, score * p.scale, seen);
    sh_s[i] = score;
    workgroupBarrier();
    if (i < SPAN / FEW) {
        var high: f32 = LOWEST;
        for (var n: u32 = 0u; n < FEW; n = n + 1u) {
            high = max(high, sh_s[n * (SPAN / FEW) + i]);
        }
        sh_few[i] = high;
    }
    workgroupBarrier();
    var top: f32 = LOWEST;
    for (var n: u32 = 0u; n < SPAN / FEW; n = n + 1u) {
        top = max(top, sh_few[n]);
    }
    workgroupBarrier();
    sh_s[i] = select(0.0, exp(score - top), seen);
    workgroupBarrier();
    if (i < SPAN / FEW) {
        var few: f32 = 0.0;
        for (var n: u32 = 0u; n < FEW; n = n + 1u) {
            few = few + sh_s[n * (SPAN / FEW) + i];
        }
        sh_few[i] = few;
    }

    let d = i % HD4;
    var sum: vec4<f32> = vec4<f32>(0.0);
    if (i < GROUPS * HD4) {
        for (var j: u32 = i / HD4; j < SPAN; j = j + AHEAD * GROUPS) {
            let j1 = min(j + GROUPS, SPAN - 1u);
            let j2 = min(j + 2u * GROUPS, SPAN - 1u);
            let j3 = min(j + 3u * GROUPS, SPAN - 1u);
            let v0 = v_cache[sh_row[j] + d];
            let v1 = v_cache[sh_row[j1] + d];
            let v2 = v_cache[sh_row[j2] + d];
            let v3 = v_cache[sh_row[j3] + d];
            sum = sum + sh_s[j] * v0 + select(0.0, sh_s[j1], j + GROUPS < SPAN) * v1
                + select(0.0, sh_s[j2], j + 2u * GROUPS < SPAN) * v2 + select(0.0, sh_s[j3], j + 3u * GROUPS < SPAN) * v3;
        }
    }
    sh_o[i] = sum;
    workgroupBarrier();
    let into = number * (HD4 + 1u);
    if (i < HD4) {
        for (var g: u32 = 1u; g < GROUPS; g = g + 1u) {
            sum = sum + sh_o[g * HD4 + i];
        }
        parts[into + i] = sum;
    }
    if (i == HD4) {
        var total: f32 = 0.0;
        for (var n: u32 = 0u; n < SPAN / FEW; n = n + 1u) {
            total = total + sh_few[n];
        }
        parts[into + HD4] = vec4<f32>(top, total, 0.0, 0.0);
    }
}
