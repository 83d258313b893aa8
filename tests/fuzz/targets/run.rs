#![no_main]
//! Target `run`.

et_fuzz::target!(Run);
