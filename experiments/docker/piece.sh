#!/bin/sh
# Runs a command with some of what makes up a container, to see what each of it costs.
#
#     sh piece.sh groups=cpu,cpuacct COMMAND…    in control groups of these controllers
#     sh piece.sh namespaces COMMAND…            in namespaces of mounts, names, IPC, processes, network
#
# Groups are nested as an engine nests a container's: one of its own within one for all. They are
# those of the first version of control groups, in which each controller has its own; in the
# second, tachograph's own group for every stack has the same controllers. Needs root.
set -eu
piece=$1
shift
child=
groups=
end() {
  [ -z "$child" ] || kill -s "$ending" "$child" 2>/dev/null || true
}
# Our groups, once their last process has ended, and those that a killed one of us has left.
remove() {
  for group in $groups /sys/fs/cgroup/*/tachograph-piece/*; do
    [ "${group##*/}" != $$ ] && [ -e "/proc/${group##*/}" ] || rmdir "$group" 2>/dev/null || true
  done
  rmdir /sys/fs/cgroup/*/tachograph-piece 2>/dev/null || true
}
trap end TERM INT
trap remove EXIT

case $piece in
  groups=*)
    ending=TERM
    for controller in $(echo "${piece#groups=}" | tr , ' '); do
      root=/sys/fs/cgroup/$controller
      group=$root/tachograph-piece/$$
      # Another of us may remove the outer group at this moment.
      mkdir -p "$group" || mkdir -p "$group"
      # A group of CPUs is unusable until it says which.
      if [ "$controller" = cpuset ]; then
        for of in "${group%/*}" "$group"; do
          cat "$root/cpuset.cpus" >"$of/cpuset.cpus"
          cat "$root/cpuset.mems" >"$of/cpuset.mems"
        done
      fi
      groups="$groups $group"
    done
    (
      own=$(exec sh -c 'echo $PPID')
      for group in $groups; do echo "$own" >"$group/cgroup.procs"; done
      exec "$@"
    ) &
    ;;
  namespaces)
    # The first process of its namespace ends when the one before it does.
    ending=KILL
    unshare --mount --uts --ipc --net --pid --mount-proc --fork --kill-child=TERM "$@" &
    ;;
  *)
    echo "piece.sh: '$piece' is neither groups=… nor namespaces" >&2
    exit 2
    ;;
esac
child=$!
status=0
wait "$child" || status=$?
# A signal interrupts the first wait.
while kill -0 "$child" 2>/dev/null; do wait "$child" || status=$?; done
exit $status
