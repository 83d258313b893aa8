//! The `et` command.

fn main() {}
