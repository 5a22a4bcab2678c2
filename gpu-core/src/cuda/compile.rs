//! From a module's source to machine code for one chip, by NVRTC; and what the machine code takes of the
//! chip.
//!
//! Needs the compiler alone, no driver and no device: machines without a GPU compile every kernel for every
//! chip.

use super::library::require_compiler;
use crate::Result;
use crate::error::GpuError;
use crate::kernel::ModuleSource;
use cudarc::nvrtc::{result, sys};
use serde::{Deserialize, Serialize};
use std::ffi::{CString, c_char};

/// What one kernel takes of the chip, as the assembler reports it, with the functions that it calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelResources {
    /// Kernel name.
    pub kernel: String,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes that a thread writes to local memory because registers ran out.
    pub spill_store_bytes: u32,
    /// Bytes that it reads back.
    pub spill_load_bytes: u32,
    /// Bytes of local memory a thread.
    pub stack_bytes: u32,
    /// Static shared memory a block, in bytes.
    pub shared_bytes: u32,
}

/// Version of the NVRTC that is loaded: major, minor.
///
/// # Errors
/// [`GpuError::NoCompiler`].
pub fn nvrtc_version() -> Result<(u32, u32)> {
    require_compiler()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the symbol was found by `require_compiler`; both pointers are to live integers.
    match unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result() {
        Ok(()) => Ok((major as u32, minor as u32)),
        Err(error) => Err(GpuError::Driver { op: "version of NVRTC".into(), cause: error.to_string() }),
    }
}

/// Compiler options for a module on a target such as `sm_90`.
///
/// Line tables cost nothing at run time and let profilers and the memory checker name lines of our sources.
pub fn options(source: &ModuleSource, arch: &str) -> Vec<String> {
    let fixed = [format!("--gpu-architecture={arch}"), "-std=c++17".into(), "--generate-line-info".into()];
    let defines = source.defines.iter().map(|define| format!("-D{define}"));
    fixed.into_iter().chain(defines).collect()
}

/// Compiles a module to a cubin for exactly `arch`, such as `sm_90`.
///
/// # Errors
/// [`GpuError::NoCompiler`]; [`GpuError::Compile`] with the compiler's whole log, or, for a chip that this
/// NVRTC does not know, with both versions and what to do.
pub fn compile(source: &ModuleSource, arch: &str) -> Result<Vec<u8>> {
    Ok(translate(source, arch, &options(source, arch))?.image)
}

/// Compiles a module and reads off the assembler's report what each of its kernels takes, in the order of the
/// module.
///
/// # Errors
/// As [`compile`].
pub fn resources(source: &ModuleSource, arch: &str) -> Result<Vec<KernelResources>> {
    let mut options = options(source, arch);
    options.push("--ptxas-options=-v".into());
    let log = translate(source, arch, &options)?.log;
    let unexpected = || refuse(source, arch, format!("the assembler reports in words unknown to us:\n{log}"));
    let mut found = parse_report(&log).ok_or_else(unexpected)?;
    let position = |kernel: &str| source.kernels.iter().position(|entry| entry.name == kernel);
    found.sort_by_key(|taken| position(&taken.kernel));
    Ok(found)
}

struct Translated {
    image: Vec<u8>,
    log: String,
}

/// A program that is destroyed with its handle.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created in `translate`, destroyed once. Nothing is left to do about a failure.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn refuse(source: &ModuleSource, arch: &str, log: String) -> GpuError {
    GpuError::Compile { module: source.name.into(), arch: arch.into(), log }
}

fn translate(source: &ModuleSource, arch: &str, options: &[String]) -> Result<Translated> {
    require_compiler()?;
    require_arch(source, arch)?;
    let text = |text: &str| CString::new(text).map_err(|error| refuse(source, arch, error.to_string()));
    options.iter().try_for_each(|option| text(option).map(drop))?;
    let (body, file) = (text(source.source)?, text(source.file)?);
    let names = source.headers.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>>>()?;
    let headers = source.headers.iter().map(|(_, header)| text(header)).collect::<Result<Vec<_>>>()?;
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<*const c_char>>();
    let (name_pointers, header_pointers) = (pointers(&names), pointers(&headers));

    let mut program = std::ptr::null_mut();
    // SAFETY: all pointers are to C strings, and arrays of as many as is said, that outlive `program`.
    unsafe {
        sys::nvrtcCreateProgram(
            &mut program,
            body.as_ptr(),
            file.as_ptr(),
            headers.len() as i32,
            header_pointers.as_ptr(),
            name_pointers.as_ptr(),
        )
    }
    .result()
    .map_err(|error| refuse(source, arch, error.to_string()))?;
    let program = Program(program);

    // SAFETY: the program is live. (No option holds a NUL, which would panic: checked above.)
    let outcome = unsafe { result::compile_program(program.0, options) };
    // SAFETY: the program is live.
    let log = unsafe { result::get_program_log(program.0) };
    let log = log.map(|bytes| c_text(&bytes)).unwrap_or_default();
    outcome.map_err(|error| refuse(source, arch, format!("{error}\n{log}")))?;
    let image = cubin(&program).map_err(|error| refuse(source, arch, format!("{error}\n{log}")))?;
    Ok(Translated { image, log })
}

/// Whether NVRTC knows the chip. Its own words for one that it does not are "invalid value".
fn require_arch(source: &ModuleSource, arch: &str) -> Result<()> {
    let known = supported_archs().map_err(|error| refuse(source, arch, error.to_string()))?;
    let number = arch.strip_prefix("sm_").and_then(|number| number.parse::<i32>().ok());
    if number.is_some_and(|number| known.contains(&number)) {
        return Ok(());
    }
    let (major, minor) = nvrtc_version()?;
    let known: Vec<_> = known.iter().map(|number| format!("sm_{number}")).collect();
    Err(refuse(
        source,
        arch,
        format!(
            "NVRTC {major}.{minor} cannot compile for {arch}: it knows {}. For a newer chip, install \
             the NVRTC of a newer CUDA toolkit and put its directory on the library path",
            known.join(", ")
        ),
    ))
}

fn supported_archs() -> Result<Vec<i32>, result::NvrtcError> {
    let mut count = 0;
    // SAFETY: the pointer is to a live integer; the second call fills as many as the first one says.
    unsafe {
        sys::nvrtcGetNumSupportedArchs(&mut count).result()?;
        let mut archs = vec![0; count as usize];
        sys::nvrtcGetSupportedArchs(archs.as_mut_ptr()).result()?;
        Ok(archs)
    }
}

fn cubin(program: &Program) -> Result<Vec<u8>, result::NvrtcError> {
    let mut bytes = 0;
    // SAFETY: the program is live and compiled; the second call fills as many bytes as the first one says.
    unsafe {
        sys::nvrtcGetCUBINSize(program.0, &mut bytes).result()?;
        let mut image = vec![0u8; bytes];
        sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()).result()?;
        Ok(image)
    }
}

fn c_text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim_end().to_string()
}

/// Reads the assembler's `-v` report. `None` if it does not read as expected: a snapshot must not silently
/// miss a number because a new version words it differently.
///
/// A called function is reported after each kernel that calls it, with its own spills; its registers and
/// stack are in the kernel's.
///
/// ```text
/// ptxas info    : Compiling entry function 'k' for 'sm_90'
/// ptxas info    : Function properties for k
/// ptxas         .     160 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
/// ptxas info    : Used 32 registers, used 1 barriers, 160 bytes cumulative stack size, 512 bytes smem
/// ptxas info    : Function properties for _Z3fooPjj
/// ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
/// ```
fn parse_report(log: &str) -> Option<Vec<KernelResources>> {
    log.split("Compiling entry function '").skip(1).map(parse_kernel).collect()
}

/// The part of a report that is about one kernel, from its name on.
fn parse_kernel(text: &str) -> Option<KernelResources> {
    let (kernel, _) = text.split_once('\'')?;
    let frames: Vec<&str> = text.lines().filter(|line| line.contains(" bytes stack frame")).collect();
    let sum = |unit| frames.iter().map(|line| number_before(line, unit)).sum::<Option<u32>>();
    let used = text.lines().find(|line| line.contains(": Used "))?;
    let frame_bytes = number_before(frames.first()?, " bytes stack frame")?;
    Some(KernelResources {
        kernel: kernel.into(),
        registers: number_before(used, " registers")?,
        spill_store_bytes: sum(" bytes spill stores")?,
        spill_load_bytes: sum(" bytes spill loads")?,
        stack_bytes: number_before(used, " bytes cumulative stack size").unwrap_or(frame_bytes),
        shared_bytes: number_before(used, " bytes smem").unwrap_or(0),
    })
}

/// The number that stands right before `unit`.
fn number_before(line: &str, unit: &str) -> Option<u32> {
    let (before, _) = line.split_once(unit)?;
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k2' for 'sm_90'
ptxas info    : Function properties for k2
ptxas         .     8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 2.136 ms
ptxas info    : Compiling entry function 'k1' for 'sm_90'
ptxas info    : Function properties for k1
ptxas         .     0 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 160 bytes cumulative stack size, 512 bytes smem
ptxas info    : Function properties for _Z3fooPjj
ptxas         .     160 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
";

    fn taken(kernel: &str, numbers: [u32; 5]) -> KernelResources {
        let [registers, spill_store_bytes, spill_load_bytes, stack_bytes, shared_bytes] = numbers;
        let kernel = kernel.into();
        KernelResources { kernel, registers, spill_store_bytes, spill_load_bytes, stack_bytes, shared_bytes }
    }

    #[test]
    fn report_is_read() {
        let expected = vec![taken("k2", [10, 12, 16, 8, 0]), taken("k1", [32, 5, 2, 160, 512])];
        assert_eq!(parse_report(REPORT), Some(expected));
    }

    #[test]
    fn report_in_other_words_is_refused() {
        let reworded = [
            (" bytes spill loads", " B of spill loads"),
            (" registers,", " regs,"),
            (": Used ", ": Takes "),
            (" bytes stack frame", " bytes of stack"),
        ];
        for (from, to) in reworded {
            assert_eq!(parse_report(&REPORT.replace(from, to)), None, "{to}");
        }
    }
}
