#!/usr/bin/env bash
# Runs the experiments in short form, one after another, and writes a page for each to
# docs/results/: question, answer, charts, published figures and ours, machine and
# command.
#
#     scripts/experiments.sh target/release/tachograph [NAME…]
#     scripts/experiments.sh --mark    marks the pages that are older than the method
#
# NAME=RUN writes the page of a recorded run without measuring; NAME=RUN+RUN… writes the
# page of the first, and below it what the others add (each with other variants or parts).
# MAX_TIME limits the time of each; the default depends on the number of parts. Variants whose
# programs are missing are skipped; the page says why, and `tachograph doctor` how to install them.
set -euo pipefail

# Pages that were measured by an older version of the method say so below their title.
mark() {
  local now page of
  now=$(sed -n 's/^pub const METHOD: u32 = \([0-9]*\);$/\1/p' crates/common/record/src/method.rs)
  for page in "${RESULTS:-docs/results}"/*.md; do
    grep -q '^Run `' "$page" || continue
    sed -i '/^> Older method: /,+1d' "$page"
    of=$(grep '^Run `' "$page" | tail -1 | sed -n 's/.*, method \([0-9]*\)\..*/\1/p')
    [ "${of:-0}" -ge "$now" ] || sed -i "4a > Older method: Measured by version ${of:-0} of the method, which is now at $now. Measure again before comparing these figures with newer ones.\n" "$page"
  done
}

if [ "${1:-}" = --mark ]; then
  mark
  exit
fi
tachograph=$1
shift
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  names=(raw-sockets flask-gunicorn-nginx flask-gunicorn-nginx-2016 flask-gunicorn-nginx-2016-versions docker python-servers python-servers-2013 python-servers-concurrent python-servers-concurrent-2013 django-layers django-layers-2013 payload graceful-restart tls-and-http2 recorder-transports series-accuracy)
fi
results=${RESULTS:-docs/results}
export TACHOGRAPH_RECORD=${TACHOGRAPH_RECORD:-target/experiments.sqlite}
pictures=$(mktemp -d)
work=$(mktemp -d)
trap 'rm -rf "$pictures" "$work"' EXIT
mkdir -p "$results"

# The page of a run; its charts are files beside it, prefixed with the experiment's name and, on a
# page of several runs, with the number of the run.
page() {
  local name=$1 run=${2:-last} number=${3:-} picture charts
  charts=$name${number:+-$number}
  rm -f "$pictures"/*
  local title=
  [[ $name != *-why ]] || title='1s/$/: what the difference is made of/; '
  # 1 means that a verdict failed, 2 that there were too few blocks for one: the page reports both.
  "$tachograph" report "$run" --markdown "$pictures/page.md" --svg "$pictures" >/dev/null || [ $? -le 2 ]
  # Remove old charts, because the page may no longer have them.
  if [ -z "$number" ] && [ -f "$results/$name.md" ]; then
    sed -nE "s|^!\[.*\]\(($name-[^/()]+\.svg)\)\$|\1|p" "$results/$name.md" | while read -r picture; do
      rm -f "$results/${picture//%20/ }"
    done
  fi
  # Paths and the name server of this machine are of no use to readers.
  sed -E "${title}s|$(realpath "$(command -v "$tachograph")")|tachograph|g; s/(lookup [^ ]+) on [0-9.]+:53: dial udp [0-9.]+:53:/\1:/g; s/^#(#+ )/\1/; s|^(!\[.*\]\()([^/()]+\.svg\))\$|\1$charts-\2|" "$pictures/page.md" >"$results/$name.md"
  for picture in "$pictures"/*.svg; do
    picture=$(basename "$picture")
    # Links contain %20 for a space.
    ! grep -qF "($charts-${picture// /%20})" "$results/$name.md" || cp "$pictures/$picture" "$results/$charts-$picture"
  done
}

# The page of several runs of an experiment: of all but the first, without title and description.
pages() {
  local name=$1 runs=$2 first=${2%%+*} number=1 run selected
  page "$name" "$first"
  cp "$results/$name.md" "$work/whole.md"
  # What stands between the answer and the first chart or table.
  awk '/^(- )?\*\*/ { described = 1; next } /^(!\[|\| variant|## )/ { exit } described && NF' "$work/whole.md" >"$work/described.txt"
  for run in ${runs//+/ }; do
    [ "$run" = "$first" ] && continue
    number=$((number + 1))
    page "$name" "$run" "$number"
    # What it measured: the arguments of its command that select parts and variants.
    selected=$(grep -E '^tachograph run ' "$results/$name.md" | tail -1 | grep -oE -e '--(only|skip) [^ ]+' | paste -sd' ' || true)
    printf '\n## Another run%s\n\n' "${selected:+: \`$selected\`}" >>"$work/whole.md"
    sed -nE '/^(- )?\*\*/,$p' "$results/$name.md" | grep -vxFf "$work/described.txt" | cat -s >>"$work/whole.md"
  done
  mv "$work/whole.md" "$results/$name.md"
}

# series-accuracy loads no server and records no run: its page is its output.
accuracy_page() {
  "$tachograph" run series-accuracy >"$pictures/told.txt"
  {
    printf '# %s\n\n' "$(sed -n 's/^title = "\(.*\)"$/\1/p' experiments/series-accuracy.toml)"
    printf '%s\n\n```text\n' "$(sed -n 's/^question = "\(.*\)"$/\1/p' experiments/series-accuracy.toml)"
    cat "$pictures/told.txt"
    printf '```\n\n%s, %s. Repeat it with:\n\n```sh\ntachograph run series-accuracy\n```\n' "$(date -u +%F)" "$("$tachograph" --version)"
  } >"$results/series-accuracy.md"
}

time_of() {
  case $1 in
    raw-sockets) echo 17m ;;
    python-servers) echo 16m ;;
    python-servers-concurrent) echo 24m ;;
    payload) echo 14m ;;
    graceful-restart) echo 15m ;;
    docker) echo 11m ;;
    python-servers-2013) echo 16m ;;
    python-servers-concurrent-2013) echo 15m ;;
    django-layers-2013) echo 14m ;;
    flask-gunicorn-nginx-2016) echo 7m ;;
    recorder-transports) echo 3m ;;
    tls-and-http2) echo 7m ;;
    *) echo 4m ;;
  esac
}

for name in "${names[@]}"; do
  echo "=== $name"
  if [[ $name == *=* ]]; then
    case $name in
      *+*) pages "${name%%=*}" "${name#*=}" ;;
      *) page "${name%%=*}" "${name#*=}" ;;
    esac
    continue
  fi
  if [ "$name" = series-accuracy ]; then
    accuracy_page
    continue
  fi
  with=()
  [ "$name" = docker ] && with=(scripts/with-docker.sh)
  status=0
  rm -f "$work/run.json"
  "${with[@]}" "$tachograph" run "$name" --quick --max-time "${MAX_TIME:-$(time_of "$name")}" --export-json "$work/run.json" || status=$?
  # 1 means that a verdict failed, and 2 with a result that a part had too few blocks for one: the
  # page reports both.
  if [ "$status" -ge 2 ] && [ ! -s "$work/run.json" ]; then
    echo "$name could not be measured; its page is unchanged" >&2
    continue
  fi
  page "$name"
done

# The index of the folder, one line per page.
{
  printf '# Results\n\nEach page is one experiment, run in short form by `make experiments`: question, answer, charts, published figures and ours, machine and command. A page that was measured by an older version of [the method](../method.md) says so: newer ones may give other figures and verdicts.\n\n'
  for file in "$results"/*.md; do
    [ "$(basename "$file")" = README.md ] && continue
    title=$(sed -n '1s/^# //p' "$file")
    question=$(awk 'NR > 1 && NF && !/^!/ { print; exit }' "$file")
    printf -- '- [%s](%s): %s\n' "$title" "$(basename "$file")" "$question"
  done
} >"$results/README.md"
