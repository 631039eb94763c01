struct Params { // keep in step with AdvanceParams
    k: u32,
    most: u32,
    pad0: u32,
    pad1: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> top: array<u32>; // [B, k, 2]: id, probability as f32
@group(0) @binding(3) var<storage, read_write> ids: array<u32>; // [T]
@group(0) @binding(4) var<storage, read_write> seqs: array<Seq>; // [B]
@group(0) @binding(5) var<storage, read_write> tops: array<u32>; // [B, most, k, 2]

// An invocation, a workgroup by itself, owns a sequence.
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let b = group_number(group, groups);
    if (b >= step.seqs) {
        return;
    }
    let past = seqs[b].past;
    let next_out = seqs[b].turn;
    let next_in = seqs[b].slot_out;
    let size = 2u * p.k;
    for (var c: u32 = 0u; c < size; c = c + 1u) {
        tops[(b * p.most + past % p.most) * size + c] = top[b * size + c];
    }
    ids[seqs[b].start] = top[b * size];
    seqs[b].past = past + 1u;
    seqs[b].slot_in = next_in;
    seqs[b].slot_out = next_out;
    seqs[b].turn = next_in;
}
