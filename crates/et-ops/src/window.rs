//! Windows that slide over the spatial dimensions of a tensor: shared by convolution and pooling.

use et_kernel::KernelError;

/// The most spatial dimensions.
pub(crate) const SPATIAL: usize = 3;

/// Windows over up to three spatial dimensions. Missing ones come first, with size 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) input: [usize; SPATIAL],
    pub(crate) kernel: [usize; SPATIAL],
    pub(crate) stride: [usize; SPATIAL],
    pub(crate) padding: [usize; SPATIAL],
    pub(crate) dilation: [usize; SPATIAL],
    pub(crate) output: [usize; SPATIAL],
}

/// A list of a program that gives a value for each of `rank` spatial dimensions, or one for all of them.
pub(crate) fn per_dim(
    what: &str,
    list: &[i64],
    rank: usize,
    missing: usize,
) -> Result<[usize; SPATIAL], KernelError> {
    let mut values = [missing; SPATIAL];
    if list.len() != rank && list.len() != 1 {
        return Err(KernelError::invalid(format!(
            "{what} has {} entries for {rank} dimensions",
            list.len()
        )));
    }
    for i in 0..rank {
        let value = if list.len() == 1 { list[0] } else { list[i] };
        values[SPATIAL - rank + i] = usize::try_from(value)
            .map_err(|_| KernelError::invalid(format!("{what} {value} is negative")))?;
    }
    Ok(values)
}

/// The last `rank` sizes, behind ones.
pub(crate) fn spatial(sizes: &[usize], rank: usize) -> [usize; SPATIAL] {
    let mut values = [1; SPATIAL];
    values[SPATIAL - rank..].copy_from_slice(&sizes[sizes.len() - rank..]);
    values
}

/// The last `rank` strides, behind zeros.
pub(crate) fn spatial_strides(strides: &[usize], rank: usize) -> [usize; SPATIAL] {
    let mut values = [0; SPATIAL];
    values[SPATIAL - rank..].copy_from_slice(&strides[strides.len() - rank..]);
    values
}

impl Windows {
    /// Fills in the output's sizes: how many windows there are.
    pub(crate) fn sized(mut self, ceil: bool) -> Result<Self, KernelError> {
        for d in 0..SPATIAL {
            self.output[d] = self.count(d, ceil)?;
        }
        Ok(self)
    }

    fn count(&self, d: usize, ceil: bool) -> Result<usize, KernelError> {
        let (stride, padding) = (self.stride[d], self.padding[d]);
        let refused = || {
            KernelError::invalid(format!(
                "windows of {} with dilation {}, stride {stride} and padding {padding} do not fit size {}",
                self.kernel[d], self.dilation[d], self.input[d]
            ))
        };
        if stride == 0 || self.dilation[d] == 0 || self.kernel[d] == 0 {
            return Err(refused());
        }
        let reach = (self.kernel[d] - 1)
            .checked_mul(self.dilation[d])
            .and_then(|reach| reach.checked_add(1));
        let padded = padding
            .checked_mul(2)
            .and_then(|padding| padding.checked_add(self.input[d]));
        let room = padded
            .zip(reach)
            .and_then(|(padded, reach)| padded.checked_sub(reach))
            .ok_or_else(refused)?;
        let mut count = room / stride + 1;
        // The last window must begin inside of the input or of the padding before it.
        if ceil && !room.is_multiple_of(stride) && count * stride < self.input[d] + padding {
            count += 1;
        }
        Ok(count)
    }

    /// Where tap `tap` of window `window` lies along dimension `d`, if inside of the input.
    #[inline(always)]
    pub(crate) fn place(&self, d: usize, window: usize, tap: usize) -> Option<usize> {
        let at = (window * self.stride[d] + tap * self.dilation[d]).checked_sub(self.padding[d])?;
        (at < self.input[d]).then_some(at)
    }

    /// The taps of window `window` that lie inside of the input along dimension `d`: others may be any number.
    #[inline(always)]
    pub(crate) fn taps_inside(&self, d: usize, window: usize) -> std::ops::Range<usize> {
        let (start, dilation) = (window * self.stride[d], self.dilation[d]);
        let first = self.padding[d].saturating_sub(start).div_ceil(dilation);
        let end = (self.input[d] + self.padding[d])
            .saturating_sub(start)
            .div_ceil(dilation)
            .min(self.kernel[d]);
        first.min(end)..end
    }

    /// The windows of dimension `d` whose tap `tap` is inside of the input.
    pub(crate) fn inside(&self, d: usize, tap: usize) -> std::ops::Range<usize> {
        let (stride, offset) = (self.stride[d], tap * self.dilation[d]);
        let first = self.padding[d].saturating_sub(offset).div_ceil(stride);
        let end = (self.input[d] + self.padding[d])
            .saturating_sub(offset)
            .div_ceil(stride)
            .min(self.output[d]);
        first.min(end)..end
    }

    /// The number of taps.
    pub(crate) fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// The number of windows.
    pub(crate) fn windows(&self) -> usize {
        self.output.iter().product()
    }
}
