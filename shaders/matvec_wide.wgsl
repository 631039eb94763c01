struct Params { // keep in step with MatMulParams
    d: u32,
    n: u32,
    x_stride: u32,
    y_stride: u32,
    y_col: u32,
    rows: u32,
    add: u32,
    pad0: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>; // [R, x_stride], first D of a row used
@group(0) @binding(3) var<storage, read> w: array<vec4<u32>>; // [N, D], W_KIND: four or eight elements a vector
@group(0) @binding(4) var<storage, read_write> y: array<f32>; // [R, y_stride], columns y_col..y_col+N

const W_KIND: u32 = 0u;
const LANES: u32 = 16u; // invocations that share an element of y
const WG: u32 = 128u;

var<workgroup> sh_sum: array<f32, WG>;

fn word(i: u32) -> u32 {
    return w[i / 4u][i % 4u];
}

fn product(v: vec4<u32>, at: u32) -> f32 {
    if (W_KIND == 3u) {
        return dot(four8(v.x), x[at]) + dot(four8(v.y), x[at + 1u]) + dot(four8(v.z), x[at + 2u]) + dot(four8(v.w), x[at + 3u]);
    }
    if (W_KIND == 4u) {
        return dot(four4(v.x), x[at]) + dot(four4(v.x >> 16u), x[at + 1u]) + dot(four4(v.y), x[at + 2u]) + dot(four4(v.y >> 16u), x[at + 3u])
            + dot(four4(v.z), x[at + 4u]) + dot(four4(v.z >> 16u), x[at + 5u]) + dot(four4(v.w), x[at + 6u]) + dot(four4(v.w >> 16u), x[at + 7u]);
    }
    if (W_KIND == 0u) {
        return dot(bitcast<vec4<f32>>(v), x[at]);
    }
    let a = x[at];
    let b = x[at + 1u];
    if (W_KIND == 1u) {
        return dot(vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)), a) + dot(vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w)), b);
    }
    let low = bitcast<vec4<f32>>(v << vec4<u32>(16u));
    let high = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
    return dot(vec4<f32>(low.x, high.x, low.y, high.y), a) + dot(vec4<f32>(low.z, high.z, low.w, high.w), b);
}

// A workgroup owns WG / LANES neighbouring elements of one row of y.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let rows = select(step.tokens, step.outs, p.rows == 1u);
    let blocks = (p.n + WG / LANES - 1u) / (WG / LANES);
    let number = group_number(group, groups);
    let r = number / blocks;
    let n = (number % blocks) * (WG / LANES) + i / LANES;
    let lane = i % LANES;
    let live = r < rows && n < p.n;
    let halves = select(8u, 4u, W_KIND == 0u);
    let each = select(select(halves, 16u, W_KIND == 3u), 32u, W_KIND == 4u); // elements a vector
    var sum: f32 = 0.0;
    if (live) {
        let vectors = p.d / each;
        let row = n * vectors;
        let start = r * (p.x_stride / 4u);
        for (var d: u32 = lane; d < vectors; d = d + LANES) {
            let v = product(w[row + d], start + d * (each / 4u));
            if (W_KIND == 4u) {
                sum = sum + v * scale_of(n, d * each);
            } else {
                sum = sum + v;
            }
        }
        if (W_KIND == 3u) {
            sum = sum * scale_of(n, 0u);
        }
    }
    sh_sum[i] = sum;
    workgroupBarrier();
    if (live && lane == 0u) {
        var total: f32 = 0.0;
        for (var j: u32 = 0u; j < LANES; j = j + 1u) {
            total = total + sh_sum[i + j];
        }
        let o = r * p.y_stride + p.y_col + n;
        if (p.add == 1u) {
            y[o] = y[o] + total;
        } else {
            y[o] = total;
        }
    }
}
