//! The schedules of a batched MSM. Strategies differ here and nowhere else: the kernels are the same.
//!
//! Three streams: `upload` takes scalars to the device, `compute` turns them into rows, `download` brings
//! rows back. The work of batch i, with slot s = i mod slots:
//!
//! ```text
//! host      stage        caller's scalars of the batch -> scalars_host[s]
//! upload    upload       scalars_host[s] -> scalars[s]
//!           upload       bases of the batch -> bases[s], where they are streamed from the host
//! compute   recode       scalars[s] -> signed digits, and a mark for scalars equal to one
//!           partition    digits -> entries in partitions of neighbouring buckets, where there are many
//!           count, scan  digits or entries -> where the entries of each bucket start
//!           scatter      digits or entries -> entries, sorted by bucket
//!           pair         entries and bases -> points, half as many or fewer, where rounds of pairs pay
//!           accumulate   entries and bases, or points -> buckets, and partial sums where a run spans threads
//!           merge        partial sums -> buckets
//!           sum lines    buckets -> sums of rows and columns of them, by halves of their weight
//!           sum bits     lines -> rows, one for each bit
//! download  download     rows -> rows_host[s]
//! host      fold         rows_host[s] -> the running total
//! ```
//!
//! `rows` exists once on the device. With deferral the host has not waited for batch i-1 when batch i is queued, so the
//! reduction of batch i waits for the download of batch i-1 by an event: the *device-side edge*. Without it the rows of
//! one batch are overwritten while they are on their way down.
//!
//! With [`Strategy::Threaded`] the last line belongs to a host thread of its own, the [`COLLECTOR`]. It is
//! told by a flag that a batch is queued, and tells by another that the batch is folded; the host waits for
//! that before it uses the slot again.
//!
//! Where results arrive ([`ResultMemory`]) changes the kind of `rows_host` and nothing else. With pageable
//! slots the checker reports the waits for them as surplus: a download that blocks the host has left nothing
//! to wait for.

use crate::plan::{
    GroupKind, MERGE_HOT_BLOCKS, MERGE_HOT_THREADS, MsmPlan, REDUCE_BLOCK, ResultMemory, SCALAR_BITS,
    SCAN_TILE, ScalarForm, Strategy,
};
use gpu_core::Space;
use gpu_core::schedule::{
    Action, Arg, BufferId, EventId, FlagId, Launch, MAIN, Region, Schedule, StreamId, ThreadId, Work,
};

/// Name of the host step that copies the caller's scalars of a batch into its slot (written: the slot).
pub const STAGE: &str = "stage";
/// Name of the host step that folds the rows of a batch (read: the slot).
pub const FOLD: &str = "fold";

/// Name of the host thread that collects results, with [`Strategy::Threaded`]. All MSMs of a schedule share
/// it.
pub const COLLECTOR: &str = "collector";

const THREADS: u32 = 256;
const POINT_THREADS: u32 = 128;
/// Threads of a block that sums up lines for a bit, at most.
const BITS_BLOCK_MAX: u32 = 128;
const INVERT_BLOCK: u32 = 64;
/// Threads of a block of the partition kernels, and digits that it takes at a time.
const TILE_THREADS: u32 = 512;
const TILE: u64 = 8192;
/// Blocks of a row that count partitions.
const COUNT_BLOCKS: u64 = 64;

// What estimates rest on beside the device's profile; measured on the host of an H200 (16 virtual CPUs) with
// `harness timeline`, and good for other hosts to a factor.

/// Bytes that the host stages in a microsecond, all cores together.
const STAGE_BYTES_PER_US: f64 = 40e3;
/// Microseconds until the pool's threads, asleep since the last run, copy at that rate.
const STAGE_WAKE_US: f64 = 400.0;
/// Microseconds of the host's multiplication in Fp, inside point additions.
const HOST_MUL_US: f64 = 0.1;
/// An inversion, in multiplications of a lone thread.
const INVERSION_MULS: f64 = 50.0;
/// How much longer a lone addition takes as a call than inlined.
const CALLED: f64 = 1.6;

/// Buffers of an MSM schedule by what they hold.
struct Buffers {
    bases: BufferId,
    /// Where bases from the host go, a batch a slot; none where they are on the device.
    base_slots: Vec<BufferId>,
    scalars_host: Vec<BufferId>,
    scalars: Vec<BufferId>,
    digits: BufferId,
    counts: BufferId,
    offsets: BufferId,
    tile_sums: BufferId,
    entries: BufferId,
    partitions: Option<PartitionBuffers>,
    pairs: Option<PairBuffers>,
    heads: BufferId,
    tails: BufferId,
    spans: BufferId,
    hot: BufferId,
    buckets: BufferId,
    lines: BufferId,
    rows: BufferId,
    rows_host: Vec<BufferId>,
}

/// What a sort by way of partitions keeps.
struct PartitionBuffers {
    /// Digits of each partition, then where it begins, then where it ends.
    ends: BufferId,
    keys: BufferId,
    items: BufferId,
}

/// What rounds of pairs keep.
struct PairBuffers {
    prefixes: BufferId,
    totals: BufferId,
    /// Points of a slice after each round but the last.
    levels: Vec<BufferId>,
    /// Points of the batch after the last.
    points: BufferId,
}

/// Marks, one of each kind a ring slot.
struct Events {
    uploaded: Vec<EventId>,
    recoded: Vec<EventId>,
    /// Bases of a batch from the host are there, and have been added up.
    bases_uploaded: Vec<EventId>,
    bases_added: Vec<EventId>,
    reduced: Vec<EventId>,
    downloaded: Vec<EventId>,
}

/// The host thread that collects, and what it and the first tell each other.
struct Collector {
    thread: ThreadId,
    /// For each batch: all its work is queued.
    queued: Vec<FlagId>,
    /// For each batch whose slot is needed again: its rows are folded.
    folded: Vec<FlagId>,
}

/// Streams that an MSM is queued on.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    /// Scalars go up here.
    pub upload: StreamId,
    /// Kernels run here.
    pub compute: StreamId,
    /// Rows come down here.
    pub download: StreamId,
}

impl Streams {
    /// Declares the three.
    pub fn declare(schedule: &mut Schedule) -> Self {
        let (upload, compute) = (schedule.stream("upload"), schedule.stream("compute"));
        Self { upload, compute, download: schedule.stream("download") }
    }
}

/// Where the scalars of an MSM come from.
#[derive(Debug, Clone, Copy)]
pub enum ScalarSource {
    /// From the caller, batch by batch, through the host step [`STAGE`].
    Staged,
    /// From device memory that holds all of them, written earlier on the compute stream.
    Device(Region),
}

/// An MSM inside a schedule: its buffers and events, from which its operations are pushed.
///
/// A schedule of several MSMs declares a part for each, pushes the work of all, and then collects.
pub struct MsmPart {
    plan: MsmPlan,
    prefix: String,
    source: ScalarSource,
    streams: Streams,
    buffers: Buffers,
    events: Events,
    collector: Option<Collector>,
}

impl std::fmt::Debug for MsmPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MsmPart({}{:?})", self.prefix, self.plan)
    }
}

impl MsmPart {
    /// Declares the buffers and events of a plan; their names, and those of its host steps, start with
    /// `prefix`.
    pub fn declare(
        schedule: &mut Schedule,
        plan: &MsmPlan,
        prefix: &str,
        bases: BufferId,
        source: ScalarSource,
        streams: Streams,
    ) -> Self {
        let buffers = Buffers::declare(plan, schedule, prefix, bases, &source);
        let events = Events::declare(plan, schedule, prefix, &source);
        let collector = match plan.strategy {
            Strategy::Threaded { .. } if plan.batch_count > 0 => {
                Some(Collector::declare(plan, schedule, prefix))
            }
            _ => None,
        };
        Self { plan: *plan, prefix: prefix.into(), source, streams, buffers, events, collector }
    }

    /// Pushes the work of every batch, and collects those whose slots are needed again.
    pub fn push_work(&self, schedule: &mut Schedule) {
        let mut builder = Builder { part: self, plan: &self.plan, schedule };
        builder.clear_counts();
        match self.plan.strategy {
            Strategy::Hard | Strategy::Deferred { .. } | Strategy::Threaded { .. } => {
                builder.rows_per_batch()
            }
            Strategy::OnDevice => builder.rows_at_end(),
        }
    }

    /// Pushes the collection of the batches that [`push_work`](Self::push_work) left.
    pub fn push_collect(&self, schedule: &mut Schedule) {
        let mut builder = Builder { part: self, plan: &self.plan, schedule };
        for batch in self.plan.first_uncollected()..self.plan.batch_count {
            builder.collect(MAIN, batch);
        }
    }
}

struct Builder<'a> {
    part: &'a MsmPart,
    plan: &'a MsmPlan,
    schedule: &'a mut Schedule,
}

/// What the steps of the sort of a batch share.
struct SortWork {
    len: u64,
    rows: u64,
    digits: Region,
    shape: [Arg; 4],
}

/// What is counted and scattered.
enum SortSource {
    Digits(Region),
    /// Entries with their buckets, in partitions.
    Partitions {
        keys: Region,
        items: Region,
        ends: Region,
        tiles: u64,
    },
}

/// What a pair costs in the two passes over it. Coordinates that are anywhere come in larger pieces than they are asked for,
/// and the products that use them wait a little for them.
struct PairCost {
    forward_bytes: u64,
    backward_muls: f64,
    backward_bytes: u64,
}

impl PairCost {
    fn of_entries(affine: u64) -> Self {
        Self { forward_bytes: 8 + 7 * affine / 2, backward_muls: 5.4, backward_bytes: 8 + 5 * affine }
    }

    fn of_points(affine: u64) -> Self {
        Self { forward_bytes: 5 * affine / 2, backward_muls: 5.0, backward_bytes: 7 * affine / 2 }
    }
}

/// Work that is bound by memory: bytes as if they were read and written in a row, so more than there are where they are not.
fn moved(bytes: u64) -> Work {
    Work { bytes: bytes as f64, ..Work::default() }
}

/// The bases' buffer in every schedule of [`build`]: the caller binds it.
pub const BASES: BufferId = BufferId(0);

/// The scalars' buffer in every schedule of [`build_resident`]: the caller binds it.
pub const SCALARS: BufferId = BufferId(1);

/// Declares everything that an MSM needs, from staged scalars or from resident ones.
fn declare(plan: &MsmPlan, is_resident: bool) -> (Schedule, MsmPart) {
    let (word, batches) = (plan.group.word(), plan.batch_count);
    let results = match plan.result_memory {
        ResultMemory::Pinned => "",
        ResultMemory::Pageable => ", pageable results",
    };
    let scalars = if is_resident { ", resident scalars" } else { "" };
    let streamed = if plan.streamed { ", streamed bases" } else { "" };
    let mut schedule = Schedule::new(format!(
        "msm {word} n={} batches={batches} {}{results}{scalars}{streamed}",
        plan.base_count,
        plan.pattern()
    ));
    let place = if plan.streamed { Space::Registered } else { Space::Resident };
    let bases = schedule.buffer("bases", place, plan.bases_bytes());
    assert_eq!(bases, BASES, "the bases are the first buffer");
    let source = match is_resident {
        false => ScalarSource::Staged,
        true => {
            let scalars = schedule.secret_buffer("scalars", Space::Resident, 32 * plan.base_count);
            assert_eq!(scalars, SCALARS, "the scalars are the second buffer");
            ScalarSource::Device(schedule.whole(scalars))
        }
    };
    let streams = Streams::declare(&mut schedule);
    let part = MsmPart::declare(&mut schedule, plan, "", bases, source, streams);
    (schedule, part)
}

/// Builds the schedule of a plan for scalars that the host stages. Nothing runs.
pub fn build(plan: &MsmPlan) -> Schedule {
    pushed(declare(plan, false))
}

/// Builds the schedule of a plan for scalars that are on the device. Nothing runs.
pub fn build_resident(plan: &MsmPlan) -> Schedule {
    pushed(declare(plan, true))
}

fn pushed((mut schedule, part): (Schedule, MsmPart)) -> Schedule {
    part.push_work(&mut schedule);
    part.push_collect(&mut schedule);
    schedule
}

/// Device memory of a run, resident bases apart.
pub(crate) fn device_bytes(plan: &MsmPlan) -> u64 {
    declare(plan, false).0.bytes_in(Space::Device)
}

impl Builder<'_> {
    /// Every batch is reduced and brought down; its slot is collected when it is needed again.
    fn rows_per_batch(&mut self) {
        let slots = self.plan.slot_count();
        for batch in 0..self.plan.batch_count {
            // The slot of this batch is free once the batch that last filled it has been folded.
            let collected = (batch + 1).saturating_sub(slots);
            if batch >= slots {
                self.free_slot(batch - slots);
            }
            self.send(batch);
            self.send_bases(batch);
            self.sort(batch);
            self.fill_buckets(batch, false);
            self.sum_lines(batch);
            if batch > collected {
                self.wait_rows_free(batch);
            }
            self.sum_bits(batch);
            self.bring(batch);
            self.hand_over(batch);
        }
    }

    /// Before the slot of a batch is used again: the host collects it, or waits until it has been.
    fn free_slot(&mut self, batch: u32) {
        match &self.part.collector {
            None => self.collect(MAIN, batch),
            Some(collector) => {
                let flag = collector.folded[batch as usize];
                self.schedule.push("rows_folded", Some(batch), Action::Await { flag });
            }
        }
    }

    /// Leaves a batch that is queued to the collector, if there is one.
    fn hand_over(&mut self, batch: u32) {
        let Some(Collector { thread, queued, folded }) = &self.part.collector else { return };
        let flag = queued[batch as usize];
        self.schedule.push("batch_queued", Some(batch), Action::Signal { flag });
        self.schedule.push_on(*thread, "batch_queued", Some(batch), Action::Await { flag });
        self.collect(*thread, batch);
        if let Some(&flag) = folded.get(batch as usize) {
            self.schedule.push_on(*thread, "rows_folded", Some(batch), Action::Signal { flag });
        }
    }

    /// Buckets stay; the host waits for nothing but a free slot for the next scalars, and at the end.
    fn rows_at_end(&mut self) {
        let (plan, slots) = (self.plan, self.plan.slot_count());
        for batch in 0..plan.batch_count {
            if batch >= slots && matches!(self.part.source, ScalarSource::Staged) {
                let event = self.part.events.recoded[self.slot(batch)];
                self.schedule.push("scalars_recoded", Some(batch - slots), Action::HostWait { event });
            }
            self.send(batch);
            self.send_bases(batch);
            self.sort(batch);
            self.fill_buckets(batch, batch > 0);
        }
        if let Some(last) = plan.batch_count.checked_sub(1) {
            self.sum_lines(last);
            self.sum_bits(last);
            self.bring(last);
        }
    }

    /// Slot of the scalars of a batch.
    fn slot(&self, batch: u32) -> usize {
        (batch % self.plan.slot_count()) as usize
    }

    /// Slot of the rows of a batch.
    fn result_slot(&self, batch: u32) -> usize {
        (batch % self.plan.result_slot_count()) as usize
    }

    fn batch_len(&self, batch: u32) -> u64 {
        let range = self.plan.batch(batch);
        range.end - range.start
    }

    /// The first `bytes` of a buffer.
    fn first(&self, buffer: BufferId, bytes: u64) -> Region {
        Region { buffer, offset: 0, bytes }
    }

    fn whole(&self, buffer: BufferId) -> Region {
        self.schedule.whole(buffer)
    }

    fn launch(&mut self, kernel: String, batch: u32, grid: [u64; 2], block: u32, args: Vec<Arg>, work: Work) {
        let grid = grid.map(|blocks| u32::try_from(blocks).expect("a plan's grids fit 32 bits"));
        let launch = Launch { kernel: kernel.clone().into(), grid, block, args, work };
        self.schedule.push(kernel, Some(batch), Action::Launch { stream: self.part.streams.compute, launch });
    }

    fn record(&mut self, name: &'static str, batch: u32, stream: StreamId, event: EventId) {
        self.schedule.push(name, Some(batch), Action::Record { stream, event });
    }

    fn wait(&mut self, name: &'static str, batch: u32, stream: StreamId, event: EventId) {
        self.schedule.push(name, Some(batch), Action::Wait { stream, event });
    }

    /// Counters start at zero; scattering takes each of them back to zero, so this is done once.
    fn clear_counts(&mut self) {
        if self.plan.batch_count > 0 {
            let dst = self.whole(self.part.buffers.counts);
            self.schedule.push(
                "clear_counts",
                None,
                Action::Fill { stream: self.part.streams.compute, dst, byte: 0 },
            );
        }
    }

    /// Brings the scalars of a batch to the device, if they are not there.
    fn send(&mut self, batch: u32) {
        if let ScalarSource::Device(_) = self.part.source {
            return;
        }
        let (slot, bytes) = (self.slot(batch), 32 * self.batch_len(batch));
        let src = self.first(self.part.buffers.scalars_host[slot], bytes);
        let dst = self.first(self.part.buffers.scalars[slot], bytes);
        let wake_us = if batch == 0 { STAGE_WAKE_US } else { 0.0 };
        let host_us = wake_us + bytes as f64 / STAGE_BYTES_PER_US;
        let stage = Action::HostStep { reads: vec![], writes: vec![src], host_us };
        self.schedule.push(self.host_step(STAGE), Some(batch), stage);
        self.schedule.push(
            "upload_scalars",
            Some(batch),
            Action::Upload { stream: self.part.streams.upload, src, dst },
        );
        let event = self.part.events.uploaded[slot];
        self.record("scalars_uploaded", batch, self.part.streams.upload, event);
        self.wait("scalars_uploaded", batch, self.part.streams.compute, event);
    }

    /// Scalars to entries sorted by bucket: a counting sort.
    fn sort(&mut self, batch: u32) {
        self.recode(batch);
        let work = self.sort_work(batch);
        let source = match &self.part.buffers.partitions {
            None => SortSource::Digits(work.digits),
            Some(_) => self.partition(batch, &work),
        };
        self.count(batch, &work, &source);
        self.scan(batch);
        self.scatter(batch, &work, &source);
    }

    /// What the steps of a sort share.
    fn sort_work(&self, batch: u32) -> SortWork {
        let (plan, len) = (self.plan, self.batch_len(batch));
        let rows = u64::from(plan.digit_rows());
        SortWork {
            len,
            rows,
            digits: self.first(self.part.buffers.digits, 4 * rows * len),
            // Number of scalars, windows, sets, buckets of a set.
            shape: [len as u32, plan.window_count, plan.set_count, plan.bucket_count].map(Arg::U32),
        }
    }

    fn recode(&mut self, batch: u32) {
        let (plan, work) = (self.plan, self.sort_work(batch));
        let SortWork { len, rows, digits, .. } = work;
        let scalars = match self.part.source {
            ScalarSource::Staged => self.first(self.part.buffers.scalars[self.slot(batch)], 32 * len),
            ScalarSource::Device(all) => {
                Region { offset: all.offset + 32 * plan.batch(batch).start, bytes: 32 * len, ..all }
            }
        };
        let kernel = match plan.form {
            ScalarForm::Canonical => "msm_recode_digits",
            ScalarForm::Montgomery => "msm_recode_digits_mont",
        };
        let numbers = [len as u32, plan.window_bits, plan.window_count, plan.wide_count].map(Arg::U32);
        let args = [Arg::Write(digits), Arg::Read(scalars)].into_iter().chain(numbers).collect();
        let grid = [len.div_ceil(u64::from(THREADS)), 1];
        self.launch(kernel.into(), batch, grid, THREADS, args, moved(len * (48 + 6 * rows)));
        // A mark that somebody waits for: the batch that needs the slot next.
        if !self.part.events.recoded.is_empty() && batch + plan.slot_count() < plan.batch_count {
            let event = self.part.events.recoded[self.slot(batch)];
            self.record("scalars_recoded", batch, self.part.streams.compute, event);
        }
    }

    /// Digits to entries in partitions.
    fn partition(&mut self, batch: u32, work: &SortWork) -> SortSource {
        let (plan, len) = (self.plan, work.len);
        let buffers = self.part.buffers.partitions.as_ref().expect("the plan has partitions");
        let digit_count = len * u64::from(plan.window_count);
        let ends = self.whole(buffers.ends);
        let keys = self.first(buffers.keys, 4 * digit_count);
        let items = self.first(buffers.items, 4 * digit_count);
        let bits = Arg::U32(plan.partition_bits);
        let clear = Action::Fill { stream: self.part.streams.compute, dst: ends, byte: 0 };
        self.schedule.push("clear_partitions", Some(batch), clear);
        let tiles = len.div_ceil(TILE);
        let mut args = vec![Arg::Write(ends), Arg::Read(work.digits)];
        args.extend(work.shape);
        args.push(bits);
        let grid = [tiles.min(COUNT_BLOCKS), work.rows];
        let bytes = len * work.rows;
        self.launch("msm_count_partitions".into(), batch, grid, TILE_THREADS, args, moved(9 * bytes / 2));
        let count = plan.partition_count();
        let args = vec![Arg::Write(ends), Arg::U32(count as u32)];
        self.launch("msm_scan_sums".into(), batch, [1, 1], THREADS, args, moved(count * 8));
        let mut args = vec![Arg::Write(keys), Arg::Write(items), Arg::Write(ends), Arg::Read(work.digits)];
        args.extend(work.shape);
        args.extend([bits, Arg::U32(plan.base_count as u32)]);
        self.launch(
            "msm_partition_digits".into(),
            batch,
            [tiles, work.rows],
            TILE_THREADS,
            args,
            moved(bytes * (18 + plan.bucket_count as u64 / (50 << plan.partition_bits))),
        );
        SortSource::Partitions { keys, items, ends, tiles: digit_count.div_ceil(TILE) }
    }

    /// Entries of each bucket.
    fn count(&mut self, batch: u32, work: &SortWork, source: &SortSource) {
        let counts = self.whole(self.part.buffers.counts);
        match *source {
            SortSource::Digits(digits) => {
                let mut args = vec![Arg::Write(counts), Arg::Read(digits)];
                args.extend(work.shape);
                let grid = [work.len.div_ceil(u64::from(THREADS)), work.rows];
                let work = moved(work.len * work.rows * 58);
                self.launch("msm_count_digits".into(), batch, grid, THREADS, args, work);
            }
            SortSource::Partitions { keys, ends, tiles, .. } => {
                let numbers = [self.plan.partition_count() as u32, self.plan.partition_bits].map(Arg::U32);
                let args = [Arg::Write(counts), Arg::Read(keys), Arg::Read(ends)].into_iter().chain(numbers);
                let args = args.collect();
                self.launch(
                    "msm_count_keys".into(),
                    batch,
                    [tiles, 1],
                    TILE_THREADS,
                    args,
                    moved(13 * keys.bytes / 8),
                );
            }
        }
    }

    /// Counters to where the entries of each bucket begin.
    fn scan(&mut self, batch: u32) {
        let total = self.plan.bucket_total();
        let tiles = total.div_ceil(SCAN_TILE);
        let counts = self.whole(self.part.buffers.counts);
        let offsets = self.whole(self.part.buffers.offsets);
        let tile_sums = self.whole(self.part.buffers.tile_sums);
        let numbers = [total as u32, self.plan.pair_rounds].map(Arg::U32);
        let args = [Arg::Write(offsets), Arg::Write(tile_sums), Arg::Read(counts)].into_iter().chain(numbers);
        self.launch("msm_scan_tiles".into(), batch, [tiles, 1], THREADS, args.collect(), moved(total * 8));
        let args = vec![Arg::Write(tile_sums), Arg::U32(tiles as u32)];
        self.launch("msm_scan_sums".into(), batch, [1, 1], THREADS, args, moved(tiles * 8));
        let args = vec![Arg::Write(offsets), Arg::Read(tile_sums), Arg::U32(total as u32)];
        let per_counter = [(total + 1).div_ceil(u64::from(THREADS)), 1];
        self.launch("msm_scan_add".into(), batch, per_counter, THREADS, args, moved(total * 8));
    }

    /// Entries to their places.
    fn scatter(&mut self, batch: u32, work: &SortWork, source: &SortSource) {
        let plan = self.plan;
        let counts = self.whole(self.part.buffers.counts);
        let offsets = self.whole(self.part.buffers.offsets);
        let entries = self.first(self.part.buffers.entries, 4 * plan.entries_of(work.len));
        if plan.pair_rounds > 0 {
            // Where a run is filled up, nothing is scattered: all ones stand for the identity.
            let fill = Action::Fill { stream: self.part.streams.compute, dst: entries, byte: 0xff };
            self.schedule.push("fill_up_runs", Some(batch), fill);
        }
        let mut args = vec![Arg::Write(entries), Arg::Write(counts), Arg::Read(offsets)];
        match *source {
            SortSource::Digits(digits) => {
                args.push(Arg::Read(digits));
                args.extend(work.shape);
                args.push(Arg::U32(plan.base_count as u32));
                let grid = [work.len.div_ceil(u64::from(THREADS)), work.rows];
                let work = moved(work.len * work.rows * 128);
                self.launch("msm_scatter_entries".into(), batch, grid, THREADS, args, work);
            }
            SortSource::Partitions { keys, items, ends, tiles } => {
                args.extend([keys, items, ends].map(Arg::Read));
                args.extend([plan.partition_count() as u32, plan.partition_bits].map(Arg::U32));
                let work = moved(8 * keys.bytes);
                self.launch("msm_scatter_keys".into(), batch, [tiles, 1], TILE_THREADS, args, work);
            }
        }
    }

    /// Entries to buckets; `keep` adds to what the batches before left there.
    fn fill_buckets(&mut self, batch: u32, keep: bool) {
        self.wait_bases(batch);
        let points = self.pair(batch);
        self.accumulate(batch, points, keep);
        self.bases_are_added(batch);
        self.merge(batch);
    }

    /// Brings the bases of a batch to the device, if they are not there.
    fn send_bases(&mut self, batch: u32) {
        let (plan, upload) = (self.plan, self.part.streams.upload);
        if !plan.streamed {
            return;
        }
        let slot = self.slot(batch);
        // Where the host has not waited for the batch that was in the slot, the stream does.
        if batch >= plan.slot_count()
            && let Some(&event) = self.part.events.bases_added.get(slot)
        {
            self.wait("bases_added", batch, upload, event);
        }
        let (range, affine) = (plan.batch(batch), plan.group.affine_bytes());
        let bytes = (range.end - range.start) * affine;
        let src = Region { buffer: self.part.buffers.bases, offset: range.start * affine, bytes };
        let dst = self.first(self.part.buffers.base_slots[slot], bytes);
        self.schedule.push("upload_bases", Some(batch), Action::Upload { stream: upload, src, dst });
        self.record("bases_uploaded", batch, upload, self.part.events.bases_uploaded[slot]);
    }

    fn wait_bases(&mut self, batch: u32) {
        if self.plan.streamed {
            let event = self.part.events.bases_uploaded[self.slot(batch)];
            self.wait("bases_uploaded", batch, self.part.streams.compute, event);
        }
    }

    /// A mark that somebody waits for: the batch that needs the slot next.
    fn bases_are_added(&mut self, batch: u32) {
        if let Some(&event) = self.part.events.bases_added.get(self.slot(batch))
            && batch + self.plan.slot_count() < self.plan.batch_count
        {
            self.record("bases_added", batch, self.part.streams.compute, event);
        }
    }

    /// The bases of a batch, in all columns of their table.
    fn bases(&self, batch: u32) -> Region {
        let (plan, range) = (self.plan, self.plan.batch(batch));
        let affine = plan.group.affine_bytes();
        if plan.streamed {
            let slot = self.part.buffers.base_slots[self.slot(batch)];
            return self.first(slot, (range.end - range.start) * affine);
        }
        let bytes = (u64::from(plan.column_count - 1) * plan.base_count + range.end - range.start) * affine;
        Region { buffer: self.part.buffers.bases, offset: range.start * affine, bytes }
    }

    /// Entries to fewer points, by rounds of affine additions of neighbours, slice after slice. `None` without rounds.
    fn pair(&mut self, batch: u32) -> Option<Region> {
        let (plan, rounds) = (self.plan, self.plan.pair_rounds);
        let points = self.part.buffers.pairs.as_ref()?.points;
        let entries_max = plan.entries_of(self.batch_len(batch));
        let mut begin = 0;
        while begin < entries_max {
            let len = plan.slice_entries().min(entries_max - begin);
            for round in 0..rounds {
                self.pair_round(batch, begin, len, round);
            }
            begin += len;
        }
        Some(self.first(points, (entries_max >> rounds) * plan.group.affine_bytes()))
    }

    /// One round over the slice of `len` entries from `begin` on: products of denominators, their inverses, sums.
    fn pair_round(&mut self, batch: u32, begin: u64, len: u64, round: u32) {
        let plan = self.plan;
        let buffers = self.part.buffers.pairs.as_ref().expect("the plan has rounds");
        let affine = plan.group.affine_bytes();
        let (first, count) = (begin >> (round + 1), len >> (round + 1));
        let (threads, invert_threads) = plan.round_threads(count);
        let is_last = round + 1 == plan.pair_rounds;
        let prefixes = self.first(buffers.prefixes, count * affine / 2);
        let totals = self.first(buffers.totals, threads * affine / 2);
        let sums = match is_last {
            true => Region { buffer: buffers.points, offset: first * affine, bytes: count * affine },
            false => self.first(buffers.levels[round as usize], count * affine),
        };
        let (name, cost, items, number) = match round {
            0 => {
                let entries = Region { buffer: self.part.buffers.entries, offset: 4 * begin, bytes: 4 * len };
                let items = vec![Arg::Read(self.bases(batch)), Arg::Read(entries)];
                ("entries", PairCost::of_entries(affine), items, None)
            }
            _ => {
                let points = self.first(buffers.levels[round as usize - 1], 2 * count * affine);
                ("points", PairCost::of_points(affine), vec![Arg::Read(points)], Some(Arg::U32(round)))
            }
        };
        let tail = [Arg::Read(self.whole(self.part.buffers.offsets)), Arg::U32(plan.bucket_total() as u32)];
        let counts = [first, count, threads].map(|number| Arg::U32(number as u32));
        let args = |outputs: &[Arg]| -> Vec<Arg> {
            outputs.iter().chain(&items).chain(&tail).chain(&number).chain(&counts).copied().collect()
        };
        let work = |pairs: u64, muls: f64, bytes: u64, chain_muls: f64| Work {
            fp_muls: pairs as f64 * muls * plan.group.coord_muls(),
            bytes: (pairs * bytes) as f64,
            chain_muls: chain_muls * plan.group.coord_muls(),
        };
        let per_thread = count.div_ceil(threads) as f64;
        let grid = |threads: u64, block: u32| [threads.div_ceil(u64::from(block)), 1];

        let forward = args(&[Arg::Write(prefixes), Arg::Write(totals)]);
        let kernel = self.kernel(&format!("msm_pair_{name}_forward"));
        let cost_forward = work(count, 1.0, cost.forward_bytes, per_thread);
        self.launch(kernel, batch, grid(threads, POINT_THREADS), POINT_THREADS, forward, cost_forward);

        let invert = vec![Arg::Write(totals), Arg::U32(threads as u32), Arg::U32(invert_threads as u32)];
        let chain = 3.0 * threads.div_ceil(invert_threads) as f64 + INVERSION_MULS;
        let cost_invert = work(threads, 3.0, affine, chain);
        let kernel = self.kernel("msm_invert_totals");
        self.launch(kernel, batch, grid(invert_threads, INVERT_BLOCK), INVERT_BLOCK, invert, cost_invert);

        let mut backward = args(&[Arg::Write(sums), Arg::Read(prefixes), Arg::Read(totals)]);
        backward.push(Arg::U32(is_last.into()));
        let kernel = self.kernel(&format!("msm_pair_{name}_backward"));
        let cost_backward = work(count, cost.backward_muls, cost.backward_bytes, 5.0 * per_thread);
        self.launch(kernel, batch, grid(threads, POINT_THREADS), POINT_THREADS, backward, cost_backward);
    }

    /// Entries, or the points that rounds of pairs left of them, to buckets and partial sums.
    fn accumulate(&mut self, batch: u32, points: Option<Region>, keep: bool) {
        let (plan, len) = (self.plan, self.batch_len(batch));
        let affine = plan.group.affine_bytes();
        let item_count = plan.entries_of(len) >> plan.pair_rounds;
        let entries = self.first(self.part.buffers.entries, 4 * plan.entries_of(len));
        let offsets = self.whole(self.part.buffers.offsets);
        let threads = plan.accumulate_threads(len);
        let partial_bytes = threads * plan.group.xyzz_bytes();
        let (name, items, rounds, item_bytes) = match points {
            None => ("runs", vec![Arg::Read(self.bases(batch)), Arg::Read(entries)], None, affine + 4),
            Some(points) => ("points", vec![Arg::Read(points)], Some(Arg::U32(plan.pair_rounds)), affine),
        };
        let Buffers { buckets, heads, tails, spans, .. } = self.part.buffers;
        let spans = self.first(spans, 4 * (1 + threads));
        let none =
            Action::Fill { stream: self.part.streams.compute, dst: Region { bytes: 4, ..spans }, byte: 0 };
        self.schedule.push("clear_spans", Some(batch), none);
        if !keep {
            // The identity has all its coordinates zero.
            let dst = self.whole(buckets);
            let clear = Action::Fill { stream: self.part.streams.compute, dst, byte: 0 };
            self.schedule.push("clear_buckets", Some(batch), clear);
        }
        let outputs =
            [self.whole(buckets), self.first(heads, partial_bytes), self.first(tails, partial_bytes), spans];
        let mut args: Vec<_> = outputs.map(Arg::Write).into();
        args.extend(items);
        args.extend([Arg::Read(offsets), Arg::U32(plan.bucket_total() as u32)]);
        args.extend(rounds);
        args.extend([plan.entries_per_thread, keep.into()].map(Arg::U32));
        let add_affine = plan.group.add_affine_muls();
        let work = Work {
            fp_muls: item_count as f64 * add_affine,
            bytes: (item_count * item_bytes + 2 * partial_bytes) as f64,
            chain_muls: f64::from(plan.entries_per_thread) * add_affine,
        };
        let grid = [threads.div_ceil(u64::from(POINT_THREADS)), 1];
        self.launch(self.kernel(&format!("msm_accumulate_{name}")), batch, grid, POINT_THREADS, args, work);
    }

    /// Partial sums to buckets.
    fn merge(&mut self, batch: u32) {
        let (plan, len) = (self.plan, self.batch_len(batch));
        let threads = plan.accumulate_threads(len);
        let partial_bytes = threads * plan.group.xyzz_bytes();
        let heads = self.first(self.part.buffers.heads, partial_bytes);
        let tails = self.first(self.part.buffers.tails, partial_bytes);
        let buckets = self.whole(self.part.buffers.buckets);
        let hot = self.whole(self.part.buffers.hot);
        let offsets = self.whole(self.part.buffers.offsets);
        let spans = self.first(self.part.buffers.spans, 4 * (1 + threads));
        // In entries: runs begin and end at multiples of 2^rounds, so the parts of threads are the same.
        let per_thread = Arg::U32(plan.entries_per_thread << plan.pair_rounds);
        let add = plan.group.add_muls();
        let hot_count = Region { bytes: 4, ..hot };
        self.schedule.push(
            "clear_hot",
            Some(batch),
            Action::Fill { stream: self.part.streams.compute, dst: hot_count, byte: 0 },
        );
        let args = vec![
            Arg::Write(buckets),
            Arg::Write(hot),
            Arg::Read(heads),
            Arg::Read(tails),
            Arg::Read(spans),
            Arg::Read(offsets),
            per_thread,
            Arg::U32(plan.merge_partials_max),
        ];
        let bucket_total = plan.bucket_total();
        let partials = 2.0 * threads as f64;
        let work = Work {
            fp_muls: partials * add,
            bytes: 2.0 * partial_bytes as f64,
            chain_muls: (partials / bucket_total as f64 + 1.0).min(f64::from(plan.merge_partials_max)) * add,
        };
        let grid = [threads.div_ceil(u64::from(POINT_THREADS)), 1];
        self.launch(self.kernel("msm_merge_partials"), batch, grid, POINT_THREADS, args, work);

        let grid = [u64::from(MERGE_HOT_BLOCKS), 1];
        let args = vec![Arg::Write(heads), Arg::Read(hot), Arg::Read(offsets), per_thread];
        let kernel = self.kernel("msm_merge_segments");
        self.launch(kernel, batch, grid, MERGE_HOT_THREADS, args, hot_work(plan, len));
        let args = vec![
            Arg::Write(buckets),
            Arg::Read(hot),
            Arg::Read(heads),
            Arg::Read(tails),
            Arg::Read(offsets),
            per_thread,
        ];
        self.launch(self.kernel("msm_merge_hot"), batch, grid, MERGE_HOT_THREADS, args, Work::default());
    }

    /// The device-side edge: `rows` may still be on its way down for the batch before.
    fn wait_rows_free(&mut self, batch: u32) {
        let event = self.part.events.downloaded[self.result_slot(batch - 1)];
        self.wait("rows_free", batch, self.part.streams.compute, event);
    }

    /// Buckets to lines: the first half of the reduction, which leaves `rows` alone.
    fn sum_lines(&mut self, batch: u32) {
        let plan = self.plan;
        let (low, high) = plan.line_bits();
        let (lines, buckets) = (self.whole(self.part.buffers.lines), self.whole(self.part.buffers.buckets));
        let args = vec![
            Arg::Write(lines),
            Arg::Read(buckets),
            Arg::U32(low),
            Arg::U32(high),
            Arg::U32(plan.line_threads),
        ];
        let add = plan.group.add_muls();
        let per_thread = (1 << low) / plan.line_threads;
        let work = Work {
            fp_muls: plan.bucket_total() as f64 * 2.0 * add,
            bytes: (2 * plan.bucket_total() * plan.group.xyzz_bytes()) as f64,
            chain_muls: (f64::from(per_thread) * add + tree_muls(plan.group, plan.line_threads)) * CALLED,
        };
        let blocks =
            |lines: u64, threads: u32| (lines * u64::from(threads)).div_ceil(u64::from(REDUCE_BLOCK));
        let columns = blocks(1 << low, plan.line_threads << (high - low));
        let grid = [blocks(1 << high, plan.line_threads) + columns, u64::from(plan.set_count)];
        self.launch(self.kernel("msm_sum_lines"), batch, grid, REDUCE_BLOCK, args, work);
    }

    /// Lines to rows.
    fn sum_bits(&mut self, batch: u32) {
        let plan = self.plan;
        let (low, high) = plan.line_bits();
        let rows = self.whole(self.part.buffers.rows);
        let (lines, buckets) = (self.whole(self.part.buffers.lines), self.whole(self.part.buffers.buckets));
        let args = vec![
            Arg::Write(rows),
            Arg::Read(lines),
            Arg::Read(buckets),
            Arg::U32(plan.set_count),
            Arg::U32(low),
            Arg::U32(high),
        ];
        // A thread a line, as far as a block goes.
        let block = ((1 << high) / 2).clamp(32, BITS_BLOCK_MAX);
        let (add, by_four) = (plan.group.add_muls(), plan.group.add_by_four_muls());
        let work = Work {
            fp_muls: plan.lines_total() as f64 * f64::from(high) / 2.0 * add,
            bytes: (plan.lines_total() * plan.group.xyzz_bytes()) as f64 * f64::from(high) / 2.0,
            chain_muls: (f64::from((1 << high) / 2 / block) * add + f64::from(block.ilog2() + 1) * by_four)
                * CALLED,
        };
        let grid = [u64::from(plan.window_bits), u64::from(plan.set_count) + 1];
        self.launch(self.kernel("msm_sum_bits"), batch, grid, block, args, work);
    }

    fn bring(&mut self, batch: u32) {
        let slot = self.result_slot(batch);
        let (reduced, downloaded) = (self.part.events.reduced[slot], self.part.events.downloaded[slot]);
        self.record("rows_reduced", batch, self.part.streams.compute, reduced);
        self.wait("rows_reduced", batch, self.part.streams.download, reduced);
        let (src, dst) = (self.whole(self.part.buffers.rows), self.whole(self.part.buffers.rows_host[slot]));
        self.schedule.push(
            "download_rows",
            Some(batch),
            Action::Download { stream: self.part.streams.download, src, dst },
        );
        self.record("rows_downloaded", batch, self.part.streams.download, downloaded);
    }

    fn collect(&mut self, thread: ThreadId, batch: u32) {
        let slot = self.result_slot(batch);
        let event = self.part.events.downloaded[slot];
        self.schedule.push_on(thread, "rows_downloaded", Some(batch), Action::HostWait { event });
        let reads = vec![self.whole(self.part.buffers.rows_host[slot])];
        // A doubling, a conversion and an addition a row: 27 products in Fp, or three times as many in G2.
        let products = self.plan.rows_total() as f64 * 27.0 * self.plan.group.add_muls() / 14.0;
        let host_us = products * HOST_MUL_US;
        let fold = Action::HostStep { reads, writes: vec![], host_us };
        self.schedule.push_on(thread, self.host_step(FOLD), Some(batch), fold);
    }

    /// Name of a host step of this MSM.
    fn host_step(&self, name: &str) -> String {
        format!("{}{name}", self.part.prefix)
    }

    /// A kernel that is compiled once per group.
    fn kernel(&self, stem: &str) -> String {
        format!("{stem}_{}", self.plan.group.word())
    }
}

impl Buffers {
    fn declare(
        plan: &MsmPlan,
        schedule: &mut Schedule,
        prefix: &str,
        bases: BufferId,
        source: &ScalarSource,
    ) -> Self {
        let len = plan.batch_len_max();
        let xyzz = plan.group.xyzz_bytes();
        let mut scalar_ring = |name: &str, space| {
            let slots = match source {
                ScalarSource::Staged => plan.slot_count(),
                ScalarSource::Device(_) => 0,
            };
            let slot = |slot| schedule.secret_buffer(format!("{prefix}{name}[{slot}]"), space, 32 * len);
            (0..slots).map(slot).collect::<Vec<_>>()
        };
        let scalars_host = scalar_ring("scalars_host", Space::PinnedUpload);
        let scalars = scalar_ring("scalars", Space::Device);
        let base_slots = (0..if plan.streamed { plan.slot_count() } else { 0 })
            .map(|slot| {
                let name = format!("{prefix}bases[{slot}]");
                schedule.buffer(name, Space::Device, plan.group.affine_bytes() * len)
            })
            .collect();
        let rows_bytes = plan.rows_total() * xyzz;
        let results = match plan.result_memory {
            ResultMemory::Pinned => Space::PinnedDownload,
            ResultMemory::Pageable => Space::Pageable,
        };
        // All that a run holds is computed from the scalars, and tells something of them.
        let rows_host = (0..plan.result_slot_count())
            .map(|slot| schedule.secret_buffer(format!("{prefix}rows_host[{slot}]"), results, rows_bytes))
            .collect();
        let mut device =
            |name: &str, bytes| schedule.secret_buffer(format!("{prefix}{name}"), Space::Device, bytes);
        let (total, partials) = (plan.bucket_total(), plan.accumulate_threads(len));
        let pairs = (plan.pair_rounds > 0).then(|| {
            let affine = plan.group.affine_bytes();
            let slice = plan.slice_entries();
            let count = slice / 2;
            let level = |round: u32| (format!("level[{round}]"), (slice >> (round + 1)) * affine);
            PairBuffers {
                prefixes: device("prefixes", count * affine / 2),
                totals: device("totals", plan.round_threads(count).0 * affine / 2),
                levels: (0..plan.pair_rounds - 1)
                    .map(|round| {
                        let (name, bytes) = level(round);
                        device(&name, bytes)
                    })
                    .collect(),
                points: device("points", (plan.entries_max() >> plan.pair_rounds) * affine),
            }
        });
        Self {
            bases,
            base_slots,
            scalars_host,
            scalars,
            digits: device("digits", 4 * u64::from(plan.digit_rows()) * len),
            counts: device("counts", 4 * total),
            offsets: device("offsets", 4 * (total + 1)),
            tile_sums: device("tile_sums", 4 * (total.div_ceil(SCAN_TILE) + 1)),
            entries: device("entries", 4 * plan.entries_max()),
            partitions: (plan.partition_bits > 0).then(|| {
                let bytes = 4 * len * u64::from(plan.window_count);
                PartitionBuffers {
                    ends: device("partition_ends", 4 * (plan.partition_count() + 1)),
                    keys: device("keys", bytes),
                    items: device("items", bytes),
                }
            }),
            pairs,
            heads: device("heads", partials * xyzz),
            tails: device("tails", partials * xyzz),
            spans: device("spans", 4 * (1 + partials)),
            hot: device("hot", 4 * (1 + hot_max(plan, partials))),
            buckets: device("buckets", total * xyzz),
            lines: device("lines", plan.lines_total() * xyzz),
            rows: device("rows", rows_bytes),
            rows_host,
        }
    }
}

impl Events {
    fn declare(plan: &MsmPlan, schedule: &mut Schedule, prefix: &str, source: &ScalarSource) -> Self {
        let mut ring = |name: &str, slots| {
            (0..slots).map(|slot| schedule.event(format!("{prefix}{name}[{slot}]"))).collect::<Vec<_>>()
        };
        let slots = match source {
            ScalarSource::Staged => plan.slot_count(),
            ScalarSource::Device(_) => 0,
        };
        // The host waits for a batch's scalars to be read only where it waits for no later mark of that
        // batch.
        let recoded_slots = if plan.strategy == Strategy::OnDevice { slots } else { 0 };
        let result_slots = plan.result_slot_count();
        let base_slots = if plan.streamed { plan.slot_count() } else { 0 };
        let added_slots = if plan.strategy == Strategy::OnDevice { base_slots } else { 0 };
        Self {
            bases_uploaded: ring("bases_uploaded", base_slots),
            bases_added: ring("bases_added", added_slots),
            uploaded: ring("uploaded", slots),
            recoded: ring("recoded", recoded_slots),
            reduced: ring("reduced", result_slots),
            downloaded: ring("downloaded", result_slots),
        }
    }
}

impl Collector {
    fn declare(plan: &MsmPlan, schedule: &mut Schedule, prefix: &str) -> Self {
        let known = schedule.threads.iter().position(|name| name == COLLECTOR);
        let thread = known.map_or_else(|| schedule.thread(COLLECTOR), |index| ThreadId(index as u32));
        let mut flags = |name: &str, batches| {
            (0..batches).map(|batch| schedule.flag(format!("{prefix}{name}[{batch}]"))).collect()
        };
        let queued = flags("queued", plan.batch_count);
        Self { thread, queued, folded: flags("folded", plan.batch_count - plan.slot_count()) }
    }
}

/// What waits for another in a tree over so many neighbouring threads: its levels by four threads each, the first in turns.
fn tree_muls(group: GroupKind, threads: u32) -> f64 {
    f64::from(threads.ilog2() + 2) * group.add_by_four_muls()
}

/// Work of the merge by blocks for uniform scalars, where the last window has fewer bits than the others: its few buckets
/// have runs over many threads.
fn hot_work(plan: &MsmPlan, batch_len: u64) -> Work {
    let last_bits = SCALAR_BITS.saturating_sub(plan.window_start(plan.window_count - 1));
    let last_buckets = (1u64 << last_bits).min(u64::from(plan.bucket_count));
    let partials = batch_len / (last_buckets * (u64::from(plan.entries_per_thread) << plan.pair_rounds));
    if partials <= u64::from(plan.merge_partials_max) {
        return Work::default();
    }
    let add = plan.group.add_muls();
    let per_thread = partials.div_ceil(u64::from(MERGE_HOT_THREADS));
    let turns = last_buckets.div_ceil(u64::from(MERGE_HOT_BLOCKS));
    let chain = per_thread as f64 * add + tree_muls(plan.group, MERGE_HOT_THREADS);
    Work {
        fp_muls: (partials * last_buckets) as f64 * add,
        bytes: 0.0,
        chain_muls: turns as f64 * chain * CALLED,
    }
}

/// Most buckets that can have more than `merge_partials_max` partial sums, when there are `threads` of two
/// each.
fn hot_max(plan: &MsmPlan, threads: u64) -> u64 {
    2 * threads / u64::from(plan.merge_partials_max) + 1
}
