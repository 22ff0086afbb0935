#!/usr/bin/env bash
# Settles on a machine with a GPU what the emulation cannot: builds with CUDA, compares every kernel
# with the processor, trains on both, and writes one report. Ten minutes at most on one GPU.
#
#   tests/gpu/run.sh [REPORT]        default: gpu-report.txt
#
#   BUILD=folder   where to build (build-gpu)   JOBS=n   SECONDS_FOR_ALL=600
#   ARCHITECTURES=90   what to compile for; by default what this machine has (native)
#
# What cannot be tried here is listed as skipped, with the reason; the report ends with a count of
# passed, failed and skipped parts. Ends with 1 if any part failed, 77 if there is no GPU.
set -u
cd "$(dirname "$0")/../.."
report=$(realpath -m "${1:-gpu-report.txt}")
build=${BUILD:-build-gpu}
jobs=${JOBS:-$(nproc)}
limit=${SECONDS_FOR_ALL:-600}
begin=$SECONDS
passed=0 failed=0 skipped=0

say() { echo "$*" | tee -a "$report"; }
left() { echo $((limit - (SECONDS - begin))); }
skip() { say "SKIPPED $1: $2"; skipped=$((skipped + 1)); }

# part NAME COMMAND...: runs it in the time that is left, its output into the report.
part() {
  local name=$1 from=$SECONDS status
  shift
  if [ "$(left)" -lt 5 ]; then
    skip "$name" "the time is up"
    return 1
  fi
  timeout "$(left)" "$@" >>"$report" 2>&1
  status=$?
  if [ $status -eq 0 ]; then
    say "PASSED $name ($((SECONDS - from)) s)"
    passed=$((passed + 1))
  elif [ $status -eq 77 ]; then
    skip "$name" "it says that it cannot run here"
  else
    say "FAILED $name (status $status, $((SECONDS - from)) s)"
    failed=$((failed + 1))
  fi
  return $status
}

finish() {
  say "passed $passed, failed $failed, skipped $skipped, in $((SECONDS - begin)) s"
  say "report: $report"
  [ "$failed" -eq 0 ] || exit 1
  exit "${1:-0}"
}

: >"$report"
say "sluice on GPUs, $(date -u +%Y-%m-%dT%H:%MZ), commit $(git rev-parse --short HEAD 2>/dev/null)"
if ! nvidia-smi >>"$report" 2>&1; then
  skip "everything" "nvidia-smi finds no GPU"
  finish 77
fi
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
say "GPUs: $gpus"

part "configuring" cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DSLUICE_CUDA=ON \
  -DSLUICE_CUDA_ARCHITECTURES="${ARCHITECTURES:-native}" || finish
part "building" cmake --build "$build" -j "$jobs" --target sluice gpu_tests \
  kernel_bench || finish
part "the list of devices" "$build/sluice" devices
part "kernels, device and copies against the processor" "$build/tests/gpu_tests"
if command -v compute-sanitizer >/dev/null; then
  part "the same under compute-sanitizer" compute-sanitizer --error-exitcode 1 \
    "$build/tests/gpu_tests"
else
  skip "compute-sanitizer" "it is not installed"
fi

# train NAME DEVICES STAGES [MORE...]: a small GPT on this project's own text.
cat docs/*.md >"$build/text.txt"
train() {
  local name=$1 devices=$2 stages=$3
  shift 3
  part "$name" "$build/sluice" train --data "$build/text.txt" --steps 20 --stages "$stages" \
    --device "$devices" --json "$build/$name.json" "$@"
}
train "train-on-the-processor" cpu 1
train "train-on-one-GPU" cuda:0 1
train "train-on-one-GPU-and-the-processor" cuda:0,cpu 2
if [ "$gpus" -ge 2 ]; then
  train "train-on-two-GPUs-by-NCCL" cuda:0,cuda:1 2
else
  skip "training over NCCL" "it wants two GPUs"
fi
part "loss curves agree" python3 tests/gpu/compare_losses.py "$build"/train-*.json

train "train-on-one-GPU-in-bfloat16" cuda:0 1 --precision bfloat16
part "the loss curve in bfloat16 agrees" python3 tests/gpu/compare_losses.py \
  "$build/train-on-one-GPU.json" "$build/train-on-one-GPU-in-bfloat16.json"

part "kernels against the device's limits" "$build/tests/kernel_bench"
limits=$build/limits.json
"$build/tests/kernel_bench" --limits >"$limits" 2>>"$report" || echo '{}' >"$limits"
part "GPT: tokens/s and utilisation" python3 tests/gpu/gpt_speed.py sluice "$build/sluice" \
  --limits "$limits"
part "the same by PyTorch on the same GPU" python3 tests/gpu/gpt_speed.py torch --limits "$limits"
skip "several ranks on one GPU" "the channel has one rank a GPU"
finish
