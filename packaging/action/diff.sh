#!/usr/bin/env bash
# Runs `tachograph diff`, and writes the job summary and the outputs, also after a failure.
# The status is that of `tachograph diff`.
set -uo pipefail

results=$RUNNER_TEMP/tachograph
# An earlier step of the job may have left its own.
rm -rf -- "$results"
mkdir -p "$results"

# A pull request is compared with its base branch, a push with the commit before it.
base=${TG_BASE:-}
if [ -z "$base" ] && [ -n "${GITHUB_BASE_REF:-}" ]; then
  base=origin/$GITHUB_BASE_REF
elif [ -z "$base" ] && [[ ${TG_BEFORE:-} =~ ^[0-9a-f]*[1-9a-f][0-9a-f]*$ ]]; then
  base=$TG_BEFORE
fi

options=(
  --export-markdown "$results/summary.md"
  --export-json "$results/result.json"
  --export-env "$results/outputs"
  --export-smaller-is-better "$results/smaller-is-better.json"
  --export-bigger-is-better "$results/bigger-is-better.json"
  --export-bmf "$results/bmf.json"
)
[ -z "${TG_BUILD:-}" ] || options+=("--build=$TG_BUILD")
[ -z "${TG_MARGIN:-}" ] || options+=("--margin=$TG_MARGIN")
[ -z "${TG_MAX_TIME:-}" ] || options+=("--max-time=$TG_MAX_TIME")
while IFS= read -r option; do
  option=${option%$'\r'}
  [ -z "${option// /}" ] || options+=("$option")
done <<<"${TG_ARGS:-}"
words=("$TG_COMMAND")
[ -z "$base" ] || words=("$base" "${TG_HEAD:-HEAD}" "$TG_COMMAND")

exec 9> >(exec tee "$results/messages.txt" >&2)
tee=$!
"$TG_TACHOGRAPH" diff "${options[@]}" -- "${words[@]}" 2>&9 9>&-
status=$?
# The messages are complete once tee has ended.
exec 9>&-
wait "$tee"

if [ ! -s "$results/summary.md" ]; then
  # Options that were not understood: the message is all that there is.
  {
    echo '**Could not compare**: nothing was measured.'
    echo
    sed 's/^/    /' "$results/messages.txt"
  } >"$results/summary.md"
fi
[ -s "$results/outputs" ] || echo verdict=not_measured >"$results/outputs"
cat "$results/summary.md" >>"$GITHUB_STEP_SUMMARY"
cat "$results/outputs" >>"$GITHUB_OUTPUT"

case $status in
  0) ;;
  1) echo '::error title=tachograph::the head is worse than the base; see the summary' ;;
  *) echo '::error title=tachograph::could not compare; see the summary' ;;
esac
exit "$status"
