#!/usr/bin/env bash
# Builds what ci/device.sh runs: the program, and the test binaries that use a GPU where there is one.
#   ci/bundle.sh DIRECTORY [selection of tests, as cargo test takes it]
# Without the embedded Sapling keys, so that the bundle stays small: put their files into DIRECTORY/params.
# HARNESS_FEATURES: features of the program beyond that, as cargo takes them.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?a directory to fill}
mkdir -p "$out/tests"
cargo build --release -p harness --no-default-features --features "${HARNESS_FEATURES:-}"
cp "${CARGO_TARGET_DIR:-target}/release/harness" "$out/harness"

# Tests that read files of the source tree stay here.
shift
selection=("$@")
(($#)) || selection=(-p gpu-core --test cuda_device --test cuda_compile --test cuda_cache --test cuda_driver)
# The programs that tests start are built too, and are no tests.
cargo test --no-run --message-format=json "${selection[@]}" | grep '"kind":\["test"\]' |
  sed -n 's/.*"name":"\([^"]*\)".*"executable":"\([^"]*\)".*/\1 \2/p' |
  while read -r name path; do
    cp "$path" "$out/tests/$name"
  done
strip "$out/harness" "$out"/tests/*
du -sh "$out"
