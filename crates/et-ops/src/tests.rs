//! Tests of the operators, by family.

mod elementwise;
mod matmul;
mod shape;

#[test]
fn no_operator_is_there_twice() {
    assert_eq!(crate::registry().iter().count(), crate::kernels().count());
}
