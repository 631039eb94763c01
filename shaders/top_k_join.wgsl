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
const RED_WG: u32 = 64u;
const LOWEST: f32 = -3.0e38;
const NONE: u32 = 4294967295u;

var<workgroup> sh_value: array<f32, RED_WG>;
var<workgroup> sh_id: array<u32, RED_WG>;

// A workgroup owns one row: the largest of what its parts found, one after the other as in top_k.
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
    var last: f32 = 0.0;
    var last_id: u32 = 0u;
    var first: f32 = 0.0;
    var total: f32 = 0.0;
    for (var r: u32 = 0u; r < p.k; r = r + 1u) {
        var best: f32 = LOWEST;
        var best_id: u32 = NONE;
        for (var e: u32 = i; e < in_row * p.k; e = e + RED_WG) {
            let at = start + (e / p.k) * size + e % p.k;
            let n = parts[at];
            let v = bitcast<f32>(parts[at + p.k]);
            let after = r == 0u || v < last || (v == last && n > last_id);
            if (n != NONE && after && (v > best || (v == best && n < best_id))) {
                best = v;
                best_id = n;
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
            for (var part: u32 = i; part < in_row; part = part + RED_WG) {
                let at = start + part * size;
                sum = sum + exp(bitcast<f32>(parts[at + p.k]) - first) * bitcast<f32>(parts[at + 2u * p.k]);
            }
            total = group_sum(sum, i);
        }
        if (i == 0u) {
            top[(row * p.k + r) * 2u] = last_id;
            top[(row * p.k + r) * 2u + 1u] = bitcast<u32>(exp(last - first) / total);
        }
    }
}
