#!/usr/bin/env bash
# Installs the system packages that the tests need, or prints what is missing.
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
  [apache2]=apache2
  [haproxy]=haproxy
  [caddy]=caddy
  [prometheus]=prometheus
  [collectd]=collectd-core
)
declare -A files=(
  [/usr/lib/apache2/modules/mod_python.so]=libapache2-mod-python
  [/usr/lib/apache2/modules/mod_wsgi.so]=libapache2-mod-wsgi-py3
)
missing=()
for program in "${!needs[@]}"; do
  if ! PATH="$PATH:/usr/sbin:/usr/local/sbin$(printf ':%s' /usr/lib/postgresql/*/bin)" command -v "$program" >/dev/null; then
    missing+=("${needs[$program]}")
  fi
done
for file in "${!files[@]}"; do
  [ -e "$file" ] || missing+=("${files[$file]}")
done
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  missing+=(python3-venv)
fi
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "installing ${missing[*]}"
  # The packages' own services must not start: every test starts what it needs.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "The tests need these packages: ${missing[*]}" >&2
  echo "Install them with: sudo apt-get install ${missing[*]}" >&2
  exit 2
fi
