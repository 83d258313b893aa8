//! The one mention of the crate is all it takes to have CUDA buffers.

use et_cuda as _;
use et_device::Device;
use et_memory::DeviceMemoryBuffer;

#[test]
fn a_mention_is_enough_for_a_cuda_buffer() {
    fakecuda::auto();
    let mut buffer = DeviceMemoryBuffer::create(1024, Device::cuda(0).unwrap()).unwrap();
    assert_eq!(
        (buffer.nbytes(), buffer.device()),
        (1024, Device::cuda(0).unwrap())
    );
    buffer.fill(3).unwrap();
    buffer.write(10, &[1, 2]).unwrap();
    let mut bytes = [0; 4];
    buffer.read(9, &mut bytes).unwrap();
    assert_eq!(bytes, [3, 1, 2, 3]);
    buffer.free().unwrap();
}
