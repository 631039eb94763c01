struct Params { // keep in step with TopKParams
    n: u32,
    k: u32,
    pad0: u32,
    pad1: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> logits: array<f32>; // [O, N]
@group(0) @binding(3) var<storage, read_write> top: array<u32>; // [O, k, 2]: id, probability as f32

const RED_WG: u32 = 64u;
const LOWEST: f32 = -3.0e38;
const NONE: u32 = 4294967295u;

var<workgroup> sh_value: array<f32, 64>;
var<workgroup> sh_id: array<u32, 64>;

// A workgroup owns one row of logits. The largest is found k times over, each time among those
// that come after the last one found: smaller, or equal with a larger id.
@compute @workgroup_size(RED_WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let row = group_number(group, groups);
    let live = row < step.outs;
    var last: f32 = 3.0e38;
    var last_id: u32 = 0u;
    var first: f32 = 0.0;
    var total: f32 = 0.0;
    for (var r: u32 = 0u; r < p.k; r = r + 1u) {
        var best: f32 = LOWEST;
        var best_id: u32 = NONE;
        if (live) {
            for (var n: u32 = i; n < p.n; n = n + RED_WG) {
                let v = logits[row * p.n + n];
                let after = r == 0u || v < last || (v == last && n > last_id);
                if (after && v > best) {
                    best = v;
                    best_id = n;
                }
            }
        }
        sh_value[i] = best;
        sh_id[i] = best_id;
        workgroupBarrier();
        for (var w: u32 = RED_WG / 2u; w > 0u; w = w / 2u) {
            if (i < w) {
                let v = sh_value[i + w];
                let n = sh_id[i + w];
                if (v > sh_value[i] || (v == sh_value[i] && n < sh_id[i])) {
                    sh_value[i] = v;
                    sh_id[i] = n;
                }
            }
            workgroupBarrier();
        }
        last = sh_value[0];
        last_id = sh_id[0];
        workgroupBarrier();
        if (r == 0u) {
            first = last;
            var sum: f32 = 0.0;
            if (live) {
                for (var n: u32 = i; n < p.n; n = n + RED_WG) {
                    sum = sum + exp(logits[row * p.n + n] - first);
                }
            }
            total = group_sum(sum, i);
        }
        if (live && i == 0u) {
            top[(row * p.k + r) * 2u] = last_id;
            top[(row * p.k + r) * 2u + 1u] = bitcast<u32>(exp(last - first) / total);
        }
    }
}
