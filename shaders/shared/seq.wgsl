// Keep in step with Seq in shaders.go. Eight words a sequence.
struct Seq {
    start: u32,
    count: u32,
    past: u32,
    slot_in: u32,
    slot_out: u32,
    map: u32,
    chunk: u32,
    turn: u32,
}

const NO_SLOT: u32 = 4294967295u;
