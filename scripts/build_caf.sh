#!/usr/bin/env bash
# Provides CAF, the C++ Actor Framework, to Sluice: builds 0.18.7, or the version of
# CAF_SOURCE, into PREFIX, once.
#   build_caf.sh PREFIX
# Environment:
#   CAF_PREFIX=dir      an installed CAF to use; nothing is built
#   CAF_SOURCE=path     a source tarball or folder (0.18.7 or 1.x) to build instead of the download
#   CMAKE_PREFIX_PATH   folders in which an installed CAF is looked for first, as CMake does
#   SANITIZE=thread     a CAF with ThreadSanitizer inside; no installed one will do then
#   JOBS=n  SHARED=ON   compilers at once (default: every core); shared instead of static libraries
# The source comes from Debian's experimental suite through apt on a private state: no root, no
# change to the machine's own apt. Its digest is pinned. PREFIX appears complete or not at all.
set -euo pipefail

version=0.18.7
sha256=d5c3abe8fd67a729aab1baeece10367637d903ba335f4c79378bcadfbcd34552
config=lib/cmake/CAF/CAFConfig.cmake
prefix=$(realpath -m "${1:?usage: build_caf.sh PREFIX}")
sanitize=${SANITIZE:-}
jobs=${JOBS:-$(nproc)}
advice="give its source with CAF_SOURCE=tarball-or-folder, or an installed CAF with CAF_PREFIX=dir"

say() { echo "build_caf: $*"; }
fail() { echo "build_caf: $*" >&2; exit 1; }

# Whether CMake finds a CAF that we can use. Asks CMake itself, in a project of three lines.
# CMAKE_PREFIX_PATH comes from the environment, CAF_PREFIX as $1.
installed_caf() {
  local probe=$work/probe
  mkdir -p "$probe"
  cat > "$probe/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(probe LANGUAGES CXX)
find_package(OpenSSL QUIET) # CAF's own config refers to it and does not look for it
find_package(CAF QUIET COMPONENTS core io)
if(NOT TARGET CAF::core OR NOT TARGET CAF::io OR CAF_VERSION VERSION_LESS 0.18.7)
  message(FATAL_ERROR "no usable CAF")
endif()
get_target_property(kind CAF::core TYPE)
if(SHARED AND NOT kind STREQUAL "SHARED_LIBRARY")
  message(FATAL_ERROR "a static CAF")
endif()
file(WRITE ${CMAKE_BINARY_DIR}/found "CAF ${CAF_VERSION} in ${CAF_DIR}")
CMAKE
  cmake -S "$probe" -B "$probe/build" -DSHARED="${SHARED:-OFF}" \
    ${1:+"-DCMAKE_PREFIX_PATH=$1"} >/dev/null 2>&1 \
    && cat "$probe/build/found"
}

# "ADDRESS KEYRING" of the machine's first Debian entry, deb822 (*.sources) or one-line (*.list).
debian_entry() {
  local suites='bookworm|trixie|stable|testing|sid|unstable'
  awk -v wanted="(^| )($suites)( |$)" 'BEGIN { RS = ""; FS = "\n" }
    { address = keyring = suites = ""; off = 0
      for (i = 1; i <= NF; i++) {
        value = $i; sub(/^[^:]*:[ \t]*/, "", value)
        if ($i ~ /^Enabled:[ \t]*no/) off = 1
        if ($i ~ /^URIs:/) { split(value, all, " "); address = all[1] }
        if ($i ~ /^Suites:/) suites = value
        if ($i ~ /^Signed-By:/) keyring = value }
      if (!off && address != "" && suites ~ wanted) { print address, keyring; exit }
    }' /etc/apt/sources.list.d/*.sources 2>/dev/null || true
  sed -nE "s/^deb[ \t]+(\[[^]]*\])?[ \t]*([^ \t]+)[ \t]+($suites)[ \t].*/\2 \1/p" \
    /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null \
    | sed -E 's/ \[.*signed-by=([^] ]+).*\]/ \1/; s/ \[.*\]//' || true
}

is_pinned() { echo "$sha256  $1" | sha256sum -c --status 2>/dev/null; }

# Brings the pinned tarball to $1.
download() {
  local tarball=$1 address keyring state=$work/apt
  command -v apt-get >/dev/null || fail "no apt here to fetch CAF with; $advice"
  read -r address keyring <<<"$(debian_entry | head -n 1)"
  [ -n "${address:-}" ] || fail "no Debian entry in this machine's apt sources; $advice"
  keyring=${keyring:-/usr/share/keyrings/debian-archive-keyring.gpg}
  mkdir -p "$state"/{lists/partial,archives/partial}
  echo "deb-src [signed-by=$keyring] $address experimental main" > "$state/sources.list"
  local apt=(apt-get -q -o Dir::Etc::SourceList="$state/sources.list"
    -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state"
    -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3)
  say "fetching CAF $version from Debian's archive"
  # --tar-only: the upstream tarball alone, checked against the signed index. Debian's own part is
  # not needed, and some mirrors do not have it.
  { "${apt[@]}" update && cd "$state" \
      && "${apt[@]}" source --tar-only "actor-framework=$version-1~exp1"; } >"$work/apt.log" 2>&1 \
    || { cat "$work/apt.log" >&2; fail "the archive did not give CAF $version; $advice"; }
  is_pinned "$state/actor-framework_$version.orig.tar.gz" \
    || fail "the archive's CAF $version has another digest than the pinned one; $advice"
  mv "$state/actor-framework_$version.orig.tar.gz" "$tarball"
}

# Puts CAF's source where $source points, from CAF_SOURCE or the download.
provide_source() {
  local tarball=${CAF_SOURCE:-$cache/caf-$version.tar.gz}
  source=$work/source
  if [ -d "$tarball" ]; then
    source=$(realpath "$tarball")
  else
    if [ -n "${CAF_SOURCE:-}" ]; then
      [ -f "$tarball" ] || fail "CAF_SOURCE=$tarball is neither a file nor a folder"
    elif ! is_pinned "$tarball"; then
      download "$tarball"
    fi
    mkdir -p "$source"
    tar -xf "$tarball" -C "$source" --strip-components=1 || fail "cannot unpack $tarball"
  fi
  [ -f "$source/libcaf_core/CMakeLists.txt" ] || fail "$tarball does not hold CAF's source"
}

build() {
  local log=$work/build.log
  local options=(-DCMAKE_BUILD_TYPE=Release
    -DCMAKE_INSTALL_PREFIX="$work/installed" -DCMAKE_INSTALL_LIBDIR=lib
    -DBUILD_SHARED_LIBS="${SHARED:-OFF}" -DCMAKE_POSITION_INDEPENDENT_CODE=ON
    "-DCMAKE_INSTALL_RPATH=\$ORIGIN" -DCAF_ENABLE_EXAMPLES=OFF -DCAF_ENABLE_TESTING=OFF
    -DCAF_ENABLE_TOOLS=OFF -DCAF_ENABLE_NET_MODULE=OFF -DCAF_ENABLE_OPENSSL_MODULE=ON
    "-DCMAKE_CXX_FLAGS=-w ${CXXFLAGS:-}")
  # A third of the time; but files of 1.x, which has a libcaf_net, get in each other's way.
  [ -d "$source/libcaf_net" ] || options+=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=5)
  command -v ninja >/dev/null && options+=(-G Ninja)
  command -v ccache >/dev/null && options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  [ -z "$sanitize" ] || options+=(-DCAF_SANITIZERS="$sanitize")
  say "building CAF${sanitize:+ with -fsanitize=$sanitize} into $prefix (minutes, once)"
  { cmake -S "$source" -B "$work/build" "${options[@]}" \
      && cmake --build "$work/build" -j "$jobs" && cmake --install "$work/build"; } >"$log" 2>&1 \
    || { grep -E 'error|Error|FAILED' -A 3 "$log" | head -n 30 >&2
         cp "$log" "$cache/caf-failed.log"
         fail "CAF did not build; the whole log is $cache/caf-failed.log"; }
}

main() {
  [ ! -f "$prefix/$config" ] || exit 0
  command -v cmake >/dev/null || fail "cmake is missing: apt-get install cmake"
  cache=$(dirname "$prefix")
  mkdir -p "$cache"
  exec 9>"$prefix.lock"
  # Two makes at once: the second waits, then finds the first one's work. The compilers inherit the
  # lock, so those of a killed run are done before their folder goes.
  flock -n 9 || { say "waiting for another run that builds into $prefix"; flock 9; }
  [ ! -f "$prefix/$config" ] || exit 0
  work=$prefix.tmp # the same each time, so that ccache knows the files again
  rm -rf "$work"
  mkdir "$work"
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM HUP

  if [ -n "${CAF_PREFIX:-}" ] && [ -z "$sanitize" ]; then
    found=$(installed_caf "$(realpath -m "$CAF_PREFIX")") \
      || fail "CAF_PREFIX=$CAF_PREFIX holds no ${SHARED:+shared }CAF of version 0.18.7 or later" \
        "with core and io"
    say "found $found"
    exit 0
  fi
  if [ -z "$sanitize" ] && found=$(installed_caf); then
    say "found $found"
    exit 0
  fi
  started=$SECONDS
  provide_source
  build
  # A half-built prefix of an older script is in the way of the move; a complete one ended us above.
  rm -rf "$prefix"
  mv "$work/installed" "$prefix"
  say "CAF is in $prefix ($((SECONDS - started)) s)"
  exit 0
}

main # one line, read when everything above is: the file may change while it runs
