//! Functions of one number, without branches so that loops over them become vector code.

/// `e^x`, within a unit in the last place.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // x = k ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^k e^r. Outside of the clamp the result is 0 or infinity anyway.
    let clamped = x.clamp(-104.0, 89.0);
    let (k, whole) = nearest(clamped * std::f32::consts::LOG2_E);
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
    let half = whole >> 1;
    p * power_of_two(half) * power_of_two(whole.wrapping_sub(half))
}

/// The whole number next to `x`, of two the even one, as both kinds of number. `x` is below 2^22 in size; of what is no number the
/// whole one is any.
#[inline(always)]
pub(crate) fn nearest(x: f32) -> (f32, i32) {
    // Numbers of this size have no fractions, so the sum is rounded; its last bits are the whole number. A cast would mind numbers
    // that do not fit, which vectors have no instruction for.
    const SHIFT: f32 = 12_582_912.0;
    let shifted = x + SHIFT;
    let whole = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    (shifted - SHIFT, whole)
}

/// `2^k` for `k` in -126..=127.
#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) << 23) as u32)
}

/// `1 / (1 + e^-x)`, within 2.5 units in the last place; 0 below -88.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `1 / (1 + e^-x)`.
pub(crate) fn sigmoid_f64(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The hyperbolic tangent, within 1.5 units in the last place.
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

/// The error function, within 1.5 units in the last place.
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

/// `x` times the share of a normal distribution below it, off by 2e-7 of `x` (or of 1) at most.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with what is exact, over numbers of every size: `bound` says how far off a result may be.
    #[track_caller]
    fn check(f: fn(f32) -> f32, exact: fn(f64) -> f64, bound: impl Fn(f32, f64) -> f64) {
        for bits in (0..=u32::MAX).step_by(10_007) {
            let x = f32::from_bits(bits);
            let (found, wanted) = (f(x), exact(f64::from(x)));
            if wanted.is_nan() || (wanted as f32).is_infinite() {
                let same = found == wanted as f32 || found.is_nan() && wanted.is_nan();
                assert!(same, "of {x}: {found}, not {wanted}");
                continue;
            }
            let error = (f64::from(found) - wanted).abs();
            assert!(error <= bound(x, wanted), "of {x}: {found}, not {wanted}");
        }
    }

    /// The distance of single width numbers next to `x`.
    fn unit(x: f64) -> f64 {
        let exponent = x.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
        2f64.powf(exponent - 23.0)
    }

    #[test]
    fn exp_is_within_a_unit_in_the_last_place() {
        check(exp, f64::exp, |_, y| unit(y));
        assert_eq!(
            (exp(f32::INFINITY), exp(f32::NEG_INFINITY)),
            (f32::INFINITY, 0.0)
        );
    }

    #[test]
    fn tanh_and_erf_are_within_a_unit_and_a_half() {
        check(tanh, f64::tanh, |_, y| 1.5 * unit(y));
        check(erf, libm::erf, |_, y| 1.5 * unit(y));
    }

    #[test]
    fn sigmoid_is_within_two_units_and_a_half_unless_tiny() {
        // Below, the exact result is less than the smallest number of full precision.
        check(sigmoid, sigmoid_f64, |x, y| {
            if x < -87.0 { 2e-38 } else { 2.5 * unit(y) }
        });
    }

    #[test]
    fn gates_are_off_by_little_beside_their_input() {
        let beside = |x: f32, _| 2e-7 * f64::from(x.abs()).max(1.0);
        check(gelu_erf, gelu_erf_f64, beside);
        check(gelu_tanh, gelu_tanh_f64, beside);
        check(|x| x * sigmoid(x), |x| x * sigmoid_f64(x), beside);
    }

    #[test]
    fn the_nearest_whole_number_is_even_between_two() {
        for (x, whole) in [
            (0.5, 0),
            (1.5, 2),
            (-2.5, -2),
            (2.6, 3),
            (-4_194_303.0, -4_194_303),
        ] {
            assert_eq!(nearest(x), (whole as f32, whole));
        }
    }
}
