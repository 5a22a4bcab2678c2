//! libFuzzer on `harness::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (harness::fuzz::target("arkworks_key").run)(data);
});
