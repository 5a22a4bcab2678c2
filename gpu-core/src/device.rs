//! A device, CUDA or simulated, and its streams.

use crate::backend::{Backend, Kernel, RawEvent, RawStream};
use crate::error::GpuError;
use crate::kernel::ModuleSource;
use crate::model::Profile;
use crate::sim::{SimBackend, SimOptions};
use crate::{Result, cuda};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Which kind of device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// The simulated device.
    Sim,
    /// A CUDA device.
    Cuda,
}

/// Name and limits of a device, as queried: never from a table of names.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceInfo {
    /// `sim`, or `cuda:N`.
    pub id: String,
    /// Which kind it is.
    pub kind: DeviceKind,
    /// Product name.
    pub name: String,
    /// Target architecture, such as `sm_90`; `host` for the simulated device.
    pub arch: String,
    /// Device memory in all.
    pub memory_bytes: u64,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Threads that one multiprocessor holds.
    pub sm_threads_max: u32,
    /// Static shared memory that one block can have.
    pub block_shared_bytes_max: u32,
    /// Profile of the virtual clock, on a device without a clock of its own.
    pub profile: Option<Profile>,
}

/// A handle to a device; clones share it. Usable from any thread.
#[derive(Debug, Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    backend: Box<dyn Backend>,
    kernels: Mutex<HashMap<&'static str, Kernel>>,
    /// Host ranges that are page-locked where they lie, by address and length, and how many hold them so.
    registered: Mutex<HashMap<(usize, usize), usize>>,
}

impl Device {
    /// The simulated device.
    pub fn sim(options: SimOptions) -> Self {
        Self::from_backend(Box::new(SimBackend::new(options)))
    }

    /// A CUDA device.
    ///
    /// # Errors
    /// [`GpuError::NoDriver`] without a driver, [`GpuError::NoDevice`] without that device; never a panic.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        Ok(Self::from_backend(Box::new(cuda::CudaBackend::new(ordinal)?)))
    }

    /// A device over any backend: how the harness puts a fault injector in between.
    pub fn from_backend(backend: Box<dyn Backend>) -> Self {
        Self { inner: Arc::new(Inner { backend, kernels: Mutex::default(), registered: Mutex::default() }) }
    }

    /// Name and limits.
    pub fn info(&self) -> &DeviceInfo {
        self.backend().info()
    }

    /// Bytes of device memory free now.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn free_bytes(&self) -> Result<u64> {
        self.backend().free_bytes()
    }

    /// Whether two handles are of one device.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The backend, for the runner and for decorators.
    pub fn backend(&self) -> &dyn Backend {
        self.inner.backend.as_ref()
    }

    /// Loads modules; those already loaded cost nothing. A first load compiles, on as many threads as there are modules.
    ///
    /// # Errors
    /// [`GpuError::Compile`] with the compiler's log, [`GpuError::NoCompiler`], [`GpuError::Driver`].
    pub fn load(&self, modules: &[&'static ModuleSource]) -> Result<()> {
        // A panic while the map is held leaves it valid: an entry is inserted whole or not at all.
        let mut kernels = self.inner.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<_> = modules
            .iter()
            .filter(|module| module.kernels.iter().any(|entry| !kernels.contains_key(entry.name)))
            .collect();
        let _span = (!missing.is_empty())
            .then(|| tracing::info_span!("load kernels", modules = missing.len()).entered());
        let loaded: Vec<Result<Vec<Kernel>>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                missing.iter().map(|module| scope.spawn(|| self.backend().load(module))).collect();
            threads.into_iter().map(|thread| thread.join().expect("loading does not panic")).collect()
        });
        for module in loaded {
            kernels.extend(module?.into_iter().map(|kernel| (kernel.entry.name, kernel)));
        }
        Ok(())
    }

    /// A loaded kernel by name.
    pub fn kernel(&self, name: &str) -> Option<Kernel> {
        self.inner.kernels.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// Page-locks host memory where it lies; what is page-locked already, from its first byte to its last, is
    /// so once more.
    pub(crate) fn register(&self, name: &str, memory: &[u8]) -> Result<()> {
        let mut registered = self.inner.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (memory.as_ptr() as usize, memory.len());
        if !registered.contains_key(&key) {
            // SAFETY: the caller, `Registered`, borrows the memory until it unregisters it.
            unsafe { self.backend().register_host(name, memory.as_ptr(), memory.len())? };
        }
        *registered.entry(key).or_insert(0) += 1;
        Ok(())
    }

    /// Undoes one [`register`](Self::register).
    pub(crate) fn unregister(&self, memory: &[u8]) {
        let mut registered = self.inner.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (memory.as_ptr() as usize, memory.len());
        let holders = registered.get_mut(&key).expect("what is unregistered was registered");
        *holders -= 1;
        if *holders == 0 {
            registered.remove(&key);
            // SAFETY: registered above, and nobody else holds it; transfers from it have executed, as their
            // owners promise.
            unsafe { self.backend().unregister_host(memory.as_ptr(), memory.len()) };
        }
    }

    /// Makes a stream.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn stream(&self, name: &str) -> Result<Stream> {
        Ok(Stream { raw: self.backend().create_stream(name)?, device: self.clone() })
    }

    /// Makes an event.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn event(&self, name: &str) -> Result<Event> {
        Ok(Event { raw: self.backend().create_event(name)?, device: self.clone() })
    }

    /// All devices that this machine has: the simulated one, and each CUDA device.
    pub fn all(sim: SimOptions) -> Vec<Self> {
        let cuda = (0..cuda::device_count().unwrap_or(0)).filter_map(|ordinal| Self::cuda(ordinal).ok());
        std::iter::once(Self::sim(sim)).chain(cuda).collect()
    }
}

/// A stream that is destroyed with its handle, after what is queued on it has executed.
#[derive(Debug)]
pub struct Stream {
    raw: RawStream,
    device: Device,
}

impl Stream {
    /// The backend's handle.
    pub fn raw(&self) -> RawStream {
        self.raw
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Blocks until everything queued has executed.
    ///
    /// # Errors
    /// The first failure of what was queued.
    pub fn synchronize(&self, op: &str) -> Result<(), GpuError> {
        self.device.backend().sync_stream(op, self.raw)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.synchronize("release of a stream");
        // SAFETY: the handle is ours and dropped once; everything queued has executed, or the device is lost.
        unsafe { self.device.backend().destroy_stream(self.raw) }
    }
}

/// An event that is destroyed with its handle.
#[derive(Debug)]
pub struct Event {
    raw: RawEvent,
    device: Device,
}

impl Event {
    /// The backend's handle.
    pub fn raw(&self) -> RawEvent {
        self.raw
    }

    /// Records it on a stream.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.device.backend().record(stream.raw, self.raw)
    }

    /// Blocks until it is reached.
    ///
    /// # Errors
    /// The first failure of what it marks the end of.
    pub fn synchronize(&self, op: &str) -> Result<()> {
        self.device.backend().sync_event(op, self.raw)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and dropped once; the driver keeps a recorded event until it is reached.
        unsafe { self.device.backend().destroy_event(self.raw) }
    }
}
