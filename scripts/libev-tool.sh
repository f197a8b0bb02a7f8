#!/usr/bin/env bash
# Builds httpress or weighttp, load generators of published figures, from source, because no
# distribution has them. Needs git, a C compiler and libev (apt install git gcc libc6-dev libev-dev).
#
#     scripts/libev-tool.sh FOLDER httpress|weighttp
#
# weighttp is 0.4, the last version of the program of 2009; 0.5 (2025) is a rewrite. Both compile
# as they are, httpress without TLS, as by its Makefile.nossl. To take the sources from elsewhere,
# see insteadOf in git-config(1).
set -euo pipefail
[ $# = 2 ] || { echo "usage: scripts/libev-tool.sh FOLDER httpress|weighttp" >&2; exit 2; }
tool=$2
case $tool in
  httpress)
    repository=https://github.com/yarosla/httpress
    commit=89c8607ea5a38bc051851f06b9a1549b7059aa06
    flags=()
    ;;
  weighttp)
    repository=https://github.com/lighttpd/weighttp
    commit=f680becd0b97b62c265d3597e33399ecb7ef67d4
    flags=(-fno-strict-aliasing '-DPACKAGE_VERSION="0.4"')
    ;;
  *)
    echo "there is no $tool; httpress and weighttp are" >&2
    exit 2
    ;;
esac
mkdir -p "$1/bin"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone --quiet "$repository" "$work/source"
cd "$work/source"
git checkout --quiet "$commit"
[ -d src ] && cd src
"${CC:-cc}" -O2 -pthread "${flags[@]}" -o "$work/$tool" ./*.c -lev
# Last, so that a failed build leaves nothing.
mv "$work/$tool" "$folder/bin/$tool"
