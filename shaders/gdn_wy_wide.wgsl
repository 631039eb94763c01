struct Params { // keep in step with GDNParams
    hk: u32,
    hv: u32,
    stride: u32,
    col: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>; // [T, stride], from col on: q [HK, K], k [HK, K], v [HV, V]
@group(0) @binding(3) var<storage, read> gates: array<f32>; // [T, 2, HV]: log decay, beta
@group(0) @binding(4) var<storage, read> chunks: array<vec4<u32>>; // [chunks]: sequence, first token, count, number in the sequence
@group(0) @binding(5) var<storage, read_write> u: array<vec4<f32>>; // [chunks, HV, C, V]
@group(0) @binding(6) var<storage, read_write> w: array<vec4<f32>>; // [chunks, HV, C, K]
@group(0) @binding(7) var<storage, read_write> attn: array<f32>; // [chunks, HV, C + 2, C]: decayed q·k, decay from the start, decay to the end

const K: u32 = 32u;
const V: u32 = 64u;
const C: u32 = 32u; // tokens of a chunk
const WG: u32 = 128u;
const K4: u32 = K / 4u;
const V4: u32 = V / 4u;
const ROWS: u32 = 8u; // rows of u and w that an invocation owns

var<workgroup> sh_decay: array<f32, C * C>; // exp of the log decay from token j to token i, 0 where j > i
var<workgroup> sh_a: array<f32, C * C>; // beta_i · decay · k_i·k_j below the diagonal
var<workgroup> sh_t: array<f32, C * C>; // (I + A)^-1
var<workgroup> sh_from: array<f32, C>; // decay from the chunk's start through token i
var<workgroup> sh_g: array<f32, C>;
var<workgroup> sh_beta: array<f32, C>;

fn sum4(v: vec4<f32>) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

// A workgroup owns one chunk of one value head: it inverts the triangular system that says what
// each token writes, and multiplies v and k by it.
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
    let last = max(count, 1u) - 1u;
    let stride = p.stride / 4u;
    let q0 = chunk.y * stride + p.col / 4u + hk * K4;
    let k0 = q0 + p.hk * K4;
    let v0 = chunk.y * stride + p.col / 4u + 2u * p.hk * K4 + h * V4;

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

    // k_i·k_j and q_i·k_j: an invocation owns two rows and four columns of both. Rows beyond the
    // chunk read its last one.
    let row = (i / 8u) * 2u;
    let col = i % 8u;
    let r0 = min(row, last) * stride;
    let r1 = min(row + 1u, last) * stride;
    var kk: array<vec4<f32>, 8> = array<vec4<f32>, 8>(
        vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0));
    var qk: array<vec4<f32>, 8> = array<vec4<f32>, 8>(
        vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0));
    for (var d: u32 = 0u; d < rolled(K4); d = d + 1u) {
        let ka = qkv[k0 + r0 + d];
        let kb = qkv[k0 + r1 + d];
        let qa = qkv[q0 + r0 + d];
        let qb = qkv[q0 + r1 + d];
        for (var j: u32 = 0u; j < 4u; j = j + 1u) {
            let kj = qkv[k0 + min(col + 8u * j, last) * stride + d];
            kk[j] = kk[j] + ka * kj;
            kk[j + 4u] = kk[j + 4u] + kb * kj;
            qk[j] = qk[j] + qa * kj;
            qk[j + 4u] = qk[j + 4u] + qb * kj;
        }
    }
    let scores = number * (C + 2u) * C;
    for (var j: u32 = 0u; j < 8u; j = j + 1u) {
        let r = row + j / 4u;
        let c = col + 8u * (j % 4u);
        let at = r * C + c;
        sh_a[at] = select(0.0, sh_beta[r] * sh_decay[at] * sum4(kk[j]), c < r);
        attn[scores + at] = select(0.0, sh_decay[at] * sum4(qk[j]), r < count);
    }
    if (i < C) {
        attn[scores + C * C + i] = sh_from[i];
        attn[scores + C * C + C + i] = select(0.0, sh_decay[last * C + i], i < count);
    }
    workgroupBarrier();

    // Forward substitution on the columns of the identity, an invocation a column.
    if (i < C) {
        for (var t: u32 = 0u; t < rolled(C); t = t + 1u) {
            var b: f32 = select(0.0, 1.0, t == i);
            for (var j: u32 = i; j < t; j = j + 1u) {
                b = b - sh_a[t * C + j] * sh_t[j * C + i];
            }
            sh_t[t * C + i] = b;
        }
    }
    workgroupBarrier();

    // U = (I + A)^-1 β v and W = (I + A)^-1 β e^G k, four columns by eight rows an invocation.
    let top = (i / 32u) * ROWS;
    let until = min(count, top + ROWS);
    for (var c: u32 = i % 32u; c < V4 + K4; c = c + 32u) {
        var x: array<vec4<f32>, ROWS> = array<vec4<f32>, ROWS>();
        for (var j: u32 = 0u; j < until; j = j + 1u) {
            var b: vec4<f32> = vec4<f32>(0.0);
            if (c < V4) {
                b = sh_beta[j] * qkv[v0 + j * stride + c];
            } else {
                b = sh_beta[j] * sh_from[j] * qkv[k0 + j * stride + c - V4];
            }
            for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
                x[r] = x[r] + select(0.0, sh_t[(top + r) * C + j], j <= top + r) * b;
            }
        }
        for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
            let t = number * C + top + r;
            if (c < V4) {
                u[t * V4 + c] = x[r];
            } else {
                w[t * K4 + c - V4] = x[r];
            }
        }
    }
}
