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
const COLS: u32 = 16u; // columns of the state that a workgroup owns
const SLICES: u32 = 4u; // parts that K is cut into, one an invocation
const WG: u32 = COLS * SLICES;
const ROWS: u32 = (K + SLICES * 4u - 1u) / (SLICES * 4u); // vec4 of a slice
const K4: u32 = SLICES * ROWS; // vec4 of a key, zeros beyond K
const BLOCK: u32 = 4u; // tokens staged at a time
const STORE: u32 = 0u; // what the state is rounded to after each token, as W_KIND

var<workgroup> sh_q: array<vec4<f32>, BLOCK * K4>;
var<workgroup> sh_k: array<vec4<f32>, BLOCK * K4>;
var<workgroup> sh_v: array<f32, BLOCK * COLS>;
var<workgroup> sh_gate: array<vec2<f32>, BLOCK>; // alpha, beta
var<workgroup> sh_part: array<vec4<f32>, 2u * WG>; // partial Sᵀk, Sᵀq, qᵀk; two, so that a token needs one barrier

fn element(at: u32, k: u32) -> f32 {
    if (k < K) {
        return qkv[at + k];
    }
    return 0.0;
}

fn key4(at: u32, k: u32) -> vec4<f32> {
    return vec4<f32>(element(at, k), element(at, k + 1u), element(at, k + 2u), element(at, k + 3u));
}

fn cell(at: u32, k: u32) -> f32 {
    if (k < K) {
        return state[at + k * V];
    }
    return 0.0;
}

// A workgroup owns COLS columns of one sequence's state of one value head; an invocation holds a
// slice of a column in registers while the workgroup runs through the tokens.
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
    let slice = i / COLS;
    let live = v0 + c < V;

    var s: array<vec4<f32>, ROWS> = array<vec4<f32>, ROWS>();
    for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
        s[r] = vec4<f32>(0.0);
        if (live && seq.slot_in != NO_SLOT) {
            let at = (seq.slot_in * p.hv + h) * K * V + v0 + c;
            let k = (slice * ROWS + r) * 4u;
            s[r] = vec4<f32>(cell(at, k), cell(at, k + 1u), cell(at, k + 2u), cell(at, k + 3u));
        }
    }

    for (var t0: u32 = 0u; t0 < seq.count; t0 = t0 + BLOCK) {
        let n = min(BLOCK, seq.count - t0);
        for (var e: u32 = i; e < n * K4; e = e + WG) {
            let at = (seq.start + t0 + e / K4) * p.stride + p.col + hk * K;
            sh_q[e] = key4(at, (e % K4) * 4u);
            sh_k[e] = key4(at + p.hk * K, (e % K4) * 4u);
        }
        for (var e: u32 = i; e < n * COLS; e = e + WG) {
            let v = v0 + e % COLS;
            sh_v[e] = 0.0;
            if (v < V) {
                sh_v[e] = qkv[(seq.start + t0 + e / COLS) * p.stride + p.col + 2u * p.hk * K + h * V + v];
            }
        }
        if (i < n) {
            let at = (seq.start + t0 + i) * 2u * p.hv + h;
            sh_gate[i] = vec2<f32>(exp(gates[at]), gates[at + p.hv]);
        }
        workgroupBarrier();
        for (var t: u32 = 0u; t < n; t = t + 1u) {
            var part: vec4<f32> = vec4<f32>(0.0);
            for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
                let q = sh_q[t * K4 + slice * ROWS + r];
                let k = sh_k[t * K4 + slice * ROWS + r];
                part = part + vec4<f32>(dot(s[r], k), dot(s[r], q), dot(q, k), 0.0);
            }
            let half = (t % 2u) * WG;
            sh_part[half + i] = part;
            workgroupBarrier();
            var sum: vec4<f32> = vec4<f32>(0.0);
            for (var j: u32 = 0u; j < SLICES; j = j + 1u) {
                sum = sum + sh_part[half + j * COLS + c];
            }
            // Sᵀq after the update is αSᵀq + (qᵀk)u, so both sums are over the state before it.
            let alpha = sh_gate[t].x;
            let u = sh_gate[t].y * (sh_v[t * COLS + c] - alpha * sum.x);
            for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
                s[r] = alpha * s[r] + u * sh_k[t * K4 + slice * ROWS + r];
                if (STORE != 0u) {
                    s[r] = vec4<f32>(stored(s[r].x), stored(s[r].y), stored(s[r].z), stored(s[r].w));
                }
            }
            if (live && slice == 0u) {
                o[((seq.start + t0 + t) * p.hv + h) * V + v0 + c] = alpha * sum.y + sum.z * u;
            }
        }
        workgroupBarrier();
    }

    if (live) {
        let at = (seq.slot_out * p.hv + h) * K * V + v0 + c;
        for (var r: u32 = 0u; r < ROWS; r = r + 1u) {
            for (var j: u32 = 0u; j < 4u; j = j + 1u) {
                let k = (slice * ROWS + r) * 4u + j;
                if (k < K) {
                    state[at + k * V] = s[r][j];
                }
            }
        }
    }
}
