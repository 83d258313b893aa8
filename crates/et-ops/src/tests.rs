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
mod reference;
mod shape;
mod specimen;

#[test]
fn no_operator_is_there_twice() {
    assert_eq!(crate::registry().iter().count(), crate::kernels().count());
}
