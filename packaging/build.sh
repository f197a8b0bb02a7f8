#!/usr/bin/env bash
# Builds packages into target/packages/, all of them or those that are named:
#
#     packaging/build.sh [binary] [wheel] [source] [deb] [image] [formula] [sums]
#
# TARGET chooses the target of the static binary and of the wheel, by default this machine's gnu
# target. The tools come from packaging/tools.sh.
#
# The program is built twice: statically for images and for machines without glibc, and for
# glibc 2.17 for the wheel and the Debian package. The modules that /etc/nsswitch.conf names crash a
# static program of another version of glibc, so at its start it is told to use only glibc's builtin
# lookups (crates/lab/netio/src/names.rs).
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/target/packages
machine=$(uname -m)
target=${TARGET:-$machine-unknown-linux-gnu}
cpu=${target%%-*}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
name=tachograph-$version-$cpu-linux
mkdir -p "$out"

# Known without git in the binary itself; dates of files are that of the commit.
TACHOGRAPH_COMMIT=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
[ -z "$TACHOGRAPH_COMMIT" ] || [ -z "$(git status --porcelain)" ] || TACHOGRAPH_COMMIT+=-dirty
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export TACHOGRAPH_COMMIT SOURCE_DATE_EPOCH

# No folder of the build machine in the binary.
remap="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
flags=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")_RUSTFLAGS
static_binary=target/static/$target/dist/tachograph
glibc_binary=target/wheel/$target/dist/tachograph

note() { printf '\n== %s\n' "$*"; }

# Everything else in the packages is written by the binary itself.
documents() { # BINARY FOLDER
  mkdir -p "$2/completions"
  "$1" man --out "$2/man" >/dev/null
  "$1" completions bash >"$2/completions/tachograph.bash"
  "$1" completions zsh >"$2/completions/_tachograph"
  "$1" completions fish >"$2/completions/tachograph.fish"
  python3 packaging/licences.py "$target" >"$2/LICENSE-THIRD-PARTY"
  cp LICENSE-MIT LICENSE-APACHE "$2"
}

same_dates() { find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +; }

build_binary() {
  note "static binary for $target"
  env "$flags=-C target-feature=+crt-static $remap" \
    cargo build --profile dist --locked -p tachograph --target "$target" --target-dir target/static
  if readelf --program-headers "$static_binary" | grep -q INTERP; then
    echo "error: $static_binary needs a loader, so it is not static" >&2
    exit 1
  fi
  rm -rf "${out:?}/$name"
  mkdir -p "$out/$name"
  cp "$static_binary" README.md CHANGELOG.md "$out/$name"
  documents "$static_binary" "$out/$name"
  same_dates "$out/$name"
  tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner -c "$name" | gzip -9n >"$out/$name.tar.gz"
  rm -rf "${out:?}/$name"
}

build_wheel() {
  local compatibility=manylinux2014
  [[ $target != *musl ]] || compatibility=musllinux_1_2
  note "wheel for $compatibility"
  python3 packaging/licences.py "$target" >packaging/wheel/LICENSE-THIRD-PARTY
  (
    PATH=$PWD/target/packaging-venv/bin:$PATH
    export CARGO_TARGET_DIR=$PWD/target/wheel
    cd packaging/wheel
    env "$flags=$remap" maturin build --zig --compatibility "$compatibility" --target "$target" --locked --out "$out"
  )
}

# The source package: what is committed, what it is built with, and packaging/debian.
build_source() {
  local tree=$out/source/tachograph-$version uplot
  note "Debian source package"
  rm -rf "$out/source"
  mkdir -p "$tree"
  git archive HEAD | tar -C "$tree" -x
  same_dates "$tree"
  packed "$out/source" "tachograph-$version" "tachograph_$version.orig.tar.xz"
  cp -r packaging/debian "$tree/debian"
  mv "$tree/debian/copyright.in" "$tree/debian/copyright"
  cargo vendor --quiet --locked --versioned-dirs "$tree/vendor" >/dev/null
  python3 packaging/vendor.py "$tree/vendor" "$tree/debian/copyright"
  same_dates "$tree/vendor"
  packed "$tree" vendor "tachograph_$version.orig-vendor.tar.xz"
  mv "$tree/tachograph_$version.orig-vendor.tar.xz" "$out/source"
  # The readable form of the charts' code, from the release that ours is a part of.
  uplot=$(sed -n 's/.*uPlot (v\(.*\)).*/\1/p' web/uplot/uplot.min.js)
  mkdir "$tree/debian/missing-sources"
  curl --fail --silent --show-error --location "https://registry.npmjs.org/uplot/-/uplot-$uplot.tgz" | tar -C "$out/source" -xz
  cmp "$out/source/package/dist/uPlot.iife.min.js" web/uplot/uplot.min.js
  mv "$out/source/package/dist/uPlot.iife.js" "$tree/debian/missing-sources/uplot.js"
  rm -rf "$out/source/package"
  (cd "$tree" && dpkg-buildpackage --build=source --no-check-builddeps --no-sign -d >"$out/source/dpkg.log")
  (cd "$out/source" && ls -sh -- *.dsc *.tar.xz)
}

packed() { # FOLDER NAME ARCHIVE
  tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner -c "$2" | xz -T0 >"$1/$3"
}

# By the rules of the source package, but with a program that also runs on older systems.
build_deb() {
  [ -e "$glibc_binary" ] || build_wheel
  [ -e "$out/source/tachograph-$version" ] || build_source
  note "Debian package"
  (cd "$out/source/tachograph-$version" &&
    TACHOGRAPH_BINARY=$OLDPWD/$glibc_binary dpkg-buildpackage --build=binary --no-check-builddeps --no-sign >"$out/deb.log") ||
    { tail -20 "$out/deb.log" >&2; return 1; }
  mv "$out/source"/tachograph*.deb "$out"
}

build_image() {
  [ -e "$static_binary" ] || build_binary
  note "folder of the container image"
  rm -rf "$out/image"
  mkdir -p "$out/image/root/usr/bin" "$out/image/root/usr/share/doc/tachograph" "$out/image/root/data"
  install -d -m 1777 "$out/image/root/tmp"
  cp packaging/image/Dockerfile "$out/image"
  cp "$static_binary" "$out/image/root/usr/bin"
  documents "$static_binary" "$out/image/documents"
  cp "$out/image/documents"/LICENSE-* "$out/image/root/usr/share/doc/tachograph"
  rm -rf "$out/image/documents"
}

build_formula() {
  note "Homebrew formula"
  cp packaging/homebrew/tachograph.rb "$out/tachograph.rb"
  local mark file
  for mark in X86_64:x86_64 AARCH64:aarch64; do
    file=$out/tachograph-$version-${mark#*:}-linux.tar.gz
    [ -e "$file" ] || continue
    sed -i "s/@SHA256_${mark%:*}@/$(sha256sum "$file" | cut -d' ' -f1)/" "$out/tachograph.rb"
  done
  ruby -c "$out/tachograph.rb"
}

build_sums() {
  note "checksums"
  (cd "$out" && sha256sum -- *.tar.gz *.whl *.deb tachograph.rb | tee SHA256SUMS)
}

[ $# -gt 0 ] || set -- binary wheel source deb image formula sums
for one in "$@"; do
  if ! declare -F "build_$one" >/dev/null; then
    echo "error: no package '$one'; there are binary, wheel, source, deb, image, formula and sums" >&2
    exit 2
  fi
  "build_$one"
done
