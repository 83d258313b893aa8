#![no_main]
//! Target `data`.

et_fuzz::target!(Data);
