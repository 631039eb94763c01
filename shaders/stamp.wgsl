struct Params { // keep in step with StampParams
    pad0: u32,
    pad1: u32,
    pad2: u32,
    pad3: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> stamp: array<u32>; // [4]

// One invocation owns the stamp.
@compute @workgroup_size(1)
fn main() {
    stamp[0] = step.counter + p.pad0;
}
