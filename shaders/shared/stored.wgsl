// x rounded to the nearest f16 (STORE 1) or bf16 (2), ties to even, by its bits: what is too large
// becomes infinite, f16's subnormals are kept. The kernel declares const STORE.
fn stored(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let size = bits & 0x7fffffffu;
    if (STORE == 0u || size > 0x7f800000u) {
        return x;
    }
    if (STORE == 2u) {
        return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
    }
    let sign = bits & 0x80000000u;
    if (size >= 0x477ff000u) { // 65520 and more
        return bitcast<f32>(sign | 0x7f800000u);
    }
    if (size >= 0x38800000u) { // 2⁻¹⁴, f16's least normal
        return bitcast<f32>(sign | ((size + 0xfffu + ((size >> 13u) & 1u)) & 0xffffe000u));
    }
    if (size <= 0x33000000u) { // 2⁻²⁵, half of f16's least
        return bitcast<f32>(sign);
    }
    // Below 2⁻¹⁴ numbers of f16 are whole multiples of 2⁻²⁴.
    let drop = 126u - (size >> 23u); // 14 to 24
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let n = (mantissa + (1u << (drop - 1u)) - 1u + ((mantissa >> drop) & 1u)) >> drop;
    let y = f32(n) * 5.9604644775390625e-8;
    return select(y, -y, sign != 0u);
}
