//! Finding and changing operations of a schedule by what they are for.

use gpu_core::Schedule;
use gpu_core::schedule::{Action, Arg, BufferId, EventId, Op, Region, StreamId};
use msm_gpu::MsmPlan;

/// What kind of operation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Upload,
    Download,
    Fill,
    Launch,
    Record,
    Wait,
    HostWait,
    HostStep,
    Signal,
    Await,
}

impl What {
    fn is(self, op: &Op) -> bool {
        match op.action {
            Action::Upload { .. } => self == Self::Upload,
            Action::Download { .. } => self == Self::Download,
            Action::Fill { .. } => self == Self::Fill,
            Action::Launch { .. } => self == Self::Launch,
            Action::Record { .. } => self == Self::Record,
            Action::Wait { .. } => self == Self::Wait,
            Action::HostWait { .. } => self == Self::HostWait,
            Action::HostStep { .. } => self == Self::HostStep,
            Action::Signal { .. } => self == Self::Signal,
            Action::Await { .. } => self == Self::Await,
        }
    }
}

/// A schedule that is being changed, and the plan that it was built from.
pub(super) struct Edit<'a> {
    pub(super) plan: &'a MsmPlan,
    pub(super) schedule: &'a mut Schedule,
}

impl Edit<'_> {
    pub(super) fn last_batch(&self) -> u32 {
        self.plan.batch_count - 1
    }

    /// Slots for results, if there are at least two.
    pub(super) fn result_slots(&self) -> Option<u32> {
        Some(self.plan.result_slot_count()).filter(|slots| *slots >= 2)
    }

    /// Slots for scalars, if there are at least two.
    pub(super) fn scalar_slots(&self) -> Option<u32> {
        Some(self.plan.slot_count()).filter(|slots| *slots >= 2)
    }

    /// Position of the first operation of a batch whose name starts so.
    pub(super) fn find(&self, what: What, name: &str, batch: u32) -> Option<usize> {
        let is_it = |op: &Op| what.is(op) && op.batch == Some(batch) && op.name.starts_with(name);
        self.schedule.ops.iter().position(is_it)
    }

    /// Position of the kernel that writes the rows of a batch.
    pub(super) fn rows_writer(&self, batch: u32) -> Option<usize> {
        let rows = self.schedule.buffers.iter().position(|buffer| buffer.name == "rows")?;
        let writes = |op: &Op| op.writes().iter().any(|region| region.buffer.0 as usize == rows);
        self.schedule.ops.iter().position(|op| op.batch == Some(batch) && writes(op))
    }

    /// Operations whose name starts so, of any batch.
    pub(super) fn each(&mut self, what: What, name: &str) -> impl Iterator<Item = &mut Op> {
        self.schedule.ops.iter_mut().filter(move |op| what.is(op) && op.name.starts_with(name))
    }

    /// Drops all operations whose name starts so; `None` if there are none.
    pub(super) fn drop_all(&mut self, what: What, name: &str) -> Option<()> {
        let before = self.schedule.ops.len();
        self.schedule.ops.retain(|op| !(what.is(op) && op.name.starts_with(name)));
        (self.schedule.ops.len() < before).then_some(())
    }

    /// Does the same operation a second time, at a position after it or before it.
    pub(super) fn repeat(&mut self, op: usize, at: usize) {
        let again = self.schedule.ops[op].clone();
        self.schedule.ops.insert(at, again);
    }

    /// Appends an operation of the same host thread as another.
    pub(super) fn push_like(&mut self, like: usize, action: Action) {
        let op = Op { name: "mutant".into(), action, ..self.schedule.ops[like].clone() };
        self.schedule.ops.push(op);
    }

    /// Moves an operation forward in the list, to just before another.
    pub(super) fn hurry(&mut self, op: usize, before: usize) {
        assert!(before <= op, "operation {op} comes before {before}");
        self.schedule.ops[before..=op].rotate_right(1);
    }

    /// Inserts a wait of another operation's stream for an event.
    pub(super) fn insert_wait(&mut self, at: usize, like: usize, stream: StreamId, event: EventId) {
        let action = Action::Wait { stream, event };
        let wait = Op { name: "mutant".into(), action, ..self.schedule.ops[like].clone() };
        self.schedule.ops.insert(at, wait);
    }

    pub(super) fn buffer(&self, ring: &str, slot: u32) -> Option<BufferId> {
        let name = format!("{ring}[{slot}]");
        let number = self.schedule.buffers.iter().position(|buffer| buffer.name == name)?;
        Some(BufferId(number as u32))
    }

    pub(super) fn event(&self, ring: &str, slot: u32) -> Option<EventId> {
        let name = format!("{ring}[{slot}]");
        let number = self.schedule.events.iter().position(|event| *event == name)?;
        Some(EventId(number as u32))
    }

    pub(super) fn stream(&self, name: &str) -> Option<StreamId> {
        let number = self.schedule.streams.iter().position(|stream| stream == name)?;
        Some(StreamId(number as u32))
    }

    /// Gives each batch another slot of a ring of buffers, in the operations that `takes_part` picks.
    pub(super) fn turn_ring(
        &mut self,
        ring: &str,
        slot_of: impl Fn(u32) -> u32,
        takes_part: impl Fn(&Op) -> bool,
    ) -> Option<()> {
        let slots: Vec<BufferId> = (0..).map_while(|slot| self.buffer(ring, slot)).collect();
        let mut is_changed = false;
        for op in self.schedule.ops.iter_mut().filter(|op| takes_part(op)) {
            let Some(batch) = op.batch else { continue };
            for region in regions(op).into_iter().filter(|region| slots.contains(&region.buffer)) {
                let slot = slots[slot_of(batch) as usize];
                is_changed |= slot != region.buffer;
                region.buffer = slot;
            }
        }
        is_changed.then_some(())
    }
}

/// The event of a record or a wait.
pub(super) fn event_of(op: &mut Op) -> &mut EventId {
    match &mut op.action {
        Action::Record { event, .. } | Action::Wait { event, .. } | Action::HostWait { event } => event,
        other => unreachable!("{other:?} has no event"),
    }
}

/// The stream of an operation that is queued on one.
pub(super) fn stream_of(op: &mut Op) -> &mut StreamId {
    match &mut op.action {
        Action::Upload { stream, .. }
        | Action::Download { stream, .. }
        | Action::Fill { stream, .. }
        | Action::Launch { stream, .. }
        | Action::Record { stream, .. }
        | Action::Wait { stream, .. } => stream,
        other => unreachable!("{other:?} is on no stream"),
    }
}

/// Every region that an operation names.
pub(super) fn regions(op: &mut Op) -> Vec<&mut Region> {
    match &mut op.action {
        Action::Upload { src, dst, .. } | Action::Download { src, dst, .. } => vec![src, dst],
        Action::Fill { dst, .. } => vec![dst],
        Action::Launch { launch, .. } => launch
            .args
            .iter_mut()
            .filter_map(|arg| match arg {
                Arg::Read(region) | Arg::Write(region) => Some(region),
                Arg::U32(_) | Arg::U64(_) => None,
            })
            .collect(),
        Action::HostStep { reads, writes, .. } => reads.iter_mut().chain(writes).collect(),
        _ => Vec::new(),
    }
}
