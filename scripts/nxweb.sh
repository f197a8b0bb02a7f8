#!/usr/bin/env bash
# Builds nxweb for the experiments python-servers and python-servers-concurrent, from source,
# because no distribution has it. Needs git, cmake and a C compiler (apt install git cmake
# build-essential).
#
#     scripts/nxweb.sh FOLDER [REPOSITORY]    then: export PATH=FOLDER/bin:$PATH
#
# Three lines of its source are changed. It has one thread instead of one per CPU of the machine,
# and does not pin it, because a server that leaves its stack's CPUs gets no verdict; and it
# writes its access log, from which its requests are counted, after 50 ms instead of a second.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: scripts/nxweb.sh FOLDER [REPOSITORY]" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
repository=${2:-https://github.com/yarosla/nxweb}
commit=50616d4408744d95636d633f6d264dbe2728cbfd
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone --quiet "$repository" "$work/nxweb"
cd "$work/nxweb"
git checkout --quiet "$commit"

# Replaces a line of a file, which must be there exactly once.
change() {
  local file=$1 from=$2 to=$3
  [ "$(grep -cF "$from" "$file")" = 1 ] || { echo "$file does not contain '$from' once" >&2; exit 1; }
  awk -v from="$from" -v to="$to" 'index($0, from) { print to; next } { print }' "$file" >"$work/changed"
  cp "$work/changed" "$file"
}
change src/include/nxweb/nxweb_config.h '#define NXWEB_MAX_NET_THREADS 16' '#define NXWEB_MAX_NET_THREADS 1'
change src/lib/http_server.c 'pthread_attr_setaffinity_np(&tattr, sizeof(cpu_set_t), &cpuset);' ''
change src/lib/nx_event.c 'if (time_to_wait>1000) time_to_wait=1000;' '    if (time_to_wait>50) time_to_wait=50;'

# Its CMake file is older than today's oldest supported one, and its C than today's defaults.
build() {
  cmake -S . -B build -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DCMAKE_C_FLAGS="-fcommon -Wno-error" \
    -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_RPATH="$folder/lib" \
    -DWITH_GZIP=OFF &&
    cmake --build build --target install -j "$(nproc)"
}
if ! build >"$work/log" 2>&1; then
  tail -20 "$work/log" >&2
  exit 1
fi
echo "$folder/bin/nxweb is built; export PATH=$folder/bin:\$PATH"
