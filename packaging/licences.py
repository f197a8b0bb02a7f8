"""Print the licences of everything that is compiled into the binary.

usage: packaging/licences.py TARGET

Reads `cargo metadata` for the target, and the licence files in the sources of
each package. A text that several packages share is printed once.
"""

import json
import subprocess
import sys
from pathlib import Path

NAMES = ("licen", "copying", "notice", "copyright", "unlicense")


def packages(target, wanted=frozenset({None})):
    """Our binary's dependencies from registries: what is linked, not what builds or tests it, unless
    `wanted` has more kinds of cargo's."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", target]
    data = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    by_id = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    todo = [key for key, package in by_id.items() if package["name"] == "tachograph"]
    seen = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            if kinds & wanted and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    outside = (by_id[key] for key in seen if by_id[key]["source"])
    return sorted(outside, key=lambda package: (package["name"], package["version"]))


def texts(package):
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.name.lower().startswith(NAMES))
    # Where a package offers a choice that includes MIT, that is the one. Tables of Unicode have a
    # licence of their own beside it.
    if "OR" in (package["license"] or ""):
        chosen = ("mit", "unicode")
        files = [path for path in files if any(name in path.name.lower() for name in chosen)] or files
    return [path.read_text(errors="replace").strip() for path in files if path.is_file()]


def main():
    users = {}
    print("tachograph contains the following packages, each under its own licence.\n")
    for package in packages(sys.argv[1]):
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license'] or 'see its text'}")
        for text in texts(package):
            users.setdefault(text, []).append(name)
    uplot = Path(__file__).parent.parent / "web" / "uplot" / "LICENSE"
    print("uPlot: MIT\nSQLite: public domain")
    users.setdefault(uplot.read_text().strip(), []).append("uPlot")
    for text, names in users.items():
        print(f"\n{'=' * 72}\n{', '.join(names)}\n{'-' * 72}\n{text}")


if __name__ == "__main__":
    main()
