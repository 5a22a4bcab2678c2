//! Power and clock of a CUDA device while something runs on it: a thread of its own asks NVML, about once a millisecond.
//!
//! Readings carry the host's clock, and meet the lanes of a run there: 0 is when the host began the run, from where the
//! lanes count too, within some ten microseconds. NVML renews its power every few tens of milliseconds, so that a shorter
//! run shows one level.

use crate::trace_events::Counter;
use gpu_core::{DeviceInfo, DeviceKind};
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_POWER_INSTANT;
use nvml_wrapper::{Device, Nvml};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two readings, if NVML answers at once.
const PERIOD: Duration = Duration::from_millis(1);

/// What a device said of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// When, on the host's clock: the middle of the question.
    pub at: Instant,
    /// Power that it takes, in watts.
    pub power_w: Option<f64>,
    /// Clock of the multiprocessors, in MHz.
    pub sm_clock_mhz: Option<u32>,
}

/// A device that is being read, until this is stopped or dropped.
#[derive(Debug)]
pub struct Meter {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Reading>>>,
}

impl Meter {
    /// Begins to read a device. `None` for the simulated one, and without NVML.
    pub fn start(device: &DeviceInfo) -> Option<Self> {
        if device.kind != DeviceKind::Cuda {
            return None;
        }
        let found = nvml().and_then(|nvml| {
            let index = nvml_device(&nvml, device)?.map(|found| found.index()).transpose()?;
            Ok(index.map(|index| (nvml, index)))
        });
        match found {
            Ok(Some((nvml, index))) => Some(Self::spawn(move |is_over| {
                let Ok(device) = nvml.device_by_index(index) else { return Vec::new() };
                read(is_over, || (power_w(&device), device.clock_info(Clock::SM).ok()))
            })),
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(%error, "power and clock are not known");
                None
            }
        }
    }

    fn spawn(reads: impl FnOnce(&AtomicBool) -> Vec<Reading> + Send + 'static) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        Self { is_over, thread: Some(std::thread::spawn(move || reads(&over))) }
    }

    /// Ends it. Readings in the order of time.
    ///
    /// # Panics
    /// If the thread did.
    pub fn stop(mut self) -> Vec<Reading> {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("taken here alone");
        thread.join().expect("it asks and notes down")
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Asks for power in watts and a clock in MHz, until it is over.
fn read(is_over: &AtomicBool, mut ask: impl FnMut() -> (Option<f64>, Option<u32>)) -> Vec<Reading> {
    let mut readings = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        let (power_w, sm_clock_mhz) = ask();
        let took = start.elapsed();
        readings.push(Reading { at: start + took / 2, power_w, sm_clock_mhz });
        std::thread::sleep(PERIOD.saturating_sub(took));
    }
    readings
}

/// NVML, by the name that comes with a driver: the one without a number belongs to the development package, which few
/// machines have.
///
/// # Errors
/// Without it.
pub(crate) fn nvml() -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init()
}

/// NVML's device for one of CUDA's, which may number them differently: the one of that number, or the first, if the name is
/// the same.
///
/// # Errors
/// What NVML answers.
pub(crate) fn nvml_device<'a>(nvml: &'a Nvml, info: &DeviceInfo) -> Result<Option<Device<'a>>, NvmlError> {
    let ordinal: u32 = info.id.trim_start_matches("cuda:").parse().unwrap_or(0);
    let device = nvml.device_by_index(ordinal).or_else(|_| nvml.device_by_index(0))?;
    Ok((device.name()? == info.name).then_some(device))
}

/// Power now, or what an older device has for it; newer ones answer the older question with an average over a second.
fn power_w(device: &Device<'_>) -> Option<f64> {
    let asked = device.field_values_for(&[FieldId(NVML_FI_DEV_POWER_INSTANT)]).ok()?;
    let now = match asked.into_iter().next()?.ok()?.value {
        Ok(SampleValue::U32(milliwatts)) => Some(milliwatts),
        _ => None,
    };
    let milliwatts = now.or_else(|| device.power_usage().ok())?;
    Some(f64::from(milliwatts) / 1e3)
}

/// Readings as counters of a run that began at a moment of the host's clock and took so many microseconds. A counter keeps
/// its value until the next: the last reading before the run is its value at 0. A counter without a value is left out.
pub fn counters(readings: &[Reading], start: Instant, wall_us: f64) -> Vec<Counter> {
    type Value = fn(&Reading) -> Option<f64>;
    let all: [(&str, &str, Value); 2] = [
        ("power", "W", |reading| reading.power_w),
        ("SM clock", "MHz", |reading| reading.sm_clock_mhz.map(f64::from)),
    ];
    let counter = |(name, unit, value): (&str, &str, Value)| {
        let values: Vec<(f64, f64)> =
            readings.iter().filter_map(|reading| Some((since(start, reading.at), value(reading)?))).collect();
        let before = values.iter().rev().find(|(us, _)| *us <= 0.0).map(|(_, value)| (0.0, *value));
        let during = values.iter().copied().filter(|(us, _)| *us > 0.0 && *us <= wall_us);
        let points: Vec<(f64, f64)> = before.into_iter().chain(during).collect();
        (!points.is_empty()).then(|| Counter { name: format!("{name} ({unit})"), unit: unit.into(), points })
    };
    all.into_iter().filter_map(counter).collect()
}

/// Microseconds from one moment to another, negative if that was earlier.
fn since(start: Instant, at: Instant) -> f64 {
    let us = |duration: Duration| duration.as_secs_f64() * 1e6;
    us(at.saturating_duration_since(start)) - us(start.saturating_duration_since(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_core::Device;
    use gpu_core::sim::SimOptions;

    #[test]
    fn readings_become_counters_on_the_axis_of_the_run() {
        let origin = Instant::now();
        let start = origin + Duration::from_millis(10);
        let reading = |ms: u64, power_w, sm_clock_mhz| Reading {
            at: origin + Duration::from_millis(ms),
            power_w,
            sm_clock_mhz,
        };
        let readings = [
            reading(7, Some(80.0), Some(345)),
            reading(9, Some(90.0), None),
            reading(11, Some(350.5), Some(1980)),
            reading(12, None, Some(1965)),
            reading(20, Some(120.0), Some(1500)),
        ];
        let found = counters(&readings, start, 5e3);
        let [power, clock] = &found[..] else { panic!("{found:?}") };
        assert_eq!((power.name.as_str(), clock.name.as_str()), ("power (W)", "SM clock (MHz)"));
        let near = |points: &[(f64, f64)], expected: &[(f64, f64)]| {
            assert_eq!(points.len(), expected.len(), "{points:?}");
            for (point, expected) in points.iter().zip(expected) {
                assert!((point.0 - expected.0).abs() < 1e-6 && point.1 == expected.1, "{points:?}");
            }
        };
        near(&power.points, &[(0.0, 90.0), (1e3, 350.5)]);
        near(&clock.points, &[(0.0, 345.0), (1e3, 1980.0), (2e3, 1965.0)]);
        let without_power: Vec<Reading> =
            readings.iter().map(|reading| Reading { power_w: None, ..*reading }).collect();
        let found = counters(&without_power, start, 5e3);
        assert_eq!(found.iter().map(|counter| counter.name.as_str()).collect::<Vec<_>>(), ["SM clock (MHz)"]);
        assert!(counters(&readings[4..], start, 5e3).is_empty(), "read after the run");
    }

    #[test]
    fn a_meter_reads_until_it_is_stopped() {
        let mut asked = 0;
        let start = Instant::now();
        let (told, heard) = std::sync::mpsc::channel();
        let meter = Meter::spawn(move |is_over| {
            read(is_over, || {
                asked += 1;
                if asked == 3 {
                    told.send(()).expect("the test waits");
                }
                (Some(f64::from(asked)), Some(asked))
            })
        });
        heard.recv().expect("three questions");
        let readings = meter.stop();
        assert!(readings.len() >= 3 && readings.len() <= asked_at_most(start), "{}", readings.len());
        assert!(readings.windows(2).all(|pair| pair[0].at < pair[1].at));
        let values: Vec<_> = readings.iter().filter_map(|reading| reading.sm_clock_mhz).collect();
        assert_eq!(values, (1..=readings.len() as u32).collect::<Vec<_>>());
    }

    /// One question a period, since a moment.
    fn asked_at_most(start: Instant) -> usize {
        start.elapsed().as_millis() as usize + 1
    }

    #[test]
    fn the_simulated_device_has_no_meter() {
        assert!(Meter::start(Device::sim(SimOptions::default()).info()).is_none());
    }
}
