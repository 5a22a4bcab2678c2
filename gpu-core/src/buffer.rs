//! Typed memory: on the device, page-locked for upload, page-locked for download; and transfers that own what they use.
//!
//! Outside a schedule a running copy is an [`InFlight`] value that holds both of its ends. The host side comes back
//! from [`InFlight::wait`]; reading it too early does not compile.

use crate::Result;
use crate::backend::{DevicePtr, HostSpan};
use crate::device::{Device, Event, Stream};
use crate::layout::{Pod, bytes_of, slice_of, slice_of_mut};
use crate::schedule::Space;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use zeroize::Zeroize;

/// Untyped device memory, freed with its last owner.
pub(crate) struct DeviceMemory {
    pub(crate) device: Device,
    pub(crate) ptr: DevicePtr,
    pub(crate) bytes: u64,
}

impl DeviceMemory {
    /// Allocates; nothing at all for 0 bytes.
    pub(crate) fn new(device: &Device, name: &str, bytes: u64) -> Result<Self> {
        let ptr = if bytes == 0 { DevicePtr(0) } else { device.backend().alloc_device(name, bytes)? };
        Ok(Self { device: device.clone(), ptr, bytes })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated in `new`, freed once. Whoever queues an operation on this memory keeps it alive until the
            // operation has executed: `InFlight` owns an `Arc` of it, `run` drains its streams before it returns.
            unsafe { self.device.backend().free_device(self.ptr, self.bytes) }
        }
    }
}

/// Untyped page-locked host memory. Wiped and freed with its owner.
pub(crate) struct PinnedMemory {
    device: Device,
    ptr: *mut u8,
    bytes: usize,
    space: Space,
}

// SAFETY: the memory is owned and reached only through `&self` and `&mut self`.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above; there is no interior mutability.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    pub(crate) fn new(device: &Device, name: &str, bytes: usize, space: Space) -> Result<Self> {
        let ptr = match bytes {
            0 => std::ptr::dangling_mut::<u64>().cast(),
            _ => device.backend().alloc_pinned(name, bytes, space)?,
        };
        Ok(Self { device: device.clone(), ptr, bytes, space })
    }

    pub(crate) fn span(&mut self) -> HostSpan {
        HostSpan { ptr: self.ptr, bytes: self.bytes, space: self.space }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the backend gave `bytes` zeroed bytes (none are dereferenced when there are 0), we own them.
        unsafe { std::slice::from_raw_parts(self.ptr, self.bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.bytes) }
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.bytes_mut().zeroize();
            // SAFETY: allocated in `new`, freed once; transfers own their pinned memory, so none is running.
            unsafe { self.device.backend().free_pinned(self.ptr, self.bytes) }
        }
    }
}

/// `len` values of `T` on the device. Clones share the memory.
pub struct DeviceBuf<T> {
    pub(crate) memory: Arc<DeviceMemory>,
    len: usize,
    kind: PhantomData<T>,
}

impl<T> Clone for DeviceBuf<T> {
    fn clone(&self) -> Self {
        Self { memory: self.memory.clone(), len: self.len, kind: PhantomData }
    }
}

impl<T> fmt::Debug for DeviceBuf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceBuf({} x {} on {})",
            self.len,
            std::any::type_name::<T>(),
            self.memory.device.info().id
        )
    }
}

impl<T: Pod> DeviceBuf<T> {
    /// Allocates memory with undefined contents.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`](crate::GpuError::OutOfMemory).
    pub fn new(device: &Device, name: &str, len: usize) -> Result<Self> {
        let memory = DeviceMemory::new(device, name, (len * size_of::<T>()) as u64)?;
        Ok(Self { memory: Arc::new(memory), len, kind: PhantomData })
    }

    /// Allocates memory and copies `items` into it; returns when they are there.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`](crate::GpuError::OutOfMemory), [`GpuError::Driver`](crate::GpuError::Driver).
    pub fn from_slice(device: &Device, name: &str, items: &[T]) -> Result<Self> {
        let buf = Self::new(device, name, items.len())?;
        if !items.is_empty() {
            let stream = device.stream("load")?;
            let bytes = bytes_of(items);
            let src = HostSpan { ptr: bytes.as_ptr().cast_mut(), bytes: bytes.len(), space: Space::Pageable };
            // SAFETY: `buf` holds exactly these bytes; both outlive the copy, which ends before `synchronize` returns;
            // an upload only reads its source.
            unsafe { device.backend().upload(name, stream.raw(), buf.memory.ptr, src)? };
            stream.synchronize(name)?;
        }
        Ok(buf)
    }

    /// Copies everything back; returns when it is there.
    ///
    /// # Errors
    /// [`GpuError::Driver`](crate::GpuError::Driver).
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let stream = self.memory.device.stream("read")?;
        let host = DownloadBuf::new(&self.memory.device, "read", self.len)?;
        Ok(host.fill_from(&stream, self)?.wait()?.as_slice().to_vec())
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        &self.memory.device
    }
}

/// Page-locked memory that the host writes and the device reads. Not for reading: it may be write-combined.
pub struct UploadBuf<T> {
    memory: PinnedMemory,
    kind: PhantomData<T>,
}

/// Page-locked memory that the device writes and the host reads.
pub struct DownloadBuf<T> {
    memory: PinnedMemory,
    kind: PhantomData<T>,
}

impl<T> fmt::Debug for UploadBuf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UploadBuf({} B)", self.memory.bytes)
    }
}

impl<T> fmt::Debug for DownloadBuf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DownloadBuf({} B)", self.memory.bytes)
    }
}

impl<T: Pod> UploadBuf<T> {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`](crate::GpuError::OutOfMemory).
    pub fn new(device: &Device, name: &str, len: usize) -> Result<Self> {
        let memory = PinnedMemory::new(device, name, len * size_of::<T>(), Space::PinnedUpload)?;
        Ok(Self { memory, kind: PhantomData })
    }

    /// The values, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        slice_of_mut(self.memory.bytes_mut())
    }

    /// Queues a copy to the device; the buffer comes back from [`InFlight::wait`].
    ///
    /// ```
    /// # use gpu_core::{Device, DeviceBuf, GpuError, UploadBuf, sim::SimOptions};
    /// # let device = Device::sim(SimOptions::latest());
    /// # let (stream, target) = (device.stream("s")?, DeviceBuf::<u32>::new(&device, "target", 2)?);
    /// let mut upload = UploadBuf::<u32>::new(&device, "numbers", 2)?;
    /// upload.as_mut_slice().copy_from_slice(&[3, 4]);
    /// let sent = upload.send_to(&stream, &target)?;
    /// let mut upload = sent.wait()?;
    /// upload.as_mut_slice().fill(0);
    /// assert_eq!(target.to_vec()?, [3, 4]);
    /// # Ok::<(), GpuError>(())
    /// ```
    ///
    /// Nobody can write to it before, while the copy may still read it:
    ///
    /// ```compile_fail,E0382
    /// # use gpu_core::{Device, DeviceBuf, GpuError, UploadBuf, sim::SimOptions};
    /// # let device = Device::sim(SimOptions::latest());
    /// # let (stream, target) = (device.stream("s")?, DeviceBuf::<u32>::new(&device, "target", 2)?);
    /// # let mut upload = UploadBuf::<u32>::new(&device, "numbers", 2)?;
    /// let sent = upload.send_to(&stream, &target)?;
    /// upload.as_mut_slice().fill(0);
    /// # Ok::<(), GpuError>(())
    /// ```
    ///
    /// # Errors
    /// [`GpuError::Driver`](crate::GpuError::Driver).
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn send_to(mut self, stream: &Stream, dst: &DeviceBuf<T>) -> Result<InFlight<Self>> {
        assert_eq!(self.memory.bytes as u64, dst.memory.bytes, "upload between buffers of different lengths");
        let done = stream.device().event("upload done")?;
        if self.memory.bytes > 0 {
            let src = self.memory.span();
            // SAFETY: lengths are equal; the returned value owns the source and shares the target, and waits on drop.
            unsafe { stream.device().backend().upload("upload", stream.raw(), dst.memory.ptr, src)? };
        }
        InFlight::started(self, dst.memory.clone(), stream, done)
    }
}

impl<T: Pod> DownloadBuf<T> {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`](crate::GpuError::OutOfMemory).
    pub fn new(device: &Device, name: &str, len: usize) -> Result<Self> {
        let memory = PinnedMemory::new(device, name, len * size_of::<T>(), Space::PinnedDownload)?;
        Ok(Self { memory, kind: PhantomData })
    }

    /// The values.
    pub fn as_slice(&self) -> &[T] {
        slice_of(self.memory.bytes())
    }

    /// Queues a copy from the device; the buffer comes back from [`InFlight::wait`].
    ///
    /// # Errors
    /// [`GpuError::Driver`](crate::GpuError::Driver).
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn fill_from(mut self, stream: &Stream, src: &DeviceBuf<T>) -> Result<InFlight<Self>> {
        assert_eq!(
            self.memory.bytes as u64, src.memory.bytes,
            "download between buffers of different lengths"
        );
        let done = stream.device().event("download done")?;
        if self.memory.bytes > 0 {
            let dst = self.memory.span();
            // SAFETY: lengths are equal; the returned value owns the target and shares the source, and waits on drop.
            unsafe { stream.device().backend().download("download", stream.raw(), dst, src.memory.ptr)? };
        }
        InFlight::started(self, src.memory.clone(), stream, done)
    }
}

/// Host memory of the caller's, page-locked where it lies for as long as this lives. It is not wiped: it is the
/// caller's.
pub struct Registered<'a, T> {
    device: Device,
    bytes: &'a [u8],
    kind: PhantomData<T>,
}

impl<T> fmt::Debug for Registered<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registered({} B)", self.bytes.len())
    }
}

impl<'a, T: Pod> Registered<'a, T> {
    /// Page-locks memory, which costs about as much as copying it. The same memory may be registered more than once.
    ///
    /// # Errors
    /// [`GpuError::Driver`](crate::GpuError::Driver): memory that overlaps other memory that is page-locked, that is mapped
    /// read-only, or more than the system lets be locked.
    pub fn new(device: &Device, name: &str, items: &'a [T]) -> Result<Self> {
        let bytes = bytes_of(items);
        if !bytes.is_empty() {
            device.register(name, bytes)?;
        }
        Ok(Self { device: device.clone(), bytes, kind: PhantomData })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.bytes.len() / size_of::<T>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<T> Drop for Registered<'_, T> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.device.unregister(self.bytes);
        }
    }
}

/// A running copy, which owns its host memory and keeps its device memory alive.
///
/// Dropping it waits. Leaking it leaks the memory and is harmless.
#[must_use = "the copy's memory comes back from `wait`"]
pub struct InFlight<B> {
    host: Option<B>,
    done: Event,
    _device: Arc<DeviceMemory>,
}

impl<B> fmt::Debug for InFlight<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InFlight")
    }
}

impl<B> InFlight<B> {
    fn started(host: B, device: Arc<DeviceMemory>, stream: &Stream, done: Event) -> Result<Self> {
        if let Err(error) = done.record(stream) {
            // The copy may be queued: nothing is released before the stream has drained.
            let _ = stream.synchronize("copy");
            return Err(error);
        }
        Ok(Self { host: Some(host), done, _device: device })
    }

    /// Blocks until the copy has executed and gives the host memory back.
    ///
    /// # Errors
    /// The copy's failure.
    pub fn wait(mut self) -> Result<B> {
        self.done.synchronize("copy")?;
        Ok(self.host.take().expect("taken once, here"))
    }
}

impl<B> Drop for InFlight<B> {
    fn drop(&mut self) {
        if self.host.is_some() {
            let _ = self.done.synchronize("copy");
        }
    }
}
