// The scale of element d of row n of quantized weights, which lies behind all rows: of I8 (3) an f32
// a row, of I4 (4) an f16 for each 32 elements. The kernel declares const W_KIND, p.n, p.d and
// word(i), word i of the weights.
fn scale_of(n: u32, d: u32) -> f32 {
    if (W_KIND == 3u) {
        return bitcast<f32>(word(p.n * (p.d / 4u) + n));
    }
    if (W_KIND == 4u) {
        let g = n * (p.d / 32u) + d / 32u;
        let both = unpack2x16float(word(p.n * (p.d / 8u) + g / 2u));
        return select(both.x, both.y, (g & 1u) == 1u);
    }
    return 1.0;
}

// Four whole numbers of I8 in a word, low byte first.
fn four8(word: u32) -> vec4<f32> {
    return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word << 24u, word << 16u, word << 8u, word)) >> vec4<u32>(24u));
}

// Four whole numbers of I4 in the lower half of a word, low bits first.
fn four4(half: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(half, half >> 4u, half >> 8u, half >> 12u) & vec4<u32>(15u))) - vec4<f32>(8.0);
}
