#!/usr/bin/env bash
# Installs Debian packages as root, or prints the command that does: scripts/apt-install.sh PACKAGE…
set -euo pipefail

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "These packages are missing: $*" >&2
  echo "Install them with: sudo apt-get install $*" >&2
  exit 2
fi
echo "installing $*"
# The packages' own services must not start: whoever needs one starts it.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
