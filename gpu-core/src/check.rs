//! The checker: is every pair of accesses to the same bytes ordered?

use crate::error::GpuError;
use crate::schedule::Schedule;
use serde::Serialize;
use std::fmt;

/// Two operations that may touch the same bytes at the same time, or another fault of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hazard {
    /// Placeholder until the checker is written.
    pub text: String,
}

/// What the checker found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// Faults, in the order of the schedule.
    pub hazards: Vec<Hazard>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hazards", self.hazards.len())
    }
}

/// Checks a schedule.
pub fn check(_schedule: &Schedule) -> Report {
    Report::default()
}

/// A schedule that the checker has passed: the only kind that runs on a CUDA device.
#[derive(Debug, Clone)]
pub struct CheckedSchedule {
    schedule: Schedule,
    simulation_only: bool,
}

impl CheckedSchedule {
    /// Checks a schedule.
    ///
    /// # Errors
    /// [`GpuError::Hazard`] with the report.
    pub fn new(schedule: Schedule) -> Result<Self, GpuError> {
        let report = check(&schedule);
        if report.hazards.is_empty() {
            return Ok(Self { schedule, simulation_only: false });
        }
        Err(GpuError::Hazard { schedule: schedule.name, report: Box::new(report) })
    }

    /// Lets a schedule through unchecked, for the simulated device alone: how the harness shows what a hazard does.
    pub fn for_simulation_only(schedule: Schedule) -> Self {
        Self { schedule, simulation_only: true }
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Whether it may run on the simulated device only.
    pub fn is_simulation_only(&self) -> bool {
        self.simulation_only
    }
}
