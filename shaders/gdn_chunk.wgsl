struct Params { // keep in step with GDNParams
    hk: u32,
    hv: u32,
    stride: u32,
    col: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> qkv: array<f32>; // [T, stride], from col on: q [HK, K], k [HK, K], v [HV, V]
@group(0) @binding(3) var<storage, read> u: array<f32>; // [chunks, HV, C, V]
@group(0) @binding(4) var<storage, read> w: array<f32>; // [chunks, HV, C, K]
@group(0) @binding(5) var<storage, read> attn: array<f32>; // [chunks, HV, C + 2, C]
@group(0) @binding(6) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(7) var<storage, read_write> state: array<f32>; // [slots, HV, K, V]
@group(0) @binding(8) var<storage, read_write> o: array<f32>; // [T, HV, V]

const K: u32 = 32u;
const V: u32 = 64u;
const C: u32 = 32u; // tokens of a chunk
const COLS: u32 = 16u; // columns of the state that a workgroup owns
const WG: u32 = 128u;
const ROWS: u32 = 4u; // rows of a chunk that an invocation owns: C · COLS / WG

var<workgroup> sh_s: array<f32, K * COLS>; // the state's columns
var<workgroup> sh_u: array<f32, C * COLS>; // what the chunk's tokens write

// A workgroup owns COLS columns of one sequence's state of one value head and passes them through
// the sequence's chunks.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let blocks = (V + COLS - 1u) / COLS;
    let number = group_number(group, groups);
    if (number >= step.seqs * p.hv * blocks) {
        return;
    }
    let seq = seqs[number / (p.hv * blocks)];
    let h = (number / blocks) % p.hv;
    let hk = h / (p.hv / p.hk);
    let v0 = (number % blocks) * COLS;
    let c = i % COLS;
    let r0 = (i / COLS) * ROWS;
    let live = v0 + c < V;

    for (var e: u32 = i; e < K * COLS; e = e + WG) {
        var s: f32 = 0.0;
        if (live && seq.slot_in != NO_SLOT) {
            s = state[((seq.slot_in * p.hv + h) * K + e / COLS) * V + v0 + c];
        }
        sh_s[e] = s;
    }
    workgroupBarrier();
    for (var t0: u32 = 0u; t0 < seq.count; t0 = t0 + C) {
        let chunk = (seq.chunk + t0 / C) * p.hv + h;
        let count = min(C, seq.count - t0);
        let scores = chunk * (C + 2u) * C;
        let q0 = (seq.start + t0) * p.stride + p.col + hk * K;
        let k0 = q0 + p.hk * K;

        // u = U - W S, and the part of o that the state before the chunk gives.
        var x: vec4<f32> = vec4<f32>(0.0);
        var y: vec4<f32> = vec4<f32>(0.0);
        for (var d: u32 = 0u; d < rolled(K); d = d + 1u) {
            let s = sh_s[d * COLS + c];
            for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
                x[r] = x[r] + w[(chunk * C + r0 + r) * K + d] * s;
                if (r0 + r < count) {
                    y[r] = y[r] + qkv[q0 + (r0 + r) * p.stride + d] * s;
                }
            }
        }
        for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
            var write: f32 = 0.0;
            if (live) {
                write = u[(chunk * C + r0 + r) * V + v0 + c] - x[r];
            }
            sh_u[(r0 + r) * COLS + c] = write;
        }
        workgroupBarrier();
        for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
            let t = r0 + r;
            var sum: f32 = attn[scores + C * C + t] * y[r];
            for (var j: u32 = 0u; j <= t; j = j + 1u) {
                sum = sum + attn[scores + t * C + j] * sh_u[j * COLS + c];
            }
            if (live && t < count) {
                o[((seq.start + t0 + t) * p.hv + h) * V + v0 + c] = sum;
            }
        }
        // S = e^{G_last} S + Σ_j e^{G_last - G_j} k_j u_jᵀ: an invocation owns rows of its column.
        let keep = attn[scores + C * C + count - 1u];
        for (var e: u32 = i; e < K * COLS; e = e + WG) {
            var sum: f32 = keep * sh_s[e];
            for (var j: u32 = 0u; j < count; j = j + 1u) {
                sum = sum + attn[scores + C * C + C + j] * qkv[k0 + j * p.stride + e / COLS] * sh_u[j * COLS + c];
            }
            sh_s[e] = sum;
        }
        workgroupBarrier();
    }
    if (live) {
        for (var e: u32 = i; e < K * COLS; e = e + WG) {
            state[((seq.slot_out * p.hv + h) * K + e / COLS) * V + v0 + c] = sh_s[e];
        }
    }
}
