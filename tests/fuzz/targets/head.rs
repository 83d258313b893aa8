#![no_main]
//! Target `head`.

et_fuzz::target!(Head);
