// Keep in step with Step in shaders.go.
struct Step {
    counter: u32,
    tokens: u32, // T
    seqs: u32, // B
    chunks: u32,
    outs: u32,
    slot: u32,
    keys: u32,
    times: u32,
}

@group(0) @binding(0) var<uniform> step: Step;

// Number of this workgroup in a grid folded over x and y.
fn group_number(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}
