#!/usr/bin/env bash
# Builds the image from OUT/image with the engine at DOCKER_HOST and runs a comparison in it:
# OUT=… PLACE=… VERSION=… packaging/image/try.sh COMPARE-ARGUMENTS…
set -euo pipefail
image=tachograph:$VERSION
data=$PLACE/image
mkdir -p "$data"
since() { python3 -c "print(f'{($(date +%s%N) - $1) / 1e9:.1f} s')"; }

start=$(date +%s%N)
docker build --quiet --tag "$image" "$OUT/image"
docker run --rm "$image" --version
since "$start" >"$data/installed"
docker run --rm --network host --volume "$data:/data" "$image" compare --export-json /data/image.json "$@"
since "$start" >"$data/verdict"
docker image inspect --format '{{.Size}}' "$image" | numfmt --to=iec >"$data/size"

echo "the recorder in one container, a client in another"
name=tachograph-try-$$
docker run --rm --detach --name "$name" "$image" serve --http 127.0.0.1:8086 >/dev/null
trap 'docker kill "$name" >/dev/null 2>&1 || true' EXIT
for _ in $(seq 100); do
  docker run --rm --network "container:$name" "$image" load -n 1 http://127.0.0.1:8086/ >/dev/null 2>&1 && break
  docker inspect "$name" >/dev/null
done
docker run --rm --network "container:$name" "$image" load -n 1000 --expect-status 200 http://127.0.0.1:8086/
started=$(date +%s)
docker stop "$name" >/dev/null
echo "stopped after $(($(date +%s) - started)) s"
