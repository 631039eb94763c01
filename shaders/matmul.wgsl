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
@group(0) @binding(2) var<storage, read> x: array<f32>; // [R, x_stride], first D of a row used
@group(0) @binding(3) var<storage, read> w: array<u32>; // [N, D], W_KIND
@group(0) @binding(4) var<storage, read_write> y: array<f32>; // [R, y_stride], columns y_col..y_col+N

const W_KIND: u32 = 0u;
const TILE: u32 = 64u; // rows and columns of y that a workgroup owns
const DEPTH: u32 = 16u; // inner elements staged at a time

var<workgroup> sh_x: array<f32, 1024>; // [DEPTH, TILE]
var<workgroup> sh_w: array<f32, 1024>; // [DEPTH, TILE]

// A workgroup owns a TILE × TILE tile of y, an invocation 4 × 4 of it.
@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let rows = select(step.tokens, step.outs, p.rows == 1u);
    let tiles = (p.n + TILE - 1u) / TILE;
    let number = group_number(group, groups);
    let row0 = (number / tiles) * TILE;
    let col0 = (number % tiles) * TILE;
    var acc: array<vec4<f32>, 4> = array<vec4<f32>, 4>(vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0));
    for (var d0: u32 = 0u; d0 < p.d; d0 = d0 + DEPTH) {
        for (var j: u32 = 0u; j < 4u; j = j + 1u) {
            let e = i + j * 256u;
            let d = d0 + e % DEPTH;
            let r = row0 + e / DEPTH;
            let c = col0 + e / DEPTH;
            var xv: f32 = 0.0;
            var wv: f32 = 0.0;
            if (d < p.d) {
                if (r < rows) {
                    xv = x[r * p.x_stride + d];
                }
                if (c < p.n) {
                    let at = c * p.d + d;
                    wv = unpack(w[word_of(at)], at);
                }
            }
            sh_x[(e % DEPTH) * TILE + e / DEPTH] = xv;
            sh_w[(e % DEPTH) * TILE + e / DEPTH] = wv;
        }
        workgroupBarrier();
        for (var k: u32 = 0u; k < DEPTH; k = k + 1u) {
            let b = k * TILE + local.x * 4u;
            let wv = vec4<f32>(sh_w[b], sh_w[b + 1u], sh_w[b + 2u], sh_w[b + 3u]);
            let a = k * TILE + local.y * 4u;
            acc[0] = acc[0] + sh_x[a] * wv;
            acc[1] = acc[1] + sh_x[a + 1u] * wv;
            acc[2] = acc[2] + sh_x[a + 2u] * wv;
            acc[3] = acc[3] + sh_x[a + 3u] * wv;
        }
        workgroupBarrier();
    }
    for (var j: u32 = 0u; j < 4u; j = j + 1u) {
        let r = row0 + local.y * 4u + j;
        for (var k: u32 = 0u; k < 4u; k = k + 1u) {
            let c = col0 + local.x * 4u + k;
            if (r < rows && c < p.n) {
                let o = r * p.y_stride + p.y_col + c;
                if (p.add == 1u) {
                    y[o] = y[o] + acc[j][k];
                } else {
                    y[o] = acc[j][k];
                }
            }
        }
    }
}
