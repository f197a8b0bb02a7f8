#!/usr/bin/env bash
# Installs the load generators and time-series stores of `make truth`, in the versions below, to a
# folder of their own or as Debian's packages; what cannot be installed is listed in that folder's missing.tsv.
# Usage: scripts/truth-tools.sh FOLDER
set -euo pipefail

folder=$(realpath -m "${1:?usage: scripts/truth-tools.sh FOLDER}")
mkdir -p "$folder/bin"
missing=$folder/missing.tsv
: >"$missing"

# Both keep absolute paths out of the commands, which the page may show.
export GOBIN=$folder/bin CARGO_INSTALL_ROOT=$folder
# One package at a time, since other work may share the machine.
export GOFLAGS=-p=1

# Runs a command that should install a tool; notes the tool as missing if it fails.
attempt() {
  local tool=$1 log=$folder/$1.log reason
  shift
  echo "$tool: $*"
  if nice -n 10 "$@" >"$log" 2>&1; then return 0; fi
  reason=$(grep -v '^[[:space:]]*$' "$log" | tail -n 1 || true)
  printf '%s\t%s\t%s\n' "$tool" "$*" "$reason" >>"$missing"
  echo "$tool: failed, see $log" >&2
  return 1
}

# Installs a Go program unless this version of it is there already.
go_tool() {
  local tool=$1 package=$2 version=$3
  if [ "$(cat "$folder/$tool.version" 2>/dev/null)" = "$version" ] && [ -x "$folder/bin/$tool" ]; then
    return
  fi
  rm -f "$folder/bin/$tool" "$folder/$tool.version"
  if attempt "$tool" go install "$package@$version"; then echo "$version" >"$folder/$tool.version"; fi
}

apt_tool() {
  local tool=$1 package=$2
  command -v "$tool" >/dev/null && return
  attempt "$tool" apt-get install -y -qq --no-install-recommends "$package" || true
}

apt_tool wrk wrk
apt_tool ab apache2-utils
apt_tool h2load nghttp2-client
apt_tool httperf httperf
go_tool hey github.com/rakyll/hey v0.1.5
go_tool vegeta github.com/tsenart/vegeta/v12 v12.13.0
# Later versions need a module (grol.io/grol) whose source the module proxy may refuse.
go_tool fortio fortio.org/fortio v1.68.2
go_tool k6 go.k6.io/k6 v1.8.1

# From source, with libev.
[ -e /usr/include/ev.h ] || attempt libev apt-get install -y -qq --no-install-recommends libev-dev || true
for tool in httpress weighttp; do
  [ -x "$folder/bin/$tool" ] || attempt "$tool" "$(dirname "$0")/libev-tool.sh" "$folder" "$tool" || true
done

oha_version=1.16.0
if [ "$("$folder/bin/oha" --version 2>/dev/null)" != "oha $oha_version" ]; then
  attempt oha "${CARGO:-cargo}" install oha --version "$oha_version" --locked || true
fi

apt_tool rrdtool rrdtool
apt_tool rrdcached rrdcached
apt_tool carbon-cache graphite-carbon
apt_tool influxd influxdb
apt_tool prometheus prometheus
apt_tool sqlite3 sqlite3
apt_tool mvn maven
apt_tool npm npm
# Later versions need a newer Go than Debian's and many others have.
go_tool victoria-metrics github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics v1.140.0
# The module proxy may refuse it; its repository has all that `go build -mod=vendor` needs.
go_tool go-carbon github.com/go-graphite/go-carbon v0.19.1

# QuestDB from Maven, and StatsD from npm, each with a command that starts it.
questdb_version=9.2.0
if [ ! -e "$folder/questdb-$questdb_version.jar" ]; then
  rm -f "$folder/bin/questdb"
  if attempt questdb mvn -q dependency:copy -Dartifact="org.questdb:questdb:$questdb_version" -DoutputDirectory="$folder"; then
    cat >"$folder/bin/questdb" <<EOF
#!/bin/sh
[ "\$1" = --version ] && echo "QuestDB $questdb_version" && exit
exec java -p "$folder/questdb-$questdb_version.jar" -m io.questdb/io.questdb.ServerMain "\$@"
EOF
    chmod +x "$folder/bin/questdb"
  fi
fi
statsd_version=0.9.0
if [ ! -e "$folder/statsd-$statsd_version" ]; then
  rm -f "$folder/bin/statsd"
  # Without what is optional, which is compiled.
  if attempt statsd npm install --silent --omit=optional --prefix "$folder/statsd-$statsd_version" "statsd@$statsd_version"; then
    cat >"$folder/bin/statsd" <<EOF
#!/bin/sh
[ "\$1" = --version ] && echo "StatsD $statsd_version" && exit
exec node "$folder/statsd-$statsd_version/node_modules/statsd/stats.js" "\$@"
EOF
    chmod +x "$folder/bin/statsd"
  fi
fi
