//! `tachograph diff`: two commits of a repository, checked out, built and compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::far;
use crate::support::{
    self, Ended, Place, TACHOGRAPH, adds_up, assert_valid, eventually, holds_within,
    processes_with_environment, turn, wait,
};

/// Starts the fixture with the flags in the file `flags`.
const SERVER: &str = "exec \"$TACHOGRAPH\" serve-fixture --listen \"tcp://127.0.0.1:$1\" \
    --served-file served $(cat flags)\n";

const SERVE: &str = "sh serve.sh $PORT";

/// Flags of another server, whose speed does not matter.
const OTHER: &str = "--delay-every 1 --delay 6ms";

/// Flags of a server that is a third as fast. Both use a whole CPU, so that the hypervisor takes the same
/// share of it from both.
pub(crate) const SLOWER: &str = "--burn 900us";

/// A short measurement; six blocks take half of its time unless the machine is busy.
const SHORT: [&str; 6] = ["--quick", "--closed-only", "--precision", "30%", "--max-time", "60s"];

/// A repository in the place's folder `repo`, with one commit on `main`, and `change` checked out.
pub(crate) struct Repo {
    pub(crate) place: Place,
}

impl Repo {
    pub(crate) fn new() -> Repo {
        let repo = Repo { place: Place::new() };
        std::fs::create_dir(repo.root()).unwrap();
        repo.git(&["init", "-q", "-b", "main"]);
        repo.write("serve.sh", SERVER);
        repo.write("flags", "--burn 300us");
        repo.write(".gitignore", "ignored\n");
        std::fs::create_dir(repo.root().join("api")).unwrap();
        repo.write("api/name", "A folder.\n");
        repo.commit("A server");
        repo.git(&["switch", "-q", "-c", "change"]);
        repo
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.place.path("repo")
    }

    fn git(&self, args: &[&str]) -> String {
        git(&self.root(), args)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.root().join(name), text).unwrap();
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "-m", message]);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(&[&["diff"], args].concat());
        command.current_dir(self.root());
        command
    }

    fn diff(&self, args: &[&str]) -> Ended {
        self.place.finish(self.command(args))
    }

    /// The same with [`SHORT`].
    fn measure(&self, args: &[&str]) -> Ended {
        self.diff(&[&SHORT, args].concat())
    }

    /// Fails if anything of a run is left, in the repository or elsewhere.
    #[track_caller]
    fn is_clean(&self) {
        let left = || {
            let kept = self.root().join(".git/worktrees").exists();
            (kept, self.place.leftovers())
        };
        let clean = || left() == (false, Vec::new());
        assert!(holds_within(Duration::from_secs(60), clean), "left behind: {:?}", left());
        assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1);
    }
}

fn git(folder: &Path, args: &[&str]) -> String {
    let ended = Command::new("git")
        .args(["-c", "user.name=test", "-c", "user.email=test@localhost"])
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ended.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

#[test]
fn a_slower_head_fails_and_every_export_holds_it() {
    let _turn = turn();
    let repo = Repo::new();
    repo.write("flags", SLOWER);
    repo.commit("Slower | by *10* ms");
    // Neither is measured nor touched.
    repo.write("flags", "--burn 1us");
    repo.git(&["add", "flags"]);
    let before = (repo.git(&["status", "--porcelain"]), repo.git(&["for-each-ref"]));
    let ended = repo.measure(&[
        "--build",
        "mkdir -p built && cp flags built/",
        "--served-by",
        "counter_file=served",
        "--json",
        "--export-markdown",
        "../r.md",
        "--export-env",
        "../env",
        "--export-bmf",
        "../bmf.json",
        "--export-smaller-is-better",
        "../smaller.json",
        "--export-bigger-is-better",
        "../bigger.json",
        SERVE,
    ]);
    ended.status(1).says("warning: 1 file has uncommitted changes, which are not measured");
    assert_eq!((repo.git(&["status", "--porcelain"]), repo.git(&["for-each-ref"])), before);
    repo.is_clean();

    let json = ended.json();
    assert_valid("compare-2.json", &json);
    let diff = &json["diff"];
    assert_eq!(diff["verdict"], "regression");
    assert_eq!(diff["head"]["commit"], repo.git(&["rev-parse", "HEAD"]).trim());
    assert_eq!(diff["base"]["subject"], "A server");
    let ledger = &json["variants"][1]["ledger"];
    assert_eq!(ledger["served"], ledger["completed"], "the count of the file in the worktree");

    let read = |name: &str| std::fs::read_to_string(repo.place.path(name)).unwrap();
    let markdown = read("r.md");
    // On a busy machine a warning may weaken the verdict, which then has a mark.
    let answer = markdown.replacen("**⚠ ", "**", 1);
    assert!(answer.starts_with("**Regression beyond 2%**: throughput 0."), "{markdown}");
    assert!(markdown.contains("Slower \\| by \\*10\\* ms"), "{markdown}");
    assert!(markdown.contains("<details>") && markdown.ends_with("</details>\n"), "{markdown}");
    let env = read("env");
    assert!(env.starts_with("verdict=regression\nmetric=throughput\nratio=0."), "{env}");

    let parsed = |name: &str| serde_json::from_str::<serde_json::Value>(&read(name)).unwrap();
    let bmf = parsed("bmf.json");
    let throughput = &bmf[SERVE]["throughput"];
    let figure = |of: &str| throughput[of].as_f64().unwrap();
    assert!(figure("lower_value") < figure("value") && figure("value") < figure("upper_value"));
    for (file, names) in
        [("bigger.json", &["throughput"][..]), ("smaller.json", &["p50", "p99", "CPU per request"])]
    {
        let entries = parsed(file);
        for name in names {
            let entry = entries.as_array().unwrap().iter().find(|entry| entry["name"] == **name);
            let entry = entry.unwrap_or_else(|| panic!("{name} is not in {entries}"));
            assert!(entry["value"].as_f64().unwrap() > 0.0 && entry["unit"].is_string(), "{entry}");
        }
    }
}

/// Fails unless head, which is a third as fast, completed far fewer requests in the same time.
#[track_caller]
pub(crate) fn is_slower(json: &serde_json::Value) {
    let [base, head] = [0, 1].map(|variant| &json["variants"][variant]["ledger"]["completed"]);
    assert!(base.as_u64() > head.as_u64().map(|head| head * 3 / 2), "{base} and {head}");
    assert_ne!(json["diff"]["verdict"], "no_regression");
}

#[test]
fn clients_on_another_machine_load_both_commits() {
    let repo = Repo::new();
    repo.write("flags", SLOWER);
    repo.commit("Slower");
    let short = ["--quick", "--closed-only", "--max-time", "4s"];
    let further = ["--served-by", "counter_file=served", "--from", "client", "--json", SERVE];
    let mut command = repo.command(&[&short[..], &further].concat());
    far::here(&mut command, &repo.place, "diff-from");
    let ended = repo.place.finish(command);
    let json = ended.measured().json();
    adds_up(&json);
    is_slower(&json);
    let client = &json["parts"][0]["layout"]["machines"][1];
    assert_eq!((&client["name"], &client["is_client"]), (&"client".into(), &true.into()));
    repo.is_clean();
}

/// A comparison on the machine `server`, whose files are in the place's folder `far`.
fn far_command(repo: &Repo, marker: &str, args: &[&str]) -> Command {
    let short = ["--quick", "--closed-only", "--max-time", "4s", "--on", "server"];
    let mut command = repo.command(&[&short[..], args].concat());
    far::here(&mut command, &repo.place, marker);
    command.env("OUT", repo.place.path("out"));
    command
}

/// Fails if anything is left on that machine.
#[track_caller]
fn nothing_there(repo: &Repo) {
    let left = || std::fs::read_dir(repo.place.path("far")).unwrap().count();
    assert!(holds_within(Duration::from_secs(60), || left() == 0), "{} folders are left", left());
}

#[test]
fn both_commits_are_built_and_served_on_another_machine() {
    let repo = Repo::new();
    repo.write("flags", SLOWER);
    // More than one message has, of what cannot be compressed.
    let mut state = 1_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let large: Vec<u8> = (0..9 << 20).map(|_| byte()).collect();
    std::fs::write(repo.root().join("large"), large).unwrap();
    repo.commit("Slower");
    let build = "pwd >> $OUT; git log --oneline | wc -l >> $OUT; git status --porcelain >> $OUT";
    let counted = ["--served-by", "counter_file=served", "--build", build, "--json"];
    let counted = [&counted[..], &["--prepare", "pwd >> $OUT.prepared"]].concat();
    let ended = repo.place.finish(far_command(&repo, "built", &[&counted[..], &[SERVE]].concat()));
    ended.says("building base ").says(" on server: pwd");
    let json = ended.measured().json();
    adds_up(&json);
    is_slower(&json);
    let machine = &json["parts"][0]["layout"]["machines"][1];
    assert_eq!(machine["name"], "server");
    assert_eq!(machine["stacks"], serde_json::json!(["base", "head"]));
    // Each is a whole checkout of one commit, there.
    let out = std::fs::read_to_string(repo.place.path("out")).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    let [base, one, head, also_one] = lines[..] else { panic!("{out}") };
    let far = repo.place.path("far").display().to_string();
    assert!(base.starts_with(&far) && head.starts_with(&far) && base != head, "{out}");
    assert_eq!((one.trim(), also_one.trim()), ("1", "1"), "without history");
    let prepared = std::fs::read_to_string(repo.place.path("out.prepared")).unwrap();
    assert!(prepared.lines().all(|line| line == base || line == head), "{prepared}");
    repo.is_clean();
    nothing_there(&repo);
}

#[test]
fn what_cannot_be_built_on_another_machine_is_said_with_its_name() {
    let repo = Repo::new();
    repo.write("flags", OTHER);
    repo.commit("Other");
    for (args, message) in [
        (&["--build", "false", SERVE][..], "(A server) does not build on server: `false` exited"),
        (&["--dirty", SERVE], "only commits are sent to server: commit the changes, or leave out"),
        (&["serve -b 127.0.0.1:$PORT"], "listens on a loopback address, which other machines"),
    ] {
        let ended = repo.place.finish(far_command(&repo, "refused", args));
        ended.status(2).says(message);
        repo.is_clean();
    }
    // The end of it in the middle of a build there.
    for (signal, status) in [(Signal::INT, Some(2)), (Signal::KILL, None)] {
        let marker = support::marker("build");
        let build = ["--build", "touch $OUT; sleep 500", SERVE];
        let mut command = far_command(&repo, &marker, &build);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("the build", || repo.place.path("out").exists());
        support::signal(child.id(), signal);
        assert_eq!(wait(child, Duration::from_secs(60)).status, status);
        let gone = || processes_with_environment(&marker).is_empty();
        assert!(holds_within(Duration::from_secs(60), gone), "processes are left");
        std::fs::remove_file(repo.place.path("out")).unwrap();
        repo.is_clean();
        nothing_there(&repo);
    }
}

#[test]
fn uncommitted_changes_are_measured_on_request_in_a_folder_with_other_conditions() {
    let _turn = turn();
    let repo = Repo::new();
    // On the base itself there is nothing to compare but them.
    repo.diff(&[SERVE]).status(0).says("nothing to compare:").says("--dirty");
    repo.write("flags", SLOWER);
    repo.write("new", "a new file");
    repo.write("ignored", "an ignored one");
    // The folder is that of the worktree; the user's own conditions replace the default ones.
    let build = "test -e name && cd .. && test ! -e ignored && \
                 echo $(test -e new && echo new), $(cat flags) >> $OUT";
    let serve = "test -e name && cd .. && sh serve.sh $PORT";
    let own = ["--dirty", "--fail-if", "head.failed > 0", "--build", build, serve];
    let in_api = || {
        let mut command =
            repo.command(&[&SHORT, &own[..], &["--export-json", "../../r.json"]].concat());
        command.current_dir(repo.root().join("api"));
        command
    };
    // Without OUT, the redirection of the build fails.
    repo.place.finish(in_api()).status(2).says("does not build");
    let mut command = in_api();
    command.env("OUT", repo.place.path("out"));
    let ended = repo.place.finish(command);
    ended.status(0).prints("Passed: not triggered: head.failed > 0 (failed of head: 0).");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(repo.place.path("r.json")).unwrap()).unwrap();
    assert_eq!(json["diff"]["head"]["dirty"], true);
    assert!(json["comparisons"][0]["high"].as_f64() < Some(0.7), "{}", json["comparisons"][0]);
    let out = std::fs::read_to_string(repo.place.path("out")).unwrap();
    assert_eq!(out, format!(", --burn 300us\nnew, {SLOWER}\n"));
    assert_eq!(repo.git(&["status", "--porcelain"]), " M flags\n?? new\n");
    repo.is_clean();
}

#[test]
fn what_cannot_be_compared_is_one_sentence_with_a_remedy() {
    let repo = Repo::new();
    repo.write("flags", OTHER);
    repo.commit("A change");
    let short = repo.git(&["rev-parse", "--short", "HEAD"]).trim().to_owned();
    let fails = |args: &[&str], sentences: &[&str]| {
        let ended = repo.diff(args);
        ended.status(2);
        for sentence in sentences {
            ended.says(sentence);
        }
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        repo.is_clean();
    };
    fails(&["nowhere", SERVE], &["there is no commit 'nowhere' in this repository"]);
    fails(&["--dirty", "main", "HEAD", SERVE], &["cannot be combined with a HEAD"]);
    fails(&["http://127.0.0.1:80/"], &["tachograph compare URL URL"]);
    fails(&["--fail-if", "new.p99 > 1", SERVE], &["new"]);
    fails(
        &["--build", "echo one; echo two >&2; exit 3", SERVE],
        &["error: base ", "(A server) does not build", "exited with status 3", "| one", "| two"],
    );
    fails(
        &["--build", "grep -q 300us flags", SERVE],
        &[&format!("error: head {short} (A change) does not build: `grep -q 300us flags`")],
    );
    fails(
        &["--build", "sleep 600", "--build-timeout", "1s", SERVE],
        &["took longer than 1.00 s; --build-timeout allows more"],
    );
    std::fs::create_dir(repo.root().join("new")).unwrap();
    repo.write("new/name", "A folder.\n");
    repo.commit("A folder");
    let mut command = repo.command(&["HEAD^", SERVE]);
    command.current_dir(repo.root().join("new"));
    let ended = repo.place.finish(command);
    ended.status(2).says("has no folder new; run diff in a folder that both");
    repo.git(&["switch", "-q", "--orphan", "elsewhere"]);
    repo.write("file", "");
    repo.commit("Elsewhere");
    fails(&["main", "HEAD", SERVE], &["main and HEAD have no common ancestor"]);
    repo.git(&["branch", "-m", "main", "trunk"]);
    fails(&[SERVE], &["there is no main branch to compare with", "tachograph diff BASE COMMAND"]);
}

#[test]
fn a_summary_is_written_also_if_nothing_was_measured() {
    let repo = Repo::new();
    repo.write("flags", OTHER);
    repo.commit("A change");
    repo.place.write("s.md", "an older result");
    let files = ["--export-markdown", "../s.md", "--export-env", "../env"];
    let mut command =
        repo.command(&[&files[..], &["--build", "echo '```'; false", SERVE]].concat());
    // As in a hook: none of this may reach the user's index.
    command.env("GIT_DIR", ".git").env("GIT_INDEX_FILE", ".git/index");
    repo.place.finish(command).status(2).says("does not build");
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    repo.is_clean();
    let markdown = std::fs::read_to_string(repo.place.path("s.md")).unwrap();
    assert!(markdown.starts_with("**Could not compare**: nothing was measured."), "{markdown}");
    assert!(markdown.contains("````text\nbase "), "{markdown}");
    let env = std::fs::read_to_string(repo.place.path("env")).unwrap();
    assert!(env.starts_with("verdict=not_measured\n"), "{env}");
}

#[test]
fn a_server_that_starts_in_one_commit_only_is_named_with_its_log() {
    let repo = Repo::new();
    repo.write("serve.sh", "echo no configuration; exit 4\n");
    repo.commit("Broken");
    let short = repo.git(&["rev-parse", "--short", "HEAD"]).trim().to_owned();
    let ended = repo.measure(&[SERVE]);
    ended
        .status(2)
        .says(&format!("head {short} (Broken) could not be measured"))
        .says("exited with status 4")
        .says("| no configuration");
    repo.is_clean();
}

#[test]
fn a_shallow_clone_a_bare_one_and_no_repository_say_what_to_do() {
    let repo = Repo::new();
    repo.write("flags", OTHER);
    repo.commit("A change");
    repo.write("flags", SLOWER);
    repo.commit("Another change");
    let url = format!("file://{}", repo.root().display());
    let clone = |name: &str, args: &[&str]| {
        let to = repo.place.path(name);
        let to_text = to.display().to_string();
        git(repo.place.dir.path(), &[&["clone", "-q"], args, &[&url, &to_text]].concat());
        to
    };
    let in_folder = |folder: &Path, args: &[&str]| {
        let mut command = repo.place.command(&[&["diff"], args].concat());
        command.current_dir(folder).env("GIT_CEILING_DIRECTORIES", repo.place.dir.path());
        repo.place.finish(command)
    };
    let shallow = clone("shallow", &["--depth", "1", "--no-single-branch", "-b", "change"]);
    in_folder(&shallow, &["origin/main", SERVE])
        .status(2)
        .says("no common ancestor in this shallow clone")
        .says("git fetch --unshallow")
        .says("fetch-depth: 0");
    in_folder(&shallow, &["HEAD^", SERVE]).status(2).says("fetch-depth: 0");
    let bare = clone("bare", &["--bare"]);
    in_folder(&bare, &[SERVE]).status(2).says("is a bare repository; run diff in a checkout");
    let nowhere = repo.place.path("nowhere");
    std::fs::create_dir(&nowhere).unwrap();
    in_folder(&nowhere, &[SERVE]).status(2).says("is not in a git repository");
    let mut command = repo.command(&[SERVE]);
    command.env("PATH", repo.place.path("empty"));
    repo.place.finish(command).status(2).says("git is not on PATH").says("apt install git");
}

/// Ends a comparison while it builds, and while it measures.
fn end_by(signal: Signal, status: Option<i32>) {
    let repo = Repo::new();
    repo.write("flags", OTHER);
    repo.commit("A change");
    for (build, is_far_enough) in [
        ("setsid sleep 500 & touch building; exec sleep 500", "building"),
        ("touch building", "measuring"),
    ] {
        let marker = format!("diff-{}-{}-{is_far_enough}", std::process::id(), signal.as_raw());
        let args = ["--build", build, "--closed-only", SERVE];
        let mut child = repo.command(&args);
        let child = child
            .env("TACHOGRAPH_TEST_MARKER", &marker)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let temp = repo.place.temp();
        let is_built = || {
            let runs = std::fs::read_dir(&temp).unwrap().flatten();
            runs.map(|run| run.path().join("w/base/building")).any(|file| file.exists())
        };
        eventually(is_far_enough, || match is_far_enough {
            "building" => is_built(),
            _ => repo.place.rows("trial") > 0,
        });
        support::signal(child.id(), signal);
        assert_eq!(wait(child, Duration::from_secs(60)).status, status);
        let gone = || processes_with_environment(&marker).is_empty();
        assert!(holds_within(Duration::from_secs(60), gone), "processes are left");
        repo.is_clean();
    }
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    end_by(Signal::INT, Some(2));
}

#[test]
fn kill_9_leaves_nothing_behind() {
    end_by(Signal::KILL, None);
}

#[test]
fn a_comparison_of_too_few_blocks_passed() {
    let repo = Repo::new();
    repo.write("README", "A change.\n");
    repo.commit("A change");
    // Fewer blocks than a decision needs.
    let short = ["--quick", "--closed-only", "--max-time", "1ms", SERVE];
    let env = repo.place.path("env");
    let short = [&["--export-env", env.to_str().unwrap()], &short[..]].concat();
    let ended = repo.diff(&short);
    ended.status(2).prints("Not measured: too few blocks for a verdict (");
    ended.says("error: too few blocks for a verdict (").says("; allow more time with --max-time");
    let variables = std::fs::read_to_string(&env).unwrap();
    assert!(variables.starts_with("verdict=not_measured\n"), "{variables}");
    let ended = repo.diff(&[&["--fail-if-inconclusive"], &short[..]].concat());
    ended.status(2).prints("Not measured: ");
    assert!(TACHOGRAPH.ends_with("tachograph"));
}
