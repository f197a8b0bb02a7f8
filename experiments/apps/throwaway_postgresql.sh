#!/bin/sh
# A temporary PostgreSQL in the folder $1, on a Unix socket in that folder.
# Its data is disposable, so it never waits for the disk.
set -eu
folder=$1
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
PATH="$PATH${programs:+:$programs}"
mkdir -p "$folder"
as_postgres=
if [ "$(id -u)" -eq 0 ]; then
    # PostgreSQL refuses to be run by root.
    chown postgres "$folder"
    as_postgres="setpriv --reuid postgres --regid postgres --clear-groups"
fi
cd "$folder"
$as_postgres initdb --no-sync --auth trust --username postgres --encoding UTF8 --locale C -D "$folder/data" >&2
exec $as_postgres postgres -D "$folder/data" -k "$folder" \
    -c listen_addresses= -c fsync=off -c synchronous_commit=off -c full_page_writes=off
