//! Reads, verifies and writes ExecuTorch programs (.pte) and tensor data files (.ptd)
