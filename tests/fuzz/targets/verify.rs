#![no_main]
//! Target `verify`.

et_fuzz::target!(Verify);
