//! Compiles sppark's templates for the groups and the field of BLS12-381, if there is an nvcc: from `NVCC` (`off` says that
//! there is none), below `CUDA_PATH`, or on `PATH`. Chips are in `SPPARK_PEER_ARCHS`, as `80,90`: code for each, and PTX of
//! the last for those that come after it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_sppark)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=cuda");
    #[cfg(feature = "sppark")]
    nvcc::build();
}

#[cfg(feature = "sppark")]
mod nvcc {
    use std::env;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// The chip of an H100 and an H200.
    const ARCHS: &str = "90";

    pub fn build() {
        for name in ["NVCC", "CUDA_PATH", "PATH", "SPPARK_PEER_ARCHS"] {
            println!("cargo::rerun-if-env-changed={name}");
        }
        match find() {
            None => println!("cargo::warning=no nvcc: sppark will be left out of what is measured"),
            Some(nvcc) => match compile(&nvcc) {
                Ok(()) => println!("cargo::rustc-cfg=has_sppark"),
                Err(error) => println!("cargo::error={error}"),
            },
        }
    }

    fn find() -> Option<PathBuf> {
        let on_path = |name: &Path| {
            let directories = env::var_os("PATH")?;
            env::split_paths(&directories).map(|directory| directory.join(name)).find(|path| path.is_file())
        };
        match env::var_os("NVCC").filter(|named| !named.is_empty()).map(PathBuf::from) {
            Some(named) if named.components().count() > 1 => Some(named).filter(|path| path.is_file()),
            Some(named) => on_path(&named),
            None => {
                let of_toolkit = env::var_os("CUDA_PATH").map(|root| Path::new(&root).join("bin/nvcc"));
                of_toolkit.filter(|path| path.is_file()).or_else(|| on_path(Path::new("nvcc")))
            }
        }
    }

    /// One static library, and what it needs beside it. CUDA's runtime is linked statically and loads the driver itself.
    fn compile(nvcc: &Path) -> Result<(), String> {
        let place = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is not set"));
        let (out, blst, sppark) = (place("OUT_DIR")?, place("DEP_BLST_C_SRC")?, place("DEP_SPPARK_ROOT")?);
        let mut command = Command::new(nvcc);
        command.args(["--lib", "-O3", "-std=c++17", "-Xcompiler", "-fPIC,-Wno-unused-function"]);
        command.args(gencode(&env::var("SPPARK_PEER_ARCHS").unwrap_or_else(|_| ARCHS.into()))?);
        command.args(
            ["TAKE_RESPONSIBILITY_FOR_ERROR_MESSAGE", "FEATURE_BLS12_381", "__BLST_PORTABLE__"]
                .map(|name| format!("-D{name}")),
        );
        command.arg("-I").arg(blst).arg("-I").arg(&sppark);
        command.args(["cuda/g1.cu", "cuda/g2.cu", "cuda/ntt.cu"]);
        if env::var_os("DEP_SPPARK_TARGET").is_none_or(|target| target != "cuda") {
            // sppark's own build has found no nvcc, and has left this to whoever finds one.
            command.arg(sppark.join("util/all_gpus.cpp"));
        }
        command.arg("-o").arg(out.join("libsppark_peer.a"));
        let output = command.output().map_err(|error| format!("{}: {error}", nvcc.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
            return Err(format!("{command:?}: {}: {said}", output.status));
        }
        println!("cargo::rustc-link-search=native={}", out.display());
        let root = nvcc.canonicalize().ok().and_then(|path| Some(path.parent()?.parent()?.to_path_buf()));
        for directory in ["targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib64", "lib"] {
            let libraries = root.as_ref().map(|root| root.join(directory)).filter(|path| path.is_dir());
            libraries.iter().for_each(|path| println!("cargo::rustc-link-search=native={}", path.display()));
        }
        println!("cargo::rustc-link-lib=static=sppark_peer");
        for library in ["cudart_static", "stdc++", "dl", "rt", "pthread"] {
            println!("cargo::rustc-link-lib={library}");
        }
        Ok(())
    }

    /// Code for each chip, and PTX for the last.
    fn gencode(archs: &str) -> Result<Vec<String>, String> {
        let archs: Vec<&str> = archs.split(',').map(str::trim).collect();
        let is_chip = |arch: &&str| {
            arch.starts_with(|c: char| c.is_ascii_digit()) && arch.chars().all(|c| c.is_ascii_alphanumeric())
        };
        if let Some(wrong) = archs.iter().find(|arch| !is_chip(arch)) {
            return Err(format!("SPPARK_PEER_ARCHS: `{wrong}` is no compute capability, as `90` is"));
        }
        let last = archs.last().expect("text has at least one part");
        let codes = archs.iter().map(|arch| format!("arch=compute_{arch},code=sm_{arch}"));
        let ptx = format!("arch=compute_{last},code=compute_{last}");
        Ok(codes.chain([ptx]).flat_map(|code| ["-gencode".into(), code]).collect())
    }
}
