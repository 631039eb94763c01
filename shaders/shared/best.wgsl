// The largest of the values of a workgroup of RED_WG invocations, equal ones by their ids; every
// invocation gets it. The kernel declares const RED_WG. All invocations must call it.
struct Best {
    value: f32,
    id: u32,
}

const LOWEST: f32 = -3.0e38;
const NONE: u32 = 4294967295u;

var<workgroup> sh_best: array<f32, RED_WG>;
var<workgroup> sh_best_id: array<u32, RED_WG>;

fn group_best(own: Best, i: u32) -> Best {
    sh_best[i] = own.value;
    sh_best_id[i] = own.id;
    workgroupBarrier();
    for (var w: u32 = RED_WG / 2u; w > 0u; w = w / 2u) {
        if (i < w) {
            let v = sh_best[i + w];
            let n = sh_best_id[i + w];
            if (v > sh_best[i] || (v == sh_best[i] && n < sh_best_id[i])) {
                sh_best[i] = v;
                sh_best_id[i] = n;
            }
        }
        workgroupBarrier();
    }
    let found = Best(sh_best[0], sh_best_id[0]);
    workgroupBarrier();
    return found;
}

// Whether value v with that id comes after the one found last, in round r.
fn comes_after(v: f32, id: u32, last: Best, r: u32) -> bool {
    return r == 0u || v < last.value || (v == last.value && id > last.id);
}
