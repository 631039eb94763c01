// log(log(1 + exp(z))) without cancellation or overflow.
fn log_softplus(z: f32) -> f32 {
    if (z < -4.0) {
        let e = exp(z);
        return z + log(1.0 - e * (0.5 - e * (0.33333334 - e * 0.25)));
    }
    if (z > 20.0) {
        return log(z);
    }
    return log(log(1.0 + exp(z)));
}

// -exp(a_log) · softplus(z), at least -88. One exponential: exp(a_log) alone may overflow where
// softplus(z) is tiny.
fn log_decay(a_log: f32, z: f32) -> f32 {
    return max(-exp(min(a_log + log_softplus(z), 5.0)), -88.0);
}
