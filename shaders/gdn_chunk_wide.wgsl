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
@group(0) @binding(5) var<storage, read> attn: array<vec4<f32>>; // [chunks, HV, C + 2, C]
@group(0) @binding(6) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(7) var<storage, read_write> state: array<f32>; // [slots, HV, K, V]
@group(0) @binding(8) var<storage, read_write> o: array<f32>; // [T, HV, V]

const K: u32 = 32u;
const V: u32 = 64u;
const C: u32 = 32u; // tokens of a chunk
const COLS: u32 = 16u; // columns of the state that a workgroup owns
const HALF: u32 = 128u; // invocations that do the same
const WG: u32 = 2u * HALF;
const K4: u32 = K / 4u;
const C4: u32 = C / 4u;
const ROW: u32 = 17u; // from one row of sh_s to the next: COLS and one of padding

var<workgroup> sh_s: array<vec4<f32>, K4 * ROW>; // the state's columns, four rows a vector
var<workgroup> sh_u: array<f32, C * COLS>; // what the chunk's tokens write
var<workgroup> sh_part: array<vec4<f32>, 2u * HALF>; // the second half's sums
var<workgroup> sh_end: array<f32, C>; // decay from each token to the chunk's end

fn sum4(v: vec4<f32>) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

// A workgroup owns COLS columns of one sequence's state of one value head and passes them through
// the sequence's chunks. Its halves share the sums over the key; then one gives the output while the
// other moves the state on.
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
    let half = i / HALF;
    let m = i % HALF;
    // Two rows of a chunk and two columns, half a block apart, that an invocation computes.
    let r = (m / 8u) * 2u;
    let c = m % 8u;
    let low = half * ((K4 + 1u) / 2u);
    let high = select((K4 + 1u) / 2u, K4, half == 1u);

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
        let scores = chunk * (C + 2u) * C4;
        let q0 = (seq.start + t0) * stride + p.col / 4u + hk * K4;
        let k0 = q0 + p.hk * K4;

        // What is needed after the sums is on its way while they are formed.
        var before: vec4<f32> = vec4<f32>(0.0); // U
        if (half == 0u) {
            let at = (chunk * C + r) * V + v0 + c;
            if (v0 + c < V) {
                before.x = u[at];
                before.z = u[at + V];
            }
            if (v0 + c + 8u < V) {
                before.y = u[at + 8u];
                before.w = u[at + V + 8u];
            }
        }
        let begun = attn[scores + C * C4 + r / 4u]; // decay from the chunk's start
        let ends = attn[scores + C * C4 + C4 + i % C4];
        let kept = attn[scores + C * C4 + (count - 1u) / 4u];

        // W S and q S, in parts.
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
        for (var d: u32 = low; d < high; d = d + 1u) {
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
        var y: vec4<f32> = vec4<f32>(sum4(yaa), sum4(yab), sum4(yba), sum4(ybb));
        if (half == 1u) {
            sh_part[m] = x;
            sh_part[HALF + m] = y;
        }
        if (i < C4) {
            for (var e: u32 = 0u; e < 4u; e = e + 1u) {
                sh_end[4u * i + e] = ends[e];
            }
        }
        workgroupBarrier();
        if (half == 0u) {
            y = y + sh_part[HALF + m];
            let write = before - x - sh_part[m]; // u = U - W S
            sh_u[r * COLS + c] = write.x;
            sh_u[r * COLS + c + 8u] = write.y;
            sh_u[(r + 1u) * COLS + c] = write.z;
            sh_u[(r + 1u) * COLS + c + 8u] = write.w;
        }
        workgroupBarrier();
        if (half == 0u) {
            let b = vec2<f32>(begun[r % 4u], begun[r % 4u + 1u]);
            var z: vec4<f32> = b.xxyy * y;
            for (var j: u32 = 0u; j < C4; j = j + 1u) {
                let a0 = attn[scores + r * C4 + j];
                let a1 = attn[scores + (r + 1u) * C4 + j];
                for (var e: u32 = 0u; e < 4u; e = e + 1u) {
                    let at = (4u * j + e) * COLS + c;
                    z = z + vec4<f32>(a0[e], a0[e], a1[e], a1[e]) * vec2<f32>(sh_u[at], sh_u[at + 8u]).xyxy;
                }
            }
            let at = ((seq.start + t0 + r) * p.hv + h) * V + v0 + c;
            if (r < count && v0 + c < V) {
                o[at] = z.x;
            }
            if (r < count && v0 + c + 8u < V) {
                o[at + 8u] = z.y;
            }
            if (r + 1u < count && v0 + c < V) {
                o[at + p.hv * V] = z.z;
            }
            if (r + 1u < count && v0 + c + 8u < V) {
                o[at + p.hv * V + 8u] = z.w;
            }
        } else {
            // S = e^{G_last} S + Σ_j e^{G_last - G_j} k_j u_jᵀ, four rows by four columns at a time.
            let keep = kept[(count - 1u) % 4u];
            for (var e: u32 = m; e < K4 * COLS / 4u; e = e + HALF) {
                let d = e % K4;
                let at = d * ROW + 4u * (e / K4);
                var a: vec4<f32> = keep * sh_s[at];
                var b: vec4<f32> = keep * sh_s[at + 1u];
                var f: vec4<f32> = keep * sh_s[at + 2u];
                var g: vec4<f32> = keep * sh_s[at + 3u];
                for (var j: u32 = 0u; j < C; j = j + 1u) {
                    let k = sh_end[j] * qkv[k0 + min(j, count - 1u) * stride + d];
                    let n = j * COLS + 4u * (e / K4);
                    a = a + k * sh_u[n];
                    b = b + k * sh_u[n + 1u];
                    f = f + k * sh_u[n + 2u];
                    g = g + k * sh_u[n + 3u];
                }
                sh_s[at] = a;
                sh_s[at + 1u] = b;
                sh_s[at + 2u] = f;
                sh_s[at + 3u] = g;
            }
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
