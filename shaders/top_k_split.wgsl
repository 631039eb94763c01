struct Params { // keep in step with TopKParams
    n: u32,
    k: u32,
    pad0: u32,
    pad1: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> logits: array<f32>; // [O, N]
@group(0) @binding(3) var<storage, read_write> parts: array<u32>; // [O, parts, 2k + 2]: k ids, k logits as f32, the sum of exponentials, 0

const PART: u32 = 2048u; // logits that a workgroup sees
const RED_WG: u32 = 256u;
const EACH: u32 = PART / RED_WG;

// A workgroup owns the largest of a part of one row, found one after the other as in top_k; each
// invocation holds EACH of its logits.
@compute @workgroup_size(RED_WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let in_row = (p.n + PART - 1u) / PART;
    let number = group_number(group, groups);
    if (number >= step.outs * in_row) {
        return;
    }
    let row = number / in_row;
    let from_id = (number % in_row) * PART + i;
    var own: array<f32, EACH> = array<f32, EACH>();
    for (var j: u32 = 0u; j < EACH; j = j + 1u) {
        own[j] = LOWEST;
        if (from_id + j * RED_WG < p.n) {
            own[j] = logits[row * p.n + from_id + j * RED_WG];
        }
    }
    let into = number * (2u * p.k + 2u);
    var last: Best = Best(0.0, 0u);
    var first: f32 = 0.0;
    for (var r: u32 = 0u; r < p.k; r = r + 1u) {
        var best: Best = Best(LOWEST, NONE);
        for (var j: u32 = 0u; j < EACH; j = j + 1u) {
            let v = own[j];
            let n = from_id + j * RED_WG;
            if (comes_after(v, n, last, r) && v > best.value) {
                best = Best(v, n);
            }
        }
        last = group_best(best, i);
        if (r == 0u) {
            first = last.value;
        }
        if (i == 0u) {
            parts[into + r] = last.id;
            parts[into + p.k + r] = bitcast<u32>(last.value);
        }
    }
    var sum: f32 = 0.0;
    for (var j: u32 = 0u; j < EACH; j = j + 1u) {
        if (from_id + j * RED_WG < p.n) {
            sum = sum + exp(own[j] - first);
        }
    }
    sum = group_sum(sum, i);
    if (i == 0u) {
        parts[into + 2u * p.k] = bitcast<u32>(sum);
        parts[into + 2u * p.k + 1u] = 0u;
    }
}
