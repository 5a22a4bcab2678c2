//! The CUDA device.

use crate::backend::*;
use crate::kernel::ModuleSource;
use crate::schedule::Space;
use crate::{DeviceInfo, Result};

/// A CUDA device.
#[derive(Debug)]
pub struct CudaBackend {}

impl CudaBackend {
    /// Opens a device.
    pub fn new(_ordinal: usize) -> Result<Self> {
        todo!()
    }
}

/// Number of devices that the driver shows; an error without a driver.
pub fn device_count() -> Result<usize> {
    todo!()
}

macro_rules! todo_backend {
    ($name:ty) => {
        impl Backend for $name {
            fn info(&self) -> &DeviceInfo {
                todo!()
            }
            fn free_bytes(&self) -> Result<u64> {
                todo!()
            }
            fn alloc_device(&self, _name: &str, _bytes: u64) -> Result<DevicePtr> {
                todo!()
            }
            unsafe fn free_device(&self, _ptr: DevicePtr, _bytes: u64) {
                todo!()
            }
            fn alloc_pinned(&self, _name: &str, _bytes: usize, _space: Space) -> Result<*mut u8> {
                todo!()
            }
            unsafe fn free_pinned(&self, _ptr: *mut u8, _bytes: usize) {
                todo!()
            }
            fn create_stream(&self, _name: &str) -> Result<RawStream> {
                todo!()
            }
            unsafe fn destroy_stream(&self, _stream: RawStream) {
                todo!()
            }
            fn create_event(&self, _name: &str) -> Result<RawEvent> {
                todo!()
            }
            unsafe fn destroy_event(&self, _event: RawEvent) {
                todo!()
            }
            unsafe fn upload(
                &self,
                _op: &str,
                _stream: RawStream,
                _dst: DevicePtr,
                _src: HostSpan,
            ) -> Result<()> {
                todo!()
            }
            unsafe fn download(
                &self,
                _op: &str,
                _stream: RawStream,
                _dst: HostSpan,
                _src: DevicePtr,
            ) -> Result<()> {
                todo!()
            }
            unsafe fn fill(
                &self,
                _op: &str,
                _stream: RawStream,
                _dst: DevicePtr,
                _bytes: u64,
                _byte: u8,
            ) -> Result<()> {
                todo!()
            }
            unsafe fn launch(
                &self,
                _op: &str,
                _stream: RawStream,
                _kernel: &Kernel,
                _grid: [u32; 2],
                _block: u32,
                _args: &[LaunchArg],
            ) -> Result<()> {
                todo!()
            }
            fn record(&self, _stream: RawStream, _event: RawEvent) -> Result<()> {
                todo!()
            }
            fn wait(&self, _stream: RawStream, _event: RawEvent) -> Result<()> {
                todo!()
            }
            fn sync_event(&self, _op: &str, _event: RawEvent) -> Result<()> {
                todo!()
            }
            fn sync_stream(&self, _op: &str, _stream: RawStream) -> Result<()> {
                todo!()
            }
            fn elapsed_us(&self, _start: RawEvent, _end: RawEvent) -> Result<Option<f64>> {
                todo!()
            }
            fn load(&self, _source: &'static ModuleSource) -> Result<Vec<Kernel>> {
                todo!()
            }
        }
    };
}
todo_backend!(CudaBackend);
