struct Params { // keep in step with AttnTokenParams
    h: u32,
    kvh: u32,
    rot: u32,
    x_stride: u32,
    positions: u32,
    eps: f32,
    each: u32,
    window: u32,
    scale: f32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>; // [T, x_stride], from 0 on: q [H, HD], k [KVH, HD], v [KVH, HD]
@group(0) @binding(3) var<storage, read> norms: array<f32>; // q's weights, then k's: [H + KVH, HD], with each [2, HD]
@group(0) @binding(4) var<storage, read> table: array<f32>; // [positions, rot/2, 2]: cos, sin
@group(0) @binding(5) var<storage, read> rows: array<u32>; // row maps: position to cache row
@group(0) @binding(6) var<storage, read> seqs: array<Seq>; // [B], a token each
@group(0) @binding(7) var<storage, read_write> k_cache: array<vec4<f32>>; // [rows, KVH, HD]
@group(0) @binding(8) var<storage, read_write> v_cache: array<vec4<f32>>; // [rows, KVH, HD]
@group(0) @binding(9) var<storage, read_write> o: array<f32>; // [T, H, HD]

const HD: u32 = 32u;
const SPAN: u32 = 256u; // keys that a token sees at most, an invocation each
const HD4: u32 = HD / 4u;
const LANES: u32 = 8u; // invocations that share a key's score
const KEYS: u32 = SPAN / LANES; // keys at a time
const PER: u32 = (HD4 + LANES - 1u) / LANES; // vectors of a key that an invocation takes
const FIRST: u32 = 8u / ((PER + 1u) / 2u); // times KEYS keys are on their way at once, at most 16 vectors of an invocation
const GROUPS: u32 = SPAN / HD4; // parts of the keys, each with HD4 invocations for the values
const VALUES: u32 = 8u; // values on their way at once
const NORMED: u32 = 16u; // times SPAN elements of q, and of k, are on their way at once where a norm runs over all heads
const FEW: u32 = 8u; // invocations that bring SPAN numbers together
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_q: array<f32, HD>; // the query without its norm's factor
var<workgroup> sh_k: array<f32, HD>; // the new key, so too
var<workgroup> sh_row: array<u32, SPAN>; // where the past keys and values begin
var<workgroup> sh_pair: array<vec2<f32>, SPAN>; // parts of q², k²; the sum of a group's exponentials
var<workgroup> sh_few: array<vec2<f32>, FEW>; // fewer parts of q², k²; largest scores
var<workgroup> sh_part: array<f32, SPAN * (LANES + 1u)>; // LANES parts of a key's score; [4, SPAN] parts of the sum over the values
var<workgroup> sh_score: array<f32, SPAN>;

// Whether vector m of a lane is one of a key. Compilers can tell for all but the last.
fn has(m: u32, lane: u32) -> bool {
    return (m + 1u) * LANES <= HD4 || m * LANES + lane < HD4;
}

// A workgroup owns one query head of one sequence's token; the first of those that share a key also the
// new key and value in the cache. Each forms the new key anew, so none waits for another, and the cache
// is read only where the past is. Reads of memory are under way before the first barrier, as many as
// registers hold. The norms are sums, so q and k are multiplied by their factors only in the scores.
@compute @workgroup_size(SPAN)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let number = group_number(group, groups);
    if (number >= step.seqs * p.h) {
        return;
    }
    let h = number % p.h;
    let share = p.h / p.kvh;
    let kvh = h / share;
    let writes = h % share == 0u;
    let q_size = p.h * HD;
    let k_size = p.kvh * HD;

    // Element i of a head and the one that it is turned with.
    let c = min(i, HD - 1u);
    let half = p.rot / 2u;
    let turned = c < p.rot;
    let second = c >= half;
    let other = select(c, select(c + half, c - half, second), turned);
    let q_weight = select(h * HD, 0u, p.each == 1u);
    let k_weight = select(q_size + kvh * HD, HD, p.each == 1u);
    let wq = vec2<f32>(norms[q_weight + c], norms[q_weight + other]);
    let wk = vec2<f32>(norms[k_weight + c], norms[k_weight + other]);

    let seq = seqs[number / p.h];
    // Past keys that are seen, and so the number of the new one. Compilers see that all are one span.
    let own = min(select(seq.past, min(seq.past, p.window - 1u), p.window > 0u), SPAN - 1u);
    let first_row = seq.map + seq.past - own;
    let last = max(own, 1u) - 1u; // beyond the last past key it is read again, and weighs nothing

    // Rows first: what is read of the caches waits for them. Neighbouring invocations read neighbouring
    // words of a key, and of a value.
    let lane = i % LANES;
    let key = i / LANES;
    let d = i % HD4;
    let part = i / HD4;
    var k_rows: array<u32, FIRST> = array<u32, FIRST>();
    for (var n: u32 = 0u; n < FIRST; n = n + 1u) {
        if (n * KEYS < own) {
            k_rows[n] = rows[first_row + min(n * KEYS + key, last)];
        }
    }
    var v_rows: array<u32, VALUES> = array<u32, VALUES>();
    for (var n: u32 = 0u; n < VALUES; n = n + 1u) {
        if (n * GROUPS < own) {
            v_rows[n] = rows[first_row + min(n * GROUPS + part, last)];
        }
    }
    let row = rows[first_row + min(i, last)];
    let new_row = rows[first_row + own];

    let at = seq.start * p.x_stride;
    let q_at = at + h * HD;
    let new_at = at + q_size + kvh * HD;
    let xq = vec2<f32>(x[q_at + c], x[q_at + other]);
    let xk = vec2<f32>(x[new_at + c], x[new_at + other]);
    let xv = x[new_at + k_size + c];
    var turn: vec2<f32> = vec2<f32>(1.0, 0.0);
    if (turned) {
        let angle = (min(seq.past, p.positions - 1u) * half + min(c, other)) * 2u;
        turn = vec2<f32>(table[angle], table[angle + 1u]);
    }
    var all_q: array<f32, NORMED> = array<f32, NORMED>();
    var all_k: array<f32, NORMED> = array<f32, NORMED>();
    if (p.each == 0u) {
        for (var n: u32 = 0u; n < NORMED; n = n + 1u) {
            let e = n * SPAN + i;
            if (e < q_size) {
                all_q[n] = x[at + e];
            }
            if (e < k_size) {
                all_k[n] = x[at + q_size + e];
            }
        }
    }
    var new_value: vec4<f32> = vec4<f32>(0.0);
    if (writes && i < HD4) {
        let e = new_at + k_size + 4u * i;
        new_value = vec4<f32>(x[e], x[e + 1u], x[e + 2u], x[e + 3u]);
    }

    var k: array<vec4<f32>, FIRST * PER> = array<vec4<f32>, FIRST * PER>();
    for (var n: u32 = 0u; n < FIRST; n = n + 1u) {
        if (n * KEYS < own) {
            let begin = (k_rows[n] * p.kvh + kvh) * HD4;
            for (var m: u32 = 0u; m < PER; m = m + 1u) {
                if (has(m, lane)) {
                    k[n * PER + m] = k_cache[begin + m * LANES + lane];
                }
            }
        }
    }
    var v: array<vec4<f32>, VALUES> = array<vec4<f32>, VALUES>();
    for (var n: u32 = 0u; n < VALUES; n = n + 1u) {
        if (n * GROUPS < own) {
            v[n] = v_cache[(v_rows[n] * p.kvh + kvh) * HD4 + d];
        }
    }

    var square: vec2<f32> = vec2<f32>(0.0);
    if (p.each == 1u) {
        if (i < HD) {
            square = vec2<f32>(xq.x * xq.x, xk.x * xk.x);
        }
    } else {
        for (var n: u32 = 0u; n < NORMED; n = n + 1u) {
            square = square + vec2<f32>(all_q[n] * all_q[n], all_k[n] * all_k[n]);
        }
        for (var e: u32 = NORMED * SPAN + i; e < q_size; e = e + SPAN) {
            let a = x[at + e];
            let b = x[at + q_size + min(e, k_size - 1u)];
            square = square + vec2<f32>(a * a, select(0.0, b * b, e < k_size));
        }
    }
    sh_pair[i] = square;
    sh_row[i] = (row * p.kvh + kvh) * HD4;
    if (i < HD) {
        let sine = select(-turn.y, turn.y, second);
        sh_q[i] = xq.x * wq.x * turn.x + xq.y * wq.y * sine;
        sh_k[i] = xk.x * wk.x * turn.x + xk.y * wk.y * sine;
    }
    workgroupBarrier();

    if (i < FEW) {
        var few: vec2<f32> = vec2<f32>(0.0);
        for (var n: u32 = 0u; n < SPAN / FEW; n = n + 1u) {
            few = few + sh_pair[n * FEW + i];
        }
        sh_few[i] = few;
    }
    var q: array<vec4<f32>, PER> = array<vec4<f32>, PER>();
    for (var m: u32 = 0u; m < PER; m = m + 1u) {
        if (has(m, lane)) {
            let e = 4u * (m * LANES + lane);
            q[m] = vec4<f32>(sh_q[e], sh_q[e + 1u], sh_q[e + 2u], sh_q[e + 3u]);
        }
    }
    if (key == KEYS - 1u) { // those with the fewest past keys take the new one
        var sum: vec4<f32> = vec4<f32>(0.0);
        for (var m: u32 = 0u; m < PER; m = m + 1u) {
            if (has(m, lane)) {
                let e = 4u * (m * LANES + lane);
                sum = sum + q[m] * vec4<f32>(sh_k[e], sh_k[e + 1u], sh_k[e + 2u], sh_k[e + 3u]);
            }
        }
        sh_part[own * (LANES + 1u) + lane] = (sum.x + sum.y) + (sum.z + sum.w);
    }
    for (var base: u32 = 0u; base < own; base = base + FIRST * KEYS) {
        for (var n: u32 = 0u; n < FIRST; n = n + 1u) {
            let j = base + n * KEYS + key;
            let next = j + FIRST * KEYS;
            var sum: vec4<f32> = vec4<f32>(0.0);
            for (var m: u32 = 0u; m < PER; m = m + 1u) {
                sum = sum + q[m] * k[n * PER + m];
            }
            if (FIRST * KEYS < SPAN && next < own) {
                let next_at = sh_row[next];
                for (var m: u32 = 0u; m < PER; m = m + 1u) {
                    if (has(m, lane)) {
                        k[n * PER + m] = k_cache[next_at + m * LANES + lane];
                    }
                }
            }
            if (j < own) {
                sh_part[j * (LANES + 1u) + lane] = (sum.x + sum.y) + (sum.z + sum.w);
            }
        }
    }
    workgroupBarrier();

    square = vec2<f32>(0.0);
    for (var n: u32 = 0u; n < FEW; n = n + 1u) {
        square = square + sh_few[n];
    }
    let size = select(vec2<f32>(f32(q_size), f32(k_size)), vec2<f32>(f32(HD)), p.each == 1u);
    let by = inverseSqrt(square / size + vec2<f32>(p.eps));
    var score: f32 = 0.0;
    for (var n: u32 = 0u; n < LANES; n = n + 1u) {
        score = score + sh_part[i * (LANES + 1u) + n];
    }
    score = score * by.x * select(1.0, by.y, i == own) * p.scale;
    sh_score[i] = select(LOWEST, score, i <= own); // beyond the new key the parts are anything
    if (writes && i < HD4) {
        let cached = (new_row * p.kvh + kvh) * HD4;
        k_cache[cached + i] = by.y * vec4<f32>(sh_k[4u * i], sh_k[4u * i + 1u], sh_k[4u * i + 2u], sh_k[4u * i + 3u]);
        v_cache[cached + i] = new_value;
    }
    workgroupBarrier();

    if (i < FEW) {
        var high: f32 = LOWEST;
        for (var n: u32 = 0u; n < SPAN / FEW; n = n + 1u) {
            high = max(high, sh_score[n * FEW + i]);
        }
        sh_few[i] = vec2<f32>(high, 0.0);
    }
    workgroupBarrier();

    var top: f32 = LOWEST;
    for (var n: u32 = 0u; n < FEW; n = n + 1u) {
        top = max(top, sh_few[n].x);
    }
    var total: f32 = 0.0;
    var sum: vec4<f32> = vec4<f32>(0.0);
    for (var base: u32 = 0u; base < own; base = base + VALUES * GROUPS) {
        for (var n: u32 = 0u; n < VALUES; n = n + 1u) {
            let j = base + n * GROUPS + part;
            let next = j + VALUES * GROUPS;
            let weight = select(0.0, exp(sh_score[min(j, last)] - top), j < own);
            total = total + weight;
            sum = sum + weight * v[n];
            if (VALUES * GROUPS < SPAN && next < own) {
                v[n] = v_cache[sh_row[next] + d];
            }
        }
    }
    if (d == 0u) {
        sh_pair[part] = vec2<f32>(total, 0.0);
    }
    sh_part[i] = sum.x;
    sh_part[SPAN + i] = sum.y;
    sh_part[2u * SPAN + i] = sum.z;
    sh_part[3u * SPAN + i] = sum.w;
    workgroupBarrier();

    if (i < HD) {
        let weight = exp(sh_score[own] - top);
        var whole: f32 = weight;
        var value: f32 = weight * xv;
        for (var g: u32 = 0u; g < min(GROUPS, own); g = g + 1u) {
            whole = whole + sh_pair[g].x;
            value = value + sh_part[(i % 4u) * SPAN + g * HD4 + i / 4u];
        }
        o[(seq.start * p.h + h) * HD + i] = value / whole;
    }
}
