//! A fake CUDA driver for tests on machines without a GPU.
