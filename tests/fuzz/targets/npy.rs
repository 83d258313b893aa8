#![no_main]
//! Target `npy`.

et_fuzz::target!(Npy);
