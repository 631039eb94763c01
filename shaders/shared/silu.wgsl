// x · sigmoid(x), without overflow for any x.
fn silu(x: f32) -> f32 {
    return x * sigmoid(x);
}

fn sigmoid(x: f32) -> f32 {
    let e = exp(-abs(x));
    return select(e, 1.0, x >= 0.0) / (1.0 + e);
}
