//! Portable CPU operators for ExecuTorch programs
