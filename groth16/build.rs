//! Compiles and embeds the kernels between the transforms: rows of the R1CS, and the quotient.

fn main() {
    kernel_build::Build::new().module("groth16", "cuda/groth16.cu", &[]).build();
}
