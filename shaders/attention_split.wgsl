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
@group(0) @binding(8) var<storage, read_write> parts: array<vec4<f32>>; // [T, H, spans, HD + 4]: the sum over the span's values; largest score, sum of exponentials. ONE: [T, H, HD], the output

const HD: u32 = 32u;
const SPAN: u32 = 256u; // keys that a workgroup sees, an invocation each
const ONE: u32 = 0u; // 1: no token sees more
const HD4: u32 = HD / 4u;
const LANES: u32 = 8u; // invocations that share a key's score
const GROUPS: u32 = SPAN / HD4; // parts of the keys, each with HD4 invocations for the values
const FEW: u32 = 8u; // numbers that an invocation brings together
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_part: array<f32, SPAN * (LANES + 1u)>; // of a key: LANES parts of its score; the score, then its exponential
var<workgroup> sh_few: array<f32, SPAN / FEW>;
var<workgroup> sh_row: array<u32, SPAN>; // where the keys and values begin
var<workgroup> sh_o: array<vec4<f32>, SPAN>; // the query; parts of the sum over the values

// Part d of the value of a key of the span; beyond it the last one's.
fn value(j: u32, d: u32) -> vec4<f32> {
    return v_cache[sh_row[min(j, SPAN - 1u)] + d];
}

// The exponential of a key of the span, beyond it none.
fn weight(j: u32) -> f32 {
    if (j < SPAN) {
        return sh_part[j * (LANES + 1u) + LANES];
    }
    return 0.0;
}

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
    let start = (number % spans) * SPAN;
    let key = start + i;
    let end = min(SPAN, keys - min(keys, start)); // keys of the span that there are
    let seen = key >= oldest && key < keys;

    // Beyond the last key its row is read again, and weighs nothing.
    sh_row[i] = (rows[seq.map + min(key, keys - 1u)] * p.kvh + kvh) * HD4;
    if (i < HD4) {
        let at = t * p.q_stride + p.q_col + h * HD + 4u * i;
        sh_o[i] = vec4<f32>(q[at], q[at + 1u], q[at + 2u], q[at + 3u]);
    }
    workgroupBarrier();
    // Neighbouring invocations read neighbouring words: of two keys, and below of a value.
    let lane = i % LANES;
    for (var j: u32 = i / LANES; j < min(SPAN / 2u, end); j = j + SPAN / LANES) {
        let at = sh_row[j];
        let at2 = sh_row[j + SPAN / 2u];
        var sum: vec4<f32> = vec4<f32>(0.0);
        var sum2: vec4<f32> = vec4<f32>(0.0);
        for (var d: u32 = lane; d < HD4; d = d + LANES) {
            sum = sum + sh_o[d] * k_cache[at + d];
            sum2 = sum2 + sh_o[d] * k_cache[at2 + d];
        }
        sh_part[j * (LANES + 1u) + lane] = (sum.x + sum.y) + (sum.z + sum.w);
        sh_part[(j + SPAN / 2u) * (LANES + 1u) + lane] = (sum2.x + sum2.y) + (sum2.z + sum2.w);
    }
    // The first values are on their way while the softmax is formed.
    let d = i % HD4;
    let first = i / HD4;
    var v0: vec4<f32> = value(first, d);
    var v1: vec4<f32> = value(first + GROUPS, d);
    var v2: vec4<f32> = value(first + 2u * GROUPS, d);
    var v3: vec4<f32> = value(first + 3u * GROUPS, d);
    var v4: vec4<f32> = value(first + 4u * GROUPS, d);
    var v5: vec4<f32> = value(first + 5u * GROUPS, d);
    var v6: vec4<f32> = value(first + 6u * GROUPS, d);
    var v7: vec4<f32> = value(first + 7u * GROUPS, d);
    workgroupBarrier();
    var score: f32 = 0.0;
    for (var n: u32 = 0u; n < LANES; n = n + 1u) {
        score = score + sh_part[i * (LANES + 1u) + n];
    }
    score = select(LOWEST, score * p.scale, seen); // of what is not seen the parts are anything
    sh_part[i * (LANES + 1u) + LANES] = score;
    workgroupBarrier();
    if (i < SPAN / FEW) {
        var high: f32 = LOWEST;
        for (var n: u32 = 0u; n < FEW; n = n + 1u) {
            high = max(high, weight(n * (SPAN / FEW) + i));
        }
        sh_few[i] = high;
    }
    workgroupBarrier();
    var top: f32 = LOWEST;
    for (var n: u32 = 0u; n < SPAN / FEW; n = n + 1u) {
        top = max(top, sh_few[n]);
    }
    workgroupBarrier();
    sh_part[i * (LANES + 1u) + LANES] = select(0.0, exp(score - top), seen);
    workgroupBarrier();
    if (i < SPAN / FEW) {
        var few: f32 = 0.0;
        for (var n: u32 = 0u; n < FEW; n = n + 1u) {
            few = few + weight(n * (SPAN / FEW) + i);
        }
        sh_few[i] = few;
    }

    var sum: vec4<f32> = vec4<f32>(0.0);
    if (i < GROUPS * HD4) {
        var j: u32 = first;
        loop {
            sum = sum + weight(j) * v0 + weight(j + GROUPS) * v1 + weight(j + 2u * GROUPS) * v2 + weight(j + 3u * GROUPS) * v3
                + weight(j + 4u * GROUPS) * v4 + weight(j + 5u * GROUPS) * v5 + weight(j + 6u * GROUPS) * v6 + weight(j + 7u * GROUPS) * v7;
            j = j + 8u * GROUPS;
            if (j >= end) {
                break;
            }
            v0 = value(j, d);
            v1 = value(j + GROUPS, d);
            v2 = value(j + 2u * GROUPS, d);
            v3 = value(j + 3u * GROUPS, d);
            v4 = value(j + 4u * GROUPS, d);
            v5 = value(j + 5u * GROUPS, d);
            v6 = value(j + 6u * GROUPS, d);
            v7 = value(j + 7u * GROUPS, d);
        }
    }
    sh_o[i] = sum;
    workgroupBarrier();
    if (i > HD4) {
        return;
    }
    var total: f32 = 0.0;
    for (var n: u32 = 0u; n < SPAN / FEW; n = n + 1u) {
        total = total + sh_few[n];
    }
    let into = number * (HD4 + 1u - ONE);
    if (i < HD4) {
        for (var g: u32 = 1u; g < GROUPS; g = g + 1u) {
            sum = sum + sh_o[g * HD4 + i];
        }
        parts[into + i] = sum / select(1.0, total, ONE == 1u);
    } else if (ONE == 0u) {
        parts[into + HD4] = vec4<f32>(top, total, 0.0, 0.0);
    }
}
