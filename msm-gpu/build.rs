//! Compiles and embeds the MSM kernels: those on digits once, those on points once per group.

fn main() {
    kernel_build::Build::new()
        .module("msm_digits", "cuda/digits.cu", &[])
        .module("msm_points_g1", "cuda/points.cu", &["GROUP_G1"])
        .module("msm_points_g2", "cuda/points.cu", &["GROUP_G2"])
        .build();
}
