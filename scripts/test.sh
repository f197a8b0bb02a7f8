#!/usr/bin/env bash
# Runs all tests, two programs at a time: many of them wait (for servers that stop, for
# timeouts), so one after another leaves the CPUs idle for half of the time. What a program prints
# is printed when it has ended, as `cargo test` would.
#
#     scripts/test.sh [-p PACKAGE…]     all tests of the workspace, or of these packages
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
at_once=2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

which=("$@")
[ $# -gt 0 ] || which=(--workspace)
"$cargo" test "${which[@]}" --locked --no-run
# The programs, those of the long ones first that would otherwise be the last to end.
"$cargo" test "${which[@]}" --locked --no-run --message-format=json 2>/dev/null |
  jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable)
    | [.executable, (.manifest_path | sub("/Cargo.toml$"; "")), .target.src_path] | @tsv' |
  awk -F '\t' '{ print (match($1, /\/(experiments|faults|docker|cleanup|diff|lines|compare)-[0-9a-f]+$/) ? 0 : 1) "\t" $0 }' |
  sort -s -n -k 1,1 | cut -f 2- >"$work/programs"

# One program, in its package's folder, as cargo runs it.
one() {
  local executable=$1 folder=$2 source=$3 said status=0
  said=$(mktemp "$work/said.XXXXXX")
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder "$executable") >"$said" 2>&1 || status=$?
  {
    flock 9
    printf '     Running %s (%s)\n' "${source#"$PWD/"}" "${executable##*/}"
    cat "$said"
    [ "$status" -eq 0 ] || printf 'error: %s ended with status %s\n' "${executable##*/}" "$status"
  } 9>"$work/printing"
  rm -f "$said"
  [ "$status" -eq 0 ] || echo "${source#"$PWD/"}" >>"$work/failed"
}
export -f one
export work CARGO=$cargo

tr '\t\n' '\0\0' <"$work/programs" |
  xargs -0 -n 3 -P "$at_once" bash -c 'one "$@"' one

"$cargo" test "${which[@]}" --locked --doc --no-fail-fast || echo "the examples in the documentation" >>"$work/failed"

if [ -e "$work/failed" ]; then
  echo "failed:"
  sed 's/^/    /' "$work/failed"
  exit 1
fi
