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

// A workgroup owns one row of logits. The largest is found k times over, each time among those
// that come after the last one found: smaller, or equal with a larger id.
@compute @workgroup_size(RED_WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let row = group_number(group, groups);
    let live = row < step.outs;
    var last: Best = Best(0.0, 0u);
    var first: f32 = 0.0;
    var total: f32 = 0.0;
    for (var r: u32 = 0u; r < p.k; r = r + 1u) {
        var best: Best = Best(LOWEST, NONE);
        if (live) {
            for (var n: u32 = i; n < p.n; n = n + RED_WG) {
                let v = logits[row * p.n + n];
                if (comes_after(v, n, last, r) && v > best.value) {
                    best = Best(v, n);
                }
            }
        }
        last = group_best(best, i);
        if (r == 0u) {
            first = last.value;
            var sum: f32 = 0.0;
            if (live) {
                for (var n: u32 = i; n < p.n; n = n + RED_WG) {
                    sum = sum + exp(logits[row * p.n + n] - first);
                }
            }
            total = group_sum(sum, i);
        }
        if (live && i == 0u) {
            top[(row * p.k + r) * 2u] = last.id;
            top[(row * p.k + r) * 2u + 1u] = bitcast<u32>(exp(last.value - first) / total);
        }
    }
}
