//! A schedule as graphs: what a host thread queues between two host operations is captured once, and launched
//! again by one call in every run.
//!
//! All graphs are launched on one stream, so they run one after another. Inside a graph streams and events
//! order as they do outside; a wait for a mark of an earlier graph has nothing left to do, and a host wait
//! waits for the end of the graph that holds its mark. So every order that the checker relied on is kept, and
//! more is added.

use crate::Result;
use crate::backend::RawGraph;
use crate::check::issue_order;
use crate::device::{Device, Event, Stream};
use crate::error::GpuError;
use crate::run::{Place, Running};
use crate::schedule::{Action, Buffer, Op, Schedule, Space, StreamId};
use std::sync::{Mutex, PoisonError};

/// A captured graph, destroyed with its handle.
#[derive(Debug)]
struct Graph {
    raw: RawGraph,
    device: Device,
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Some(graphs) = self.device.backend().graphs() {
            // SAFETY: ours, dropped once. `Workspace::run` drains the stream of the launches before it
            // returns, and nobody drops a graph during a run.
            unsafe { graphs.destroy_graph(self.raw) }
        }
    }
}

/// The graphs of a workspace.
#[derive(Debug)]
pub(crate) struct GraphRun {
    /// Positions of each segment's operations.
    segments: Vec<Vec<usize>>,
    /// For each operation on a stream, its segment.
    segment_of: Vec<Option<usize>>,
    /// For each wait of a stream or of the host, the segment that holds its mark.
    mark_of: Vec<Option<usize>>,
    /// Graphs are captured from here and launched here.
    origin: Stream,
    /// Marks forks and joins of a capture.
    fork: Event,
    /// The end of each segment's last launch.
    done: Vec<Event>,
    /// Held while a segment is captured or launched, so that captures of two host threads never share a
    /// stream.
    captured: Mutex<Vec<Option<Graph>>>,
    /// What the graphs were captured with: addresses are part of them.
    bound: Vec<u64>,
}

impl GraphRun {
    /// Finds the segments of a schedule. Nothing is captured yet.
    pub(crate) fn new(device: &Device, schedule: &Schedule) -> Result<Self> {
        if let Some(op) = schedule.ops.iter().find(|op| is_pageable_copy(schedule, op)) {
            let reason = format!("{} copies pageable memory, which no graph can hold", op.name);
            return Err(GpuError::Incomplete { schedule: schedule.name.clone(), reason });
        }
        let mut segments: Vec<Vec<usize>> = Vec::new();
        let mut segment_of = vec![None; schedule.ops.len()];
        let mut open = vec![None; schedule.threads.len()];
        for (index, op) in schedule.ops.iter().enumerate() {
            let open = &mut open[op.thread.0 as usize];
            if op.stream().is_none() {
                *open = None;
                continue;
            }
            let segment = *open.get_or_insert_with(|| {
                segments.push(Vec::new());
                segments.len() - 1
            });
            segments[segment].push(index);
            segment_of[index] = Some(segment);
        }
        let awaited = issue_order(schedule).awaited;
        let mark_of = awaited.into_iter().map(|awaited| awaited.and_then(|op| segment_of[op])).collect();
        let done = segments.iter().map(|_| device.event("end of a graph")).collect::<Result<_>>()?;
        let captured = Mutex::new(segments.iter().map(|_| None).collect());
        let (origin, fork) = (device.stream("graphs")?, device.event("fork")?);
        Ok(Self { segments, segment_of, mark_of, origin, fork, done, captured, bound: Vec::new() })
    }

    /// The stream that graphs are launched on.
    pub(crate) fn stream(&self) -> &Stream {
        &self.origin
    }

    /// Drops what was captured.
    pub(crate) fn forget(&mut self) {
        let captured = self.captured.get_mut().unwrap_or_else(PoisonError::into_inner);
        captured.iter_mut().for_each(|graph| *graph = None);
    }

    /// Before a run: drops what was captured with other memory bound.
    pub(crate) fn prepare(&mut self, schedule: &Schedule, places: &[Place]) {
        let address = |place: &Place| match place {
            Place::Device(ptr) => ptr.0,
            Place::Host(span) => span.ptr as u64,
        };
        let is_bound = |(buffer, _): &(&Buffer, &Place)| buffer.space.is_bound();
        let bound = schedule.buffers.iter().zip(places).filter(is_bound);
        let bound: Vec<_> = bound.map(|(_, place)| address(place)).collect();
        if bound != self.bound {
            self.forget();
            self.bound = bound;
        }
    }

    /// A host wait: for the end of the graph that holds its mark.
    pub(crate) fn host_wait(&self, running: &Running<'_>, index: usize) -> Result<()> {
        let segment = self.mark_of[index].expect("checked: a wait is for a mark");
        self.done[segment].synchronize(&running.schedule.ops[index].name)
    }

    /// An operation on a stream: the first of a segment launches all of it.
    pub(crate) fn queued(&self, running: &Running<'_>, index: usize) -> Result<()> {
        let segment = self.segment_of[index].expect("it is on a stream");
        if self.segments[segment][0] != index {
            return Ok(());
        }
        let backend = running.device.backend();
        let graphs = backend.graphs().expect("a workspace has graphs where its device has");
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let graph = match &mut captured[segment] {
            Some(graph) => graph,
            empty => empty.insert(self.capture(running, segment)?),
        };
        let name = self.name(running.schedule, segment);
        // SAFETY: as for each operation in it: the checked schedule orders all accesses, and the order of
        // graphs adds to that; the memory is the workspace's, or bound at the addresses that it was captured
        // with (`prepare`), and outlives the run, which drains this stream before it returns.
        unsafe { graphs.launch_graph(&name, self.origin.raw(), graph.raw)? };
        self.done[segment].record(&self.origin)
    }

    /// Captures a segment.
    fn capture(&self, running: &Running<'_>, segment: usize) -> Result<Graph> {
        let graphs = running.device.backend().graphs().expect("a workspace has graphs where its device has");
        let name = self.name(running.schedule, segment);
        graphs.begin_capture(&name, self.origin.raw())?;
        let queued = self.queue(running, segment);
        // Also after an error, so that no stream stays in the capture.
        let ended = graphs.end_capture(&name, self.origin.raw());
        let graph = ended.map(|raw| Graph { raw, device: running.device.clone() });
        queued.and(graph)
    }

    /// Queues the operations of a segment while they are being captured.
    fn queue(&self, running: &Running<'_>, segment: usize) -> Result<()> {
        let (backend, ops) = (running.device.backend(), &self.segments[segment]);
        let graphs = backend.graphs().expect("a workspace has graphs where its device has");
        let all = &running.schedule.ops;
        let mut streams: Vec<StreamId> = ops.iter().filter_map(|index| all[*index].stream()).collect();
        streams.sort_unstable();
        streams.dedup();

        self.fork.record(&self.origin)?;
        for stream in &streams {
            backend.wait(running.raw_stream(*stream), self.fork.raw())?;
        }
        for index in ops {
            let op = &all[*index];
            if self.is_of_earlier_graph(running.schedule, *index) {
                continue;
            }
            let stream = running.raw_stream(op.stream().expect("operations of a segment are on streams"));
            let timers = running.timers(*index);
            timers.map_or(Ok(()), |(start, _)| graphs.record_in_graph(stream, start.raw()))?;
            running.queue(*index, op)?;
            timers.map_or(Ok(()), |(_, end)| graphs.record_in_graph(stream, end.raw()))?;
        }
        for stream in &streams {
            backend.record(running.raw_stream(*stream), self.fork.raw())?;
            backend.wait(self.origin.raw(), self.fork.raw())?;
        }
        Ok(())
    }

    /// Whether it is a wait for a mark that another graph holds.
    fn is_of_earlier_graph(&self, schedule: &Schedule, index: usize) -> bool {
        matches!(schedule.ops[index].action, Action::Wait { .. })
            && self.mark_of[index] != self.segment_of[index]
    }

    /// A segment in an error: its first and last operation.
    fn name(&self, schedule: &Schedule, segment: usize) -> String {
        let ops = &self.segments[segment];
        format!("graph of {} to {}", schedule.op_name(ops[0]), schedule.op_name(ops[ops.len() - 1]))
    }
}

fn is_pageable_copy(schedule: &Schedule, op: &Op) -> bool {
    let (Action::Upload { src: host, .. } | Action::Download { dst: host, .. }) = &op.action else {
        return false;
    };
    host.bytes > 0 && schedule.buffers[host.buffer.0 as usize].space == Space::Pageable
}
