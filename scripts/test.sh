#!/usr/bin/env bash
# Runs all tests, three programs at a time: many of them wait (for servers that stop, for
# timeouts), so one after another leaves the CPUs idle for half of the time. Those that measure for
# a verdict run one after another, beside the others: two measurements at once would disturb each
# other, and take longer. What a program prints is printed when it has ended, as `cargo test` would.
#
#     scripts/test.sh [-p PACKAGE…]     all tests of the workspace, or of these packages
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
measuring='faults|diff|lines|compare|actions|load|first_use'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

which=("$@")
[ $# -gt 0 ] || which=(--workspace)
"$cargo" test "${which[@]}" --locked --no-run
"$cargo" test "${which[@]}" --locked --no-run --message-format=json 2>/dev/null |
  jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable)
    | [.executable, (.manifest_path | sub("/Cargo.toml$"; "")), .target.src_path] | @tsv' >"$work/programs"

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

# The programs of one of the lists.
all_of() {
  local executable folder source
  while IFS=$'\t' read -r executable folder source; do
    one "$executable" "$folder" "$source" </dev/null
  done <"$1"
}
export -f all_of
measures="/($measuring)-[0-9a-f]+\s"
grep -E "$measures" "$work/programs" >"$work/measuring" || true
# The longest first; each of two workers takes the next program of the list when it is free.
long='/(experiments|docker|cleanup|ssh)-'
{ grep -E "$long" "$work/programs"; grep -vE "$long" "$work/programs"; } | grep -vE "$measures" >"$work/others" || true
split -l 1 -a 4 "$work/others" "$work/other."
# By xargs and not by &, whose processes would ignore Ctrl-C.
# shellcheck disable=SC2016
printf '%s\0' "$work/measuring" "$work"/other.* | xargs -0 -n 1 -P 3 bash -c 'all_of "$1"' all_of

"$cargo" test "${which[@]}" --locked --doc --no-fail-fast || echo "the examples in the documentation" >>"$work/failed"

if [ -e "$work/failed" ]; then
  echo "failed:"
  sed 's/^/    /' "$work/failed"
  exit 1
fi
