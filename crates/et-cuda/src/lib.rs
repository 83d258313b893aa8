//! The CUDA allocator and its copy kernels, on the driver found at run time
