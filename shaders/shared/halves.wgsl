// Reads of weights stored as f32 (0), f16 (1) or bf16 (2); the two-byte kinds two to a word, low
// half first. Of I8 (3) and I4 (4), four and eight to a word, it is the whole number without its
// scale. The kernel declares const W_KIND.
fn unpack(word: u32, i: u32) -> f32 {
    if (W_KIND == 0u) {
        return bitcast<f32>(word);
    }
    if (W_KIND == 1u) {
        let both = unpack2x16float(word);
        return select(both.x, both.y, (i & 1u) == 1u);
    }
    if (W_KIND == 3u) {
        return f32(bitcast<i32>(word << (24u - 8u * (i & 3u))) >> 24u);
    }
    if (W_KIND == 4u) {
        return f32((word >> (4u * (i & 7u))) & 15u) - 8.0;
    }
    return bitcast<f32>(select(word << 16u, word & 0xffff0000u, (i & 1u) == 1u));
}

// The word that holds element i.
fn word_of(i: u32) -> u32 {
    if (W_KIND == 0u) {
        return i;
    }
    if (W_KIND == 3u) {
        return i >> 2u;
    }
    if (W_KIND == 4u) {
        return i >> 3u;
    }
    return i >> 1u;
}
