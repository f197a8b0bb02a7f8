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
  [git]=git
  [sshd]=openssh-server
  [ssh]=openssh-client
  [tcsh]=tcsh
  [busybox]=busybox
  [jq]=jq
  [pgrep]=procps
  [ip]=iproute2
  [apache2]=apache2
  [haproxy]=haproxy
  [wrk]=wrk
  [ab]=apache2-utils
  [h2load]=nghttp2-client
  [caddy]=caddy
  [prometheus]=prometheus
  [collectd]=collectd-core
  [krb5kdc]=krb5-kdc
  [kadmin.local]=krb5-admin-server
  [kinit]=krb5-user
  [faketime]=faketime
  [strace]=strace
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
if ! python3 -c 'import yaml' 2>/dev/null; then
  missing+=(python3-yaml)
fi
# The test server of Hive's protocol runs on Debian's Python, for which Debian has Kerberos.
if ! /usr/bin/python3 -c 'import venv, ensurepip, gssapi' 2>/dev/null; then
  missing+=(python3-venv python3-gssapi)
fi
[ ${#missing[@]} -eq 0 ] || "$(dirname "$0")/apt-install.sh" "${missing[@]}"
