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
    pad0: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>; // [R, x_stride], first D of a row used
@group(0) @binding(3) var<storage, read> scale: array<vec4<f32>>; // NORM 1: [D]; NORM 2: [V]
@group(0) @binding(4) var<storage, read> gate: array<vec4<f32>>; // NORM 2: [R, gate_stride], columns gate_col..gate_col+D
@group(0) @binding(5) var<storage, read> w: array<vec4<u32>>; // [N, D], GLU: [2, N, D]; W_KIND: four or eight elements a vector
@group(0) @binding(6) var<storage, read_write> y: array<f32>; // [R, y_stride], first N of a row

const W_KIND: u32 = 0u;
const NORM: u32 = 0u; // 1: RMS norm over a row of x; 2: over each V of it, with the gate
const GLU: u32 = 0u; // 1: y = silu(first N rows of w · x) · (last N)
const ROOM: u32 = 1u; // NORM 2: vec4 of a row of x, at least
const LANES: u32 = 16u; // invocations that share an element of y
const WG: u32 = 128u;
const HEAD_LANES: u32 = 8u; // invocations that share a head's norm

var<workgroup> sh_sum: array<vec4<f32>, WG>; // two products, Σx²
var<workgroup> sh_x: array<vec4<f32>, ROOM>; // NORM 2: a row of x, normalised and gated

fn input(start: u32, d: u32) -> vec4<f32> {
    if (NORM == 2u) {
        return sh_x[d];
    }
    return x[start + d];
}

// The product of a vector of w with x from vec4 d on; a and b are those of x.
fn product(v: vec4<u32>, a: vec4<f32>, b: vec4<f32>) -> f32 {
    if (W_KIND == 0u) {
        return dot(bitcast<vec4<f32>>(v), a);
    }
    if (W_KIND == 1u) {
        return dot(vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)), a) + dot(vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w)), b);
    }
    let low = bitcast<vec4<f32>>(v << vec4<u32>(16u));
    let high = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
    return dot(vec4<f32>(low.x, high.x, low.y, high.y), a) + dot(vec4<f32>(low.z, high.z, low.w, high.w), b);
}

// Leaves row r of x in sh_x, each head of V normalised, scaled and gated.
fn gated(r: u32, i: u32) {
    let v4 = p.v / 4u;
    let heads = p.d / p.v;
    let lane = i % HEAD_LANES;
    for (var h0: u32 = 0u; h0 < heads; h0 = h0 + WG / HEAD_LANES) {
        let h = h0 + i / HEAD_LANES;
        let at = r * (p.x_stride / 4u) + h * v4;
        var sum: f32 = 0.0;
        if (h < heads) {
            for (var c: u32 = lane; c < v4; c = c + HEAD_LANES) {
                sum = sum + dot(x[at + c], x[at + c]);
            }
        }
        sh_sum[i] = vec4<f32>(sum);
        workgroupBarrier();
        if (h < heads) {
            var total: f32 = 0.0;
            for (var j: u32 = 0u; j < HEAD_LANES; j = j + 1u) {
                total = total + sh_sum[i - lane + j].x;
            }
            let by = inverseSqrt(total / f32(p.v) + p.eps);
            for (var c: u32 = lane; c < v4; c = c + HEAD_LANES) {
                let g = gate[(r * p.gate_stride + p.gate_col) / 4u + h * v4 + c];
                let open = vec4<f32>(silu(g.x), silu(g.y), silu(g.z), silu(g.w));
                sh_x[h * v4 + c] = x[at + c] * by * scale[c] * select(open, vec4<f32>(1.0), p.no_gate != 0u);
            }
        }
        workgroupBarrier();
    }
}

// A workgroup owns WG / LANES neighbouring elements of one row of y.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let rows = select(step.tokens, step.outs, p.rows == 1u);
    let blocks = (p.n + WG / LANES - 1u) / (WG / LANES);
    let number = group_number(group, groups);
    let r = number / blocks;
    if (r >= rows) {
        return;
    }
    if (NORM == 2u) {
        gated(r, i);
    }
    let n = (number % blocks) * (WG / LANES) + i / LANES;
    let lane = i % LANES;
    let live = n < p.n;
    let each = select(2u, 1u, W_KIND == 0u); // vec4 of x a vector of w
    var sum: vec4<f32> = vec4<f32>(0.0);
    if (live) {
        let vectors = p.d / (4u * each);
        let row = n * vectors;
        let second = p.n * vectors;
        let start = r * (p.x_stride / 4u);
        for (var d: u32 = lane; d < vectors; d = d + LANES) {
            let at = d * each;
            var a: vec4<f32> = input(start, at);
            var b: vec4<f32> = input(start, at + each - 1u);
            if (NORM == 1u) {
                sum.z = sum.z + dot(a, a);
                if (W_KIND != 0u) {
                    sum.z = sum.z + dot(b, b);
                }
                a = a * scale[at];
                b = b * scale[at + each - 1u];
            }
            sum.x = sum.x + product(w[row + d], a, b);
            if (GLU == 1u) {
                sum.y = sum.y + product(w[second + row + d], a, b);
            }
        }
    }
    sh_sum[i] = sum;
    workgroupBarrier();
    if (live && lane == 0u) {
        var total: vec4<f32> = vec4<f32>(0.0);
        for (var j: u32 = 0u; j < LANES; j = j + 1u) {
            total = total + sh_sum[i + j];
        }
        if (NORM == 1u) {
            total = total * inverseSqrt(total.z / f32(p.d) + p.eps);
        }
        var out: f32 = total.x;
        if (GLU == 1u) {
            out = silu(total.x) * total.y;
        }
        let o = r * p.y_stride + n;
        if (p.add == 1u) {
            out = y[o] + out;
        }
        y[o] = out;
    }
}
