//! Tests of the operators, by family.

mod conv;
mod elementwise;
mod hostile;
mod index;
mod kinds;
mod matmul;
mod norm;
mod other;
mod prim;
mod random;
mod reduce;
mod shape;
mod specimen;

use crate::testing::{ordered, positions};

#[test]
fn no_operator_is_there_twice() {
    assert_eq!(crate::registry().iter().count(), crate::kernels().count());
}

#[test]
fn the_harness_lays_elements_out_by_order() {
    let tensor = ordered(&[1f32, 2., 3., 4., 5., 6.], &[2, 3], &[1, 0]);
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [1., 4., 2., 5., 3., 6.]);
    assert_eq!(positions(tensor.meta()), [0, 2, 4, 1, 3, 5]);
}
