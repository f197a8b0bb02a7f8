#!/usr/bin/env bash
# Installs what packaging/build.sh and packaging/try.sh need: maturin, ziglang, uv and twine from
# PyPI into target/packaging-venv, the rest from Debian.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A needs=(
  [cc]=gcc
  [curl]=curl
  [debootstrap]=debootstrap
  [dockerd]=docker.io
  [dpkg-deb]=dpkg
  [dpkg-shlibdeps]=dpkg-dev
  [groff]=groff
  [lintian]=lintian
  [man]=man-db
  [readelf]=binutils
  [ruby]=ruby
)
missing=()
for program in "${!needs[@]}"; do
  PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null || missing+=("${needs[$program]}")
done
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Building the packages needs: ${missing[*]}" >&2
    echo "Install them with: sudo apt-get install ${missing[*]}" >&2
    exit 2
  fi
  echo "installing ${missing[*]}"
  apt-get update -qq
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

venv=target/packaging-venv
wanted="maturin==1.16.0 ziglang==0.17.1 uv==0.13.9 twine==7.0.0"
if [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ]; then
  echo "installing $wanted into $venv"
  rm -rf "$venv"
  python3 -m venv "$venv"
  # shellcheck disable=SC2086
  "$venv/bin/pip" install --quiet --disable-pip-version-check $wanted
  echo "$wanted" >"$venv/wanted"
fi
