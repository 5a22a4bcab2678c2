#!/usr/bin/env bash
# Puts a pinned nvcc into a virtual environment of its own, for ci/pack to compile peers with, and prints how to find it:
#   eval "$(ci/nvcc.sh)"
# What it compiles needs a driver for CUDA 13 on the machine with the GPU (580 or later).
set -euo pipefail
version=13.0.88
where=${NVCC_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/nvcc-$version}
if ! compgen -G "$where/lib/python3*/site-packages/nvidia/cu13/lib/libcudart_static.a" > /dev/null; then
  python3 -m venv "$where" >&2
  "$where/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    "nvidia-cuda-nvcc==$version" "nvidia-cuda-crt==$version" "nvidia-nvvm==$version" nvidia-cuda-cccl==13.0.85 \
    nvidia-cuda-runtime==13.0.96 >&2
fi
root=$(compgen -G "$where/lib/python3*/site-packages/nvidia/cu13")
echo "export NVCC='$root/bin/nvcc'"
# Packages have `lib` where nvcc looks for `lib64`.
echo "export LIBRARY_PATH='$root/lib'\${LIBRARY_PATH:+:\$LIBRARY_PATH}"
