struct Params { // keep in step with GDNParams
    hk: u32,
    hv: u32,
    stride: u32,
    col: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>; // [T, stride], from col on: q [HK, K], k [HK, K], v [HV, V]
@group(0) @binding(3) var<storage, read> u: array<f32>; // [chunks, HV, C, V]
@group(0) @binding(4) var<storage, read> w: array<vec4<f32>>; // [chunks, HV, C, K]
@group(0) @binding(5) var<storage, read> attn: array<f32>; // [chunks, HV, C + 2, C]
@group(0) @binding(6) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(7) var<storage, read_write> state: array<f32>; // [slots, HV, K, V]
@group(0) @binding(8) var<storage, read_write> o: array<f32>; // [T, HV, V]

const K: u32 = 32u;
const V: u32 = 64u;
const C: u32 = 32u; // tokens of a chunk
const COLS: u32 = 16u; // columns of the state that a workgroup owns
const WG: u32 = 128u;
const K4: u32 = K / 4u;
const ROW: u32 = 17u; // from one row of sh_s to the next: COLS and one of padding

var<workgroup> sh_s: array<vec4<f32>, K4 * ROW>; // the state's columns, four rows a vector
var<workgroup> sh_u: array<f32, C * COLS>; // what the chunk's tokens write
var<workgroup> sh_e: array<f32, C * COLS>; // the same, decayed to the chunk's end

fn sum4(v: vec4<f32>) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

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
    let stride = p.stride / 4u;
    // Two rows of a chunk and two columns, half a block apart, that an invocation computes.
    let r = (i / 8u) * 2u;
    let c = i % 8u;

    for (var e: u32 = i; e < K4 * COLS; e = e + WG) {
        var s: vec4<f32> = vec4<f32>(0.0);
        let v = v0 + e % COLS;
        if (v < V && seq.slot_in != NO_SLOT) {
            let at = ((seq.slot_in * p.hv + h) * K + 4u * (e / COLS)) * V + v;
            s = vec4<f32>(state[at], state[at + V], state[at + 2u * V], state[at + 3u * V]);
        }
        sh_s[(e / COLS) * ROW + e % COLS] = s;
    }
    workgroupBarrier();
    for (var t0: u32 = 0u; t0 < seq.count; t0 = t0 + C) {
        let chunk = (seq.chunk + t0 / C) * p.hv + h;
        let count = min(C, seq.count - t0);
        let scores = chunk * (C + 2u) * C;
        let q0 = (seq.start + t0) * stride + p.col / 4u + hk * K4;
        let k0 = q0 + p.hk * K4;

        // u = U - W S, and the part of o that the state before the chunk gives.
        let wa = (chunk * C + r) * K4;
        let wb = wa + K4;
        let qa = q0 + min(r, count - 1u) * stride;
        let qb = q0 + min(r + 1u, count - 1u) * stride;
        var xaa: vec4<f32> = vec4<f32>(0.0);
        var xab: vec4<f32> = vec4<f32>(0.0);
        var xba: vec4<f32> = vec4<f32>(0.0);
        var xbb: vec4<f32> = vec4<f32>(0.0);
        var yaa: vec4<f32> = vec4<f32>(0.0);
        var yab: vec4<f32> = vec4<f32>(0.0);
        var yba: vec4<f32> = vec4<f32>(0.0);
        var ybb: vec4<f32> = vec4<f32>(0.0);
        for (var d: u32 = 0u; d < rolled(K4); d = d + 1u) {
            let w0 = w[wa + d];
            let w1 = w[wb + d];
            let f0 = qkv[qa + d];
            let f1 = qkv[qb + d];
            let s0 = sh_s[d * ROW + c];
            let s1 = sh_s[d * ROW + c + 8u];
            xaa = xaa + w0 * s0;
            xab = xab + w0 * s1;
            xba = xba + w1 * s0;
            xbb = xbb + w1 * s1;
            yaa = yaa + f0 * s0;
            yab = yab + f0 * s1;
            yba = yba + f1 * s0;
            ybb = ybb + f1 * s1;
        }
        let x = vec4<f32>(sum4(xaa), sum4(xab), sum4(xba), sum4(xbb));
        let y = vec4<f32>(sum4(yaa), sum4(yab), sum4(yba), sum4(ybb));
        for (var e: u32 = 0u; e < 4u; e = e + 1u) {
            let t = r + e / 2u;
            let v = c + 8u * (e % 2u);
            var write: f32 = 0.0;
            if (v0 + v < V) {
                write = u[(chunk * C + t) * V + v0 + v] - x[e];
            }
            sh_u[t * COLS + v] = write;
            sh_e[t * COLS + v] = attn[scores + C * C + C + t] * write;
        }
        workgroupBarrier();
        var z: vec4<f32> = vec4<f32>(attn[scores + C * C + r], attn[scores + C * C + r], attn[scores + C * C + r + 1u], attn[scores + C * C + r + 1u]) * y;
        for (var j: u32 = 0u; j < min(r + 2u, count); j = j + 1u) {
            let a = vec2<f32>(attn[scores + r * C + j], attn[scores + (r + 1u) * C + j]);
            let b = vec2<f32>(sh_u[j * COLS + c], sh_u[j * COLS + c + 8u]);
            z = z + a.xxyy * b.xyxy;
        }
        for (var e: u32 = 0u; e < 4u; e = e + 1u) {
            let t = r + e / 2u;
            let v = v0 + c + 8u * (e % 2u);
            if (v < V && t < count) {
                o[((seq.start + t0 + t) * p.hv + h) * V + v] = z[e];
            }
        }
        // S = e^{G_last} S + Σ_j e^{G_last - G_j} k_j u_jᵀ, four rows by four columns at a time.
        let keep = attn[scores + C * C + count - 1u];
        for (var e: u32 = i; e < K4 * COLS / 4u; e = e + WG) {
            let d = e % K4;
            let at = d * ROW + 4u * (e / K4);
            var a: vec4<f32> = keep * sh_s[at];
            var b: vec4<f32> = keep * sh_s[at + 1u];
            var f: vec4<f32> = keep * sh_s[at + 2u];
            var g: vec4<f32> = keep * sh_s[at + 3u];
            for (var j: u32 = 0u; j < count; j = j + 1u) {
                let k = qkv[k0 + j * stride + d];
                let m = j * COLS + 4u * (e / K4);
                a = a + k * sh_e[m];
                b = b + k * sh_e[m + 1u];
                f = f + k * sh_e[m + 2u];
                g = g + k * sh_e[m + 3u];
            }
            sh_s[at] = a;
            sh_s[at + 1u] = b;
            sh_s[at + 2u] = f;
            sh_s[at + 3u] = g;
        }
        workgroupBarrier();
    }
    for (var e: u32 = i; e < K4 * COLS; e = e + WG) {
        let v = v0 + e % COLS;
        if (v < V) {
            let at = ((seq.slot_out * p.hv + h) * K + 4u * (e / COLS)) * V + v;
            let s = sh_s[(e / COLS) * ROW + e % COLS];
            state[at] = s.x;
            state[at + V] = s.y;
            state[at + 2u * V] = s.z;
            state[at + 3u * V] = s.w;
        }
    }
}
