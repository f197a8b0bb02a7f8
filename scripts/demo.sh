#!/usr/bin/env bash
# The main job on a machine with Rust and Python: TCP or Unix socket for a Flask app behind gunicorn?
# Runs without root; prints what it skips and how to install it.
set -euo pipefail
tachograph=$1
report=${DEMO_REPORT:-target/demo.html}

if ! PATH="$PATH:/usr/sbin" command -v nginx >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "installing nginx"
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light >/dev/null) \
    || echo "nginx could not be installed; its variants are skipped"
fi
export TACHOGRAPH_RECORD=${TACHOGRAPH_RECORD:-target/demo.sqlite}
result=$(mktemp)
trap 'rm -f "$result"' EXIT
status=0
"$tachograph" run flask-gunicorn-nginx --quick --max-time "${DEMO_MAX_TIME:-125s}" \
  --export-html "$report" --export-json "$result" || status=$?
echo
echo "The report: $report (open it in a browser)"
echo "The record: $TACHOGRAPH_RECORD (tachograph report last, or any SQLite client)"
[ "$status" -eq 0 ] || exit "$status"
# Every part must have enough blocks for a verdict, an interval, and a ledger that adds up.
python3 - "$result" <<'PYTHON'
import json, sys
run = json.load(open(sys.argv[1]))
primary = [c for c in run["comparisons"] if c["primary"]]
undecided = [c for c in primary if c["verdict"] == "invalid" or c["blocks"] < 6 or c["high"] is None]
if not primary or undecided:
    sys.exit("the demo ended without a verdict: " + ", ".join(c["sentence"] for c in undecided))
for variant in run["variants"]:
    ledger = variant["ledger"]
    if variant["skipped"] is None and ledger["served"] != ledger["completed"]:
        sys.exit(f"the ledger of {variant['name']} does not add up: {ledger}")
PYTHON
