//! Compiles the common kernels and the runtime of the simulated device, and passes the common headers to
//! dependents.

fn main() {
    let headers = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("cuda");
    println!("cargo::metadata=INCLUDE={}", headers.display());
    kernel_build::Build::new()
        .header_dir("cuda")
        .runtime("cuda/sim/runtime.cpp")
        .unlisted_module("field_ops", "cuda/field_ops.cu", &[])
        .unlisted_module("curve_ops_g1", "cuda/curve_ops.cu", &["GROUP_G1"])
        .unlisted_module("curve_ops_g2", "cuda/curve_ops.cu", &["GROUP_G2"])
        .unlisted_module("sim_probe", "cuda/sim/probe.cu", &[])
        .build();
}
