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
@group(0) @binding(3) var<storage, read> weight: array<f32>; // [C, W]
@group(0) @binding(4) var<storage, read> rates: array<f32>; // [2, HV]: A_log, dt_bias
@group(0) @binding(5) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(6) var<storage, read_write> tail: array<f32>; // [slots, W-1, C], oldest first
@group(0) @binding(7) var<storage, read_write> y: array<f32>; // [T, C]
@group(0) @binding(8) var<storage, read_write> gates: array<f32>; // [T, 2, HV]: log decay, beta

const LANES: u32 = 32u; // invocations that share a head
const WG: u32 = 64u;

var<workgroup> sh_sum: array<f32, WG>;

// Input n of a channel, counted from the oldest that the sequence still has.
fn input(seq: Seq, n: u32, c: u32, channels: u32) -> f32 {
    let keep = p.w - 1u;
    if (n >= keep) {
        return x[(seq.start + n - keep) * p.x_stride + c];
    }
    if (seq.slot_in == NO_SLOT) {
        return 0.0;
    }
    return tail[(seq.slot_in * keep + n) * channels + c];
}

// A workgroup owns WG / LANES heads, of q, k or v, of one sequence: all of its tokens, then its tail.
// The invocation that reads a channel's old tail also writes the new one.
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

    for (var n: u32 = 0u; n < seq.count; n = n + 1u) {
        let t = seq.start + n;
        var sum: f32 = 0.0;
        for (var j: u32 = lane; j < size; j = j + LANES) {
            let c = first + j;
            var mixed: f32 = 0.0;
            for (var tap: u32 = 0u; tap < p.w; tap = tap + 1u) {
                mixed = mixed + weight[c * p.w + tap] * input(seq, n + tap, c, channels);
            }
            mixed = silu(mixed);
            y[t * channels + c] = mixed;
            sum = sum + mixed * mixed;
        }
        sh_sum[i] = sum;
        workgroupBarrier();
        sum = 0.0;
        for (var j: u32 = 0u; j < LANES; j = j + 1u) {
            sum = sum + sh_sum[i - lane + j];
        }
        if (live && !is_v) {
            let by = inverseSqrt(sum + 1e-6) * select(1.0, p.q_scale, h < p.hk);
            for (var j: u32 = lane; j < size; j = j + LANES) {
                y[t * channels + first + j] = y[t * channels + first + j] * by;
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
    for (var j: u32 = lane; j < size; j = j + LANES) {
        // From the oldest on, so that a slot can be shifted in place.
        for (var n: u32 = 0u; n + 1u < p.w; n = n + 1u) {
            let v = input(seq, seq.count + n, first + j, channels);
            tail[(seq.slot_out * (p.w - 1u) + n) * channels + first + j] = v;
        }
    }
}
