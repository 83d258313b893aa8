#![no_main]
//! Target `calls`.

et_fuzz::target!(Calls);
