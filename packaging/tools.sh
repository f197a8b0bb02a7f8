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
  [dh]=debhelper
  [dpkg-buildpackage]=dpkg-dev
  [groff]=groff
  [lintian]=lintian
  [readelf]=binutils
  [ruby]=ruby
)
missing=()
for program in "${!needs[@]}"; do
  PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null || missing+=("${needs[$program]}")
done
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
[ ${#missing[@]} -eq 0 ] || scripts/apt-install.sh "${missing[@]}"

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
