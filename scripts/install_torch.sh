#!/usr/bin/env bash
# Installs PyTorch, and so LibTorch, for the CPU into a virtual environment of its own, once.
#   install_torch.sh FOLDER
# Then FOLDER/bin/python imports it, and CMake finds it by -DPython3_EXECUTABLE=FOLDER/bin/python.
# Environment:
#   TORCH_VERSION=n   another one than the version below, which the tests were last run with
#   PYTHON=program    what makes the environment (default: python3)
# What pip gets is for GPUs on most machines, and asks for gigabytes of CUDA that a CPU never calls.
# So it comes without them: in place of each of those libraries lies one of a few kilobytes whose
# functions return an error. FOLDER is complete when its last file, `complete`, is there.
# It ends with 75 where the package index could not be reached, so that trying again may help.
set -euo pipefail

version=${TORCH_VERSION:-2.15.0}
folder=$(realpath -m "${1:?usage: install_torch.sh FOLDER}")

say() { echo "install_torch: $*"; }
complain() { echo "install_torch: $*" >&2; }
fail() { complain "$@"; exit 1; }

pip() {
  local log=$folder/pip.log # which also complains of what is left out on purpose
  "$folder/bin/python" -m pip --disable-pip-version-check install "$@" >"$log" 2>&1 && return
  grep -i error "$log" >&2 || cat "$log" >&2
  complain "pip could not install $*; a torch that is here already is used with" \
    "CMAKE_ARGS='-DSLUICE_TORCH=ON -DSLUICE_TORCH_ROOT=.../site-packages/torch'"
  # An index that knows other versions has been reached.
  ! grep -q 'from versions: [0-9]' "$log" || exit 1
  grep -qE 'from versions: none|Connection|Timeout|timed out|HTTP error 5' "$log" || exit 1
  exit 75
}

# What torch asks for: "python" its packages, "runtime" the one CUDA library that must be real,
# since others call it while they are loaded.
requirements() {
  "$folder/bin/python" - "$1" <<'PY'
import importlib.metadata
import re
import sys

names = [each.split(";")[0].strip() for each in importlib.metadata.requires("torch") or []
         if "extra ==" not in each]
cuda = [each for each in names if re.match("nvidia|cuda|triton", each)]
if sys.argv[1] == "python":
    print(*(each.replace(" ", "") for each in names if each not in cuda))
for each in cuda if sys.argv[1] == "runtime" else ():
    if toolkit := re.match(r"cuda-toolkit.*==(\d+\.\d+)", each):
        print(f"nvidia-cuda-runtime=={toolkit[1]}.*")
    elif each.startswith("nvidia-cuda-runtime"):
        print(each)
PY
}

# One source for all: each has every function that any of them should have, with its version.
stub_cuda() {
  local lib=$1/torch/lib missing symbols versioned
  missing=$(readelf -d "$lib"/lib*.so | sed -nE 's/.*NEEDED.*\[(lib(cu|nccl|nv).*)\]/\1/p' \
    | sort -u | grep -vxF "$(cd "$1" && ls torch/lib nvidia/*/lib 2>/dev/null)" || true)
  [ -n "$missing" ] || return 0
  symbols=$(nm -D --undefined-only "$lib"/lib*.so 2>/dev/null | awk 'NF > 1 { print $NF }' \
    | grep -E '^(cu|p?nccl|nv)' | grep -v '@libcudart' | sort -u)
  sed 's/@.*//; s/.*/int &(void) { return 1; }/' <<<"$symbols" | sort -u > "$folder/stub.c"
  versioned=$(grep @ <<<"$symbols" || true)
  for each in $(sed 's/.*@//' <<<"$versioned" | sort -u); do
    echo "$each { global: $(sed -n "s/@$each\$/;/p" <<<"$versioned" | tr '\n' ' ') };"
  done > "$folder/stub.map"
  for each in $missing; do
    cc -w -shared -fPIC "$folder/stub.c" -o "$lib/$each" -Wl,-soname,"$each" \
      $([ -s "$folder/stub.map" ] && echo "-Wl,--version-script=$folder/stub.map") \
      || fail "cannot make a stand-in for $each"
  done
}

main() {
  [ ! -f "$folder/complete" ] || exit 0
  mkdir -p "$(dirname "$folder")"
  exec 9>"$folder.lock"
  flock -n 9 || { say "waiting for another run that installs into $folder"; flock 9; }
  [ ! -f "$folder/complete" ] || exit 0
  local started=$SECONDS site python=() runtime=()
  rm -rf "$folder"
  "${PYTHON:-python3}" -m venv "$folder" \
    || fail "no virtual environment: apt-get install python3-venv"
  say "installing torch $version into $folder (half a gigabyte, once)"
  pip --no-deps "torch==$version"
  read -ra python <<<"$(requirements python)"
  pip "${python[@]}"
  read -ra runtime <<<"$(requirements runtime | tr '\n' ' ')"
  if [ ${#runtime[@]} -gt 0 ]; then
    pip --no-deps "${runtime[@]}"
    site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    stub_cuda "$site"
  fi
  "$folder/bin/python" -W ignore -c 'import torch; torch.ones(2) @ torch.ones(2)' \
    || fail "torch $version was installed and does not start here (see its message above)"
  touch "$folder/complete"
  say "torch $version is in $folder ($((SECONDS - started)) s)"
  exit 0
}

main # one line, read when everything above is: the file may change while it runs
