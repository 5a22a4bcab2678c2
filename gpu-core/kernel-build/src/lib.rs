//! Build-time half of a kernel crate.
//!
//! A crate with kernels calls [`Build`] from its build script. Each module is compiled for the simulated
//! device, and `$OUT_DIR/kernels.rs` receives the embedded sources and a static for each module. The crate
//! takes them in with
//!
//! ```text
//! pub mod modules { include!(concat!(env!("OUT_DIR"), "/kernels.rs")); }
//! ```
//!
//! It needs `gpu-core` among its dependencies, whose common headers it sees through cargo's `links` metadata.
//!
//! `SIM_SANITIZE` (for example `address,undefined`) in the environment compiles the kernels with those
//! sanitizers.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;

/// Environment variable that gpu-core's `links` metadata becomes in its dependents.
const COMMON_HEADERS: &str = "DEP_GPU_CORE_SIM_INCLUDE";

/// What names of kernels begin with in the objects of the simulated device.
const PREFIX: &str = "sim_";

/// One source with one set of definitions.
#[derive(Debug)]
struct Module {
    name: String,
    source: PathBuf,
    defines: Vec<String>,
    is_listed: bool,
}

/// What the preprocessed text of a module names.
#[derive(Debug)]
struct Marks {
    kernels: Vec<String>,
    covered: Vec<String>,
}

/// Description of a crate's kernels.
#[derive(Debug)]
pub struct Build {
    root: PathBuf,
    out_dir: PathBuf,
    header_dirs: Vec<PathBuf>,
    modules: Vec<Module>,
    runtime: Option<PathBuf>,
}

impl Default for Build {
    fn default() -> Self {
        Self::new()
    }
}

impl Build {
    /// Starts a description; in a crate that depends on `gpu-core`, with its headers.
    ///
    /// # Panics
    /// If it is not called from a build script.
    pub fn new() -> Self {
        println!("cargo::rerun-if-env-changed={COMMON_HEADERS}");
        let var = |name| PathBuf::from(env::var_os(name).expect("cargo sets it for build scripts"));
        Self {
            root: var("CARGO_MANIFEST_DIR"),
            out_dir: var("OUT_DIR"),
            header_dirs: env::var_os(COMMON_HEADERS).map(PathBuf::from).into_iter().collect(),
            modules: Vec::new(),
            runtime: None,
        }
    }

    /// Adds a directory, relative to the crate, whose `*.cuh` files the modules include by file name.
    #[must_use]
    pub fn header_dir(mut self, path: &str) -> Self {
        self.header_dirs.push(self.root.join(path));
        self
    }

    /// Adds a module: its name, its source relative to the crate, and what is defined while it is compiled.
    #[must_use]
    pub fn module(self, name: &str, source: &str, defines: &[&str]) -> Self {
        self.add(name, source, defines, true)
    }

    /// Adds a module that is not in the generated `ALL`: kernels that only tests load.
    #[must_use]
    pub fn unlisted_module(self, name: &str, source: &str, defines: &[&str]) -> Self {
        self.add(name, source, defines, false)
    }

    /// Adds the runtime of the simulated device (gpu-core alone has one).
    #[must_use]
    pub fn runtime(mut self, source: &str) -> Self {
        self.runtime = Some(self.root.join(source));
        self
    }

    fn add(mut self, name: &str, source: &str, defines: &[&str], is_listed: bool) -> Self {
        let defines = defines.iter().map(|define| (*define).to_string()).collect();
        self.modules.push(Module { name: name.into(), source: self.root.join(source), defines, is_listed });
        self
    }

    /// Compiles everything and writes `kernels.rs`. Ends the build script with a message if a step fails.
    pub fn build(self) {
        if let Err(message) = self.try_build() {
            eprintln!("error: kernels: {message}");
            exit(1);
        }
    }

    fn try_build(&self) -> Result<(), String> {
        println!("cargo::rerun-if-env-changed=SIM_SANITIZE");
        for dir in &self.header_dirs {
            println!("cargo::rerun-if-changed={}", dir.display());
        }
        for module in &self.modules {
            println!("cargo::rerun-if-changed={}", module.source.display());
        }
        // Each module is compiled on a thread of its own: the longest one decides, not their sum.
        let compiled = std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.modules.iter().map(|module| scope.spawn(|| self.compile(module))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err("a compiling thread panicked".into()))
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>, String>>()
        })?;
        let mut library = self.compiler();
        let mut marks = Vec::new();
        for (object, found) in compiled {
            library.object(object);
            marks.push(found);
        }
        if let Some(runtime) = &self.runtime {
            println!("cargo::rerun-if-changed={}", runtime.display());
            library.file(runtime);
        }
        let name = env::var("CARGO_PKG_NAME").map_err(|error| error.to_string())?.replace('-', "_");
        library.try_compile(&format!("{name}_sim")).map_err(|error| error.to_string())?;
        self.write("kernels.rs", &self.generate(&marks)?)
    }

    /// The compiler with the flags of all kernel code: optimised in every profile, since field arithmetic at
    /// -O0 is some fifty times slower; without type-based aliasing, which CUDA does not assume either.
    fn compiler(&self) -> cc::Build {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .cpp_link_stdlib(None)
            .std("c++17")
            .opt_level(3)
            .debug(false)
            .warnings(true)
            .extra_warnings(false)
            .define("SIM", "1")
            .includes(&self.header_dirs)
            .flags([
                "-Wno-unknown-pragmas",
                "-Wno-unused-function",
                "-fno-strict-aliasing",
                "-fvisibility=hidden",
            ])
            .flags(["-fno-exceptions", "-fno-rtti", "-ftls-model=initial-exec"]);
        let sanitizers = env::var("SIM_SANITIZE").unwrap_or_default();
        if !sanitizers.is_empty() {
            build.flag(format!("-fsanitize={sanitizers}")).flags(["-fno-omit-frame-pointer", "-g"]);
        }
        build
    }

    fn compile(&self, module: &Module) -> Result<(PathBuf, Marks), String> {
        let about = |error: cc::Error| format!("{}: {error}", module.name);
        let dir = self.out_dir.join(&module.name);
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        // A namespace around the module keeps helpers that two modules define differently apart in the
        // linker.
        let wrapper = dir.join(format!("{}.cpp", module.name));
        let text = format!(
            "#include \"sim/shim.h\"\nnamespace module_{} {{\n#include \"{}\"\n}}\n",
            module.name,
            module.source.display()
        );
        write_if_changed(&wrapper, &text)?;
        let mut build = self.compiler();
        build.out_dir(&dir).file(&wrapper).define("SIM_MODULE", module.name.as_str());
        for define in &module.defines {
            build.define(define, None);
        }
        let listing = build.clone().define("SIM_LIST", None).try_expand().map_err(about)?;
        let marks = scan(&String::from_utf8_lossy(&listing));
        if marks.kernels.is_empty() {
            return Err(format!("{}: no EXPORT_KERNEL or EXPORT_COLLECTIVE", module.name));
        }
        // A kernel has C linkage, and its name may be that of a function in somebody else's library.
        for kernel in &marks.kernels {
            build.define(kernel, format!("{PREFIX}{kernel}").as_str());
        }
        // A header that changes concerns some modules: the others are recognised by their preprocessed text.
        let text = build.try_expand().map_err(about)?;
        let flags = build.try_get_compiler().map_err(about)?.to_command();
        let key = format!("{flags:?}\n{}", String::from_utf8_lossy(&text));
        let (key_file, object_file) = (dir.join("key"), dir.join(format!("{}.o", module.name)));
        let is_known = object_file.is_file() && fs::read_to_string(&key_file).is_ok_and(|old| old == key);
        if !is_known {
            let objects = build.try_compile_intermediates().map_err(about)?;
            let [object] = objects.as_slice() else { return Err(format!("{}: no object", module.name)) };
            let in_place = fs::rename(object, &object_file).and_then(|()| fs::write(&key_file, &key));
            in_place.map_err(|error| format!("{}: {error}", object_file.display()))?;
        }
        Ok((object_file, marks))
    }

    fn headers(&self) -> Result<Vec<PathBuf>, String> {
        let mut headers = Vec::new();
        for dir in &self.header_dirs {
            let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
            for entry in entries {
                let path = entry.map_err(|error| error.to_string())?.path();
                if path.extension().is_some_and(|extension| extension == "cuh") {
                    headers.push(path);
                }
            }
        }
        headers.sort();
        Ok(headers)
    }

    fn generate(&self, marks: &[Marks]) -> Result<String, String> {
        let mut text = String::new();
        // Writing to a String does not fail, so the results below carry nothing.
        let out = &mut text;
        let _ = writeln!(out, "/// Headers that the modules can include: name, text.");
        let _ = writeln!(out, "pub static HEADERS: &[(&str, &str)] = &[");
        for header in self.headers()? {
            let _ = writeln!(out, "    ({:?}, include_str!({:?})),", file_name(&header), header);
        }
        let _ = writeln!(out, "];\n\nunsafe extern \"C\" {{");
        for kernel in marks.iter().flat_map(|marks| &marks.kernels) {
            let _ = writeln!(out, "    #[link_name = \"sim_kernel_{PREFIX}{kernel}\"]");
            let _ = writeln!(out, "    static SIM_{}: ::gpu_core::kernel::SimKernel;", kernel.to_uppercase());
        }
        let _ = writeln!(out, "}}");
        for (module, marks) in self.modules.iter().zip(marks) {
            write_module(out, module, marks);
        }
        let listed = self.modules.iter().filter(|module| module.is_listed);
        let names: Vec<_> = listed.map(|module| format!("&{}", module.name.to_uppercase())).collect();
        let _ = writeln!(out, "\n/// All modules of the crate.");
        let _ =
            writeln!(out, "pub static ALL: &[&::gpu_core::kernel::ModuleSource] = &[{}];", names.join(", "));
        let covered: BTreeSet<_> = marks.iter().flat_map(|marks| &marks.covered).collect();
        let covered: Vec<_> = covered.into_iter().collect();
        let _ = writeln!(out, "\n/// Branches that `COVER` counts on the simulated device.");
        let _ = writeln!(out, "pub static COVERED: &[&str] = &{covered:?};");
        Ok(text)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        write_if_changed(&self.out_dir.join(name), text)
    }
}

fn write_module(out: &mut String, module: &Module, marks: &Marks) {
    let file = file_name(&module.source);
    let with = match module.defines.as_slice() {
        [] => String::new(),
        defines => format!(", compiled with `{}`", defines.join("`, `")),
    };
    let _ = writeln!(out, "\n/// `{file}`{with}.");
    let _ = writeln!(
        out,
        "pub static {}: ::gpu_core::kernel::ModuleSource = ::gpu_core::kernel::ModuleSource {{",
        module.name.to_uppercase()
    );
    let _ = writeln!(out, "    name: {:?},\n    file: {file:?},", module.name);
    let _ = writeln!(out, "    source: include_str!({:?}),\n    headers: HEADERS,", module.source);
    let _ = writeln!(out, "    defines: &{:?},\n    kernels: &[", module.defines);
    for kernel in &marks.kernels {
        let _ = writeln!(out, "        ::gpu_core::kernel::KernelEntry {{");
        let _ = writeln!(out, "            name: {kernel:?},");
        let _ = writeln!(
            out,
            "            // SAFETY: the module's object file defines it, immutable, by its mark."
        );
        let _ = writeln!(out, "            sim: unsafe {{ &SIM_{} }},", kernel.to_uppercase());
        let _ = writeln!(out, "        }},");
    }
    let _ = writeln!(out, "    ],\n}};");
}

/// Kernels and covered branches that a preprocessed module names, each once, in order.
fn scan(text: &str) -> Marks {
    let after = |mark: &str| {
        let mut names = Vec::new();
        for rest in text.split(mark).skip(1) {
            let name = rest.trim_start().split([';', ' ', '\n']).next().unwrap_or_default().to_string();
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    Marks { kernels: after("sim_exported_kernel "), covered: after("sim_covered_word ") }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Leaves an unchanged file alone, so that nothing that depends on it is rebuilt.
fn write_if_changed(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::scan;

    #[test]
    fn marks_are_found_once_and_in_order() {
        let marks = scan(
            "x\nsim_exported_kernel b_g1;\nsim_covered_word w ;\nsim_exported_kernel a;\nsim_covered_word w;",
        );
        assert_eq!(marks.kernels, ["b_g1", "a"]);
        assert_eq!(marks.covered, ["w"]);
    }
}
