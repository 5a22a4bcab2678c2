//! The schedule of a whole proof: one value, checked like every other, from the assignment on the host to five sums.
//!
//! ```text
//! host      stage_z    the caller's assignment -> z_host[s]; nothing where it is page-locked in place
//! upload    upload_z   z_host[s] -> z
//! compute   eval, check     z -> values of A z, B z, C z, and the first constraint that fails
//! verdict   download        the first failing constraint
//! compute   transforms      values -> coefficients -> values on a coset -> quotient -> coefficients of h
//! host      verdict         ends the run if a constraint fails; nothing below has been queued by then
//! b_g2, a, b_g1, l          one stream each: products of z, beside the transforms
//! compute   h               product of h
//! download  rows, and h's top coefficient
//! host      folds, top
//! ```
//!
//! The host waits once before the end, for four bytes, while the transforms run.
//!
//! That is the reduction of arkworks and bellman. Under a key of snarkjs C is the product of A and B, so there is no verdict
//! to wait for; and h stays values on the coset, so there is no last transform and no top coefficient. The reduction is a
//! field of the plan, and each difference is one branch here.

use crate::plan::{FR_BYTES, Product, ProofPlan, Upload};
use gpu_core::Space;
use gpu_core::schedule::{Action, Arg, BufferId, EventId, Launch, Region, Schedule, StreamId, Work};
use msm_gpu::MsmPlan;
use msm_gpu::schedule::{FOLD, MsmPart, ScalarSource, Streams};

/// Name of the host step that copies a part of the assignment, in the order of its batch (written: the slot).
pub const STAGE_Z: &str = "stage_z";
/// Name of the host step that reads whether a constraint fails (read: one u32, `constraint_count - first`, or 0).
pub const VERDICT: &str = "verdict";
/// Name of the host step that reads the quotient's top coefficient (read: one Fr).
pub const TOP: &str = "top";

const THREADS: u32 = 256;
/// Fr multiplications in those of Fp, by measured rates.
const FR_MUL: f64 = 27.4 / 60.4;

/// The buffers that a caller binds, in every schedule of [`build`].
#[derive(Debug, Clone)]
pub struct Resident {
    /// Row offsets, columns, factors and coefficients of the constraints.
    pub constraints: [BufferId; 4],
    /// Tables of the transforms, in the order of the reduction.
    pub tables: Vec<BufferId>,
    /// Bases of the products that the plan has, in its order.
    pub bases: Vec<(Product, BufferId)>,
    /// The caller's assignment, with [`Upload::Register`].
    pub z_host: Option<BufferId>,
}

impl Resident {
    /// Declares them: they come first, so that their ids are the same in each schedule of a plan.
    pub fn declare(plan: &ProofPlan, schedule: &mut Schedule) -> Self {
        let shape = &plan.shape;
        let mut resident = |name: &str, bytes| schedule.buffer(name, Space::Resident, bytes);
        let terms = 4 * u64::from(shape.term_count);
        let constraints = [
            resident("row_offsets", 4 * (shape.row_count() + 1)),
            resident("columns", terms),
            resident("factors", terms),
            resident("coefficients", FR_BYTES * u64::from(shape.coefficient_count)),
        ];
        let words = ["to_coefficients", "to_coset", "from_coset"];
        let tables = words.into_iter().zip(plan.table_bytes());
        let tables = tables.map(|(word, bytes)| resident(word, bytes)).collect();
        let bases = plan.products.iter().map(|(product, msm)| {
            (*product, resident(&format!("{}_query", product.word()), msm.bases_bytes()))
        });
        let bases = bases.collect();
        let z_host = (plan.upload == Upload::Register).then(|| {
            schedule.buffer("z_host", Space::Registered, FR_BYTES * u64::from(shape.variable_count))
        });
        Self { constraints, tables, bases, z_host }
    }
}

/// Builds the schedule of a plan. Nothing runs.
pub fn build(plan: &ProofPlan) -> Schedule {
    let shape = &plan.shape;
    let mut schedule = Schedule::new(format!(
        "groth16 2^{} constraints={} inputs={} variables={} upload={}",
        shape.log_n, shape.constraint_count, shape.input_count, shape.variable_count, plan.upload
    ));
    let resident = Resident::declare(plan, &mut schedule);
    let n = shape.domain_len();
    let z_bytes = FR_BYTES * u64::from(shape.variable_count);
    let z = schedule.secret_buffer("z", Space::Device, z_bytes);
    let values = schedule.secret_buffer("values", Space::Device, 3 * n * FR_BYTES);
    let upload = schedule.stream("upload");
    let compute = schedule.stream("compute");
    let download = schedule.stream("download");
    let mut builder = Builder { plan, schedule: &mut schedule, resident: &resident, compute };

    let z = builder.schedule.whole(z);
    let z_uploaded = builder.upload(upload, z);
    builder.wait("z_uploaded", compute, z_uploaded);
    let values = builder.schedule.whole(values);
    builder.rows(values, z);
    let has_c = shape.reduction.has_c();
    let verdict = has_c.then(|| builder.check(values, download));
    if !has_c {
        builder.multiply(values);
    }
    let h = builder.quotient(values);
    let top = has_c.then(|| builder.top(h, download));
    if let Some((arrived, failing_host)) = verdict {
        builder.schedule.push("failing_arrived", None, Action::HostWait { event: arrived });
        builder.host_step(VERDICT, failing_host);
    }

    let mut parts = Vec::new();
    for (index, (product, msm)) in plan.products.iter().enumerate() {
        let (word, bases) = (product.word(), resident.bases[index].1);
        let region = match product {
            Product::A | Product::BG1 | Product::BG2 => z,
            Product::L => {
                let inputs = FR_BYTES * u64::from(shape.input_count);
                Region { offset: z.offset + inputs, bytes: z.bytes - inputs, ..z }
            }
            Product::H => Region { bytes: msm.base_count * FR_BYTES, ..h },
        };
        let stream = match product {
            Product::H => compute,
            _ => schedule.stream(word),
        };
        // With a verdict the assignment is there: the host has seen what was computed from it.
        if verdict.is_none() && *product != Product::H {
            schedule.push("z_uploaded", None, Action::Wait { stream, event: z_uploaded });
        }
        let streams = Streams { upload, compute: stream, download };
        let source = ScalarSource::Device(region);
        let part = MsmPart::declare(&mut schedule, msm, &format!("{word}."), bases, source, streams);
        part.push_work(&mut schedule);
        parts.push(part);
    }
    parts.iter().for_each(|part| part.push_collect(&mut schedule));
    if let Some((arrived, top_host)) = top {
        if let Some(event) = arrived {
            schedule.push("top_arrived", None, Action::HostWait { event });
        }
        let mut builder = Builder { plan, schedule: &mut schedule, resident: &resident, compute };
        builder.host_step(TOP, top_host);
    }
    schedule
}

/// The product that a host step folds a batch of, if it is such a step.
pub(crate) fn folded(op_name: &str) -> Option<Product> {
    let word = op_name.strip_suffix(FOLD)?.strip_suffix('.')?;
    Product::ALL.into_iter().find(|product| product.word() == word)
}

struct Builder<'a> {
    plan: &'a ProofPlan,
    schedule: &'a mut Schedule,
    resident: &'a Resident,
    compute: StreamId,
}

impl Builder<'_> {
    fn wait(&mut self, name: &'static str, stream: StreamId, event: EventId) {
        self.schedule.push(name, None, Action::Wait { stream, event });
    }

    fn record(&mut self, name: &'static str, stream: StreamId, event: EventId) {
        self.schedule.push(name, None, Action::Record { stream, event });
    }

    fn launch(&mut self, kernel: &'static str, grid: [u64; 2], args: Vec<Arg>, work: Work) {
        let grid = grid.map(|blocks| u32::try_from(blocks).expect("a shape's grids fit 32 bits"));
        let launch = Launch { kernel: kernel.into(), grid, block: THREADS, args, work };
        self.schedule.push(kernel, None, Action::Launch { stream: self.compute, launch });
    }

    /// The assignment to the device. Gives the mark of its end.
    fn upload(&mut self, stream: StreamId, z: Region) -> EventId {
        let host_us = |bytes: u64| bytes as f64 / 40e3; // 40 GB/s through all cores
        let done = self.schedule.event("z_uploaded");
        let (space, slots, slot_bytes) = match self.plan.upload {
            Upload::Register => {
                let src = self.schedule.whole(self.resident.z_host.expect("declared for this upload"));
                self.schedule.push("upload_z", None, Action::Upload { stream, src, dst: z });
                self.record("z_uploaded", stream, done);
                return done;
            }
            Upload::Pageable => (Space::Pageable, 1, z.bytes),
            Upload::Ring { slots, chunk } => {
                let slot_bytes = chunk.max(1).saturating_mul(FR_BYTES).min(z.bytes);
                let chunks = z.bytes.div_ceil(slot_bytes);
                (Space::PinnedUpload, u64::from(slots.max(1)).min(chunks), slot_bytes)
            }
        };
        let chunks = z.bytes.div_ceil(slot_bytes);
        let mut slot = |index| self.schedule.secret_buffer(format!("z_host[{index}]"), space, slot_bytes);
        let buffers: Vec<_> = (0..slots).map(&mut slot).collect();
        let is_reused = slots < chunks;
        let sent: Vec<_> = (0..if is_reused { slots } else { 0 })
            .map(|index| self.schedule.event(format!("z_sent[{index}]")))
            .collect();
        for chunk in 0..chunks {
            let (slot, batch) = ((chunk % slots) as usize, Some(chunk as u32));
            if chunk >= slots {
                self.schedule.push("z_sent", batch, Action::HostWait { event: sent[slot] });
            }
            let offset = chunk * slot_bytes;
            let bytes = slot_bytes.min(z.bytes - offset);
            let src = Region { buffer: buffers[slot], offset: 0, bytes };
            let step = Action::HostStep { reads: vec![], writes: vec![src], host_us: host_us(bytes) };
            self.schedule.push(STAGE_Z, batch, step);
            let dst = Region { offset: z.offset + offset, bytes, ..z };
            self.schedule.push("upload_z", batch, Action::Upload { stream, src, dst });
            if chunk + slots < chunks {
                self.schedule.push("z_sent", batch, Action::Record { stream, event: sent[slot] });
            }
        }
        self.record("z_uploaded", stream, done);
        done
    }

    /// Rows of the constraints at z.
    fn rows(&mut self, values: Region, z: Region) {
        let shape = self.plan.shape;
        let n = shape.domain_len();
        let [row_offsets, columns, factors, coefficients] =
            self.resident.constraints.map(|buffer| Arg::Read(self.schedule.whole(buffer)));
        let terms = f64::from(shape.term_count);
        let matrix_count = u64::from(shape.reduction.matrix_count());
        let rows = Region { bytes: matrix_count * n * FR_BYTES, ..values };
        let args = vec![
            Arg::Write(rows),
            row_offsets,
            columns,
            factors,
            coefficients,
            Arg::Read(z),
            Arg::U32(n as u32),
            Arg::U32(shape.constraint_count),
            Arg::U32(shape.input_count),
        ];
        let work = Work { fp_muls: terms * FR_MUL, bytes: terms * 40.0 + rows.bytes as f64, chain_muls: 0.0 };
        let blocks = n.div_ceil(THREADS.into());
        self.launch("groth16_eval_rows", [blocks, matrix_count], args, work);
    }

    /// The first constraint that fails, brought down. Gives the mark of its arrival, and where.
    fn check(&mut self, values: Region, download: StreamId) -> (EventId, BufferId) {
        let shape = self.plan.shape;
        let failing = self.schedule.buffer("failing", Space::Device, 4);
        let failing_host = self.schedule.buffer("failing_host", Space::PinnedDownload, 4);
        let failing = self.schedule.whole(failing);
        let clear = Action::Fill { stream: self.compute, dst: failing, byte: 0 };
        self.schedule.push("clear_failing", None, clear);
        if shape.constraint_count > 0 {
            let rows = u64::from(shape.constraint_count);
            let args = vec![
                Arg::Write(failing),
                Arg::Read(values),
                Arg::U32(shape.domain_len() as u32),
                Arg::U32(shape.constraint_count),
            ];
            let work = Work { fp_muls: rows as f64 * FR_MUL, bytes: 96.0 * rows as f64, chain_muls: 0.0 };
            self.launch("groth16_check_rows", [rows.div_ceil(THREADS.into()), 1], args, work);
        }
        let arrived = self.schedule.event("failing_arrived");
        self.download("failing", download, failing, failing_host);
        self.record("failing_arrived", download, arrived);
        (arrived, failing_host)
    }

    /// The values of one of the three polynomials.
    fn job(&self, values: Region, index: u64) -> Region {
        let bytes = self.plan.shape.domain_len() * FR_BYTES;
        Region { offset: values.offset + index * bytes, bytes, ..values }
    }

    /// Values of c where the key has none: those of a times those of b.
    fn multiply(&mut self, values: Region) {
        let n = self.plan.shape.domain_len();
        let [a, b, c] = [0, 1, 2].map(|index| self.job(values, index));
        let args = vec![Arg::Write(c), Arg::Read(a), Arg::Read(b), Arg::U32(n as u32)];
        let work = Work { fp_muls: n as f64 * FR_MUL, bytes: 96.0 * n as f64, chain_muls: 0.0 };
        self.launch("groth16_multiply_rows", [n.div_ceil(THREADS.into()), 1], args, work);
    }

    /// Values of a, b, c to what the bases for h are multiplied with, in the place of a's values.
    fn quotient(&mut self, values: Region) -> Region {
        let shape = self.plan.shape;
        let n = shape.domain_len();
        let job = |index| self.job(values, index);
        let [a, b, c] = [job(0), job(1), job(2)];
        let transforms = self.plan.transforms();
        let tables: Vec<_> = self.resident.tables.iter().map(|buffer| self.schedule.whole(*buffer)).collect();
        let (three, one) = (self.plan.ntt(3), self.plan.ntt(1));
        let push = ntt_gpu::schedule::push;
        push(self.schedule, self.compute, &three, &transforms[0], values, tables[0]);
        push(self.schedule, self.compute, &three, &transforms[1], values, tables[1]);
        let factor = shape.reduction.quotient_factor(shape.log_n).expect("a shape's domain exists");
        let mut args = vec![Arg::Write(a), Arg::Read(b), Arg::Read(c)];
        args.extend(factor.0.0.map(Arg::U64));
        args.push(Arg::U32(n as u32));
        let work = Work { fp_muls: 2.0 * n as f64 * FR_MUL, bytes: 128.0 * n as f64, chain_muls: 0.0 };
        self.launch("groth16_quotient", [n.div_ceil(THREADS.into()), 1], args, work);
        if let [_, _, from_coset] = &transforms[..] {
            push(self.schedule, self.compute, &one, from_coset, a, tables[2]);
        }
        a
    }

    /// The top coefficient of h, brought down. Gives where, and the mark of its arrival if that has to be waited for:
    /// rows of the products come down after it, on the same stream, and most strategies wait for those.
    fn top(&mut self, h: Region, download: StreamId) -> (Option<EventId>, BufferId) {
        let top_host = self.schedule.secret_buffer("top_host", Space::PinnedDownload, FR_BYTES);
        let top = Region { offset: h.offset + h.bytes - FR_BYTES, bytes: FR_BYTES, ..h };
        self.download("top", download, top, top_host);
        // Rows that this thread collects, or a slot that it needs again.
        let is_waited_for = |(_, msm): &(Product, MsmPlan)| {
            msm.first_uncollected() < msm.batch_count || msm.slot_count() < msm.batch_count
        };
        let arrived = (!self.plan.products.iter().any(is_waited_for)).then(|| {
            let arrived = self.schedule.event("top_arrived");
            self.record("top_arrived", download, arrived);
            arrived
        });
        (arrived, top_host)
    }

    /// A small download of what the compute stream has made by now.
    fn download(&mut self, word: &str, stream: StreamId, src: Region, dst: BufferId) {
        let (made, dst) = (self.schedule.event(format!("{word}_made")), self.schedule.whole(dst));
        self.schedule.push(
            format!("{word}_made"),
            None,
            Action::Record { stream: self.compute, event: made },
        );
        self.schedule.push(format!("{word}_made"), None, Action::Wait { stream, event: made });
        self.schedule.push(format!("download_{word}"), None, Action::Download { stream, src, dst });
    }

    fn host_step(&mut self, step: &'static str, host: BufferId) {
        let reads = vec![self.schedule.whole(host)];
        self.schedule.push(step, None, Action::HostStep { reads, writes: vec![], host_us: 1.0 });
    }
}
