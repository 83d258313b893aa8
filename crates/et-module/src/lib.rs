//! Loads and runs ExecuTorch programs with planned memory on any device
