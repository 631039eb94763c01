struct Params { // keep in step with GDNParams
    hk: u32,
    hv: u32,
    stride: u32,
    col: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> qkv: array<f32>; // [T, stride], from col on: q [HK, K], k [HK, K], v [HV, V]
@group(0) @binding(3) var<storage, read> gates: array<f32>; // [T, 2, HV]: log decay, beta
@group(0) @binding(4) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(5) var<storage, read_write> state: array<f32>; // [slots, HV, K, V]
@group(0) @binding(6) var<storage, read_write> o: array<f32>; // [T, HV, V]

const K: u32 = 32u;
const V: u32 = 64u;
const WG: u32 = 16u;
const STORE: u32 = 0u; // what the state is rounded to after each token, as W_KIND

// A workgroup owns WG columns of one sequence's state of one value head, an invocation one of them:
// the delta rule never mixes columns.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let blocks = (V + WG - 1u) / WG;
    let number = group_number(group, groups);
    let c = (number % blocks) * WG + i;
    if (number >= step.seqs * p.hv * blocks || c >= V) {
        return;
    }
    let seq = seqs[number / (p.hv * blocks)];
    let h = (number / blocks) % p.hv;
    let hk = h / (p.hv / p.hk);
    let after = (seq.slot_out * p.hv + h) * K * V + c;
    if (seq.slot_in == NO_SLOT) {
        for (var d: u32 = 0u; d < K; d = d + 1u) {
            state[after + d * V] = 0.0;
        }
    } else if (seq.slot_in != seq.slot_out) {
        let before = (seq.slot_in * p.hv + h) * K * V + c;
        for (var d: u32 = 0u; d < K; d = d + 1u) {
            state[after + d * V] = state[before + d * V];
        }
    }
    for (var t: u32 = seq.start; t < seq.start + seq.count; t = t + 1u) {
        let row = t * p.stride + p.col;
        let q = row + hk * K;
        let k = q + p.hk * K;
        let alpha = exp(gates[t * 2u * p.hv + h]);
        let beta = gates[t * 2u * p.hv + p.hv + h];
        var sk: f32 = 0.0;
        var sq: f32 = 0.0;
        var qk: f32 = 0.0;
        for (var d: u32 = 0u; d < K; d = d + 1u) {
            let s = state[after + d * V];
            let kd = qkv[k + d];
            let qd = qkv[q + d];
            sk = sk + s * kd;
            sq = sq + s * qd;
            qk = qk + qd * kd;
        }
        let u = beta * (qkv[row + 2u * p.hk * K + h * V + c] - alpha * sk);
        for (var d: u32 = 0u; d < K; d = d + 1u) {
            state[after + d * V] = stored(alpha * state[after + d * V] + u * qkv[k + d]);
        }
        // Sᵀq after the update.
        o[(t * p.hv + h) * V + c] = alpha * sq + qk * u;
    }
}
