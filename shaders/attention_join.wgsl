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
@group(0) @binding(2) var<storage, read> parts: array<f32>; // [T, H, spans, HD + 2]
@group(0) @binding(3) var<storage, read_write> o: array<f32>; // [T, H, HD]

const HD: u32 = 32u;
const SPAN: u32 = 128u;
const WG: u32 = 64u;

// A workgroup owns the output of one token and head.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let spans = (step.keys + SPAN - 1u) / SPAN;
    let number = group_number(group, groups);
    if (number >= step.tokens * p.h) {
        return;
    }
    let first = number * spans * (HD + 2u);
    var top: f32 = parts[first + HD];
    for (var s: u32 = 1u; s < spans; s = s + 1u) {
        top = max(top, parts[first + s * (HD + 2u) + HD]);
    }
    for (var d: u32 = i; d < HD; d = d + WG) {
        var sum: f32 = 0.0;
        var total: f32 = 0.0;
        for (var s: u32 = 0u; s < spans; s = s + 1u) {
            let at = first + s * (HD + 2u);
            let weight = exp(parts[at + HD] - top);
            sum = sum + weight * parts[at + d];
            total = total + weight * parts[at + HD + 1u];
        }
        o[number * HD + d] = sum / total;
    }
}
