//! Devices, device addresses, the allocator trait and its registry
