"""Reduce the folder that `cargo vendor --versioned-dirs` made to what builds tachograph on Linux, and
describe it for Debian.

usage: packaging/vendor.py FOLDER COPYRIGHT

Of packages that are linked into the program or build it, tests, benchmarks and
examples go, and files that are not source. Of the others only the description
stays: cargo reads it, and never builds them. Then appends to COPYRIGHT who
wrote the packages, and their licences (machine-readable format 1.0).
"""

import json
import re
import shutil
import sys
from pathlib import Path

from licences import NAMES, packages

TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
# Prebuilt parts for other systems, and folders that no build reads.
BINARIES = {".a", ".dll", ".dylib", ".exe", ".jar", ".lib", ".o", ".obj", ".so", ".wasm"}
UNREAD = {"benches", "bench", "benchmarks", "ci", "doc", "docs", "examples", "fuzz", "test", "test-data", "test_data",
          "testdata", "tests"}
# Debian has these texts in /usr/share/common-licenses.
COMMON = ("Apache-2.0", "CC0-1.0", "MPL-2.0")
# Apache's licence with an exception, and the word with which the exception begins in its text.
EXCEPTION = {"Apache-2.0 WITH LLVM-exception": "--- LLVM Exceptions"}
# A word in the name of the file that has the text of a licence, where it is not the licence's own.
WORDS = {"Apache-2.0 WITH LLVM-exception": "llvm", "BSL-1.0": "boost"}


def keep_description(folder):
    """Leave of a package what cargo reads of one that it does not build."""
    for path in folder.iterdir():
        if path.name not in ("Cargo.toml", ".cargo-checksum.json"):
            remove(path)
    # What a manifest names must be there.
    manifest = (folder / "Cargo.toml").read_text()
    for name in {"src/lib.rs", *re.findall(r'^path = "([^"]+\.rs)"$', manifest, re.M)}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def keep_source(folder, package):
    """Leave of a package what builds it."""
    used = {Path(target["src_path"]).relative_to(Path(package["manifest_path"]).parent).parts[0]
            for target in package["targets"] if {"lib", "proc-macro", "custom-build"} & set(target["kind"])}
    # Documentation may include an example.
    code = "".join(path.read_text(errors="replace") for path in folder.rglob("*.rs"))
    included = set(re.findall(r'include\w*!\(\s*"(?:\.\./)*(\w+)/', code))
    for path in folder.iterdir():
        if path.is_dir() and path.name in UNREAD - used - included or path.name.startswith(".git"):
            remove(path)
    for path in list(folder.rglob("*")):
        if path.is_file() and path.suffix in BINARIES | {".orig"}:
            path.unlink()


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def forget_sums(folder):
    """Cargo compares only files that have a sum."""
    sums = folder / ".cargo-checksum.json"
    sums.write_text(json.dumps({"files": {}, "package": json.loads(sums.read_text())["package"]}))


def licence_files(folder):
    return sorted(p for p in folder.iterdir() if p.is_file() and p.name.lower().startswith(NAMES))


def holders(folder, package):
    """Who has the copyright: as the licence says, or else the authors of the manifest."""
    lines = []
    for path in licence_files(folder):
        for line in path.read_text(errors="replace").splitlines():
            found = re.match(r"\s*Copyright\s+(?:\(c\)\s+|©\s+)?((?:\d{4}|The |the ).*)", line, re.I)
            if found and "[yyyy]" not in line and "{yyyy}" not in line:
                lines.append(found.group(1).strip().rstrip("."))
    authors = [re.sub(r"\s*<.*>", "", author) for author in package["authors"]]
    named = list(dict.fromkeys(lines)) or list(dict.fromkeys(authors))
    return named or [f"the authors of {package['name']}"]


def expression(spdx):
    """An expression of SPDX in Debian's words: `A or B, and C`."""
    text = " ".join((spdx or "").replace("/", " OR ").split())
    text = re.sub(r"\(([^()]* OR [^()]*)\) AND ", r"\1, AND ", text)
    text = re.sub(r" AND \(([^()]*)\)", r", AND \1", text)
    if "(" in text:
        sys.exit(f"error: vendor.py cannot write the licence '{spdx}' in Debian's words")
    text = text.replace(" WITH LLVM-exception", " with LLVM exception")
    return text.replace(" OR ", " or ").replace(" AND ", " and ")


def ids(spdx):
    """The licences that an expression names."""
    words = re.split(r" OR | AND |/|[()]", spdx or "")
    return {word.strip() for word in words if word.strip()}


def text_of(licence, vendored):
    """The text of a licence, as a package has it that is under this one alone, or in a file named for it."""
    word = WORDS.get(licence, licence.split("-")[0]).lower()
    users = [(folder, p) for folder, p in vendored if licence in ids(p["license"])]
    alone = [path for folder, p in users if len(ids(p["license"])) == 1 for path in licence_files(folder)]
    named = [path for folder, _ in users for path in licence_files(folder) if word in path.name.lower()]
    for path in alone + named:
        return path.read_text(errors="replace")
    users = ", ".join(package["name"] for _, package in users)
    sys.exit(f"error: no package has the text of the licence {licence}; it is that of {users}")


def indented(text):
    lines = (line.rstrip() for line in text.strip().replace("\t", "    ").splitlines())
    return "".join(f" {line or '.'}\n" for line in lines)


def main():
    folder, copyright_file = Path(sys.argv[1]), Path(sys.argv[2])
    built = {}
    for target in TARGETS:
        for package in packages(target, {None, "build"}):
            built[f"{package['name']}-{package['version']}"] = package
    vendored = []
    for path in sorted(folder.iterdir()):
        forget_sums(path)
        if path.name in built:
            keep_source(path, built[path.name])
            vendored.append((path, built[path.name]))
        else:
            keep_description(path)
    missing = set(built) - {path.name for path, _ in vendored}
    if missing:
        sys.exit(f"error: {folder} lacks {', '.join(sorted(missing))}")
    out = []
    for path, package in vendored:
        lines = "\n           ".join(holders(path, package))
        out.append(f"Files: vendor/{path.name}/*\nCopyright: {lines}\nLicense: {expression(package['license'])}\n")
        if package["name"] == "libsqlite3-sys":
            out.append(f"Files: vendor/{path.name}/sqlite3/*\nCopyright: none\nLicense: public-domain\n")
    names = set().union(*(ids(package["license"]) for _, package in vendored)) | {"MIT", "Apache-2.0"}
    mit = (Path(__file__).parent.parent / "LICENSE-MIT").read_text()
    for name in sorted(names):
        where = "On Debian systems, the text of this licence is in\n/usr/share/common-licenses/"
        if name in COMMON:
            text = f"{where}{name}."
        elif name in EXCEPTION:
            _, exception = text_of(name, vendored).split(EXCEPTION[name])
            text = f"{where}Apache-2.0, and this exception is added:\n{EXCEPTION[name]}{exception}"
        else:
            text = mit.split("\n\n", 1)[1] if name == "MIT" else text_of(name, vendored)
        out.append(f"License: {expression(name)}\n{indented(text)}")
    with copyright_file.open("a") as to:
        to.write("\n" + "\n".join(out))
    print(f"{len(vendored)} packages with their source, {sum(1 for _ in folder.iterdir()) - len(vendored)} with their description")


if __name__ == "__main__":
    main()
