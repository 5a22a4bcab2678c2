#!/usr/bin/env bash
# Runs every fuzz target with coverage for so many seconds each: ci/fuzz.sh [SECONDS [TARGET...]]. Fails at the end if one of
# them found something; its input is in fuzz/artifacts. Installs nightly Rust and cargo-fuzz where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
command -v cargo-fuzz > /dev/null || cargo install cargo-fuzz --version 0.13.2 --locked

targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(cargo fuzz list)
failed=()
for target in "${targets[@]}"; do
  echo "=== $target: $seconds s"
  mkdir -p "fuzz/found/$target" "fuzz/artifacts/$target"
  # What is found to be new goes to fuzz/found, and the corpus in the tree stays as it is. All of it is safe Rust, where an
  # address sanitizer has nothing to see.
  cargo +nightly fuzz run --sanitizer none "$target" "fuzz/found/$target" "fuzz/corpus/$target" -- \
    -max_total_time="$seconds" -max_len=16384 -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 ||
    failed+=("$target")
done
if ((${#failed[@]})); then
  echo "=== found something: ${failed[*]}"
  exit 1
fi
echo "=== nothing found by ${#targets[@]} targets"
