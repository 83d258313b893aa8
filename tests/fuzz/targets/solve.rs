#![no_main]
//! Target `solve`.

et_fuzz::target!(Solve);
