// Sums over the 8 lanes that share a row, in a workgroup of 64: row = i / 8, lane = i % 8. Every
// lane gets its row's sum. All 64 invocations must call it.
var<workgroup> sh_lanes: array<f32, 64>;

fn lane_sum(x: f32, i: u32) -> f32 {
    sh_lanes[i] = x;
    workgroupBarrier();
    let first = i & 56u;
    let sum = ((sh_lanes[first] + sh_lanes[first + 1u]) + (sh_lanes[first + 2u] + sh_lanes[first + 3u]))
        + ((sh_lanes[first + 4u] + sh_lanes[first + 5u]) + (sh_lanes[first + 6u] + sh_lanes[first + 7u]));
    workgroupBarrier();
    return sum;
}
