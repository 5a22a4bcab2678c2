#!/usr/bin/env bash
# Writes all that is recorded anew: constants, vectors, snapshots. Then read `git diff golden gpu-core/cuda/consts.cuh`.
# What kernels take is measured if NVRTC can be had (ci/nvrtc.sh); it takes a good while the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 golden/gen/consts.py
python3 golden/gen/vectors.py
export INSTA_UPDATE=always
cargo test -p harness --test snapshots
if environment=$(ci/nvrtc.sh); then
  eval "$environment"
  REQUIRE_NVRTC=1 cargo test -p harness --test kernel_resources
else
  echo "golden/snapshots/resources is left as it was: there is no NVRTC" >&2
fi
# What was written is what the tests find.
export INSTA_UPDATE=no
cargo test -p harness --test snapshots --test kernel_resources --test golden_vectors
git status --short golden gpu-core/cuda/consts.cuh
