//! Memory of the simulated device: each allocation in a mapping of its own, closed except to the operation
//! that declares it.
//!
//! An allocation ends at an inaccessible guard zone and starts after another one. It is aligned to the
//! largest power of two, from 16 to 256, that divides its size, so that its end meets the guard zone within
//! 15 bytes.

use super::runtime::Fault;
use crate::error::GpuError;
use crate::schedule::Space;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Byte that fills fresh device memory, shared memory, and the target of a download that has not executed.
pub const POISON: u8 = 0xA5;
/// Inaccessible bytes on both sides of an allocation.
const GUARD_BYTES: u64 = 1 << 20;
/// Freed allocations that stay inaccessible, so that a use after free is named.
const QUARANTINE_COUNT_MAX: usize = 256;

/// Bytes that an operation declares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declared {
    pub(super) ptr: u64,
    pub(super) bytes: u64,
    pub(super) write: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    None,
    Read,
    Write,
}

/// Pages of an allocation and how they can be accessed now. Pages in no span are closed.
type Spans = Vec<(Range<u64>, Access)>;

/// Owned pages with guard zones on both sides.
#[derive(Debug)]
struct Mapping {
    base: u64,
    bytes: u64,
}

impl Mapping {
    /// Maps inaccessible pages; `None` if the host has none.
    fn new(bytes: u64) -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address that the kernel picks touches nothing that exists.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), usize::try_from(bytes).ok()?, libc::PROT_NONE, flags, -1, 0)
        };
        (base != libc::MAP_FAILED).then_some(Self { base: base as u64, bytes })
    }

    fn protect(&self, range: &Range<u64>, access: Access) {
        let prot = match access {
            Access::None => libc::PROT_NONE,
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        assert!(self.base <= range.start && range.end <= self.base + self.bytes, "pages of this mapping");
        // SAFETY: the pages are ours; device memory has no references into it, only raw copies and kernels
        // under the lock.
        let outcome =
            unsafe { libc::mprotect(range.start as *mut _, (range.end - range.start) as usize, prot) };
        assert_eq!(outcome, 0, "mprotect: {}", std::io::Error::last_os_error());
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing uses it: freed memory is unreachable by contract.
        unsafe { libc::munmap(self.base as *mut _, self.bytes as usize) };
    }
}

#[derive(Debug)]
struct Allocation {
    name: String,
    ptr: u64,
    bytes: u64,
    pages: Range<u64>,
    mapping: Mapping,
    spans: Spans,
}

impl Allocation {
    fn new(name: &str, bytes: u64, is_pinned: bool) -> Option<Self> {
        let page = page_bytes();
        let align = if is_pinned { page } else { (1 << bytes.trailing_zeros().min(8)).max(16) };
        let page_count_bytes = bytes.checked_next_multiple_of(page)?;
        let mapping = Mapping::new(page_count_bytes.checked_add(2 * GUARD_BYTES)?)?;
        let pages = mapping.base + GUARD_BYTES..mapping.base + GUARD_BYTES + page_count_bytes;
        let ptr = (pages.end - bytes) / align * align;
        let mut allocation = Self { name: name.into(), ptr, bytes, pages, mapping, spans: Vec::new() };
        allocation.open(vec![(allocation.pages.clone(), Access::Write)]);
        Some(allocation)
    }

    /// Changes the protection of the pages to exactly these spans.
    fn open(&mut self, spans: Spans) {
        if self.spans == spans {
            return;
        }
        let is_exchange = spans.len() == 1 && self.spans.len() == 1 && spans[0].0 == self.spans[0].0;
        if !is_exchange && !self.spans.is_empty() {
            self.mapping.protect(&self.pages, Access::None);
        }
        for (range, access) in &spans {
            self.mapping.protect(range, *access);
        }
        self.spans = spans;
    }

    fn end(&self) -> u64 {
        self.ptr + self.bytes
    }

    /// Copies the bytes. `self` must be open for reading, or it faults.
    fn find(&self, pattern: &[u8]) -> Option<u64> {
        // SAFETY: the caller has opened all pages; both ranges are live.
        let found = unsafe {
            libc::memmem(self.ptr as *const _, self.bytes as usize, pattern.as_ptr().cast(), pattern.len())
        };
        (!found.is_null()).then(|| found as u64 - self.ptr)
    }
}

/// Bytes next to written regions, as they were before the operation.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    kept: Vec<(u64, Vec<u8>)>,
}

/// Sizes in use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) device: u64,
    pub(super) device_peak: u64,
    pub(super) pinned: u64,
}

/// All memory of one simulated device.
#[derive(Debug)]
pub(super) struct Memory {
    limit: u64,
    quarantine_max: u64,
    usage: Usage,
    device: BTreeMap<u64, Allocation>,
    pinned: BTreeMap<u64, Allocation>,
    /// Ranges of the host's own memory that are page-locked: start to end.
    registered: BTreeMap<u64, u64>,
    freed: VecDeque<Allocation>,
    freed_bytes: u64,
    open: Vec<u64>,
}

impl Memory {
    pub(super) fn new(limit: u64, quarantine_max: u64) -> Self {
        Self {
            limit,
            quarantine_max,
            usage: Usage::default(),
            device: BTreeMap::new(),
            pinned: BTreeMap::new(),
            registered: BTreeMap::new(),
            freed: VecDeque::new(),
            freed_bytes: 0,
            open: Vec::new(),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.limit - self.usage.device
    }

    /// Allocates poisoned device memory.
    pub(super) fn alloc_device(&mut self, name: &str, bytes: u64) -> Result<u64, GpuError> {
        let refuse = || GpuError::OutOfMemory {
            op: format!("device buffer {name}"),
            needed_bytes: bytes,
            free_bytes: self.free_bytes(),
        };
        if bytes > self.free_bytes() {
            return Err(refuse());
        }
        let allocation = Allocation::new(name, bytes, false).ok_or_else(refuse)?;
        let pages = allocation.pages.clone();
        // SAFETY: the pages are ours and open for writing.
        unsafe { std::ptr::write_bytes(pages.start as *mut u8, POISON, (pages.end - pages.start) as usize) };
        let ptr = allocation.ptr;
        self.device.insert(ptr, allocation);
        self.open.push(ptr);
        self.usage.device += bytes;
        self.usage.device_peak = self.usage.device_peak.max(self.usage.device);
        Ok(ptr)
    }

    /// Allocates zeroed host memory that the host can access at any time.
    pub(super) fn alloc_pinned(&mut self, name: &str, bytes: u64, space: Space) -> Result<u64, GpuError> {
        let allocation = Allocation::new(name, bytes, true).ok_or_else(|| GpuError::OutOfMemory {
            op: format!("page-locked buffer {name} ({space:?})"),
            needed_bytes: bytes,
            free_bytes: 0,
        })?;
        let ptr = allocation.ptr;
        self.pinned.insert(ptr, allocation);
        self.usage.pinned += bytes;
        Ok(ptr)
    }

    /// Frees device memory: closed for good, and kept for a while.
    ///
    /// # Panics
    /// If it was not allocated, or is freed twice.
    pub(super) fn free_device(&mut self, ptr: u64, bytes: u64) {
        let allocation = self.device.remove(&ptr).expect("freed memory was allocated, and is freed once");
        assert_eq!(allocation.bytes, bytes, "size of {} when freed", allocation.name);
        self.open.retain(|open| *open != ptr);
        self.usage.device -= bytes;
        self.retire(allocation);
    }

    /// As [`free_device`](Self::free_device), for host memory.
    pub(super) fn free_pinned(&mut self, ptr: u64, bytes: u64) {
        let allocation = self.pinned.remove(&ptr).expect("freed memory was allocated, and is freed once");
        assert_eq!(allocation.bytes, bytes, "size of {} when freed", allocation.name);
        self.usage.pinned -= bytes;
        self.retire(allocation);
    }

    /// Page-locks memory of the host's own. A range that overlaps another one is refused, as CUDA does.
    pub(super) fn register(&mut self, name: &str, ptr: u64, bytes: u64) -> Result<(), GpuError> {
        let end = ptr + bytes;
        if self.registered.range(..end).next_back().is_some_and(|(_, last)| *last > ptr) {
            return Err(GpuError::Driver {
                op: format!("page-locking {name}"),
                cause: "a part of it is page-locked already".into(),
            });
        }
        self.registered.insert(ptr, end);
        self.usage.pinned += bytes;
        Ok(())
    }

    /// Undoes [`register`](Self::register).
    ///
    /// # Panics
    /// If this range was not registered.
    pub(super) fn unregister(&mut self, ptr: u64, bytes: u64) {
        let end = self.registered.remove(&ptr);
        assert_eq!(end, Some(ptr + bytes), "what is unregistered was registered, as it is given");
        self.usage.pinned -= bytes;
    }

    fn retire(&mut self, mut allocation: Allocation) {
        allocation.open(Vec::new());
        self.freed_bytes += allocation.bytes;
        self.freed.push_back(allocation);
        while self.freed_bytes > self.quarantine_max || self.freed.len() > QUARANTINE_COUNT_MAX {
            let oldest = self.freed.pop_front().expect("bytes are held by entries");
            self.freed_bytes -= oldest.bytes;
        }
    }

    /// Whether host bytes lie in page-locked memory, as a copy that executes later needs.
    pub(super) fn check_pinned(&self, ptr: u64, bytes: u64) -> Result<(), String> {
        let is_registered =
            self.registered.range(..=ptr).next_back().is_some_and(|(_, end)| ptr + bytes <= *end);
        match self.pinned.range(..=ptr).next_back() {
            _ if is_registered => Ok(()),
            Some((_, allocation)) if ptr + bytes <= allocation.end() => Ok(()),
            _ => Err(format!("{bytes} host bytes at {ptr:#x} are not in page-locked memory")),
        }
    }

    /// Opens device memory for an operation, and closes what it does not declare.
    pub(super) fn open(&mut self, declared: &[Declared]) -> Result<(), String> {
        let mut owners = Vec::with_capacity(declared.len());
        for region in declared {
            match self.device.range(..=region.ptr).next_back() {
                Some((ptr, allocation)) if region.ptr + region.bytes <= allocation.end() => owners.push(*ptr),
                _ => return Err(format!("declares {}", self.describe(region.ptr, Some(region.bytes)))),
            }
        }
        for ptr in std::mem::take(&mut self.open) {
            if !owners.contains(&ptr) {
                self.allocation(ptr).open(Vec::new());
            }
        }
        for (i, ptr) in owners.iter().enumerate() {
            if owners[..i].contains(ptr) {
                continue;
            }
            let of_it = declared.iter().zip(&owners).filter(|(_, owner)| *owner == ptr);
            let spans = page_spans(of_it.map(|(region, _)| region));
            self.allocation(*ptr).open(spans);
            self.open.push(*ptr);
        }
        Ok(())
    }

    fn allocation(&mut self, ptr: u64) -> &mut Allocation {
        self.device.get_mut(&ptr).expect("open memory is live")
    }

    /// Keeps the bytes that share an open page with a written region without belonging to one: a kernel can
    /// change them without a fault. To be called after [`open`](Self::open).
    pub(super) fn snapshot(&self, declared: &[Declared]) -> Snapshot {
        let mut written: Vec<_> = declared
            .iter()
            .filter(|region| region.write)
            .map(|region| region.ptr..region.ptr + region.bytes)
            .collect();
        written.sort_by_key(|range| range.start);
        let mut kept = Vec::new();
        for allocation in self.open.iter().map(|ptr| &self.device[ptr]) {
            for (pages, access) in &allocation.spans {
                if *access != Access::Write {
                    continue;
                }
                let mut at = pages.start;
                let inside =
                    written.iter().filter(|range| range.start < pages.end && range.end > pages.start);
                for range in inside.chain(std::iter::once(&(pages.end..pages.end))) {
                    if at < range.start {
                        // SAFETY: the pages are open for this operation.
                        let bytes = unsafe {
                            std::slice::from_raw_parts(at as *const u8, (range.start - at) as usize)
                        };
                        kept.push((at, bytes.to_vec()));
                    }
                    at = at.max(range.end);
                }
            }
        }
        Snapshot { kept }
    }

    /// Whether the kept bytes are unchanged; restores them, and describes the first that is not.
    pub(super) fn compare(&self, snapshot: &Snapshot, declared: &[Declared]) -> Result<(), String> {
        let mut outcome = Ok(());
        for (start, kept) in &snapshot.kept {
            // SAFETY: the pages are still open, as `open` has not been called since the snapshot.
            let now = unsafe { std::slice::from_raw_parts_mut(*start as *mut u8, kept.len()) };
            if let Some(at) = kept.iter().zip(&*now).position(|(before, after)| before != after) {
                let address = start + at as u64;
                let place = self.describe_access(address, true, declared);
                outcome = outcome.and(Err(format!("writes {place}")));
                now.copy_from_slice(kept);
            }
        }
        outcome
    }

    /// Says what a faulting access was about.
    pub(super) fn describe_fault(&self, fault: &Fault, declared: &[Declared]) -> String {
        self.describe_access(fault.address, fault.is_write(), declared)
    }

    fn describe_access(&self, address: u64, is_write: bool, declared: &[Declared]) -> String {
        let place = self.describe(address, None);
        let of = declared.iter().find(|region| region.ptr <= address && address < region.ptr + region.bytes);
        match of {
            Some(region) if is_write && !region.write => format!("{place}, declared as read"),
            None if self.device.values().any(|live| live.ptr <= address && address < live.end()) => {
                format!("{place}, not declared")
            }
            _ => place,
        }
    }

    /// Names an address, or a region, by its buffer: the live or freed one that it lies in, or next to.
    fn describe(&self, address: u64, bytes: Option<u64>) -> String {
        let near = |allocation: &&Allocation| {
            let mapping = &allocation.mapping;
            mapping.base <= address && address < mapping.base + mapping.bytes
        };
        let offset = |allocation: &Allocation| {
            let at = address.wrapping_sub(allocation.ptr) as i64;
            match bytes {
                Some(bytes) => format!("buffer {} at bytes {at} to {}", allocation.name, at + bytes as i64),
                None => format!("buffer {} at byte {at}", allocation.name),
            }
        };
        if let Some(freed) = self.freed.iter().rev().find(near) {
            return format!("{}, which is freed", offset(freed));
        }
        match self.device.values().chain(self.pinned.values()).find(near) {
            Some(live) => {
                let last = address + bytes.unwrap_or(1);
                let is_inside = live.ptr <= address && last <= live.end();
                let bounds =
                    if is_inside { String::new() } else { format!(", out of its {} bytes", live.bytes) };
                format!("{}{bounds}", offset(live))
            }
            None => format!("address {address:#x}, which is no device memory"),
        }
    }

    /// Where a pattern is: in live and freed device memory, and in page-locked memory.
    pub(super) fn find(&mut self, pattern: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        let mut search = |kind: &str, allocation: &Allocation| {
            if let Some(at) = allocation.find(pattern) {
                found.push(format!("{kind} buffer {} at byte {at}", allocation.name));
            }
        };
        for (kind, allocations) in [
            ("device", self.device.values_mut().collect::<Vec<_>>()),
            ("freed", self.freed.iter_mut().collect()),
        ] {
            for allocation in allocations {
                allocation.open(vec![(allocation.pages.clone(), Access::Read)]);
                search(kind, allocation);
                allocation.open(Vec::new());
            }
        }
        self.open.clear();
        for allocation in self.pinned.values() {
            search("page-locked", allocation);
        }
        found
    }
}

/// The pages that regions of one allocation touch, each with the strongest access that one of them needs.
fn page_spans<'a>(regions: impl Iterator<Item = &'a Declared>) -> Spans {
    let page = page_bytes();
    let wanted: Vec<(Range<u64>, Access)> = regions
        .map(|region| {
            let pages = region.ptr / page * page..(region.ptr + region.bytes).next_multiple_of(page);
            (pages, if region.write { Access::Write } else { Access::Read })
        })
        .collect();
    let mut cuts: Vec<u64> = wanted.iter().flat_map(|(pages, _)| [pages.start, pages.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut spans: Spans = Vec::new();
    for cut in cuts.windows(2) {
        let covering = wanted.iter().filter(|(pages, _)| pages.start <= cut[0] && cut[1] <= pages.end);
        let access = covering.map(|(_, access)| *access).max().unwrap_or(Access::None);
        match spans.last_mut() {
            _ if access == Access::None => {}
            Some((pages, last)) if *last == access && pages.end == cut[0] => pages.end = cut[1],
            _ => spans.push((cut[0]..cut[1], access)),
        }
    }
    spans
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_take_the_strongest_access_and_leave_gaps_closed() {
        let page = page_bytes();
        let region = |ptr, bytes, write| Declared { ptr, bytes, write };
        let regions = [
            region(page, page, false),
            region(2 * page + 8, 8, false),
            region(2 * page + 64, 8, true),
            region(9 * page, 1, false),
        ];
        let spans = page_spans(regions.iter());
        assert_eq!(
            spans,
            [
                (page..2 * page, Access::Read),
                (2 * page..3 * page, Access::Write),
                (9 * page..10 * page, Access::Read)
            ]
        );
    }
}
