//! Compiles and embeds the transform's kernels.

fn main() {
    kernel_build::Build::new().module("ntt", "cuda/ntt.cu", &[]).build();
}
