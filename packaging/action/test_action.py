"""Runs the steps of action.yml, and of the workflow that comments, as a runner does.

The steps are taken from the YAML files; expressions are replaced, and bash executes the scripts
with the variables and files of a runner. TACHOGRAPH names the binary to use.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("TACHOGRAPH", str(ROOT / "target/debug/tachograph"))
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")

SERVER = """exec "$TACHOGRAPH" serve-fixture --listen "tcp://127.0.0.1:$1" $(cat flags)
"""


def lookup(expression, contexts):
    """The value of an expression, which is a path such as inputs.base."""
    value = contexts
    for name in expression.split("."):
        value = value.get(name, "") if isinstance(value, dict) else ""
    return str(value)


def outputs(path):
    """The outputs in a file of NAME=VALUE lines."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("=", 1) for line in lines)


class Runner:
    """A folder with a repository and the files of a runner."""

    def __init__(self, test):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tga", dir="/tmp"))
        test.addCleanup(shutil.rmtree, self.folder)
        self.repository = self.folder / "repo"
        self.temp = self.folder / "temp"
        for folder in (self.repository, self.temp, self.folder / "tmp"):
            folder.mkdir()
        self.summary = self.folder / "summary.md"
        self.summary.touch()
        self.git("init", "-q", "-b", "main")
        self.write("serve.sh", SERVER)
        self.write("flags", "--burn 300us")
        self.commit("A server")

    def write(self, name, text):
        (self.repository / name).write_text(text)

    def git(self, *args):
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        done = subprocess.run(
            ["git", *identity, *args], cwd=self.repository, check=True, capture_output=True
        )
        return done.stdout.decode().strip()

    def commit(self, message):
        self.git("add", ".")
        self.git("commit", "-q", "-m", message)

    def environment(self, github):
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        event = self.folder / "event.json"
        event.write_text(json.dumps(github["event"]))
        return {
            **keep,
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": github["event_name"],
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_BASE_REF": github.get("base_ref", ""),
            "GITHUB_REPOSITORY": "owner/name",
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_WORKSPACE": str(self.repository),
            "RUNNER_TEMP": str(self.temp),
            "TMPDIR": str(self.folder / "tmp"),
            "TACHOGRAPH_LOCK_DIR": str(self.folder / "lock"),
            "TACHOGRAPH_RECORD": str(self.folder / "record.sqlite"),
        }

    def action(self, github, inputs, extra=None):
        """Runs the composite action; returns its outputs and the status of its last step."""
        action = yaml.safe_load((ROOT / "action.yml").read_text())
        given = {name: spec.get("default", "") for name, spec in action["inputs"].items()}
        contexts = {
            "inputs": {**given, **inputs},
            "github": {**github, "action_path": str(ROOT)},
            "runner": {"temp": str(self.temp)},
            "steps": {},
        }
        fill = lambda text: EXPRESSION.sub(lambda m: lookup(m[1], contexts), str(text))
        status, said = 0, ""
        for step in action["runs"]["steps"]:
            if "run" not in step or status != 0:
                continue
            assert not EXPRESSION.search(step["run"]), "an expression in a script"
            file = self.folder / f"output-{step['id']}"
            file.touch()
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.repository / fill(step.get("working-directory", ".")),
                env={
                    **self.environment(github),
                    **{name: fill(text) for name, text in step.get("env", {}).items()},
                    **(extra or {}),
                    "GITHUB_OUTPUT": str(file),
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=240,
            )
            status, said = done.returncode, said + (done.stdout + done.stderr).decode()
            contexts["steps"][step["id"]] = {"outputs": outputs(file)}
        results = {name: fill(spec["value"]) for name, spec in action["outputs"].items()}
        return results, status, said


PULL_REQUEST = {
    "event_name": "pull_request",
    "base_ref": "main",
    "event": {"number": 7, "pull_request": {"number": 7, "title": "$(touch hacked)"}},
}
SHORT = "--quick\n--closed-only\n--precision=30%\n"
INPUTS = {"binary": BINARY, "command": "sh serve.sh $PORT", "max-time": "20s", "args": SHORT}


class Action(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.access(BINARY, os.X_OK), f"there is no {BINARY}: cargo build")
        self.runner = Runner(self)
        self.runner.git("update-ref", "refs/remotes/origin/main", "main")
        self.runner.git("switch", "-q", "-c", "change")

    def results(self):
        return self.runner.temp / "tachograph"

    def test_a_slower_pull_request_fails_with_summary_outputs_and_files(self):
        self.runner.write("flags", "--burn 900us")
        self.runner.commit("A `slower` one")
        build = "echo '$(touch hacked) \"quoted\"' > built; test -f built"
        outputs, status, said = self.runner.action(PULL_REQUEST, {**INPUTS, "build": build})
        self.assertEqual(status, 1, said)
        self.assertEqual(outputs["verdict"], "regression", self.runner.summary.read_text())
        self.assertLess(float(outputs["high"]), 0.98)
        self.assertLessEqual(float(outputs["low"]), float(outputs["ratio"]))
        # A busy machine may put a warning's mark before it.
        self.assertRegex(self.runner.summary.read_text(), r"\A\*\*(\S )?Regression beyond 2%\*\*")
        self.assertIn("::error title=tachograph::the head is worse", said)
        result = json.loads((self.results() / "result.json").read_text())
        self.assertEqual(result["diff"]["verdict"], "regression")
        for name in ("smaller-is-better", "bigger-is-better", "bmf"):
            self.assertTrue(json.loads((self.results() / f"{name}.json").read_text()), name)
        self.assertFalse((self.runner.repository / "hacked").exists())
        self.assertEqual(self.runner.git("worktree", "list").count("\n"), 0)

    def test_a_failed_build_and_a_wrong_option_still_write_a_summary(self):
        self.runner.write("flags", "--burn 301us")
        self.runner.commit("A change")
        outputs, status, said = self.runner.action(PULL_REQUEST, {**INPUTS, "build": "exit 9"})
        self.assertEqual((status, outputs["verdict"]), (2, "not_measured"), said)
        self.assertIn("does not build: `exit 9` exited with status 9", self.runner.summary.read_text())
        self.runner.summary.write_text("")
        outputs, status, said = self.runner.action(PULL_REQUEST, {**INPUTS, "args": "--no-such"})
        self.assertEqual((status, outputs["verdict"]), (2, "not_measured"), said)
        self.assertIn("unexpected argument '--no-such'", self.runner.summary.read_text())
        self.assertIn("::error title=tachograph::could not compare", said)

    def test_a_push_is_compared_with_the_commit_before_it(self):
        push = {"event_name": "push", "event": {"before": self.runner.git("rev-parse", "HEAD")}}
        outputs, status, said = self.runner.action(push, INPUTS)
        self.assertEqual((status, outputs["verdict"]), (0, "nothing_to_compare"), said)
        self.assertIn("**Nothing to compare**", self.runner.summary.read_text())
        # A new branch has no commit before it.
        push["event"]["before"] = "0" * 40
        outputs, status, said = self.runner.action(push, INPUTS)
        self.assertEqual((status, outputs["verdict"]), (0, "nothing_to_compare"), said)

    def test_a_release_is_installed_only_with_its_checksum(self):
        releases = self.runner.folder / "releases/download/v0.1.0"
        releases.mkdir(parents=True)
        machine = os.uname().machine
        archive = releases / f"tachograph-0.1.0-{machine}-linux.tar.gz"
        program = self.runner.folder / "tachograph"
        program.write_text("#!/bin/sh\necho verdict=no_regression\nexit 0\n")
        program.chmod(0o755)
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(program, "tachograph-0.1.0/tachograph")
        sum_file = archive.with_name("SHA256SUMS")
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        sum_file.write_text(f"{'1' * 64}  tachograph.deb\n{digest}  {archive.name}\n")
        inputs = {**INPUTS, "binary": "", "version": "0.1.0"}
        extra = {"TG_RELEASES": f"file://{self.runner.folder}/releases"}
        _, status, said = self.runner.action(PULL_REQUEST, inputs, extra)
        self.assertEqual(status, 0, said)
        sum_file.write_text(f"{'0' * 64}  {archive.name}\n")
        _, status, said = self.runner.action(PULL_REQUEST, inputs, extra)
        self.assertEqual(status, 2)
        self.assertIn("the checksum of", said)
        _, status, said = self.runner.action(PULL_REQUEST, {**inputs, "version": "9.9.9"}, extra)
        self.assertEqual(status, 2)
        self.assertIn("cannot download", said)
        _, status, said = self.runner.action(PULL_REQUEST, {**inputs, "version": "$(id)"}, extra)
        self.assertIn("is no version", said)


GH = """#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys
folder = pathlib.Path(os.environ["FAKE_GH"])
arguments = sys.argv[1:]
with open(folder / "calls", "a") as calls:
    calls.write(json.dumps(arguments) + "\\n")
if arguments[:2] == ["run", "download"]:
    artifact = folder / "artifact"
    if not artifact.exists():
        sys.exit("no artifact matches any of the names or patterns provided")
    artifact.rename(arguments[arguments.index("--dir") + 1])
    sys.exit()
is_write = "POST" in arguments or "PATCH" in arguments
if is_write and (folder / "forbidden").exists():
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
if not is_write:
    answer = "pulls" if arguments[-1].startswith("map") else "comments"
    text = (folder / answer).read_text()
    query = arguments[arguments.index("--jq") + 1]
    subprocess.run(["jq", "-r", query], input=text.encode(), check=True)
"""


class Comment(unittest.TestCase):
    """The workflow that comments, with a command gh that records how it is called."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tgc", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "bin").mkdir()
        program = self.folder / "bin/gh"
        program.write_text(GH)
        program.chmod(0o755)
        self.artifact("**No regression beyond 2%**: thanks @everyone `$(touch hacked)`\n")
        self.answer("pulls", [{"number": 7, "head": {"sha": "abc"}}])
        self.answer("comments", [{"id": 1, "user": {"type": "User"}, "body": "<!-- tachograph -->"}])

    def artifact(self, summary):
        (self.folder / "artifact").mkdir()
        (self.folder / "artifact/summary.md").write_text(summary)

    def answer(self, name, value):
        (self.folder / name).write_text(json.dumps(value))

    def comment(self):
        path = ROOT / "packaging/action/workflows/tachograph-comment.yml"
        workflow = yaml.safe_load(path.read_text())
        (step,) = workflow["jobs"]["comment"]["steps"]
        run = {"head_branch": "a;touch hacked", "head_sha": "abc", "id": 5}
        run["head_repository"] = {"owner": {"login": "fork"}}
        contexts = {"github": {"token": "secret", "event": {"workflow_run": run}}}
        self.assertIsNone(EXPRESSION.search(step["run"]))
        values = step["env"].items()
        env = {k: EXPRESSION.sub(lambda m: lookup(m[1], contexts), v) for k, v in values}
        temp = tempfile.mkdtemp(dir=self.folder)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={
                **env,
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                "RUNNER_TEMP": temp,
                "GITHUB_REPOSITORY": "owner/name",
                "FAKE_GH": str(self.folder),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        calls = (self.folder / "calls").read_text().splitlines()
        body = pathlib.Path(temp, "body.md")
        text = body.read_text() if body.exists() else None
        said = (done.stdout + done.stderr).decode()
        return done.returncode, said, [json.loads(call) for call in calls], text

    def test_one_comment_is_made_and_then_updated(self):
        status, said, calls, body = self.comment()
        self.assertEqual(status, 0, said)
        self.assertIn("repos/owner/name/issues/7/comments", calls[-1])
        self.assertIn("POST", calls[-1])
        self.assertIn("head=fork:a;touch hacked", calls[1])
        self.assertTrue(body.startswith("<!-- tachograph -->\n**No regression"))
        self.assertNotIn("@everyone", body, "nobody is notified")
        self.assertIn("everyone `$(touch hacked)`", body)
        self.assertFalse(list(self.folder.rglob("hacked")))

        self.artifact("**Undecided**\n")
        own = {"id": 9, "user": {"type": "Bot"}, "body": "<!-- tachograph -->\nolder"}
        self.answer("comments", [own])
        status, said, calls, _ = self.comment()
        self.assertEqual(status, 0, said)
        self.assertIn("PATCH", calls[-1])
        self.assertIn("repos/owner/name/issues/comments/9", calls[-1])

    def test_a_missing_permission_is_named(self):
        (self.folder / "forbidden").touch()
        status, said, _, _ = self.comment()
        self.assertEqual(status, 1)
        self.assertIn("the workflow needs 'permissions: pull-requests: write'", said)

    def test_without_an_artifact_or_pull_request_there_is_no_comment(self):
        self.answer("pulls", [{"number": 7, "head": {"sha": "newer"}}])
        status, said, calls, body = self.comment()
        self.assertEqual((status, body), (0, None), said)
        self.assertIn("no open pull request has the commit abc", said)
        status, said, _, _ = self.comment()
        self.assertEqual(status, 0)
        self.assertIn("has no artifact 'tachograph'", said)


class Files(unittest.TestCase):
    def test_no_script_contains_an_expression(self):
        files = [ROOT / "action.yml", *ROOT.glob("packaging/action/workflows/*.yml")]
        self.assertEqual(len(files), 3)
        for file in files:
            document = yaml.safe_load(file.read_text())
            jobs = document.get("jobs", {"": document.get("runs")})
            for step in [step for job in jobs.values() for step in job["steps"]]:
                self.assertIsNone(EXPRESSION.search(step.get("run", "")), file)
                self.assertIn("run" if "shell" in step else "uses", step)

    def test_the_recipes_are_valid_yaml(self):
        page = (ROOT / "docs/ci.md").read_text()
        recipes = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        self.assertGreaterEqual(len(recipes), 2)
        for recipe in recipes:
            self.assertIsInstance(yaml.safe_load(recipe), dict)

    def test_every_input_reaches_a_step(self):
        text = (ROOT / "action.yml").read_text()
        for name in yaml.safe_load(text)["inputs"]:
            self.assertIn("inputs." + name, text)


if __name__ == "__main__":
    unittest.main()
