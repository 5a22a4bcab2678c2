//! Compiles and embeds the MSM kernels: those on digits once, those on points once per group.
//!
//! Kernels on points are modules of their own because NVRTC takes its time over them, and takes it in parallel.

fn main() {
    let mut build = kernel_build::Build::new()
        .header_dir("cuda")
        .module("msm_digits", "cuda/digits.cu", &[])
        .module("msm_partition", "cuda/partition.cu", &[]);
    for stem in ["pair", "accumulate", "merge", "reduce", "table"] {
        for (group, define) in [("g1", "GROUP_G1"), ("g2", "GROUP_G2")] {
            build = build.module(&format!("msm_{stem}_{group}"), &format!("cuda/{stem}.cu"), &[define]);
        }
    }
    build.build();
}
