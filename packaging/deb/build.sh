#!/usr/bin/env bash
# Builds the Debian package from a binary: ARCH=amd64 VERSION=… BINARY=… OUT=folder packaging/deb/build.sh
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/debian/tachograph
mkdir -p "$root/DEBIAN"
share=$root/usr/share
doc=$share/doc/tachograph

install -D -m 755 "$BINARY" "$root/usr/bin/tachograph"
mkdir -p "$share/man/man1"
"$BINARY" man --out "$share/man/man1" >/dev/null
gzip -9n "$share"/man/man1/*
mkdir -p "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
"$BINARY" completions bash >"$share/bash-completion/completions/tachograph"
"$BINARY" completions zsh >"$share/zsh/vendor-completions/_tachograph"
"$BINARY" completions fish >"$share/fish/vendor_completions.d/tachograph.fish"

mkdir -p "$doc"
cp packaging/deb/copyright "$doc/copyright"
python3 packaging/licences.py "$(uname -m)-unknown-linux-gnu" | gzip -9n >"$doc/licences-of-dependencies.gz"
{
  printf 'tachograph (%s-1) unstable; urgency=medium\n\n' "$VERSION"
  printf '  * Release %s; its changes are in CHANGELOG.md of the project.\n\n' "$VERSION"
  printf ' -- The tachograph authors <maintainers@tachograph.example>  %s\n' "$(date -uR -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.Debian.gz"
install -D -m 644 packaging/deb/lintian-overrides "$share/lintian/overrides/tachograph"

# dpkg-shlibdeps would ask for the glibc of this machine, since functions have moved between its
# libraries; the binary asks for less.
others=$(readelf -d "$BINARY" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(ld-linux.*|lib(c|m|dl|rt|pthread|util))\.so' || true)
if [ -n "$others" ]; then
  echo "error: $BINARY needs libraries other than glibc: $others" >&2
  exit 1
fi
glibc=$(readelf -V "$BINARY" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
depends="libc6 (>= ${glibc#GLIBC_})"

sed -e "s/@VERSION@/$VERSION-1/" -e "s/@ARCH@/$ARCH/" -e "s/@DEPENDS@/$depends/" \
  -e "s/@SIZE@/$(du -sk --exclude=DEBIAN "$root" | cut -f1)/" packaging/deb/control >"$root/DEBIAN/control"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)

find "$root" -type d -exec chmod 755 {} +
find "$root" -type f ! -path "$root/usr/bin/*" -exec chmod 644 {} +
install -m 755 packaging/deb/postrm "$root/DEBIAN/postrm"
dpkg-deb --root-owner-group -Zxz --build "$root" "$OUT/tachograph_$VERSION-1_$ARCH.deb"
