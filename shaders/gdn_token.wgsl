struct Params { // keep in step with GDNInputsParams
    hk: u32,
    k: u32,
    hv: u32,
    v: u32,
    w: u32,
    x_stride: u32,
    a_col: u32,
    b_col: u32,
    q_scale: f32,
    beta_scale: f32,
    beta_max: f32,
    no_decay: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>; // [T, x_stride], from 0 on: q [HK, K], k [HK, K], v [HV, V]
@group(0) @binding(3) var<storage, read> weight: array<f32>; // [C, W], W at most 4
@group(0) @binding(4) var<storage, read> rates: array<f32>; // [2, HV]: A_log, dt_bias
@group(0) @binding(5) var<storage, read> seqs: array<Seq>; // [B], a token each
@group(0) @binding(6) var<storage, read_write> tail: array<f32>; // [slots, W-1, C], oldest first
@group(0) @binding(7) var<storage, read_write> state: array<f32>; // [slots, HV, K, V]
@group(0) @binding(8) var<storage, read_write> o: array<f32>; // [T, HV, V]

// Sizes are constants so that few reads wait for the parameters.
const HK: u32 = 16u; // p.hk
const K: u32 = 128u; // p.k
const HV: u32 = 16u; // p.hv
const V: u32 = 128u; // p.v
const W: u32 = 4u; // p.w
const COLS: u32 = 16u; // columns of the state that a workgroup owns
const SLICES: u32 = 8u; // invocations that share a column: each has every SLICES-th row of it
const WG: u32 = COLS * SLICES;
const ROWS: u32 = (K + SLICES - 1u) / SLICES; // of an invocation
const PAIRS: u32 = (ROWS + COLS - 1u) / COLS; // channels of q, and of k, that an invocation forms

var<workgroup> sh_pair: array<vec2<f32>, ROWS * SLICES>; // q and k before their norms, zeros beyond K
var<workgroup> sh_v: array<f32, COLS>;
var<workgroup> sh_read: array<vec2<f32>, WG>; // partial Sᵀq, Sᵀk
var<workgroup> sh_norm: array<vec4<f32>, SLICES>; // partial q², k², qᵀk

// Whether row r of a slice is one of K. Compilers can tell for all rows but the last.
fn has_row(r: u32, slice: u32) -> bool {
    return (r + 1u) * SLICES <= K || r * SLICES + slice < K;
}

// Whether pair n of invocation i is one of K.
fn has_pair(n: u32, i: u32) -> bool {
    return (n + 1u) * WG <= K || n * WG + i < K;
}

// Of four taps of a channel number n, the last ones the weights. Of fewer the first is read again and
// dropped, here and in past, so that there are no branches between the reads.
fn tap(n: u32, c: u32) -> f32 {
    return select(0.0, weight[c * W + max(n + W, 4u) - 4u], n + W >= 4u);
}

fn taps(c: u32) -> vec4<f32> {
    return vec4<f32>(tap(0u, c), tap(1u, c), tap(2u, c), tap(3u, c));
}

// Of the three inputs of a channel before the sequence's new one number n, those that the taps reach.
fn past(slot: u32, n: u32, c: u32, channels: u32) -> f32 {
    return select(0.0, tail[(slot * (W - 1u) + max(n + W, 4u) - 4u) * channels + c], n + W >= 4u);
}

fn inputs(seq: Seq, c: u32, channels: u32) -> vec4<f32> {
    let own = x[seq.start * p.x_stride + c];
    if (W == 1u || seq.slot_in == NO_SLOT) {
        return vec4<f32>(0.0, 0.0, 0.0, own);
    }
    return vec4<f32>(past(seq.slot_in, 0u, c, channels), past(seq.slot_in, 1u, c, channels), past(seq.slot_in, 2u, c, channels), own);
}

// Leaves the last W-1 of a channel's inputs in the tail.
fn keep(seq: Seq, c: u32, channels: u32, last: vec4<f32>) {
    for (var n: u32 = 1u; n < 4u; n = n + 1u) {
        if (n + W > 4u) {
            tail[(seq.slot_out * (W - 1u) + n + W - 5u) * channels + c] = last[n];
        }
    }
}

// A workgroup owns COLS columns of one sequence's state of one value head, and v's tail there; the first
// of a key head's also q's and k's. All that it reads is asked for before the first of two barriers: the
// state first, which is the most and is needed last. The norms are sums beside those over the state, so
// q and k are divided by them only in the results.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let blocks = (V + COLS - 1u) / COLS;
    let number = group_number(group, groups);
    if (groups.y > 1u) { // only a folded grid may have more groups than there is to do
        if (number >= step.seqs * HV * blocks) {
            return;
        }
    }
    let head = number / blocks;
    let seq = seqs[head / HV];
    let h = head % HV;
    let hk = h * HK / HV;
    let v0 = (number % blocks) * COLS;
    let c = i % COLS;
    let slice = i / COLS;
    let live = v0 + c < V;
    let column = min(v0 + c, V - 1u); // columns beyond V are the last one's, and not written
    let makes_v = live && slice == SLICES - 1u; // the last, which have the fewest q and k
    let channels = 2u * HK * K + HV * V;
    let cq = hk * K;
    let ck = (HK + hk) * K;
    let cv = 2u * HK * K + h * V + column;

    var taps_q: array<vec4<f32>, PAIRS> = array<vec4<f32>, PAIRS>();
    var taps_k: array<vec4<f32>, PAIRS> = array<vec4<f32>, PAIRS>();
    for (var n: u32 = 0u; n < PAIRS; n = n + 1u) {
        if (has_pair(n, i)) {
            taps_q[n] = taps(cq + i + n * WG);
            taps_k[n] = taps(ck + i + n * WG);
        }
    }
    var taps_v: vec4<f32> = vec4<f32>(0.0);
    if (makes_v) {
        taps_v = taps(cv);
    }
    let rate = rates[h];
    let bias = rates[HV + h];

    var s: array<f32, ROWS> = array<f32, ROWS>();
    if (seq.slot_in != NO_SLOT) {
        let at = (seq.slot_in * HV + h) * K * V + column;
        for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
            if (has_row(r, slice)) {
                s[r] = state[at + (r * SLICES + slice) * V];
            }
        }
    }
    var in_q: array<vec4<f32>, PAIRS> = array<vec4<f32>, PAIRS>();
    var in_k: array<vec4<f32>, PAIRS> = array<vec4<f32>, PAIRS>();
    for (var n: u32 = 0u; n < PAIRS; n = n + 1u) {
        if (has_pair(n, i)) {
            in_q[n] = inputs(seq, cq + i + n * WG, channels);
            in_k[n] = inputs(seq, ck + i + n * WG, channels);
        }
    }
    var in_v: vec4<f32> = vec4<f32>(0.0);
    if (makes_v) {
        in_v = inputs(seq, cv, channels);
    }
    let a = x[seq.start * p.x_stride + p.a_col + h];
    let b = x[seq.start * p.x_stride + p.b_col + h];

    for (var n: u32 = 0u; n < PAIRS; n = n + 1u) {
        if (i + n * WG < ROWS * SLICES) { // silu(0) is 0
            sh_pair[i + n * WG] = vec2<f32>(silu(dot(taps_q[n], in_q[n])), silu(dot(taps_k[n], in_k[n])));
        }
    }
    if (slice == SLICES - 1u) {
        sh_v[c] = silu(dot(taps_v, in_v));
    }
    let alpha = exp(select(log_decay(rate, a + bias), 0.0, p.no_decay != 0u));
    let strength = p.beta_scale * sigmoid(b);
    let beta = select(strength, min(strength, p.beta_max), p.beta_max > 0.0);
    workgroupBarrier();

    // Sᵀq after the update is αSᵀq + (qᵀk)u, so all sums are over the state before it.
    var read: vec2<f32> = vec2<f32>(0.0);
    var norm: vec4<f32> = vec4<f32>(0.0);
    for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
        let pair = sh_pair[r * SLICES + slice];
        read = read + s[r] * pair;
        norm = norm + vec4<f32>(pair * pair, pair.x * pair.y, 0.0);
    }
    sh_read[i] = read;
    if (c == 0u) {
        sh_norm[slice] = norm;
    }
    workgroupBarrier();
    read = vec2<f32>(0.0);
    norm = vec4<f32>(0.0);
    for (var j: u32 = 0u; j < SLICES; j = j + 1u) {
        read = read + sh_read[j * COLS + c];
        norm = norm + sh_norm[j];
    }
    let by_q = inverseSqrt(norm.x + 1e-6) * p.q_scale;
    let by_k = inverseSqrt(norm.y + 1e-6);
    let u = beta * (sh_v[c] - alpha * (by_k * read.y));

    if (live) {
        if (slice == 0u) {
            o[(seq.start * HV + h) * V + column] = alpha * (by_q * read.x) + by_q * (by_k * norm.z) * u;
        }
        let at = (seq.slot_out * HV + h) * K * V + column;
        for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
            if (has_row(r, slice)) {
                state[at + (r * SLICES + slice) * V] = alpha * s[r] + u * (by_k * sh_pair[r * SLICES + slice].y);
            }
        }
    }
    if (makes_v) {
        keep(seq, cv, channels, in_v);
    }
    if (v0 == 0u && h * HK == hk * HV) {
        for (var n: u32 = 0u; n < PAIRS; n = n + 1u) {
            if (has_pair(n, i)) {
                keep(seq, cq + i + n * WG, channels, in_q[n]);
                keep(seq, ck + i + n * WG, channels, in_k[n]);
            }
        }
    }
}
