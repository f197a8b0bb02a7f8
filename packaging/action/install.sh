#!/usr/bin/env bash
# Installs a release of tachograph and checks its checksum, or takes an installed one.
# Variables: TG_BINARY or TG_VERSION. Writes the output `binary`.
set -euo pipefail

fail() {
  echo "::error title=tachograph::$1"
  exit 2
}

if [ -n "${TG_BINARY:-}" ]; then
  [ -x "$TG_BINARY" ] || fail "there is no program $TG_BINARY (input 'binary')"
  echo "binary=$(realpath "$TG_BINARY")" >>"$GITHUB_OUTPUT"
  exit 0
fi

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64 | Linux-aarch64) ;;
  *) fail "tachograph runs on Linux, on x86_64 and aarch64; use such a runner, e.g. ubuntu-latest" ;;
esac
version=${TG_VERSION:-latest}
[[ $version =~ ^(latest|v?[0-9][0-9A-Za-z.+-]*)$ ]] || fail "'$version' is no version; use one such as 0.1.0"
releases=${TG_RELEASES:-$GITHUB_SERVER_URL/$TG_REPOSITORY/releases}
case $version in
  latest) folder=$releases/latest/download ;;
  *) folder=$releases/download/v${version#v} ;;
esac
to=$(mktemp -d "${RUNNER_TEMP:-/tmp}/tachograph-install-XXXXXX")
download() {
  curl --fail --silent --show-error --location --retry 3 --output "$to/$1" "$folder/$1" ||
    fail "cannot download $folder/$1; check the input 'version', or give the path of an installed tachograph as 'binary'"
}

# The list of checksums also names the archive of this machine, with its version.
download SHA256SUMS
line=$(grep -E "^[0-9a-f]{64}  tachograph-[0-9][0-9A-Za-z.+-]*-$(uname -m)-linux\.tar\.gz\$" "$to/SHA256SUMS") ||
  fail "$folder has no archive for Linux on $(uname -m)"
archive=${line#*  }
download "$archive"
(cd "$to" && sha256sum --check --status <<<"$line") ||
  fail "the checksum of $folder/$archive is wrong, so it is not used"
tar -xzf "$to/$archive" -C "$to"
binary=$(find "$to" -type f -name tachograph -perm -u+x -print -quit)
[ -n "$binary" ] || fail "$folder/$archive contains no tachograph"
echo "binary=$binary" >>"$GITHUB_OUTPUT"
