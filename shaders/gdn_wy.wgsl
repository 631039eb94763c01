struct Params { // keep in step with GDNParams
    hk: u32,
    hv: u32,
    stride: u32,
    col: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> qkv: array<f32>; // [T, stride], from col on: q [HK, K], k [HK, K], v [HV, V]
@group(0) @binding(3) var<storage, read> gates: array<f32>; // [T, 2, HV]: log decay, beta
@group(0) @binding(4) var<storage, read> chunks: array<vec4<u32>>; // [chunks]: sequence, first token, count, number in the sequence
@group(0) @binding(5) var<storage, read_write> u: array<f32>; // [chunks, HV, C, V]
@group(0) @binding(6) var<storage, read_write> w: array<f32>; // [chunks, HV, C, K]
@group(0) @binding(7) var<storage, read_write> attn: array<f32>; // [chunks, HV, C + 2, C]: decayed q·k, decay from the start, decay to the end

const K: u32 = 32u;
const V: u32 = 64u;
const C: u32 = 32u; // tokens of a chunk
const WG: u32 = 128u;
const TILE: u32 = 16u; // key elements staged at a time
const ROW: u32 = 17u; // from one staged row to the next, one element of padding

var<workgroup> sh_decay: array<f32, C * C>; // exp of the log decay from token j to token i, 0 where j > i
var<workgroup> sh_a: array<f32, C * C>; // beta_i · decay · k_i·k_j below the diagonal
var<workgroup> sh_q: array<f32, C * ROW>;
var<workgroup> sh_k: array<f32, C * ROW>;
var<workgroup> sh_from: array<f32, C>; // decay from the chunk's start through token i
var<workgroup> sh_g: array<f32, C>;
var<workgroup> sh_beta: array<f32, C>;

// A workgroup owns one chunk of one value head: the triangular system that says what each token
// writes, solved for all columns of v and of k at once.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let number = group_number(group, groups);
    if (number >= step.chunks * p.hv) {
        return;
    }
    let chunk = chunks[number / p.hv];
    let h = number % p.hv;
    let hk = h / (p.hv / p.hk);
    let count = chunk.z;
    let q0 = chunk.y * p.stride + p.col + hk * K;
    let k0 = q0 + p.hk * K;
    let v0 = chunk.y * p.stride + p.col + 2u * p.hk * K + h * V;

    if (i < C) {
        sh_g[i] = 0.0;
        sh_beta[i] = 0.0;
        if (i < count) {
            let at = (chunk.y + i) * 2u * p.hv + h;
            sh_g[i] = gates[at];
            sh_beta[i] = gates[at + p.hv];
        }
    }
    workgroupBarrier();
    // The log decay from token j to token i is summed up from j on: the difference of two sums over
    // the whole chunk would lose a small decay beside a large one.
    if (i < C) {
        var sum: f32 = 0.0;
        for (var t: u32 = 0u; t < rolled(C); t = t + 1u) {
            var d: f32 = 0.0;
            if (t == i) {
                d = 1.0;
            }
            if (t > i) {
                sum = sum + sh_g[t];
                d = exp(max(sum, -88.0)) * select(1.0, 0.0, sum < -88.0);
            }
            sh_decay[t * C + i] = d;
        }
    }
    if (i == C) {
        var sum: f32 = 0.0;
        for (var t: u32 = 0u; t < rolled(C); t = t + 1u) {
            sum = sum + sh_g[t];
            sh_from[t] = exp(max(sum, -88.0)) * select(1.0, 0.0, sum < -88.0);
        }
    }
    workgroupBarrier();

    // k_i·k_j and q_i·k_j: an invocation owns 8 pairs of one row i.
    let row = i / 4u;
    let first = (i % 4u) * 8u;
    var kk: array<f32, 8> = array<f32, 8>(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    var qk: array<f32, 8> = array<f32, 8>(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (var d0: u32 = 0u; d0 < rolled(K); d0 = d0 + TILE) {
        for (var e: u32 = i; e < C * TILE; e = e + WG) {
            let t = e / TILE;
            let d = d0 + e % TILE;
            var qv: f32 = 0.0;
            var kv: f32 = 0.0;
            if (t < count && d < K) {
                qv = qkv[q0 + t * p.stride + d];
                kv = qkv[k0 + t * p.stride + d];
            }
            sh_q[t * ROW + e % TILE] = qv;
            sh_k[t * ROW + e % TILE] = kv;
        }
        workgroupBarrier();
        for (var d: u32 = 0u; d < rolled(TILE); d = d + 1u) {
            let ki = sh_k[row * ROW + d];
            let qi = sh_q[row * ROW + d];
            for (var j: u32 = 0u; j < 8u; j = j + 1u) {
                let kj = sh_k[(first + j) * ROW + d];
                kk[j] = kk[j] + ki * kj;
                qk[j] = qk[j] + qi * kj;
            }
        }
        workgroupBarrier();
    }
    let scores = number * (C + 2u) * C;
    for (var j: u32 = 0u; j < 8u; j = j + 1u) {
        let at = row * C + first + j;
        sh_a[at] = select(0.0, sh_beta[row] * sh_decay[at] * kk[j], first + j < row);
        attn[scores + at] = sh_decay[at] * qk[j];
    }
    if (i < C) {
        attn[scores + C * C + i] = sh_from[i];
        attn[scores + C * C + C + i] = select(0.0, sh_decay[(max(count, 1u) - 1u) * C + i], i < count);
    }
    workgroupBarrier();

    // Forward substitution, an invocation a column: x_i = b_i - Σ_{j<i} a_ij x_j.
    for (var c: u32 = i; c < V + K; c = c + WG) {
        var x: array<f32, C> = array<f32, C>();
        for (var t: u32 = 0u; t < rolled(C); t = t + 1u) {
            var b: f32 = 0.0;
            if (t < count) {
                if (c < V) {
                    b = sh_beta[t] * qkv[v0 + t * p.stride + c];
                } else {
                    b = sh_beta[t] * sh_from[t] * qkv[k0 + t * p.stride + c - V];
                }
            }
            for (var j: u32 = 0u; j < t; j = j + 1u) {
                b = b - sh_a[t * C + j] * x[j];
            }
            x[t] = b;
            if (c < V) {
                u[(number * C + t) * V + c] = b;
            } else {
                w[(number * C + t) * K + c - V] = b;
            }
        }
    }
}
