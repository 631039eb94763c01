struct Params { // keep in step with AttentionParams
    h: u32,
    kvh: u32,
    q_stride: u32,
    q_col: u32,
    window: u32,
    probs_stride: u32,
    scale: f32,
    pad0: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> parts: array<vec4<f32>>; // [T, H, spans, HD + 4]
@group(0) @binding(3) var<storage, read_write> o: array<f32>; // [T, H, HD]

const HD: u32 = 32u;
const SPAN: u32 = 256u;
const HD4: u32 = HD / 4u;
const WG: u32 = 128u;
const GROUPS: u32 = WG / HD4; // parts of the spans, each with HD4 invocations
const LOWEST: f32 = -3.0e38;

var<workgroup> sh_top: array<f32, WG>;
var<workgroup> sh_o: array<vec4<f32>, WG>;
var<workgroup> sh_total: array<f32, WG>;

// A workgroup owns the output of one token and head.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let spans = (step.keys + SPAN - 1u) / SPAN;
    let number = group_number(group, groups);
    if (number >= step.tokens * p.h) {
        return;
    }
    let first = number * spans * (HD4 + 1u);
    var high: f32 = LOWEST;
    for (var s: u32 = i; s < spans; s = s + WG) {
        high = max(high, parts[first + s * (HD4 + 1u) + HD4].x);
    }
    sh_top[i] = high;
    workgroupBarrier();
    var top: f32 = LOWEST;
    for (var n: u32 = 0u; n < min(WG, spans); n = n + 1u) {
        top = max(top, sh_top[n]);
    }
    var sum: vec4<f32> = vec4<f32>(0.0);
    var total: f32 = 0.0;
    if (i < GROUPS * HD4) {
        for (var s: u32 = i / HD4; s < spans; s = s + GROUPS) {
            let at = first + s * (HD4 + 1u);
            let span = parts[at + HD4];
            let weight = exp(span.x - top);
            sum = sum + weight * parts[at + i % HD4];
            total = total + weight * span.y;
        }
    }
    sh_o[i] = sum;
    sh_total[i] = total;
    workgroupBarrier();
    if (i < HD4) {
        for (var g: u32 = 1u; g < GROUPS; g = g + 1u) {
            sum = sum + sh_o[g * HD4 + i];
            total = total + sh_total[g * HD4 + i];
        }
        for (var n: u32 = 0u; n < 4u; n = n + 1u) {
            o[number * HD + 4u * i + n] = sum[n] / total;
        }
    }
}
