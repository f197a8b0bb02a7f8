#!/usr/bin/env bash
# The main job on a machine with Rust and Python: TCP or Unix socket for a Flask app behind gunicorn?
# Runs without root; says what it leaves out and how to get it.
set -euo pipefail
tachograph=$1
report=${DEMO_REPORT:-target/demo.html}

if ! PATH="$PATH:/usr/sbin" command -v nginx >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "installing nginx for the variants behind it"
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light >/dev/null) \
    || echo "nginx could not be installed; the variants behind it are left out"
fi
export TACHOGRAPH_RECORD=${TACHOGRAPH_RECORD:-target/demo.sqlite}
status=0
"$tachograph" run flask-gunicorn-nginx --quick --max-time 125s --export-html "$report" || status=$?
echo
echo "The report: $report (open it in a browser)"
echo "The record: $TACHOGRAPH_RECORD (tachograph report last, or any SQLite client)"
exit $status
