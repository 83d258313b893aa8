//! Host and device buffers, planned memory with devices, arenas
