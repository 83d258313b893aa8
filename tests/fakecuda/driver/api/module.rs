//! Modules and kernel launches.

use super::api;
use crate::arguments::{In, Out, Text};
use crate::host;
use crate::kernels::{Function, Launch, parameters};
use crate::status::{INVALID_HANDLE, INVALID_PTX, NOT_FOUND};
use crate::streams::Op;
use std::ffi::{c_uint, c_void};

api! {
    /// PTX text only; anything else has no `.version`.
    cuModuleLoadData(out: Out<usize>, image: Text) |world| {
        world.require_current()?;
        let ptx = image.get().ok().filter(|p| p.contains(".version")).ok_or(INVALID_PTX)?;
        let module = world.new_handle();
        world.modules.insert(module, ptx);
        out.put(module)
    }
    cuModuleUnload(module: usize) |world| {
        world.functions.retain(|_, f| f.module != module);
        world.modules.remove(&module).map(drop).ok_or(INVALID_HANDLE)
    }
    cuModuleGetFunction(out: Out<usize>, module: usize, name: Text) |world| {
        let name = name.get()?;
        let ptx = world.modules.get(&module).ok_or(INVALID_HANDLE)?;
        let parameters = parameters(ptx, &name).ok_or(NOT_FOUND)?;
        let function = world.new_handle();
        world.functions.insert(function, Function { name, parameters, module });
        out.put(function)
    }
    cuLaunchKernel(
        function: usize,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        _shared_bytes: c_uint, stream: usize, arguments: In<usize>, _extra: *const c_void,
    ) |world| {
        let stream = world.stream(stream)?;
        let sizes = &world.functions.get(&function).ok_or(INVALID_HANDLE)?.parameters;
        let copy = |(i, nbytes): (usize, &usize)| Ok(host::read(arguments.at(i).get()?, *nbytes));
        let arguments = sizes.iter().enumerate().map(copy).collect::<Result<_, u32>>()?;
        let dims = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
        world.push(stream, "cuLaunchKernel", Op::Kernel(Launch { function, dims, arguments })).map(drop)
    }
}
