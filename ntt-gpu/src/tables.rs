//! What is resident for a transform: twiddles inside a tile, and scales that a pass applies at its edges.
//!
//! All tables of one transform lie in one buffer. What differs between transforms is in these tables alone:
//! direction, root, coset shift and 1/n. The kernels are the same, and neither a coset nor 1/n costs a pass:
//!
//! * the scales between two passes are omega^(reversed(row) * column), by position. With a coset, each also
//!   has the part of the shift's power that the position decides there, and with an inverse, one of them has
//!   1/n;
//! * the rest of the shift's power depends on the row in one pass at the edge of the transform, and is
//!   applied there.
//!
//! Where a table between two passes would be larger than [`NttConfig::table_bits_max`](crate::NttConfig)
//! allows, the scales are products of powers in two levels, and the shift's powers are too.

use crate::domain::{Direction, Domain, OrderKind, Shift, Transform};
use crate::error::NttError;
use crate::modules;
use crate::plan::{NttPlan, Pass, THREADS, VALUE_BYTES};
use ark_bls12_381::Fr;
use ark_ff::Field;
use gpu_core::schedule::{Action, Arg, Launch, Region, Schedule, Work};
use gpu_core::{Bindings, CheckedSchedule, Device, DeviceBuf, Space, Workspace};
use std::ops::Range;
use std::sync::Arc;

/// What a value is multiplied by while a pass loads or stores it. The numbers are those of `ntt.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ScaleKind {
    /// Nothing.
    None = 0,
    /// A table by row.
    Row = 1,
    /// A table by position in the block.
    Position = 2,
    /// A power of the block's root, in two levels.
    Twiddle = 3,
    /// A power of the coset shift, in two levels.
    Power = 4,
}

/// A scale: its kind, and where its table lies in the buffer, in values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Kind.
    pub kind: ScaleKind,
    /// Values of the buffer; empty for [`ScaleKind::None`].
    pub range: Range<u64>,
}

/// Where the tables of a transform lie. Pure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableLayout {
    /// log2 of the order of the root whose powers the twiddles are.
    pub twiddle_bits: u32,
    /// Twiddles inside a tile: 2^(twiddle_bits - 1) powers.
    pub twiddles: Range<u64>,
    /// The scale at the edge of the transform: at its input if forward, at its output if inverse.
    pub edge: Scale,
    /// The pass that has that edge, by position in [`NttPlan::passes`].
    pub edge_pass: usize,
    /// Scales after each pass but the last, counted from natural order.
    pub between: Vec<Scale>,
    /// Values that the host makes, from 0; the device makes the others.
    made_by_host: u64,
    /// Values in all.
    len: u64,
}

impl TableLayout {
    /// The tables that a transform needs; empty for n = 1.
    pub fn new(plan: &NttPlan, transform: &Transform) -> Self {
        let mut len = 0;
        let mut take = |count: u64| {
            len += count;
            len - count..len
        };
        // Rows do not grow from pass to pass, so the first one has the largest root.
        let twiddle_bits = plan.passes.first().map_or(0, |pass| pass.log_rows);
        let twiddles = take(if twiddle_bits == 0 { 0 } else { 1 << (twiddle_bits - 1) });
        let last = plan.passes.len().saturating_sub(1);
        let inner = &plan.passes[..last];
        let is_split = |pass: &Pass| pass.block_bits() > plan.config.table_bits_max;
        let edge_pass = if edge_is_natural(transform) { 0 } else { last };
        let edge_kind = match transform.shift {
            _ if plan.passes.is_empty() => ScaleKind::None,
            Some(_) if inner.iter().any(is_split) => ScaleKind::Power,
            Some(_) => ScaleKind::Row,
            None if inner.is_empty() && transform.direction == Direction::Inverse => ScaleKind::Row,
            None => ScaleKind::None,
        };
        let edge = Scale {
            kind: edge_kind,
            range: take(match edge_kind {
                ScaleKind::Row => 1 << plan.passes[edge_pass].log_rows,
                ScaleKind::Power => two_levels_len(plan.log_n),
                _ => 0,
            }),
        };
        let mut between = vec![Scale { kind: ScaleKind::None, range: 0..0 }; inner.len()];
        for (scale, pass) in between.iter_mut().zip(inner).filter(|(_, pass)| is_split(pass)) {
            *scale = Scale { kind: ScaleKind::Twiddle, range: take(two_levels_len(pass.block_bits())) };
        }
        let made_by_host = take(0).start;
        for (scale, pass) in between.iter_mut().zip(inner).filter(|(_, pass)| !is_split(pass)) {
            *scale = Scale { kind: ScaleKind::Position, range: take(1 << pass.block_bits()) };
        }
        Self { twiddle_bits, twiddles, edge, edge_pass, between, made_by_host, len }
    }

    /// Bytes of the buffer.
    pub fn bytes(&self) -> u64 {
        self.len * VALUE_BYTES
    }

    /// A table as bytes of the buffer that `tables` is the whole of. What has no values stands for the
    /// twiddles: the kernel takes an address there and does not read it.
    pub(crate) fn region(&self, tables: Region, range: &Range<u64>) -> Region {
        let range = if range.is_empty() { &self.twiddles } else { range };
        Region {
            buffer: tables.buffer,
            offset: tables.offset + range.start * VALUE_BYTES,
            bytes: (range.end - range.start) * VALUE_BYTES,
        }
    }
}

/// Whether the coset's powers belong to the side that is in natural order: coefficients are scaled, which
/// come in with a forward transform and go out with an inverse one.
fn edge_is_natural(transform: &Transform) -> bool {
    (transform.direction == Direction::Forward) == (transform.input == OrderKind::Natural)
}

/// Tables on a device. Clones share them.
#[derive(Debug, Clone)]
pub struct Tables {
    transform: Transform,
    buffer: DeviceBuf<Fr>,
}

impl Tables {
    /// Makes the tables of a transform: small ones on the host, large ones on the device.
    ///
    /// # Errors
    /// [`NttError::ShiftInDomain`] for a shift of a smaller domain; [`NttError::Gpu`].
    ///
    /// # Panics
    /// If the plan is for another size than the domain's.
    pub fn new(
        device: &Device,
        domain: &Domain,
        plan: &NttPlan,
        transform: &Transform,
    ) -> Result<Self, NttError> {
        assert_eq!(plan.log_n, domain.log_n(), "a plan for the domain's size");
        if let Some(shift) = transform.shift {
            Shift::new(domain, shift.value())?;
        }
        device.load(modules::ALL)?;
        let maker = Maker::new(domain, plan, transform);
        let buffer = DeviceBuf::new(device, "ntt_tables", maker.layout.len as usize)?;
        if !buffer.is_empty() {
            maker.make(device, &buffer)?;
        }
        Ok(Self { transform: *transform, buffer })
    }

    /// The transform that they are for.
    pub fn transform(&self) -> &Transform {
        &self.transform
    }

    /// The buffer, to bind to the tables of a schedule.
    pub fn buffer(&self) -> &DeviceBuf<Fr> {
        &self.buffer
    }
}

/// Values of the tables of one transform.
struct Maker<'a> {
    plan: &'a NttPlan,
    layout: TableLayout,
    edge_is_natural: bool,
    omega: Fr,
    shift: Option<Fr>,
    n_inv: Option<Fr>,
}

impl<'a> Maker<'a> {
    fn new(domain: &Domain, plan: &'a NttPlan, transform: &Transform) -> Self {
        let invert = |value: Fr| value.inverse().expect("roots, shifts and powers of two are not zero");
        let (omega, shift) = (domain.omega(), transform.shift.map(|shift| shift.value()));
        let (omega, shift, n_inv) = match transform.direction {
            Direction::Forward => (omega, shift, None),
            Direction::Inverse => (invert(omega), shift.map(invert), Some(invert(Fr::from(domain.len())))),
        };
        let layout = TableLayout::new(plan, transform);
        Self { plan, layout, edge_is_natural: edge_is_natural(transform), omega, shift, n_inv }
    }

    /// The generator of the subgroup of order 2^bits.
    fn root(&self, bits: u32) -> Fr {
        self.omega.pow([1 << (self.plan.log_n - bits)])
    }

    /// Stages of the passes before one, counted from natural order.
    fn bits_before(&self, pass: usize) -> u32 {
        self.plan.passes[..pass].iter().map(|pass| pass.log_rows).sum()
    }

    /// 1/n where an inverse transform applies it: in the first scale that there is.
    fn n_inv_after(&self, pass: usize) -> Fr {
        if pass == 0 { self.n_inv.unwrap_or(Fr::ONE) } else { Fr::ONE }
    }

    /// Twiddles, edge and two-level powers, in the order of the layout.
    fn host_values(&self) -> Vec<Fr> {
        let (plan, layout) = (self.plan, &self.layout);
        let bits = layout.twiddle_bits;
        let mut values = powers(self.root(bits), layout.twiddles.end - layout.twiddles.start);
        let shift = self.shift.unwrap_or(Fr::ONE);
        match layout.edge.kind {
            ScaleKind::Row => {
                let pass = &plan.passes[layout.edge_pass];
                // The row's part of the index of a coefficient, row * 2^low_bits in natural order.
                let low_bits =
                    if self.edge_is_natural { pass.log_stride } else { self.bits_before(layout.edge_pass) };
                let mut rows = powers(shift.pow([1 << low_bits]), 1 << pass.log_rows);
                if !self.edge_is_natural {
                    rows = (0..rows.len()).map(|row| rows[reversed(row, pass.log_rows)]).collect();
                }
                let n_inv = if plan.passes.len() == 1 { self.n_inv_after(0) } else { Fr::ONE };
                values.extend(rows.into_iter().map(|row| row * n_inv));
            }
            ScaleKind::Power => values.extend(two_levels(shift, plan.log_n, Fr::ONE)),
            _ => {}
        }
        for (index, scale) in layout.between.iter().enumerate() {
            if scale.kind == ScaleKind::Twiddle {
                let bits = plan.passes[index].block_bits();
                values.extend(two_levels(self.root(bits), bits, self.n_inv_after(index)));
            }
        }
        assert_eq!(values.len() as u64, layout.made_by_host, "values as laid out");
        values
    }

    /// The shift that is folded into the scales after a pass, and whether it goes by row.
    fn folded_after(&self, pass: usize) -> (Fr, bool) {
        match self.shift {
            Some(shift) if self.layout.edge.kind == ScaleKind::Row && !self.edge_is_natural => (shift, true),
            Some(shift) if self.layout.edge.kind == ScaleKind::Row && pass == 0 => (shift, false),
            _ => (Fr::ONE, false),
        }
    }

    fn make(&self, device: &Device, buffer: &DeviceBuf<Fr>) -> Result<(), NttError> {
        let (plan, layout) = (self.plan, &self.layout);
        let mut schedule = Schedule::new(format!("ntt tables 2^{}", plan.log_n));
        let tables = schedule.buffer("tables", Space::Resident, layout.bytes());
        let stream = schedule.stream("compute");
        let tables_whole = schedule.whole(tables);
        let mut sources = Vec::new();
        let mut upload = |schedule: &mut Schedule, name: String, values: Vec<Fr>, dst: Option<Region>| {
            let bytes = values.len() as u64 * VALUE_BYTES;
            let host = schedule.buffer(format!("{name}_host"), Space::Pageable, bytes);
            let src = schedule.whole(host);
            let dst = dst.unwrap_or_else(|| {
                let device = schedule.buffer(name.clone(), Space::Device, bytes);
                schedule.whole(device)
            });
            sources.push(values);
            schedule.push(
                name.clone(),
                Some(sources.len() as u32 - 1),
                Action::HostStep { reads: vec![], writes: vec![src], host_us: bytes as f64 / 1e3 },
            );
            schedule.push(format!("upload_{name}"), None, Action::Upload { stream, src, dst });
            dst
        };
        let host_region = layout.region(tables_whole, &(0..layout.made_by_host));
        upload(&mut schedule, "host_values".into(), self.host_values(), Some(host_region));
        let filled = layout.between.iter().enumerate().filter(|(_, scale)| scale.kind == ScaleKind::Position);
        for (index, scale) in filled {
            let pass = &plan.passes[index];
            let (shift, by_row) = self.folded_after(index);
            let omega_powers = two_levels(self.omega, plan.log_n, Fr::ONE);
            let shift_powers = two_levels(shift, plan.log_n, self.n_inv_after(index));
            let omega = upload(&mut schedule, format!("omega_powers[{index}]"), omega_powers, None);
            let shift = upload(&mut schedule, format!("shift_powers[{index}]"), shift_powers, None);
            let row_shift = if by_row { self.bits_before(index) } else { 0 };
            let args = vec![
                Arg::Write(layout.region(tables_whole, &scale.range)),
                Arg::Read(omega),
                Arg::Read(shift),
                Arg::U32(plan.log_n),
                Arg::U32(pass.log_rows),
                Arg::U32(pass.log_stride),
                Arg::U32(by_row.into()),
                Arg::U32(row_shift),
            ];
            let blocks = (1u64 << pass.block_bits()).div_ceil(THREADS.into());
            let launch = Launch {
                kernel: "ntt_fill_scales".into(),
                grid: [blocks as u32, 1],
                block: THREADS,
                args,
                work: Work::default(),
            };
            schedule.push("ntt_fill_scales", None, Action::Launch { stream, launch });
        }
        let checked = CheckedSchedule::new(schedule)?;
        let mut workspace = Workspace::new(device, Arc::new(checked))?;
        workspace.run(&Bindings::new().bind(tables, buffer), &|op, mut views| {
            let source = op.batch.expect("each host step names its source") as usize;
            views.write::<Fr>(0).copy_from_slice(&sources[source]);
            Ok(())
        })?;
        Ok(())
    }
}

/// base^0 .. base^(count-1)
fn powers(base: Fr, count: u64) -> Vec<Fr> {
    std::iter::successors(Some(Fr::ONE), |power| Some(*power * base)).take(count as usize).collect()
}

/// Powers from which base^e * scale, e < 2^bits, is one product: base^i for i < 2^low_bits, then the powers
/// of base^(2^low_bits), times the scale. `power` in `ntt.cu` reads them.
fn two_levels(base: Fr, bits: u32, scale: Fr) -> Vec<Fr> {
    let low_bits = bits.div_ceil(2);
    let mut values = powers(base, 1 << low_bits);
    let step = (0..low_bits).fold(base, |power, _| power.square());
    values.extend(powers(step, 1 << (bits - low_bits)).into_iter().map(|power| power * scale));
    values
}

fn two_levels_len(bits: u32) -> u64 {
    let low_bits = bits.div_ceil(2);
    (1 << low_bits) + (1 << (bits - low_bits))
}

fn reversed(index: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { index.reverse_bits() >> (usize::BITS - bits) }
}
