struct Params { // keep in step with MatVecStepParams
    d: u32,
    n: u32,
    x_stride: u32,
    y_stride: u32,
    rows: u32,
    add: u32,
    eps: f32,
    v: u32,
    gate_stride: u32,
    gate_col: u32,
    no_gate: u32,
    y_col: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>; // [R, x_stride], first D of a row used
@group(0) @binding(3) var<storage, read> scale: array<vec4<f32>>; // NORM 1: [D]; NORM 2: [V]
@group(0) @binding(4) var<storage, read> gate: array<vec4<f32>>; // NORM 2, 3: [R, gate_stride], columns gate_col..gate_col+D
@group(0) @binding(5) var<storage, read> w: array<vec4<u32>>; // [N, D]; W_KIND: 4 to 32 elements a vector
@group(0) @binding(6) var<storage, read_write> y: array<f32>; // [R, y_stride], from y_col on N of a row, GLU: N / 2

const W_KIND: u32 = 0u;
const NORM: u32 = 0u; // 1: RMS norm over a row of x; 2: over each V of it, with the gate; 3: the gate alone
const GLU: u32 = 0u; // 1: y = silu(first half of w · x) · (last half · x)
const PER: u32 = 1u; // vec4 of x that a vector of w goes with: 1, for halves 2, for W_KIND 3 4, for 4 8
// The sizes of w are constants so that no read of it waits for the parameters.
const D: u32 = 128u; // p.d
const N: u32 = 128u; // p.n
const D4: u32 = D / 4u;
const VECTORS: u32 = D4 / PER; // of a row of w
const LANES: u32 = 16u; // invocations that share two rows of w, a multiple of eight
const DEPTH: u32 = 1u; // vectors of each that one of them has on their way at once
const ROUNDS: u32 = (VECTORS + DEPTH * LANES - 1u) / (DEPTH * LANES);
const WG: u32 = 128u;
const PAIRS: u32 = WG / LANES;
const MADE: u32 = N / (1u + GLU); // elements of a row of y
const EACH: u32 = (D4 + WG - 1u) / WG; // vec4 of a row of x that an invocation makes ready
const HEAD_LANES: u32 = 8u; // invocations that share a head's norm
const HEAD_EACH: u32 = 1u; // vec4 of a head that one of them makes ready, at least

var<workgroup> sh_sum: array<vec4<f32>, WG>; // two products, Σx²
var<workgroup> sh_x: array<vec4<f32>, D4>; // a row of x, scaled and gated

fn word(i: u32) -> u32 {
    return w[i / 4u][i % 4u];
}

// Where vec4 c of a row of x lies in sh_x: the first of all vectors of w one after another, then the second
// of all. So invocations that go through neighbouring vectors read neighbouring words.
fn place(c: u32) -> u32 {
    return (c % PER) * VECTORS + c / PER;
}

// The product of vector d of a row of w with x.
fn product(v: vec4<u32>, d: u32) -> f32 {
    let n = VECTORS;
    if (W_KIND == 0u) {
        return dot(bitcast<vec4<f32>>(v), sh_x[d]);
    }
    if (W_KIND == 1u) {
        return dot(vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)), sh_x[d]) + dot(vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w)), sh_x[n + d]);
    }
    if (W_KIND == 3u) {
        return dot(four8(v.x), sh_x[d]) + dot(four8(v.y), sh_x[n + d]) + dot(four8(v.z), sh_x[2u * n + d]) + dot(four8(v.w), sh_x[3u * n + d]);
    }
    if (W_KIND == 4u) {
        return dot(four4(v.x), sh_x[d]) + dot(four4(v.x >> 16u), sh_x[n + d]) + dot(four4(v.y), sh_x[2u * n + d]) + dot(four4(v.y >> 16u), sh_x[3u * n + d])
            + dot(four4(v.z), sh_x[4u * n + d]) + dot(four4(v.z >> 16u), sh_x[5u * n + d]) + dot(four4(v.w), sh_x[6u * n + d]) + dot(four4(v.w >> 16u), sh_x[7u * n + d]);
    }
    let low = bitcast<vec4<f32>>(v << vec4<u32>(16u));
    let high = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
    return dot(vec4<f32>(low.x, high.x, low.y, high.y), sh_x[d]) + dot(vec4<f32>(low.z, high.z, low.w, high.w), sh_x[n + d]);
}

// The scale of vector c of row n of w. That of I8 is the row's.
fn scale_at(n: u32, c: u32) -> f32 {
    if (W_KIND == 4u) {
        return scale_of(n, 32u * c);
    }
    return 1.0;
}

fn silu4(v: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(silu(v.x), silu(v.y), silu(v.z), silu(v.w));
}

fn sigmoid4(v: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(sigmoid(v.x), sigmoid(v.y), sigmoid(v.z), sigmoid(v.w));
}

// Leaves row r of x in sh_x: scaled or gated, and not yet divided by its root mean square, whose parts
// it returns. All reads of an invocation are on their way before the first of them is used, here and below.
fn stage(r: u32, i: u32) -> f32 {
    let start = r * (p.x_stride / 4u);
    let gates = (r * p.gate_stride + p.gate_col) / 4u;
    var own: array<vec4<f32>, EACH> = array<vec4<f32>, EACH>();
    var by: array<vec4<f32>, EACH> = array<vec4<f32>, EACH>();
    for (var e: u32 = 0u; e < EACH; e = e + 1u) {
        let c = min(i + e * WG, D4 - 1u);
        own[e] = x[start + c];
        if (NORM == 1u) {
            by[e] = scale[c];
        }
        if (NORM == 3u) {
            by[e] = gate[gates + c];
        }
    }
    var square: f32 = 0.0;
    for (var e: u32 = 0u; e < EACH; e = e + 1u) {
        let c = i + e * WG;
        if (c < D4) {
            var v: vec4<f32> = own[e];
            if (NORM == 1u) {
                square = square + dot(v, v);
                v = v * by[e];
            }
            if (NORM == 3u) {
                v = v * sigmoid4(by[e]);
            }
            sh_x[place(c)] = v;
        }
    }
    return square;
}

// Leaves row r of x in sh_x, each head of V normalised, scaled and gated.
fn stage_heads(r: u32, i: u32) {
    let v4 = p.v / 4u;
    let heads = D / p.v;
    let lane = i % HEAD_LANES;
    let gates = (r * p.gate_stride + p.gate_col) / 4u;
    for (var h0: u32 = 0u; h0 < heads; h0 = h0 + WG / HEAD_LANES) {
        let h = h0 + i / HEAD_LANES;
        let first = min(h, heads - 1u) * v4;
        var own: array<vec4<f32>, HEAD_EACH> = array<vec4<f32>, HEAD_EACH>();
        var by: array<vec4<f32>, HEAD_EACH> = array<vec4<f32>, HEAD_EACH>();
        var weight: array<vec4<f32>, HEAD_EACH> = array<vec4<f32>, HEAD_EACH>();
        for (var e: u32 = 0u; e < HEAD_EACH; e = e + 1u) {
            let c = min(lane + e * HEAD_LANES, v4 - 1u);
            own[e] = x[r * (p.x_stride / 4u) + first + c];
            by[e] = gate[gates + first + c];
            weight[e] = scale[c];
        }
        var sum: f32 = 0.0;
        for (var e: u32 = 0u; e < HEAD_EACH; e = e + 1u) {
            if (lane + e * HEAD_LANES < v4) {
                sum = sum + dot(own[e], own[e]);
            }
        }
        sh_sum[i] = vec4<f32>(sum);
        workgroupBarrier();
        if (h < heads) {
            var total: f32 = 0.0;
            for (var j: u32 = 0u; j < HEAD_LANES; j = j + 1u) {
                total = total + sh_sum[i - lane + j].x;
            }
            let rms = inverseSqrt(total / f32(p.v) + p.eps);
            for (var e: u32 = 0u; e < HEAD_EACH; e = e + 1u) {
                let c = lane + e * HEAD_LANES;
                if (c < v4) {
                    sh_x[place(first + c)] = own[e] * rms * weight[e] * select(silu4(by[e]), vec4<f32>(1.0), p.no_gate != 0u);
                }
            }
        }
        workgroupBarrier();
    }
}

// A workgroup owns PAIRS neighbouring pairs of elements of one row of y, with GLU as many elements:
// LANES invocations multiply two rows of w.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let each = 2u - GLU; // elements that a pair of rows makes
    let blocks = (MADE + PAIRS * each - 1u) / (PAIRS * each);
    let number = group_number(group, groups);
    let lane = i % LANES;
    let n = ((number % blocks) * PAIRS + i / LANES) * each;
    let na = min(n, MADE - 1u); // beyond the last row it is read again
    let nb = select(min(n + 1u, MADE - 1u), MADE + na, GLU == 1u);

    // The first of w are on their way while x is made ready.
    var w_a: array<vec4<u32>, DEPTH> = array<vec4<u32>, DEPTH>();
    var w_b: array<vec4<u32>, DEPTH> = array<vec4<u32>, DEPTH>();
    var scale_a: array<f32, DEPTH> = array<f32, DEPTH>();
    var scale_b: array<f32, DEPTH> = array<f32, DEPTH>();
    for (var e: u32 = 0u; e < DEPTH; e = e + 1u) {
        let c = min(e * LANES + lane, VECTORS - 1u);
        w_a[e] = w[na * VECTORS + c];
        w_b[e] = w[nb * VECTORS + c];
        scale_a[e] = scale_at(na, c);
        scale_b[e] = scale_at(nb, c);
    }
    let rows = select(step.tokens, step.outs, p.rows == 1u);
    let r = min(number / blocks, rows - 1u); // beyond the last it is read again, and not written
    var square: f32 = 0.0;
    if (NORM == 2u) {
        stage_heads(r, i);
    } else {
        sh_sum[i] = vec4<f32>(stage(r, i));
        workgroupBarrier();
        if (NORM == 1u) {
            for (var j: u32 = lane; j < WG; j = j + LANES) {
                square = square + sh_sum[j].x;
            }
            workgroupBarrier();
        }
    }
    var sum_a: f32 = 0.0;
    var sum_b: f32 = 0.0;
    for (var round: u32 = 0u; round < ROUNDS; round = round + 1u) {
        for (var e: u32 = 0u; e < DEPTH; e = e + 1u) {
            let c = (round * DEPTH + e) * LANES + lane;
            if (c < VECTORS) {
                sum_a = sum_a + product(w_a[e], c) * scale_a[e];
                sum_b = sum_b + product(w_b[e], c) * scale_b[e];
            }
        }
        if (round + 1u < ROUNDS) {
            for (var e: u32 = 0u; e < DEPTH; e = e + 1u) {
                let c = min(((round + 1u) * DEPTH + e) * LANES + lane, VECTORS - 1u);
                w_a[e] = w[na * VECTORS + c];
                w_b[e] = w[nb * VECTORS + c];
                scale_a[e] = scale_at(na, c);
                scale_b[e] = scale_at(nb, c);
            }
        }
    }
    sh_sum[i] = vec4<f32>(sum_a, sum_b, square, 0.0);
    workgroupBarrier();
    var total: vec4<f32> = vec4<f32>(0.0);
    if (lane < LANES / 8u) {
        for (var j: u32 = 0u; j < 8u; j = j + 1u) {
            total = total + sh_sum[i + j * (LANES / 8u)];
        }
        sh_sum[i] = total;
    }
    workgroupBarrier();
    if (lane == 0u && n < MADE && number / blocks < rows) {
        for (var j: u32 = 1u; j < LANES / 8u; j = j + 1u) {
            total = total + sh_sum[i + j];
        }
        if (NORM == 1u) {
            total = total * inverseSqrt(total.z / f32(D) + p.eps);
        }
        if (W_KIND == 3u) {
            total = total * vec4<f32>(scale_of(na, 0u), scale_of(nb, 0u), 1.0, 1.0);
        }
        let o = r * p.y_stride + p.y_col + n;
        if (GLU == 1u) {
            put(o, silu(total.x) * total.y);
        } else {
            put(o, total.x);
            if (n + 1u < MADE) {
                put(o + 1u, total.y);
            }
        }
    }
}

fn put(o: u32, v: f32) {
    if (p.add == 1u) {
        y[o] = y[o] + v;
    } else {
        y[o] = v;
    }
}
