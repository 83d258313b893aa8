//! Device memory: blocks, pools, and what happens to an address that is none.

use crate::status::{INVALID_VALUE, OUT_OF_MEMORY, Outcome};
use crate::world::World;
use std::collections::BTreeMap;

/// Device addresses are aligned to this and to no more.
const ALIGNMENT: u64 = 256;
/// Addresses left free behind every block, so that an overrun hits none.
const GAP: u64 = 4096;
/// What fresh memory holds, at least at both ends.
const FRESH: u8 = 0xCD;
const FRESH_EDGE: usize = 1 << 20;

pub struct Block {
    pub data: Box<[u8]>,
    pub pool: Option<usize>,
    /// Pool memory is usable only once its stream reached the allocation.
    pub born: bool,
    /// A free is queued but has not run.
    pub dying: bool,
    pub number: u64,
}

#[derive(Default)]
pub struct Pool {
    pub device: usize,
    pub threshold: u64,
    pub reserved: u64,
    pub reserved_high: u64,
    pub used: u64,
    pub used_high: u64,
    /// 0: no limit.
    pub max_bytes: u64,
    /// Attributes 1 to 3, which have no effect here.
    pub reuse: [u32; 4],
}

impl Pool {
    pub fn new(device: usize, max_bytes: u64) -> Self {
        Pool {
            device,
            max_bytes,
            reuse: [0, 1, 1, 1],
            ..Pool::default()
        }
    }

    fn trim(&mut self, keep: u64) {
        self.reserved = self.used.max(keep.min(self.reserved));
    }
}

pub struct Pinned {
    pub nbytes: usize,
    /// Registered by its owner rather than allocated here.
    pub registered: bool,
    pub flags: u32,
    pub device: usize,
}

/// Shared with the test support crate; the layout is part of the control interface.
#[repr(C)]
#[derive(Default, Clone, Copy)]
pub struct Stats {
    pub live_allocs: u64,
    pub live_bytes: u64,
    pub peak_bytes: u64,
    pub total_allocs: u64,
    pub total_frees: u64,
    pub lost_at_reset: u64,
    pub pool_grows: u64,
    pub pool_reserved: u64,
    pub live_streams: u64,
    pub live_events: u64,
    pub pending_ops: u64,
    pub violations: u64,
    pub ctx_refs: u64,
    pub pageable_copies: u64,
    pub pinned_copies: u64,
}

pub struct Device {
    base: u64,
    span: u64,
    next: u64,
    pub limit: u64,
    pub blocks: BTreeMap<u64, Block>,
    /// Size and allocation count at the time of the free of every block there was.
    graves: BTreeMap<u64, (usize, u64)>,
    pub refs: u32,
    /// The error that every later call gives, once there was one of the unforgivable kind.
    pub sticky: u32,
    pub null_stream: usize,
    pub default_pool: usize,
    pub pool: usize,
    pub peers: Vec<usize>,
    pub stats: Stats,
    pub generation: u64,
}

impl Device {
    pub fn new(base: u64, span: u64, limit: u64, null_stream: usize, default_pool: usize) -> Self {
        Device {
            base,
            span,
            next: base + ALIGNMENT,
            limit,
            blocks: BTreeMap::new(),
            graves: BTreeMap::new(),
            refs: 0,
            sticky: 0,
            null_stream,
            default_pool,
            pool: default_pool,
            peers: Vec::new(),
            stats: Stats::default(),
            generation: 1,
        }
    }

    pub fn live_bytes(&self) -> u64 {
        self.blocks.values().map(|b| b.data.len() as u64).sum()
    }

    /// The next addresses for `nbytes`; they are never used again.
    fn take_addresses(&mut self, nbytes: u64) -> Outcome<u64> {
        let step = nbytes
            .checked_add(GAP)
            .map(|n| n.next_multiple_of(2 * ALIGNMENT))
            .ok_or(OUT_OF_MEMORY)?;
        let at = self.next;
        if step > self.base + self.span - at {
            return Err(OUT_OF_MEMORY);
        }
        self.next += step;
        Ok(at)
    }
}

impl World {
    /// The device in whose range an address lies.
    pub fn device_of(&self, at: u64) -> Option<usize> {
        self.devices
            .iter()
            .position(|d| at >= d.base && at - d.base < d.span)
    }

    /// Bytes of a device's memory that are taken, by pools or blocks outside of them.
    pub fn reserved(&self, device: usize) -> u64 {
        let pools = self
            .pools
            .values()
            .filter(|p| p.device == device)
            .map(|p| p.reserved);
        let plain = self.devices[device]
            .blocks
            .values()
            .filter(|b| b.pool.is_none());
        pools.sum::<u64>() + plain.map(|b| b.data.len() as u64).sum::<u64>()
    }

    pub fn trim_pool(&mut self, pool: usize, keep: u64) -> Outcome {
        self.pools
            .get_mut(&pool)
            .map(|p| p.trim(keep))
            .ok_or(INVALID_VALUE)
    }

    /// What every synchronisation does: pools give back what is above their threshold.
    pub fn trim_at_synchronize(&mut self, device: usize) {
        for pool in self.pools.values_mut().filter(|p| p.device == device) {
            pool.trim(pool.threshold);
        }
    }

    /// Makes a block of `nbytes`, from `pool` or directly.
    pub fn carve(&mut self, device: usize, nbytes: usize, pool: Option<usize>) -> Outcome<u64> {
        if nbytes == 0 {
            return Err(INVALID_VALUE);
        }
        match pool {
            None => self.claim_plain(device, nbytes as u64)?,
            Some(pool) => self.claim_from_pool(device, nbytes as u64, pool)?,
        }
        let at = self.devices[device].take_addresses(nbytes as u64)?;
        self.allocation += 1;
        let mut data = vec![0u8; nbytes].into_boxed_slice();
        let edge = nbytes.min(FRESH_EDGE);
        data[..edge].fill(FRESH);
        data[nbytes - edge..].fill(FRESH);
        let block = Block {
            data,
            pool,
            born: pool.is_none(),
            dying: false,
            number: self.allocation,
        };
        let d = &mut self.devices[device];
        d.blocks.insert(at, block);
        d.stats.total_allocs += 1;
        d.stats.peak_bytes = d.stats.peak_bytes.max(d.live_bytes());
        Ok(at)
    }

    fn room(&self, device: usize) -> u64 {
        self.devices[device]
            .limit
            .saturating_sub(self.reserved(device))
    }

    /// A plain allocation takes back what pools hold unused before it gives up.
    fn claim_plain(&mut self, device: usize, nbytes: u64) -> Outcome {
        if nbytes > self.room(device) {
            self.pools
                .values_mut()
                .filter(|p| p.device == device)
                .for_each(|p| p.trim(0));
        }
        if nbytes > self.room(device) {
            Err(OUT_OF_MEMORY)
        } else {
            Ok(())
        }
    }

    /// A pool's allocation does not: one pool's cache is not another's.
    fn claim_from_pool(&mut self, device: usize, nbytes: u64, pool: usize) -> Outcome {
        let room = self.room(device);
        let p = self.pools.get_mut(&pool).ok_or(INVALID_VALUE)?;
        let growth = nbytes.saturating_sub(p.reserved - p.used);
        if growth > room || (p.max_bytes > 0 && growth > p.max_bytes.saturating_sub(p.reserved)) {
            return Err(OUT_OF_MEMORY);
        }
        p.reserved += growth;
        p.used += nbytes;
        p.reserved_high = p.reserved_high.max(p.reserved);
        p.used_high = p.used_high.max(p.used);
        self.devices[device].stats.pool_grows += u64::from(growth > 0);
        Ok(())
    }

    /// Ends a block's life; an address that starts none is a violation, told apart by kind.
    pub fn bury(&mut self, at: u64, by: &'static str) -> Outcome {
        let device = self.device_of(at).ok_or(INVALID_VALUE)?;
        let Some(block) = self.devices[device].blocks.remove(&at) else {
            let what = self.describe_bad_free(device, at);
            self.violate(device, format!("{by}: {what}"));
            return Err(INVALID_VALUE);
        };
        let nbytes = block.data.len();
        if let Some(pool) = block.pool.and_then(|h| self.pools.get_mut(&h)) {
            pool.used -= nbytes as u64;
        }
        let d = &mut self.devices[device];
        d.graves.insert(at, (nbytes, self.allocation));
        d.stats.total_frees += 1;
        Ok(())
    }

    fn describe_bad_free(&self, device: usize, at: u64) -> String {
        if let Some((nbytes, when)) = self.devices[device].graves.get(&at) {
            return format!(
                "double free of {at:#x} ({nbytes} bytes, freed after allocation {when})"
            );
        }
        match self.find(at, 1) {
            Ok((_, start, offset)) => {
                format!("{at:#x} points {offset} bytes into the block {start:#x}")
            }
            Err(_) => format!("{at:#x} was never allocated"),
        }
    }

    /// Device, start and offset of the live block that holds the `nbytes` at `at`.
    pub fn find(&self, at: u64, nbytes: usize) -> Result<(usize, u64, usize), String> {
        let device = self
            .device_of(at)
            .ok_or_else(|| format!("{at:#x} is no device address"))?;
        let d = &self.devices[device];
        if let Some((start, block)) = d.blocks.range(..=at).next_back() {
            let (offset, size) = ((at - start) as usize, block.data.len());
            if offset < size && nbytes <= size - offset {
                return Ok((device, *start, offset));
            }
            if offset < size {
                return Err(format!(
                    "{nbytes} bytes at {start:#x}+{offset} run past the block's {size} bytes"
                ));
            }
        }
        match d.graves.range(..=at).next_back() {
            Some((start, (size, when))) if at - start < *size as u64 => Err(format!(
                "{at:#x} lies in {start:#x}, freed after allocation {when}"
            )),
            _ => Err(format!("{at:#x} lies in no block")),
        }
    }

    /// The block that starts where [`World::find`] said.
    pub fn block(&self, device: usize, start: u64) -> Option<&Block> {
        self.devices.get(device)?.blocks.get(&start)
    }

    /// Bytes of device memory as the device sees them while it runs an operation.
    pub fn bytes(&mut self, at: u64, nbytes: usize) -> Result<&mut [u8], String> {
        let (device, start, offset) = self.find(at, nbytes)?;
        match self.devices[device].blocks.get_mut(&start) {
            Some(block) if block.born => Ok(&mut block.data[offset..offset + nbytes]),
            _ => Err(format!(
                "{start:#x} is used before its stream has allocated it"
            )),
        }
    }

    /// Whether all of the host bytes are pinned.
    pub fn is_pinned(&self, at: usize, nbytes: usize) -> bool {
        let holder = self.pinned.range(..=at).next_back();
        holder.is_some_and(|(start, p)| at - start < p.nbytes && nbytes <= p.nbytes - (at - start))
    }
}
