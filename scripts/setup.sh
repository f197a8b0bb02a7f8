#!/usr/bin/env bash
# Installs what the tests need from the system's packages, or says what is missing.
set -euo pipefail

declare -A needs=(
  [cc]=gcc
  [python3]=python3
  [nginx]=nginx-light
  [chromium]=chromium
  [rrdtool]=rrdtool
  [initdb]=postgresql
  [dockerd]=docker.io
  [curl]=curl
  [pgrep]=procps
)
missing=()
for program in "${!needs[@]}"; do
  if ! PATH="$PATH:/usr/sbin:/usr/local/sbin$(printf ':%s' /usr/lib/postgresql/*/bin)" command -v "$program" >/dev/null; then
    missing+=("${needs[$program]}")
  fi
done
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  missing+=(python3-venv)
fi
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "The tests need these packages: ${missing[*]}" >&2
  echo "Install them with: sudo apt-get install ${missing[*]}" >&2
  exit 2
fi
