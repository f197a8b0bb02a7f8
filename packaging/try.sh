#!/usr/bin/env bash
# Installs the packages of target/packages/ in fresh places, all of them or those that are named,
# and runs a comparison in each:
#
#     packaging/try.sh [binary] [wheel] [deb] [image] [source] [cargo]
#
# Prints how long it takes from nothing to the first verdict, and keeps the table in
# target/packages/times.md. `cargo`, which compiles everything, is left out unless it is named.
# Needs root for Debian roots and containers, which are made in namespaces of their own.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/target/packages
roots=$PWD/target/packaging-roots
tools=$PWD/target/packaging-venv/bin
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
cpu=$(uname -m)
place=$(mktemp -d /tmp/tgp-XXXXXX)
cleanup() { rm -rf --one-file-system "$place"; }
trap cleanup EXIT
trap 'exit 130' INT TERM

# Two servers that every package has: its own, one of which takes three times as long.
flags=(-n tcp -n unix --quick --closed-only --max-time 30s)
# shellcheck disable=SC2016
servers=('tachograph serve-fixture --burn 600us --listen tcp://127.0.0.1:$PORT'
  'tachograph serve-fixture --burn 200us --listen unix:$SOCKET')

note() { printf '\n== %s\n' "$*"; }
fail() {
  echo "error: $*" >&2
  exit 1
}
now() { date +%s%N; }
since() { python3 -c "print(f'{($(now) - $1) / 1e9:.1f} s')"; }
rows=()
row() { rows+=("| $1 | $2 | $3 | $4 |"); }
size() { du -Lh --apparent-size "$1" | cut -f1; }

# A verdict that finds the faster server, and a ledger that adds up; with "served", whose two
# servers differ by little, a verdict of any kind and a server-side count that agrees.
check() { # RESULT.json [served]
  python3 - "$@" <<'PYTHON'
import json, sys
run = json.load(open(sys.argv[1]))
verdict = run["comparisons"][0]
if verdict["verdict"] == "invalid" or verdict["high"] is None:
    sys.exit("no verdict: " + verdict["sentence"])
for variant in run["variants"]:
    ledger = variant["ledger"]
    if not ledger["completed"] or not ledger["sent"] == ledger["completed"] == ledger["series"]:
        sys.exit(f"the ledger of {variant['name']} does not add up: {ledger}")
    if "served" in sys.argv and ledger["served"] != ledger["completed"]:
        sys.exit(f"{variant['name']} counted otherwise: {ledger}")
if "served" not in sys.argv and not verdict["low"] > 1:
    sys.exit("the faster server was not found: " + verdict["sentence"])
print("verdict:", verdict["sentence"])
PYTHON
}

# A bare Debian root, made once per release and unpacked fresh for every use, by the script that knows
# every release, also those that are newer than debootstrap.
root() { # SUITE FOLDER
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' | head -1)
  if [ ! -e "$roots/$1.tar" ]; then
    echo "making a root of Debian $1"
    mkdir -p "$roots"
    debootstrap --variant=minbase --include=python3,python3-venv,libnss-myhostname,libnss-mymachines,libnss-resolve "$1" "$place/new" \
      "${mirror:-http://deb.debian.org/debian}" /usr/share/debootstrap/scripts/sid >"$place/debootstrap.log" || fail "debootstrap: $(tail -3 "$place/debootstrap.log")"
    tar -C "$place/new" -cf "$roots/$1.tar" .
    rm -rf "$place/new"
  fi
  mkdir "$2"
  tar -C "$2" -xf "$roots/$1.tar"
}

# Runs a command in a root, with processes and mounts of its own.
inside() { # FOLDER COMMAND…
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child --propagation private sh -c '
    mkdir -p "$0/proc" "$0/sys" "$0/dev" "$0/tmp"
    mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" &&
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TMPDIR=/tmp chroot "$0" "$@"' "$@"
}

try_binary() {
  local tar=$out/tachograph-$version-$cpu-linux.tar.gz start
  note "static binary: $(size "$tar") packed"
  start=$(now)
  mkdir "$place/binary"
  tar -C "$place/binary" --strip-components=1 -xzf "$tar"
  local installed
  installed=$(since "$start")
  PATH=$place/binary:$PATH XDG_DATA_HOME=$place tachograph compare "${flags[@]}" --export-json "$place/binary.json" "${servers[@]}"
  row "static binary, by tar" "$(size "$tar")" "$installed" "$(since "$start")"
  check "$place/binary.json"

  note "static binary where there is nothing else: no libc, no /etc"
  mkdir -p "$place/bare/usr/bin"
  cp "$place/binary/tachograph" "$place/bare/usr/bin"
  inside "$place/bare" /usr/bin/tachograph --version
  inside "$place/bare" /usr/bin/tachograph --record /tmp/record.sqlite compare "${flags[@]}" --export-json /tmp/bare.json "${servers[@]}"
  check "$place/bare/tmp/bare.json"
  names "$place/bare"

  note "static binary beside the modules of another glibc (2.31)"
  root bullseye "$place/modules"
  cp "$place/binary/tachograph" "$place/modules/usr/bin"
  names "$place/modules"
  rm -rf --one-file-system "$place/modules"
}

# glibc loads the modules that /etc/nsswitch.conf names, and those of another version of glibc crash
# a static program. It must find names without them, and without any of these files.
names() { # ROOT
  local hosts port=$((20000 + RANDOM % 10000)) server
  "$place/binary/tachograph" serve-fixture --listen "tcp://127.0.0.1:$port" >/dev/null &
  server=$!
  mkdir -p "$1/etc"
  echo "127.0.0.1 localhost" >"$1/etc/hosts"
  for hosts in "" "files dns" "myhostname" "mymachines resolve [!UNAVAIL=return] files myhostname dns"; do
    rm -f "$1/etc/nsswitch.conf"
    [ -z "$hosts" ] || printf 'hosts: %s\npasswd: systemd\n' "$hosts" >"$1/etc/nsswitch.conf"
    inside "$1" /usr/bin/tachograph --record /tmp/record.sqlite load -n 100 "http://localhost:$port/" >/dev/null \
      || fail "with 'hosts: $hosts' in nsswitch.conf localhost was not found"
    echo "'hosts: $hosts': localhost is found"
  done
  kill "$server"
  wait "$server" 2>/dev/null || true
}

try_wheel() {
  local wheel start installed
  wheel=$(ls "$out"/tachograph-"$version"-*manylinux2014*.whl)
  note "wheel: $(size "$wheel")"
  "$tools/twine" check --strict "$wheel"
  start=$(now)
  export UV_CACHE_DIR=$place/uv UV_TOOL_DIR=$place/uv-tools
  "$tools/uvx" --quiet --offline --from "$wheel" tachograph --version
  installed=$(since "$start")
  "$tools/uvx" --quiet --offline --from "$wheel" tachograph --record "$place/uv.sqlite" compare "${flags[@]}" \
    --export-json "$place/uvx.json" "${servers[@]}"
  row "wheel, by uvx" "$(size "$wheel")" "$installed" "$(since "$start")"
  check "$place/uvx.json"

  note "wheel: pip install tachograph gunicorn, an app that counts"
  start=$(now)
  python3 -m venv "$place/venv"
  "$place/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel" gunicorn
  installed=$(since "$start")
  cat >"$place/server.py" <<'PYTHON'
from tachograph_counter import count

@count
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "6")])
    return [b"hello\n"]
PYTHON
  # shellcheck disable=SC2016
  (cd "$place" && PATH=$place/venv/bin:$PATH tachograph --record "$place/pip.sqlite" compare "${flags[@]}" \
    --export-json "$place/pip.json" 'gunicorn -b 127.0.0.1:$PORT server:app' 'gunicorn -b unix:$SOCKET server:app')
  row "wheel, by pip with gunicorn" "$(size "$wheel")" "$installed" "$(since "$start")"
  check "$place/pip.json" served
  (cd "$place" && "$place/venv/bin/python" -c 'import tachograph_counter; print(tachograph_counter.__file__)')

  note "wheel in Debian bullseye (Python 3.9, glibc 2.31)"
  root bullseye "$place/bullseye-wheel"
  cp "$wheel" "$place/bullseye-wheel/"
  inside "$place/bullseye-wheel" sh -ec "python3 -m venv /venv
    /venv/bin/pip install --quiet --no-index /$(basename "$wheel")
    /venv/bin/python -c 'import tachograph_counter'
    PATH=/venv/bin:\$PATH tachograph compare $(printf "'%s' " "${flags[@]}" "${servers[@]}") --export-json /tmp/result.json"
  check "$place/bullseye-wheel/tmp/result.json"
  local newest
  newest=$(readelf -V "$place/bullseye-wheel/venv/bin/tachograph" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
  echo "newest symbol of glibc: $newest"
  [ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -1)" = GLIBC_2.17 ] || fail "the wheel needs $newest"
  rm -rf --one-file-system "$place/bullseye-wheel"
}

try_deb() {
  local deb start installed suite
  deb=$(ls "$out"/tachograph_"$version"-1_*.deb)
  note "Debian package: $(size "$deb")"
  lintian --pedantic --fail-on error,warning,info,pedantic "$deb" "$out/tachograph-doc_$version-1_all.deb"
  for suite in bookworm bullseye; do
    note "Debian package in $suite"
    root "$suite" "$place/$suite"
    cp "$deb" "$place/$suite/"
    (cd "$place/$suite" && find . -xdev ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './tmp*' | sort) >"$place/before"
    start=$(now)
    inside "$place/$suite" dpkg --install "/$(basename "$deb")"
    installed=$(since "$start")
    inside "$place/$suite" tachograph --version
    inside "$place/$suite" tachograph compare "${flags[@]}" --export-json /tmp/result.json "${servers[@]}"
    row "Debian package in $suite" "$(size "$deb")" "$installed" "$(since "$start")"
    check "$place/$suite/tmp/result.json"
    pages "$place/$suite/usr/share/man/man1"
    inside "$place/$suite" dpkg --purge tachograph
    rm -rf "$place/$suite/tmp/.local"
    (cd "$place/$suite" && find . -xdev ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './tmp*' | sort) >"$place/after"
    diff "$place/before" "$place/after" || fail "purging left files behind"
    rm -rf --one-file-system "${place:?}/$suite"
  done
}

# As Debian's own machines do it: built in a bare root from its packages alone, without a network,
# by a user without rights; then every check of that release's lintian, and its tests installed.
try_source() {
  local tree start
  note "source package: $(du -ch "$out"/source/*.orig*.tar.xz | tail -1 | cut -f1)"
  root forky "$place/forky"
  tree=$place/forky/build
  mkdir "$tree"
  cp "$out"/source/*.dsc "$out"/source/*.tar.xz "$tree"
  cp /etc/resolv.conf "$place/forky/etc/"
  # A mirror may be some weeks behind.
  inside "$place/forky" sh -ec 'apt-get -o Acquire::Check-Valid-Until=false update -q && cd /build &&
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends build-essential lintian autopkgtest adduser &&
    dpkg-source -x *.dsc tree &&
    DEBIAN_FRONTEND=noninteractive apt-get build-dep -qy ./tree &&
    adduser --quiet --disabled-password --comment "" builder && chown -R builder .' >"$place/apt.log" || fail "apt: $(tail -6 "$place/apt.log")"
  start=$(now)
  inside "$place/forky" unshare --net su builder -c 'cd /build/tree && dpkg-buildpackage --no-sign' >"$out/source/build.log" 2>&1 ||
    fail "dpkg-buildpackage: $(tail -20 "$out/source/build.log")"
  row "Debian source package, built in forky" "$(size "$out/source/tachograph_$version.orig-vendor.tar.xz")" "$(since "$start")" ""
  inside "$place/forky" su builder -c 'lintian -EI --pedantic --fail-on error,warning,info,pedantic /build/*.changes'
  inside "$place/forky" sh -ec 'mount -t tmpfs tmpfs /tmp && autopkgtest /build/*.deb /build/tree -- null'
}

# Every page formats without a warning.
pages() { # FOLDER
  local page warnings
  for page in "$1"/tachograph*.1.gz; do
    warnings=$(gzip -dc "$page" | groff -man -Tutf8 -ww -z 2>&1)
    [ -z "$warnings" ] || fail "$page: $warnings"
  done
  echo "$(find "$1" -name 'tachograph*.1.gz' | wc -l) man pages without warnings"
}

try_image() {
  note "container image"
  OUT=$out PLACE=$place VERSION=$version scripts/with-docker.sh packaging/image/try.sh "${flags[@]}" "${servers[@]}"
  check "$place/image/image.json"
  row "container image" "$(cat "$place/image/size")" "$(cat "$place/image/installed")" "$(cat "$place/image/verdict")"
}

try_cargo() {
  note "cargo install"
  local start installed
  start=$(now)
  CARGO_TARGET_DIR=$place/target cargo install --quiet --locked --profile dist --path crates/tachograph --root "$place/cargo"
  installed=$(since "$start")
  PATH=$place/cargo/bin:$PATH XDG_DATA_HOME=$place tachograph compare "${flags[@]}" --export-json "$place/cargo.json" "${servers[@]}"
  row "cargo install" "$(size "$place/cargo/bin/tachograph")" "$installed" "$(since "$start")"
  check "$place/cargo.json"
}

[ $# -gt 0 ] || set -- binary wheel deb image source
[ "$(id -u)" -eq 0 ] || fail "Debian roots and containers need root"
for one in "$@"; do
  declare -F "try_$one" >/dev/null || fail "no package '$one'; there are binary, wheel, deb, image, source and cargo"
  [ "$one" = cargo ] || compgen -G "$out/*" >/dev/null || fail "$out is empty; build the packages first: packaging/build.sh"
  "try_$one"
done
{
  echo "| way | size | installed after | first verdict after |"
  echo "| --- | ---: | ---: | ---: |"
  printf '%s\n' "${rows[@]}"
} >"$out/times.md"
note "from nothing to the first verdict"
cat "$out/times.md"
