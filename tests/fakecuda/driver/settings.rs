//! What the environment says about the machine to imitate.

use std::env;

/// When queued work runs.
#[derive(Clone, Copy, PartialEq)]
pub enum Schedule {
    /// As late as the API allows.
    Lazy,
    /// At submission.
    Eager,
    /// Some of it at every call; the number is the generator's state.
    Random(u64),
}

impl Schedule {
    /// 0 lazy, 1 eager, anything else seeds a random schedule.
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => Schedule::Lazy,
            1 => Schedule::Eager,
            seed => Schedule::Random(seed | 1),
        }
    }
}

/// A planned failure of one call.
pub struct Fault {
    pub symbol: String,
    /// -1: whichever device is current.
    pub device: i32,
    /// Calls that still succeed.
    pub skip: u64,
    /// Calls that then fail.
    pub times: u64,
    pub code: u32,
}

pub struct Settings {
    pub devices: usize,
    pub memory_bytes: u64,
    pub pools: bool,
    pub strict_free: bool,
    pub log: bool,
    pub leak_check: bool,
    pub defer_pageable: bool,
    pub schedule: Schedule,
    pub faults: Vec<Fault>,
}

impl Settings {
    pub fn from_environment() -> Self {
        Settings {
            devices: number("FAKECUDA_DEVICES", 4) as usize,
            memory_bytes: number("FAKECUDA_MEM", 8 << 30),
            pools: number("FAKECUDA_POOLS", 1) != 0,
            strict_free: number("FAKECUDA_STRICT_FREE", 0) != 0,
            log: env::var_os("FAKECUDA_LOG").is_some(),
            leak_check: env::var_os("FAKECUDA_LEAKCHECK").is_some(),
            defer_pageable: env::var("FAKECUDA_PAGEABLE").is_ok_and(|v| v == "deferred"),
            schedule: schedule(&env::var("FAKECUDA_SCHED").unwrap_or_default()),
            faults: env::var("FAKECUDA_FAIL").map_or_else(|_| Vec::new(), |list| faults(&list)),
        }
    }
}

fn number(key: &str, default: u64) -> u64 {
    let Ok(value) = env::var(key) else {
        return default;
    };
    let value = value.trim();
    let (digits, unit) = match value.as_bytes().last() {
        Some(b'K') => (&value[..value.len() - 1], 1 << 10),
        Some(b'M') => (&value[..value.len() - 1], 1 << 20),
        Some(b'G') => (&value[..value.len() - 1], 1 << 30),
        _ => (value, 1),
    };
    digits
        .parse::<u64>()
        .map_or(default, |n| n.saturating_mul(unit))
}

fn schedule(text: &str) -> Schedule {
    match text.split_once(':') {
        None if text == "eager" => Schedule::Eager,
        Some(("random", seed)) => Schedule::Random(seed.parse().unwrap_or(1) | 1),
        _ => Schedule::Lazy,
    }
}

/// `cuMemAlloc_v2@2=2,cuMemcpyHtoDAsync_v2=999`: the third call fails with 2; every call fails with 999.
fn faults(list: &str) -> Vec<Fault> {
    list.split(',')
        .filter_map(|entry| {
            let (call, code) = entry.split_once('=')?;
            let (symbol, skip, times) = match call.split_once('@') {
                Some((symbol, skip)) => (symbol, skip.parse().ok()?, 1),
                None => (call, 0, u64::MAX),
            };
            Some(Fault {
                symbol: symbol.into(),
                device: -1,
                skip,
                times,
                code: code.parse().ok()?,
            })
        })
        .collect()
}
