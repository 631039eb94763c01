struct Params { // keep in step with TopKParams
    n: u32,
    k: u32,
    pad0: u32,
    pad1: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> parts: array<u32>; // [O, parts, 2k + 2]
@group(0) @binding(3) var<storage, read_write> top: array<u32>; // [O, k, 2]: id, probability as f32

const PART: u32 = 2048u;
const RED_WG: u32 = 128u;

// A workgroup owns one row: the largest of what its parts found, one after the other as in top_k. A part's
// are in that order too, so its first that comes after the last one found is its largest.
@compute @workgroup_size(RED_WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let in_row = (p.n + PART - 1u) / PART;
    let size = 2u * p.k + 2u;
    let row = group_number(group, groups);
    if (row >= step.outs) {
        return;
    }
    let start = row * in_row * size;
    var last: Best = Best(0.0, 0u);
    var first: f32 = 0.0;
    var total: f32 = 0.0;
    for (var r: u32 = 0u; r < p.k; r = r + 1u) {
        var best: Best = Best(LOWEST, NONE);
        for (var part: u32 = i; part < in_row; part = part + RED_WG) {
            for (var c: u32 = 0u; c < p.k; c = c + 1u) {
                let n = parts[start + part * size + c];
                let v = bitcast<f32>(parts[start + part * size + p.k + c]);
                if (n == NONE || comes_after(v, n, last, r)) {
                    if (n != NONE && (v > best.value || (v == best.value && n < best.id))) {
                        best = Best(v, n);
                    }
                    break;
                }
            }
        }
        last = group_best(best, i);
        if (r == 0u) {
            first = last.value;
            var sum: f32 = 0.0;
            for (var part: u32 = i; part < in_row; part = part + RED_WG) {
                let at = start + part * size;
                sum = sum + exp(bitcast<f32>(parts[at + p.k]) - first) * bitcast<f32>(parts[at + 2u * p.k]);
            }
            total = group_sum(sum, i);
        }
        if (i == 0u) {
            top[(row * p.k + r) * 2u] = last.id;
            top[(row * p.k + r) * 2u + 1u] = bitcast<u32>(exp(last.value - first) / total);
        }
    }
}
