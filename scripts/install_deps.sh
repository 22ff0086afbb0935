#!/usr/bin/env bash
# Installs the Debian packages that Sluice is built with.
#   install_deps.sh [PACKAGE...]     further packages, for one purpose (make docs: doxygen)
# When all are there it asks dpkg only, and neither apt nor sudo. Without root and sudo it says in
# one line what to install.
set -euo pipefail

packages=(g++ cmake make ninja-build ccache python3 ca-certificates
  libboost-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev
  libssl-dev doctest-dev libdnnl-dev spin "$@")

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps: not a Debian machine; CMake will say which packages are missing" >&2
  exit 0
fi

missing=()
present=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "${packages[@]}" 2>/dev/null || true)
for package in "${packages[@]}"; do
  grep -qxE "[hi]i ?$(printf '%s' "$package" | sed 's/[+.]/\\&/g')" <<<"$present" \
    || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=(env)
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=(sudo) # asks for the password only where someone can type it
else
  echo "install_deps: neither root nor sudo here; install these first, then run make again:" \
    "apt-get install ${missing[*]}" >&2
  exit 1
fi

install=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300
  -o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}")
echo "install_deps: installing ${missing[*]}"
"${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update \
  || echo "install_deps: apt-get update failed; trying with the lists that are here" >&2
"${install[@]}" || {
  echo "install_deps: apt-get could not install: ${missing[*]} (see its message above)" >&2
  exit 1
}
