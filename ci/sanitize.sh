#!/usr/bin/env bash
# The kernels, compiled for the simulated device with AddressSanitizer and UndefinedBehaviorSanitizer, under the tests
# that launch the most of them. The Rust side is compiled as always, so a stable toolchain will do.
#   ci/sanitize.sh [arguments of cargo test]
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
runtime=$(c++ -print-file-name=libasan.so)

export SIM_SANITIZE=address,undefined
# The runtimes are linked into what runs on the target and not into build scripts: hence --target below.
export RUSTFLAGS="-Clink-arg=-lasan -Clink-arg=-lubsan"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/sanitize
# The simulated device handles the faults that its own page protection raises, and jumps between stacks. Preloaded,
# since the runtime must come before every other library.
options=detect_leaks=0:allow_user_segv_handler=1:detect_stack_use_after_return=0:halt_on_error=1
runner="env LD_PRELOAD=$runtime ASAN_OPTIONS=$options UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1"
name=$(tr 'a-z-' 'A-Z_' <<< "$host")
export "CARGO_TARGET_${name}_RUNNER=$runner"

if (($#)); then
  exec cargo test --target "$host" "$@"
fi
# One test divides by zero on purpose.
cargo test --target "$host" -p gpu-core --test sim -- --skip arithmetic_faults
cargo test --target "$host" -p msm-gpu --test product -- --skip every_window_width
# Rounds of pairs, tables, and bases from the host: one group, of which the kernels are instances.
cargo test --target "$host" -p msm-gpu --test pairs --test operands -- --skip g1_ --skip schedules_wait
