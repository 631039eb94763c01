struct Params { // keep in step with ConvParams
    c: u32,
    w: u32,
    x_stride: u32,
    x_col: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>; // [T, x_stride], columns x_col..x_col+C
@group(0) @binding(3) var<storage, read> seqs: array<Seq>; // [B]
@group(0) @binding(4) var<storage, read_write> tail: array<f32>; // [slots, W-1, C], oldest first

// A workgroup owns 64 neighbouring channels of one sequence's tail. An invocation walks its rows
// from the oldest on, so that a slot can be shifted in place.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    let e = group_number(group, groups) * 64u + i;
    if (e >= step.seqs * p.c) {
        return;
    }
    let seq = seqs[e / p.c];
    let c = e % p.c;
    let keep = p.w - 1u;
    for (var j: u32 = 0u; j < keep; j = j + 1u) {
        let n = seq.count + j; // counted from the oldest row of the old tail
        var v: f32 = 0.0;
        if (n >= keep) {
            v = x[(seq.start + n - keep) * p.x_stride + p.x_col + c];
        } else if (seq.slot_in != NO_SLOT) {
            v = tail[(seq.slot_in * keep + n) * p.c + c];
        }
        tail[(seq.slot_out * keep + j) * p.c + c] = v;
    }
}
