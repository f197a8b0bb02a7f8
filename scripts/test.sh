#!/usr/bin/env bash
# Runs all tests, six programs at a time: many of them wait (for servers that stop, for timeouts),
# so one after another leaves the CPUs idle for half of the time. A program of many subjects
# (`tests/all`) runs each of its modules as if it were a program. Tests that need a verdict measure
# one after another (`turn` in their support). What a program prints is printed when it has ended, as
# `cargo test` would; at the end come the twenty that took longest, and the CPU time of all.
#
#     scripts/test.sh [-p PACKAGE…]     all tests of the workspace, or of these packages
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
at_once=6
# The longest, which begin first.
long='experiments|diff|faults|docker|ssh|lines|cleanup|compare|simulation|actions|stores|power_cuts|exports'

# Where python3 is pyenv's script, each start takes 0.4 s longer than the program itself.
python=$(command -v python3 || true)
if [ -n "$python" ] && [ "$(head -c 2 "$python")" = '#!' ]; then
  PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TACHOGRAPH_TEST_NOT_RUN=$work/not-run

which=("$@")
[ $# -gt 0 ] || which=(--workspace)
"$cargo" test "${which[@]}" --locked --no-run
"$cargo" test "${which[@]}" --locked --no-run --message-format=json 2>/dev/null |
  jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable)
    | [.executable, (.manifest_path | sub("/Cargo.toml$"; "")), .target.src_path] | @tsv' |
  while IFS=$'\t' read -r executable folder source; do
    if [[ $source == */tests/all/main.rs ]]; then
      # A test outside of modules would be left out.
      if "$executable" --list | grep -v :: | grep ': test$' >&2; then exit 1; fi
      for module in $("$executable" --list | sed -n 's/^\([a-z0-9_]*\)::.*: test$/\1/p' | sort -u); do
        printf '%s\t%s\t%s\n' "$executable" "$folder" "${source%main.rs}$module.rs"
      done
    else
      printf '%s\t%s\t%s\n' "$executable" "$folder" "$source"
    fi
  done >"$work/programs"

# One program, or one module of it, in its package's folder, as cargo runs it.
one() {
  local executable=$1 folder=$2 source=$3 said took status=0 TIMEFORMAT='%0R s by the clock, %0U s of CPU (user), %0S s (system)'
  local tests=()
  if [[ $source == */tests/all/* ]]; then
    mapfile -t tests < <("$executable" --list | sed -n "s/^\($(basename "$source" .rs)::.*\): test\$/\1/p")
  fi
  said=$(mktemp "$work/said.XXXXXX")
  run() { (cd "$folder" && CARGO_MANIFEST_DIR=$folder "$executable" ${tests:+--exact "${tests[@]}"}) >"$said" 2>&1; }
  took=$( { time run; } 2>&1) || status=$?
  {
    flock 9
    printf '%s: %s\n' "$took" "${source#"$PWD/"}" >>"$work/times"
    printf '     Running %s (%s)\n' "${source#"$PWD/"}" "${executable##*/}"
    cat "$said"
    [ "$status" -eq 0 ] || printf 'error: %s ended with status %s\n' "${executable##*/}" "$status"
  } 9>"$work/printing"
  rm -f "$said"
  [ "$status" -eq 0 ] || echo "${source#"$PWD/"}" >>"$work/failed"
}
export -f one
export work CARGO=$cargo

{ grep -E "/($long)(/main)?\.rs$" "$work/programs"; grep -vE "/($long)(/main)?\.rs$" "$work/programs"; } |
  tr '\t\n' '\0\0' >"$work/in-order" || true
# By xargs and not by &, whose processes would ignore Ctrl-C.
# shellcheck disable=SC2016
xargs -0 -n 3 -P "$at_once" bash -c 'one "$@" </dev/null' one <"$work/in-order"

# Those that need a machine on which nothing else runs.
cut -f 1,2 "$work/programs" | sort -u | while IFS=$'\t' read -r executable folder; do
  if "$executable" --list --ignored | grep ': test$' >/dev/null; then
    (cd "$folder" && CARGO_MANIFEST_DIR=$folder "$executable" --ignored </dev/null) ||
      echo "what needs a quiet machine: ${executable##*/}" >>"$work/failed"
  fi
done

"$cargo" test "${which[@]}" --locked --doc --no-fail-fast || echo "the examples in the documentation" >>"$work/failed"

echo "took longest:"
# Not by head, which may end before sort has written everything: pipefail would make that a failure.
sort -rn "$work/times" | sed -n '1,20s/^/    /p'
awk '{ user += $6; system_ += $11 } END { print "    all: " user " s of CPU (user), " system_ " s (system)" }' "$work/times"
if [ -e "$work/not-run" ]; then
  echo "not run:"
  sort -u "$work/not-run" | sed 's/^/    /'
fi
if [ -e "$work/failed" ]; then
  echo "failed:"
  sed 's/^/    /' "$work/failed"
  exit 1
fi
