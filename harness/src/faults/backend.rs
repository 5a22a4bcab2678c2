//! The backend that fails when it is told to. All it does is count and pass on, so its `unsafe` is its
//! callers'.
#![allow(unsafe_code)]

use super::{Call, Faults};
use gpu_core::backend::{
    Backend, DevicePtr, Graphs, HostSpan, Kernel, LaunchArg, RawEvent, RawGraph, RawStream,
};
use gpu_core::{DeviceInfo, ModuleSource, Result, Space};
use std::sync::Arc;

/// A backend that fails when it is told to, and else is the one inside.
#[derive(Debug)]
pub struct FaultBackend {
    inner: Arc<dyn Backend>,
    faults: Faults,
}

impl FaultBackend {
    /// Around a backend.
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, faults: Faults::default() }
    }

    /// Its controls.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

impl Backend for FaultBackend {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn free_bytes(&self) -> Result<u64> {
        self.faults.enter(Call::FreeBytes, "free memory", 0)?;
        self.inner.free_bytes()
    }

    fn alloc_device(&self, name: &str, bytes: u64) -> Result<DevicePtr> {
        self.faults.enter(Call::AllocDevice, name, bytes)?;
        let ptr = self.inner.alloc_device(name, bytes)?;
        self.faults.books().live.device_bytes += bytes;
        Ok(ptr)
    }

    unsafe fn free_device(&self, ptr: DevicePtr, bytes: u64) {
        self.faults.books().live.device_bytes -= bytes;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.free_device(ptr, bytes) }
    }

    fn alloc_pinned(&self, name: &str, bytes: usize, space: Space) -> Result<*mut u8> {
        self.faults.enter(Call::AllocPinned, name, bytes as u64)?;
        let ptr = self.inner.alloc_pinned(name, bytes, space)?;
        self.faults.books().live.pinned_bytes += bytes as u64;
        Ok(ptr)
    }

    unsafe fn free_pinned(&self, ptr: *mut u8, bytes: usize) {
        self.faults.books().live.pinned_bytes -= bytes as u64;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.free_pinned(ptr, bytes) }
    }

    unsafe fn register_host(&self, name: &str, ptr: *const u8, bytes: usize) -> Result<()> {
        self.faults.enter(Call::Register, name, bytes as u64)?;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.register_host(name, ptr, bytes)? };
        self.faults.books().live.pinned_bytes += bytes as u64;
        Ok(())
    }

    unsafe fn unregister_host(&self, ptr: *const u8, bytes: usize) {
        self.faults.books().live.pinned_bytes -= bytes as u64;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.unregister_host(ptr, bytes) }
    }

    fn create_stream(&self, name: &str) -> Result<RawStream> {
        self.faults.enter(Call::CreateStream, &format!("stream {name}"), 0)?;
        let stream = self.inner.create_stream(name)?;
        self.faults.books().live.streams += 1;
        Ok(stream)
    }

    unsafe fn destroy_stream(&self, stream: RawStream) {
        self.faults.books().live.streams -= 1;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.destroy_stream(stream) }
    }

    fn create_event(&self, name: &str) -> Result<RawEvent> {
        self.faults.enter(Call::CreateEvent, &format!("event {name}"), 0)?;
        let event = self.inner.create_event(name)?;
        self.faults.books().live.events += 1;
        Ok(event)
    }

    unsafe fn destroy_event(&self, event: RawEvent) {
        self.faults.books().live.events -= 1;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.destroy_event(event) }
    }

    unsafe fn upload(&self, op: &str, stream: RawStream, dst: DevicePtr, src: HostSpan) -> Result<()> {
        self.faults.enter(Call::Upload, op, 0)?;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.upload(op, stream, dst, src) }
    }

    unsafe fn download(&self, op: &str, stream: RawStream, dst: HostSpan, src: DevicePtr) -> Result<()> {
        self.faults.enter(Call::Download, op, 0)?;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.download(op, stream, dst, src) }
    }

    unsafe fn fill(&self, op: &str, stream: RawStream, dst: DevicePtr, bytes: u64, byte: u8) -> Result<()> {
        self.faults.enter(Call::Fill, op, 0)?;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.fill(op, stream, dst, bytes, byte) }
    }

    unsafe fn launch(
        &self,
        op: &str,
        stream: RawStream,
        kernel: &Kernel,
        grid: [u32; 2],
        block: u32,
        args: &[LaunchArg],
    ) -> Result<()> {
        self.faults.enter(Call::Launch, op, 0)?;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.launch(op, stream, kernel, grid, block, args) }
    }

    fn record(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.faults.enter(Call::Record, "record", 0)?;
        self.inner.record(stream, event)
    }

    fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.faults.enter(Call::Wait, "wait", 0)?;
        self.inner.wait(stream, event)
    }

    fn sync_event(&self, op: &str, event: RawEvent) -> Result<()> {
        let waited = self.inner.sync_event(op, event);
        self.faults.enter(Call::SyncEvent, op, 0)?;
        waited
    }

    fn sync_stream(&self, op: &str, stream: RawStream) -> Result<()> {
        let waited = self.inner.sync_stream(op, stream);
        self.faults.enter(Call::SyncStream, op, 0)?;
        waited
    }

    fn elapsed_us(&self, start: RawEvent, end: RawEvent) -> Result<Option<f64>> {
        self.faults.enter(Call::Elapsed, "elapsed time", 0)?;
        self.inner.elapsed_us(start, end)
    }

    /// Host threads take turns as on the device itself, so that the k-th call is the same one each time.
    fn host_order_seed(&self) -> Option<u64> {
        self.inner.host_order_seed()
    }

    fn load(&self, source: &'static ModuleSource) -> Result<Vec<Kernel>> {
        self.faults.enter(Call::Load, &format!("module {}", source.name), 0)?;
        self.inner.load(source)
    }
    fn graphs(&self) -> Option<&dyn Graphs> {
        self.inner.graphs().map(|_| self as &dyn Graphs)
    }
}

impl FaultBackend {
    fn inner_graphs(&self) -> &dyn Graphs {
        self.inner.graphs().expect("graphs are asked for where there are some")
    }
}

impl Graphs for FaultBackend {
    fn begin_capture(&self, op: &str, stream: RawStream) -> Result<()> {
        self.faults.enter(Call::Capture, op, 0)?;
        self.inner_graphs().begin_capture(op, stream)
    }

    /// It ends, and then it fails: a stream that stays in a capture is no longer of use to anybody.
    fn end_capture(&self, op: &str, stream: RawStream) -> Result<RawGraph> {
        let ended = self.inner_graphs().end_capture(op, stream);
        if let Err(error) = self.faults.enter(Call::Capture, op, 0) {
            if let Ok(graph) = ended {
                // SAFETY: it was made by the call above, is given to nobody, and was never launched.
                unsafe { self.inner_graphs().destroy_graph(graph) };
            }
            return Err(error);
        }
        let graph = ended?;
        self.faults.books().live.graphs += 1;
        Ok(graph)
    }

    fn record_in_graph(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.faults.enter(Call::Record, "record", 0)?;
        self.inner_graphs().record_in_graph(stream, event)
    }

    unsafe fn launch_graph(&self, op: &str, stream: RawStream, graph: RawGraph) -> Result<()> {
        self.faults.enter(Call::LaunchGraph, op, 0)?;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner_graphs().launch_graph(op, stream, graph) }
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) {
        self.faults.books().live.graphs -= 1;
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner_graphs().destroy_graph(graph) }
    }
}
