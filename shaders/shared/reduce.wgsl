// Sum over a workgroup of RED_WG invocations; every invocation gets the sum. The kernel declares
// const RED_WG. All invocations must call it.
var<workgroup> sh_red: array<f32, RED_WG>;

fn group_sum(x: f32, i: u32) -> f32 {
    sh_red[i] = x;
    workgroupBarrier();
    for (var w: u32 = RED_WG / 2u; w > 0u; w = w / 2u) {
        if (i < w) {
            sh_red[i] = sh_red[i] + sh_red[i + w];
        }
        workgroupBarrier();
    }
    let sum = sh_red[0];
    workgroupBarrier();
    return sum;
}
