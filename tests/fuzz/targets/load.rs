#![no_main]
//! Target `load`.

et_fuzz::target!(Load);
