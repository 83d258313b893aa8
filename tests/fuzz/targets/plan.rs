#![no_main]
//! Target `plan`.

et_fuzz::target!(Plan);
