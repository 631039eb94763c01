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
const WG: u32 = 256u;
const EACH: u32 = PART / WG;
const LOWEST: f32 = -3.0e38;
const NONE: u32 = 4294967295u;

var<workgroup> sh_value: array<f32, WG>;
var<workgroup> sh_id: array<u32, WG>;

// A workgroup owns the largest of a part of one row, found one after the other as in top_k; each
// invocation holds EACH of its logits.
@compute @workgroup_size(WG)
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
        if (from_id + j * WG < p.n) {
            own[j] = logits[row * p.n + from_id + j * WG];
        }
    }
    let into = number * (2u * p.k + 2u);
    var last: f32 = 0.0;
    var last_id: u32 = 0u;
    var first: f32 = 0.0;
    for (var r: u32 = 0u; r < p.k; r = r + 1u) {
        var best: f32 = LOWEST;
        var best_id: u32 = NONE;
        for (var j: u32 = 0u; j < EACH; j = j + 1u) {
            let v = own[j];
            let n = from_id + j * WG;
            if ((r == 0u || v < last || (v == last && n > last_id)) && v > best) {
                best = v;
                best_id = n;
            }
        }
        sh_value[i] = best;
        sh_id[i] = best_id;
        workgroupBarrier();
        for (var w: u32 = WG / 2u; w > 0u; w = w / 2u) {
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
        }
        if (i == 0u) {
            parts[into + r] = last_id;
            parts[into + p.k + r] = bitcast<u32>(last);
        }
    }
    var sum: f32 = 0.0;
    for (var j: u32 = 0u; j < EACH; j = j + 1u) {
        if (from_id + j * WG < p.n) {
            sum = sum + exp(own[j] - first);
        }
    }
    sh_value[i] = sum;
    workgroupBarrier();
    for (var w: u32 = WG / 2u; w > 0u; w = w / 2u) {
        if (i < w) {
            sh_value[i] = sh_value[i] + sh_value[i + w];
        }
        workgroupBarrier();
    }
    if (i == 0u) {
        parts[into + 2u * p.k] = bitcast<u32>(sh_value[0]);
        parts[into + 2u * p.k + 1u] = 0u;
    }
}
