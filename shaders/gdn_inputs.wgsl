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
@group(0) @binding(5) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(6) var<storage, read_write> tail: array<f32>; // [slots, W-1, C], oldest first
@group(0) @binding(7) var<storage, read_write> y: array<f32>; // [T, C]
@group(0) @binding(8) var<storage, read_write> gates: array<f32>; // [T, 2, HV]: log decay, beta

const LANES: u32 = 64u; // invocations that share a head, a multiple of eight
const EACH: u32 = 1u; // channels of a head that an invocation has, at most
const WG: u32 = 64u;

var<workgroup> sh_sum: array<f32, WG>;

// Of the three inputs of a channel before the sequence's new ones number n, those that the taps reach.
fn past(seq: Seq, n: u32, c: u32, channels: u32) -> f32 {
    if (n + p.w < 4u || seq.slot_in == NO_SLOT) {
        return 0.0;
    }
    return tail[(seq.slot_in * (p.w - 1u) + n + p.w - 4u) * channels + c];
}

// Of four taps of a channel number n, the last ones the weights.
fn tap(n: u32, c: u32) -> f32 {
    if (n + p.w < 4u) {
        return 0.0;
    }
    return weight[c * p.w + n + p.w - 4u];
}

// A workgroup owns WG / LANES heads, of q, k or v, of one sequence: all of its tokens, then its tail.
// An invocation keeps the last four inputs of its channels, so that a slot can be shifted in place.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let heads = 2u * p.hk + p.hv;
    let channels = 2u * p.hk * p.k + p.hv * p.v;
    let blocks = (heads + WG / LANES - 1u) / (WG / LANES);
    let number = group_number(group, groups);
    if (number >= step.seqs * blocks) {
        return;
    }
    let seq = seqs[number / blocks];
    let h = (number % blocks) * (WG / LANES) + i / LANES;
    let lane = i % LANES;
    let live = h < heads;
    let is_v = h >= 2u * p.hk;
    let first = select(h * p.k, 2u * p.hk * p.k + (h - 2u * p.hk) * p.v, is_v);
    let size = select(0u, select(p.k, p.v, is_v), live);

    var inputs: array<vec4<f32>, EACH> = array<vec4<f32>, EACH>();
    var taps: array<vec4<f32>, EACH> = array<vec4<f32>, EACH>();
    var mixed: array<f32, EACH> = array<f32, EACH>();
    for (var e: u32 = 0u; e < EACH; e = e + 1u) {
        inputs[e] = vec4<f32>(0.0);
        taps[e] = vec4<f32>(0.0);
        mixed[e] = 0.0;
        if (lane + e * LANES < size) {
            let c = first + lane + e * LANES;
            taps[e] = vec4<f32>(tap(0u, c), tap(1u, c), tap(2u, c), tap(3u, c));
            inputs[e] = vec4<f32>(0.0, past(seq, 0u, c, channels), past(seq, 1u, c, channels), past(seq, 2u, c, channels));
        }
    }
    for (var n: u32 = 0u; n < seq.count; n = n + 1u) {
        let t = seq.start + n;
        var sum: f32 = 0.0;
        for (var e: u32 = 0u; e < EACH; e = e + 1u) {
            if (lane + e * LANES < size) {
                inputs[e] = vec4<f32>(inputs[e].yzw, x[t * p.x_stride + first + lane + e * LANES]);
                mixed[e] = silu(dot(taps[e], inputs[e]));
                sum = sum + mixed[e] * mixed[e];
            }
        }
        sh_sum[i] = sum;
        workgroupBarrier();
        if (lane < LANES / 8u) {
            for (var j: u32 = 1u; j < 8u; j = j + 1u) {
                sum = sum + sh_sum[i + j * (LANES / 8u)];
            }
            sh_sum[i] = sum;
        }
        workgroupBarrier();
        var total: f32 = 0.0;
        for (var j: u32 = 0u; j < LANES / 8u; j = j + 1u) {
            total = total + sh_sum[i - lane + j];
        }
        let by = select(inverseSqrt(total + 1e-6) * select(1.0, p.q_scale, h < p.hk), 1.0, is_v);
        for (var e: u32 = 0u; e < EACH; e = e + 1u) {
            if (lane + e * LANES < size) {
                y[t * channels + first + lane + e * LANES] = mixed[e] * by;
            }
        }
        if (live && is_v && lane == 0u) {
            let v = h - 2u * p.hk;
            gates[t * 2u * p.hv + v] = select(log_decay(rates[v], x[t * p.x_stride + p.a_col + v] + rates[p.hv + v]), 0.0, p.no_decay != 0u);
            let beta = p.beta_scale * sigmoid(x[t * p.x_stride + p.b_col + v]);
            gates[t * 2u * p.hv + p.hv + v] = select(beta, min(beta, p.beta_max), p.beta_max > 0.0);
        }
        workgroupBarrier();
    }
    for (var e: u32 = 0u; e < EACH; e = e + 1u) {
        if (lane + e * LANES < size) {
            for (var n: u32 = 0u; n + 1u < p.w; n = n + 1u) {
                tail[(seq.slot_out * (p.w - 1u) + n) * channels + first + lane + e * LANES] = inputs[e][n + 5u - p.w];
            }
        }
    }
}
