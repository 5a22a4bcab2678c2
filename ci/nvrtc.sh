#!/usr/bin/env bash
# Puts the pinned NVRTC into a virtual environment of its own and prints how to find it:
#   eval "$(ci/nvrtc.sh)"
# golden/snapshots/resources is made with this version: raise both together.
set -euo pipefail
version=13.0.88
where=${NVRTC_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/nvrtc-$version}
if ! compgen -G "$where/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13" > /dev/null; then
  python3 -m venv "$where" >&2
  "$where/bin/pip" install --quiet --disable-pip-version-check --no-deps "nvidia-cuda-nvrtc==$version" >&2
fi
libraries=$(compgen -G "$where/lib/python3*/site-packages/nvidia/cu13/lib")
echo "export LD_LIBRARY_PATH='$libraries'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
