#!/usr/bin/env bash
# Runs a command with a Docker Engine: the running one or, as root, one started only for it;
# with ENGINE=podman a Podman started only for it.
#
#     scripts/with-docker.sh tachograph run docker
#     ENGINE=podman scripts/with-docker.sh tachograph run docker
#     USERLAND_PROXY=false scripts/with-docker.sh tachograph run docker --only forwarded
#
# An engine started here runs with the command in separate network and mount namespaces,
# because its packet filter rules would slow down all TCP on the machine, and would remain.
# The namespaces have no access to the network, so anything that the command needs from it
# (Python packages) must have been downloaded before.
set -euo pipefail

answers() { curl -fsS --max-time 5 --unix-socket "$1" http://localhost/_ping >/dev/null 2>&1; }

engine=${ENGINE:-docker}
if [ -z "${WITH_DOCKER_INSIDE:-}" ]; then
  if [ "$engine" = docker ] && { [ -n "${DOCKER_HOST:-}" ] || answers /var/run/docker.sock; }; then
    exec "$@"
  fi
  if [ "$engine" = podman ] && { [ "$(id -u)" -ne 0 ] || ! command -v podman >/dev/null; }; then
    echo "Starting Podman needs root and Podman itself (sudo apt install podman)." >&2
    exit 2
  fi
  if [ "$engine" = docker ] && { [ "$(id -u)" -ne 0 ] || ! command -v dockerd >/dev/null; }; then
    echo "No Docker Engine answers. Start one (sudo systemctl start docker), install it" >&2
    echo "(sudo apt install docker.io) or set DOCKER_HOST." >&2
    exit 2
  fi
  WITH_DOCKER_INSIDE=1 exec unshare --net --mount --propagation private "$0" "$@"
fi
unset WITH_DOCKER_INSIDE
ip link set lo up
folder=$(mktemp -d)
socket=$folder/docker.sock
# An engine that is stopped while writing leaves files in its temporary folder.
mkdir "$folder/tmp"
case $engine in
  docker)
    TMPDIR="$folder/tmp" dockerd --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/pid" \
      --userland-proxy="${USERLAND_PROXY:-true}" --host "unix://$socket" >"$folder/log" 2>&1 &
    ;;
  podman)
    TMPDIR="$folder/tmp" podman --root "$folder/data" --runroot "$folder/exec" --cgroup-manager cgroupfs \
      --network-config-dir "$folder/networks" \
      system service --time 0 "unix://$socket" >"$folder/log" 2>&1 &
    ;;
  *)
    echo "ENGINE must be docker or podman, not '$engine'" >&2
    exit 2
    ;;
esac
service=$!
cleanup() {
  kill "$service" 2>/dev/null || true
  wait "$service" 2>/dev/null || true
  umount "$folder"/data/overlay2/*/merged "$folder"/data/overlay/*/merged "$folder"/data/overlay \
    "$folder"/exec/netns/* 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT
for _ in $(seq 100); do
  answers "$socket" && break
  if ! kill -0 "$service" 2>/dev/null; then
    tail -5 "$folder/log" >&2
    exit 2
  fi
  sleep 0.1
done
status=0
DOCKER_HOST="unix://$socket" "$@" || status=$?
exit $status
