#!/usr/bin/env bash
# What is run on a machine with a GPU, which needs neither Rust nor a compiler: binaries made by ci/bundle.sh.
#   ci/device.sh BUNDLE LOGS [STEP ...]     steps: tests check memcheck racecheck; without any, all of them
# Each command may take STEP_SECONDS (default 500); TEST_JOBS test programs (one for two processors if not given) run at a
# time. CHECK_ARGS is given to each `check` (`--keys output`). Proving keys in BUNDLE/params are used. Logs go to LOGS; the
# summary is the end of the output.
set -uo pipefail
if (($# < 2)); then
  sed -n '2,6s/^# //p' "$0"
  exit 2
fi
bundle=$(cd "$1" && pwd) || exit 2
mkdir -p "$2" && logs=$(cd "$2" && pwd) || exit 2
shift 2
steps=("$@")
((${#steps[@]})) || steps=(tests check memcheck racecheck)
export REQUIRE_GPU=1
summary=() failures=0
read -r -a check_args <<< "${CHECK_ARGS:-}"
test_jobs=${TEST_JOBS:-$((($(nproc) + 1) / 2))}
[[ -d $bundle/params ]] && check_args+=(--params "$bundle/params")

# NVRTC, where the loader does not know of it: of a toolkit, or of a Python package.
if ! ldconfig -p | grep -q 'libnvrtc\.so'; then
  for library in /usr/local/cuda*/lib64/libnvrtc.so* /usr/local/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so*; do
    [[ -e $library ]] && export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${library%/*}" && break
  done
fi

# run NAME COMMAND...: its line of the summary goes to a file, so that it may run beside others.
run() {
  local name=$1 start=$SECONDS outcome=passed
  shift
  timeout "${STEP_SECONDS:-500}" "$@" > "$logs/$name.log" 2>&1
  local status=$?
  if ((status)) && grep -q 'Device not supported' "$logs/$name.log"; then
    # A virtual machine may not let compute-sanitizer at its device: nothing has been looked at then.
    outcome='skipped'
  elif ((status)); then
    outcome="FAILED ($status)"
    tail -n 25 "$logs/$name.log"
  fi
  printf '%-28s %-14s %5d s\n' "$name" "$outcome" "$((SECONDS - start))" > "$logs/$name.outcome"
}

# told NAME: takes what `run` left into the summary.
told() {
  local line
  line=$(cat "$logs/$1.outcome") || line=$(printf '%-28s %s' "$1" 'FAILED (no outcome)')
  if [[ $line == *FAILED* ]]; then failures=$((failures + 1)); fi
  summary+=("$line")
}

# Test programs beside each other, but for those that fill the device's memory or look at what is left of it.
tests() {
  local test name alone=' engine cuda_device runtime ' later=()
  for test in "$bundle"/tests/*; do
    name=$(basename "$test")
    if [[ $alone == *" $name "* ]]; then
      later+=("$test")
      continue
    fi
    while (($(jobs -rp | wc -l) >= test_jobs)); do wait -n || true; done
    run "$name" "$test" --test-threads 4 &
  done
  wait
  for test in "${later[@]}"; do run "$(basename "$test")" "$test" --test-threads 4; done
  for test in "$bundle"/tests/*; do told "$(basename "$test")"; done
}

# sanitize TOOL: fails on what the tool finds, whatever the program itself says.
sanitize() {
  if ! command -v compute-sanitizer > /dev/null; then
    summary+=("$(printf '%-28s %s' "$1" 'skipped: no compute-sanitizer')")
    return
  fi
  run "$1" compute-sanitizer --tool "$1" --error-exitcode 9 \
    "$bundle/harness" check --device cuda --quick "${check_args[@]}"
  told "$1"
}

nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv | tee "$logs/device.csv"
for step in "${steps[@]}"; do
  case $step in
    tests)
      tests
      ;;
    check)
      run check "$bundle/harness" check --device cuda --full "${check_args[@]}"
      told check
      ;;
    memcheck | racecheck) sanitize "$step" ;;
    *)
      echo "unknown step: $step"
      exit 2
      ;;
  esac
done
printf '%s\n' "${summary[@]}" | tee "$logs/summary.txt"
exit $((failures > 0))
