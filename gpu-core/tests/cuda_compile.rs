//! Compilation by NVRTC, on any machine that has it: a GPU is not needed. Without NVRTC these tests say
//! "skipped", and fail under `REQUIRE_NVRTC=1`.

use gpu_core::cuda::compile::{compile, nvrtc_version, options, resources};
use gpu_core::{GpuError, ModuleSource};

fn has_nvrtc() -> bool {
    match nvrtc_version() {
        Ok(_) => true,
        Err(error) => {
            assert!(std::env::var_os("REQUIRE_NVRTC").is_none(), "REQUIRE_NVRTC is set: {error}");
            eprintln!("skipped: {error}");
            false
        }
    }
}

const HEADER: (&str, &str) = (
    "widths.cuh",
    "#pragma once
typedef unsigned u32;
static_assert(sizeof(u32) == 4, \"widths\");
",
);

fn module(source: &'static str, defines: &'static [&'static str]) -> ModuleSource {
    ModuleSource { name: "probe", file: "probe.cu", source, headers: &[HEADER], defines, kernels: &[] }
}

const PROBE: &str = r#"
#include "widths.cuh"
#ifndef FACTOR
#error "FACTOR is to be defined"
#endif
extern "C" __global__ void __launch_bounds__(256) probe(const u32* in, u32* out) {
    __shared__ u32 row[256];
    row[threadIdx.x] = in[threadIdx.x] * FACTOR;
    __syncthreads();
    out[threadIdx.x] = row[255 - threadIdx.x];
}
"#;

#[test]
fn absent_compiler_is_named() {
    match nvrtc_version() {
        Ok(version) => assert!(version.0 >= 11, "{version:?}"),
        Err(error @ GpuError::NoCompiler { .. }) => {
            assert!(error.to_string().contains("libnvrtc.so"), "{error}");
            let refused = compile(&module(PROBE, &["FACTOR=3"]), "sm_90");
            assert!(matches!(refused, Err(GpuError::NoCompiler { .. })), "{refused:?}");
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn module_becomes_a_cubin_with_its_headers_and_definitions() {
    if !has_nvrtc() {
        return;
    }
    let module = module(PROBE, &["FACTOR=3"]);
    let image = compile(&module, "sm_90").expect("it compiles");
    assert_eq!(&image[..4], b"\x7fELF");
    assert!(image.windows(5).any(|bytes| bytes == b"probe"), "it exports the kernel");
    assert!(options(&module, "sm_90").contains(&"-DFACTOR=3".to_string()));
    let other = compile(&module, "sm_100").expect("it compiles");
    assert_ne!(image, other, "another chip, other code");
}

#[test]
fn resources_are_read_off() {
    if !has_nvrtc() {
        return;
    }
    let found = resources(&module(PROBE, &["FACTOR=3"]), "sm_90").expect("it compiles");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].kernel.as_str(), found[0].shared_bytes, found[0].spill_store_bytes),
        ("probe", 1024, 0)
    );
    assert!((1..=255).contains(&found[0].registers), "{found:?}");
}

#[test]
fn refusal_carries_the_log() {
    if !has_nvrtc() {
        return;
    }
    match compile(&module(PROBE, &[]), "sm_90") {
        Err(GpuError::Compile { module, arch, log }) => {
            assert_eq!((module.as_str(), arch.as_str()), ("probe", "sm_90"));
            assert!(log.contains("FACTOR is to be defined") && log.contains("probe.cu"), "{log}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_much_static_shared_memory_is_refused_by_name() {
    if !has_nvrtc() {
        return;
    }
    const GREEDY: &str = r#"
extern "C" __global__ void greedy(unsigned* out) {
    __shared__ unsigned row[13000];
    row[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = row[12999 - threadIdx.x];
}
"#;
    match compile(&module(GREEDY, &[]), "sm_90") {
        Err(GpuError::Compile { log, .. }) => {
            assert!(log.contains("greedy") && log.contains("shared"), "{log}");
        }
        other => panic!("{:?}", other.map(|image| image.len())),
    }
}

#[test]
fn unknown_chip_is_refused_with_versions_and_advice() {
    if !has_nvrtc() {
        return;
    }
    let (major, minor) = nvrtc_version().expect("it is there");
    for arch in ["sm_999", "sm_", "gfx90a", "sm_90; --help"] {
        match compile(&module(PROBE, &["FACTOR=3"]), arch) {
            Err(GpuError::Compile { log, .. }) => {
                let has_versions = log.contains(&format!("NVRTC {major}.{minor}")) && log.contains(arch);
                assert!(has_versions && log.contains("sm_90") && log.contains("install"), "{log}");
            }
            other => panic!("{arch}: {other:?}"),
        }
    }
}

#[test]
fn text_that_no_compiler_can_take_is_an_error() {
    if !has_nvrtc() {
        return;
    }
    for module in [module("int a;\0int b;", &[]), module(PROBE, &["FACTOR=\0"])] {
        assert!(matches!(compile(&module, "sm_90"), Err(GpuError::Compile { .. })));
    }
}

/// The sources carry all that they include: no directory is searched, and what variables say of a toolkit does not matter.
#[test]
fn b112_no_toolkit_is_looked_for() {
    const TEST: &str = "b112_no_toolkit_is_looked_for";
    const ROLE: &str = "CUDA_COMPILE_TEST_ROLE";
    if !has_nvrtc() {
        return;
    }
    let module = module(PROBE, &["FACTOR=3"]);
    if std::env::var_os(ROLE).is_some() {
        return drop(compile(&module, "sm_90").expect("it compiles"));
    }
    for option in options(&module, "sm_90") {
        assert!(!option.starts_with("-I") && !option.contains("include-path"), "{option}");
    }
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    for home in [None, Some("/nowhere")] {
        let mut child = std::process::Command::new(std::env::current_exe().expect("path of this test"));
        child.args(["--exact", TEST, "--nocapture"]).env(ROLE, "").current_dir(elsewhere.path());
        for variable in ["CUDA_HOME", "CUDA_PATH", "CPATH", "CPLUS_INCLUDE_PATH"] {
            match home {
                Some(home) => child.env(variable, home),
                None => child.env_remove(variable),
            };
        }
        let output = child.output().expect("it starts");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.concat();
        assert!(output.status.success() && text.contains("1 passed"), "{home:?}: {}\n{text}", output.status);
    }
}

/// Kernels are large after inlining, and a module is compiled on whatever thread loads it.
#[test]
fn compiling_needs_no_large_stack() {
    if !has_nvrtc() {
        return;
    }
    let module = module(PROBE, &["FACTOR=3"]);
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let image = std::thread::scope(|scope| {
        thread.spawn_scoped(scope, || compile(&module, "sm_90")).expect("a thread").join().expect("no panic")
    });
    assert!(image.is_ok(), "{image:?}");
}

/// Limbs of the simulated device's processor: no CUDA source sees them.
const HOST_ONLY: &str = "limbs64.cuh";

/// What the simulated device runs is what NVRTC accepts: the common headers, each as the first that a source
/// includes.
#[test]
fn common_headers_and_kernels_compile() {
    if !has_nvrtc() {
        return;
    }
    let headers = gpu_core::modules::HEADERS;
    assert!(
        headers.iter().any(|(name, _)| *name == "base.cuh"),
        "{:?}",
        headers.iter().map(|h| h.0).collect::<Vec<_>>()
    );
    for (name, _) in headers.iter().filter(|(name, _)| *name != HOST_ONLY) {
        let source = format!("#include \"{name}\"\nextern \"C\" __global__ void probe() {{}}\n");
        let module = ModuleSource { headers, ..module(source.leak(), &[]) };
        compile(&module, "sm_90").unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let probe = &gpu_core::modules::SIM_PROBE;
    for module in gpu_core::modules::ALL.iter().copied().chain([probe]) {
        let found = resources(module, "sm_90").unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<_> = found.iter().map(|taken| taken.kernel.as_str()).collect();
        assert_eq!(names, module.kernels.iter().map(|entry| entry.name).collect::<Vec<_>>());
    }
}
