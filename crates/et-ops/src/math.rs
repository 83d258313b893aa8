//! Functions of one number, without branches so that loops over them become vector code.

/// `e^x`, within 2 units in the last place.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // x = k ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^k e^r. Outside of the clamp the result is 0 or infinity anyway.
    let clamped = x.clamp(-104.0, 89.0);
    let k = (clamped * std::f32::consts::LOG2_E).round_ties_even();
    let r = clamped - k * 0.693_359_4;
    let r = r - k * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4f32;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 5e-1;
    p = p * r * r + r + 1.0;
    // In two halves, since 2^k itself may be too small or too large.
    let k = k as i32;
    let half = k >> 1;
    p * power_of_two(half) * power_of_two(k - half)
}

/// `2^k` for `k` in -126..=127.
#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits(((k + 127) << 23) as u32)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `1 / (1 + e^-x)`.
pub(crate) fn sigmoid_f64(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let size = x.abs();
    // Near 0 the difference below would lose digits: a polynomial in x^2 instead.
    let square = x * x;
    let mut p = -5.704_988_7e-3f32;
    p = p * square + 2.063_909_6e-2;
    p = p * square - 5.373_971_6e-2;
    p = p * square + 1.333_144_3e-1;
    p = p * square - 3.333_327_6e-1;
    let near = p * square * x + x;
    let far = 1.0 - 2.0 / (exp(2.0 * size) + 1.0);
    if size < 0.625 { near } else { far.copysign(x) }
}

/// The error function, within 1e-7.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let size = x.abs();
    // Below 1 a polynomial in x^2 (fitted for the least relative error), above 1 - e^(a polynomial fitted to ln(1 - erf)).
    let square = x * x;
    let mut p = 7.853_882e-5f32;
    p = p * square - 8.010_200_7e-4;
    p = p * square + 5.188_328_7e-3;
    p = p * square - 2.685_381_3e-2;
    p = p * square + 1.128_358_54e-1;
    p = p * square - 3.761_262_6e-1;
    p = p * square + 1.283_791_7e-1;
    let near = p * x + x;
    // From 4.1 on the result is 1; what is no number stays so.
    let far = if size > 4.1 { 4.1 } else { size };
    let mut q = 1.879_733_8e-4f32;
    q = q * far - 2.964_023_3e-3;
    q = q * far + 2.190_654_7e-2;
    q = q * far - 1.032_563_6e-1;
    q = q * far - 6.379_648_4e-1;
    q = q * far - 1.127_202_4;
    q = q * far - 3.124_409_7e-4;
    let far = 1.0 - exp(q);
    if size < 1.0 { near } else { far.copysign(x) }
}

/// `x` times the share of a normal distribution below it.
#[inline(always)]
pub(crate) fn gelu_erf(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// `x` times the share of a normal distribution below it.
pub(crate) fn gelu_erf_f64(x: f64) -> f64 {
    0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// [`gelu_erf`] by its usual approximation.
#[inline(always)]
pub(crate) fn gelu_tanh(x: f32) -> f32 {
    let inner = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + tanh(inner))
}

/// [`gelu_erf_f64`] by its usual approximation.
pub(crate) fn gelu_tanh_f64(x: f64) -> f64 {
    let inner = 0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}
