//! A device that is wrong, and one that fails: the program must say so, and with its exit code.

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use clap::Parser;
use gpu_core::backend::{Backend, DevicePtr, HostSpan, Kernel, LaunchArg, RawEvent, RawStream};
use gpu_core::sim::{SimBackend, SimOptions};
use gpu_core::{Device, DeviceInfo, GpuError, ModuleSource, Result, Space};
use groth16::{ProveError, Prover};
use harness::bisect::bisect;
use harness::circuits::{CircuitName, Problem};
use harness::commands::check::{CheckArgs, run_on};
use harness::devices::Devices;
use harness::error::Judgement;
use harness::oracle::{BaseFlavour, KnownBases, random_numbers};
use msm_gpu::{Bases, Msm, MsmConfig, MsmError, MsmGroup};

/// What happens to launches of one kernel.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// It is queued as if it were, and never runs.
    Skipped,
    /// The driver refuses it.
    Refused,
    /// What it writes is cleared behind it.
    Cleared,
    /// It takes so much of the chip that one warp fits.
    Greedy,
}

/// The simulated device, but for one kernel.
#[derive(Debug)]
struct Faulty {
    inner: SimBackend,
    kernel: &'static str,
    fault: Fault,
}

// Whoever calls the unsafe methods keeps their contract towards `inner`: arguments are passed on as they come.
impl Backend for Faulty {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn free_bytes(&self) -> Result<u64> {
        self.inner.free_bytes()
    }

    fn alloc_device(&self, name: &str, bytes: u64) -> Result<DevicePtr> {
        self.inner.alloc_device(name, bytes)
    }

    unsafe fn free_device(&self, ptr: DevicePtr, bytes: u64) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.free_device(ptr, bytes) }
    }

    fn alloc_pinned(&self, name: &str, bytes: usize, space: Space) -> Result<*mut u8> {
        self.inner.alloc_pinned(name, bytes, space)
    }

    unsafe fn free_pinned(&self, ptr: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.free_pinned(ptr, bytes) }
    }

    unsafe fn register_host(&self, name: &str, ptr: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.register_host(name, ptr, bytes) }
    }

    unsafe fn unregister_host(&self, ptr: *const u8, bytes: usize) {
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner.unregister_host(ptr, bytes) }
    }

    fn create_stream(&self, name: &str) -> Result<RawStream> {
        self.inner.create_stream(name)
    }

    unsafe fn destroy_stream(&self, stream: RawStream) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.destroy_stream(stream) }
    }

    fn create_event(&self, name: &str) -> Result<RawEvent> {
        self.inner.create_event(name)
    }

    unsafe fn destroy_event(&self, event: RawEvent) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.destroy_event(event) }
    }

    unsafe fn upload(&self, op: &str, stream: RawStream, dst: DevicePtr, src: HostSpan) -> Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.upload(op, stream, dst, src) }
    }

    unsafe fn download(&self, op: &str, stream: RawStream, dst: HostSpan, src: DevicePtr) -> Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.download(op, stream, dst, src) }
    }

    unsafe fn fill(&self, op: &str, stream: RawStream, dst: DevicePtr, bytes: u64, byte: u8) -> Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.fill(op, stream, dst, bytes, byte) }
    }

    unsafe fn launch(
        &self,
        op: &str,
        stream: RawStream,
        kernel: &Kernel,
        grid: [u32; 2],
        block: u32,
        args: &[LaunchArg],
    ) -> Result<()> {
        match self.fault {
            Fault::Skipped if kernel.entry.name == self.kernel => Ok(()),
            Fault::Refused if kernel.entry.name == self.kernel => {
                Err(GpuError::Driver { op: op.into(), cause: "refused by the test".into() })
            }
            // SAFETY: the caller's promise is passed on; what the launch may write is filled behind it.
            Fault::Cleared if kernel.entry.name == self.kernel => unsafe {
                self.inner.launch(op, stream, kernel, grid, block, args)?;
                args.iter().try_for_each(|arg| match *arg {
                    LaunchArg::Buffer { ptr, bytes, write: true } => {
                        self.inner.fill(op, stream, ptr, bytes, 0)
                    }
                    _ => Ok(()),
                })
            },
            // SAFETY: the caller's promise is passed on.
            _ => unsafe { self.inner.launch(op, stream, kernel, grid, block, args) },
        }
    }

    fn record(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.inner.record(stream, event)
    }

    fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.inner.wait(stream, event)
    }

    fn sync_event(&self, op: &str, event: RawEvent) -> Result<()> {
        self.inner.sync_event(op, event)
    }

    fn sync_stream(&self, op: &str, stream: RawStream) -> Result<()> {
        self.inner.sync_stream(op, stream)
    }

    fn elapsed_us(&self, start: RawEvent, end: RawEvent) -> Result<Option<f64>> {
        self.inner.elapsed_us(start, end)
    }

    fn load(&self, source: &'static ModuleSource) -> Result<Vec<Kernel>> {
        let mut kernels = self.inner.load(source)?;
        if matches!(self.fault, Fault::Greedy) {
            let greedy = kernels.iter_mut().filter(|kernel| kernel.entry.name == self.kernel);
            greedy.for_each(|kernel| kernel.block_max = 16);
        }
        Ok(kernels)
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: CheckArgs,
}

fn faulty(kernel: &'static str, fault: Fault) -> Device {
    let inner = SimBackend::new(SimOptions::default());
    Device::from_backend(Box::new(Faulty { inner, kernel, fault }))
}

/// A check of two products on a device with a fault: how it is judged, its text, and its JSON.
fn check(fault: Fault) -> (Judgement, String, serde_json::Value) {
    let device = faulty("msm_merge_partials_g1", fault);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let json = directory.path().join("report.json");
    let path = json.to_str().expect("the path is text");
    let only = "output.a_query/witness-like/3/";
    let line = Line::parse_from(["check", "--quick", "--seed", "5", "--only", only, "--json", path]);
    let mut out = Vec::new();
    let opened = Devices { devices: vec![device], no_cuda: None };
    let judgement = run_on(opened, &line.args, &mut out).expect("a report");
    let text = String::from_utf8(out).expect("the report is text");
    let json = std::fs::read_to_string(json).expect("the report was written");
    (judgement, text, serde_json::from_str(&json).expect("the report is JSON"))
}

#[test]
fn b37_a_wrong_kernel_is_a_mismatch_and_exit_code_1() {
    let (judgement, text, json) = check(Fault::Skipped);
    assert_eq!((judgement, judgement.exit_code()), (Judgement::Bad, 1), "{text}");
    assert!(text.contains("DIFFERENT") && text.contains("0 of 2 products equal"), "{text}");
    let again = "again: harness check --device sim --seed 0x5 --keys output --only output.a_query/witness-like/3/hard";
    assert!(text.contains(again), "{text}");
    assert_eq!((&json["different"], &json["failed"]), (&2.into(), &0.into()));
    assert_ne!(json["rows"][0]["expected"], json["rows"][0]["found"]);
}

#[test]
fn a_failing_kernel_is_named_and_exit_code_4() {
    let (judgement, text, json) = check(Fault::Refused);
    assert_eq!((judgement, judgement.exit_code()), (Judgement::Incomplete, 4), "{text}");
    assert!(text.contains("FAILED") && text.contains("msm_merge_partials_g1: refused by the test"), "{text}");
    assert_eq!((&json["different"], &json["failed"]), (&0.into(), &2.into()));
    assert_eq!(json["rows"][0]["result"], "failed");
}

/// A kernel whose results are lost makes a proof that is not handed out, and the parts that need it are named, no others.
#[test]
fn b60_the_part_that_is_wrong_is_named() {
    let problem = Problem::new(CircuitName::Mimc(20), 1, None).expect("something to prove");
    let different = |device: &Device| -> Vec<&'static str> {
        let parts = bisect(device, &problem).expect("the device computes something");
        assert_eq!(parts.len(), 6);
        parts.into_iter().filter(|part| !part.is_equal).map(|part| part.name).collect()
    };
    assert!(different(&Device::sim(SimOptions::default())).is_empty());
    let cases: [(&str, &[&str]); 3] = [
        ("msm_sum_bits_g2", &["b_g2"]),
        ("msm_sum_bits_g1", &["a", "b_g1", "l", "h"]),
        ("ntt_dif_pass", &["transforms"]),
    ];
    for (kernel, expected) in cases {
        let device = faulty(kernel, Fault::Cleared);
        assert_eq!(different(&device), expected, "without {kernel}");
        let prover = Prover::new(&device, &problem.key, &problem.r1cs).expect("a prover");
        let error =
            prover.prove_with(&problem.assignment, Fr::from(2), Fr::from(3)).expect_err("a wrong proof");
        assert!(matches!(error, ProveError::Invalid | ProveError::Quotient), "without {kernel}: {error}");
    }
}

/// Without the division by the vanishing polynomial there is a term too many, which an honest quotient never has.
#[test]
fn b54_a_quotient_of_too_high_a_degree_is_an_error() {
    let problem = Problem::new(CircuitName::Mimc(20), 1, None).expect("something to prove");
    assert_eq!(problem.key.h_query.len(), (1 << problem.r1cs.log_n()) - 1, "no base for such a term");
    let device = faulty("groth16_quotient", Fault::Skipped);
    let prover = Prover::new(&device, &problem.key, &problem.r1cs).expect("a prover");
    let error =
        prover.prove_with(&problem.assignment, Fr::from(2), Fr::from(3)).expect_err("a term too many");
    assert!(matches!(error, ProveError::Quotient), "{error}");
}

/// A kernel that cannot be launched with the threads that a plan gives it is refused when the memory is taken, by name.
#[test]
fn b118_a_kernel_that_takes_too_much_is_refused_by_name() {
    fn refusal<G: MsmGroup>(kernel: &'static str) -> GpuError {
        let device = faulty(kernel, Fault::Greedy);
        let known = KnownBases::<G>::generate(BaseFlavour::Random, 300, &mut random_numbers(1, "greedy"));
        let bases = Bases::<G>::trusted(&device, known.points()).expect("bases");
        match Msm::<G, Fr>::new(&bases, &MsmConfig::default()) {
            Err(MsmError::Gpu(error)) => error,
            other => panic!("{kernel}: {other:?}"),
        }
    }
    let kernels = [
        "msm_accumulate_runs",
        "msm_merge_partials",
        "msm_merge_segments",
        "msm_merge_hot",
        "msm_sum_lines",
        "msm_sum_bits",
    ];
    let in_group = |group: &str| kernels.map(|kernel| -> &'static str { format!("{kernel}_{group}").leak() });
    let of_g1 = in_group("g1").map(|kernel| (kernel, refusal::<G1Projective>(kernel)));
    let of_g2 = in_group("g2").map(|kernel| (kernel, refusal::<G2Projective>(kernel)));
    for (name, error) in of_g1.into_iter().chain(of_g2) {
        let GpuError::Launch { kernel, reason } = error else { panic!("{name}: {error}") };
        assert_eq!(kernel, name);
        assert!(reason.contains("threads per block, at most 16 fit"), "{name}: {reason}");
    }
}
