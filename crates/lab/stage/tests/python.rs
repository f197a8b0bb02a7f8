//! Python environments: a real one, and every way in which creating one fails.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use stage::StageError;
use stage::python::ensure_env_in;

/// A package with a command, so that no index is needed.
const WHEEL: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    info = "tinytacho-1.0.dist-info/"
    files = {
        "tinytacho.py": "def main(): print('tick')\n",
        info + "METADATA": "Metadata-Version: 2.1\nName: tinytacho\nVersion: 1.0\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "entry_points.txt": "[console_scripts]\ntinytacho = tinytacho:main\n",
    }
    for name, text in files.items(): wheel.writestr(name, text)
    wheel.writestr(info + "RECORD", "".join(f"{name},,\n" for name in files) + info + "RECORD,,\n")
"#;

fn wheel(dir: &Path) -> String {
    let path = dir.join("tinytacho-1.0-py3-none-any.whl");
    assert!(Command::new("python3").args(["-c", WHEEL]).arg(&path).status().unwrap().success());
    format!("tinytacho @ file://{}", path.display())
}

fn ensure(cache: &Path, requirements: &[&str]) -> (Result<PathBuf, StageError>, Vec<String>) {
    let mut said = Vec::new();
    let requirements: Vec<String> = requirements.iter().map(|text| (*text).to_owned()).collect();
    let bin = ensure_env_in(cache, &requirements, None, &mut |line| said.push(line.to_owned()));
    (bin, said)
}

#[test]
fn an_environment_is_created_once_and_repaired_if_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, wheel) = (dir.path().join("cache"), wheel(dir.path()));
    let both: Vec<_> = thread::scope(|scope| {
        let ask = || ensure(&cache, &[&wheel]);
        let threads = [scope.spawn(ask), scope.spawn(ask)];
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let bins: Vec<&PathBuf> = both.iter().map(|(bin, _)| bin.as_ref().unwrap()).collect();
    assert_eq!(bins[0], bins[1]);
    let installed = |said: &[String]| said.iter().any(|line| line.starts_with("installing "));
    assert_eq!(both.iter().filter(|(_, said)| installed(said)).count(), 1);
    let tick = || Command::new(bins[0].join("tinytacho")).output();
    assert_eq!(tick().unwrap().stdout, b"tick\n");

    assert_eq!(ensure(&cache, &[&wheel]).1, Vec::<String>::new(), "nothing to wait for");

    // As if the power had failed during creation.
    fs::remove_file(bins[0].parent().unwrap().join("complete")).unwrap();
    fs::remove_file(bins[0].join("tinytacho")).unwrap();
    let (bin, said) = ensure(&cache, &[&wheel]);
    bin.unwrap();
    assert!(installed(&said));
    assert_eq!(tick().unwrap().stdout, b"tick\n");
}

/// A Python whose `-m venv` and `pip` fail as real ones did.
fn fake_python(dir: &Path, venv: &str, pip: &str) -> PathBuf {
    let python = dir.join("python3");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake-python.sh");
    symlink(program, &python).unwrap();
    fs::write(dir.join("venv.sh"), venv).unwrap();
    fs::write(dir.join("pip.sh"), pip).unwrap();
    python
}

#[test]
fn each_failure_says_what_to_do() {
    for (venv, pip, text) in [
        (
            "echo 'The virtual environment was not created successfully because ensurepip is not available.'; exit 1",
            "",
            "Python 3.11.7 cannot create virtual environments, because its venv module is \
             missing; to install it: apt install python3-venv",
        ),
        (
            ":",
            "echo 'WARNING: Retrying: NewConnectionError: Failed to establish a new connection: [Errno 101]'; echo 'ERROR: No matching distribution found for gunicorn==23.0.0'",
            "the Python packages gunicorn==23.0.0 cannot be downloaded, because the package index \
             is unreachable; check the network or the proxy, or set PIP_FIND_LINKS to a folder \
             with the packages",
        ),
        (
            ":",
            "echo 'ERROR: No matching distribution found for gunicorn==23.0.0'",
            "there is no package gunicorn==23.0.0 for Python 3.11.7; check its name and version",
        ),
        (
            ":",
            "echo 'error: command gcc failed'",
            "pip could not install gunicorn==23.0.0. End of its output:\n  | error: command gcc \
             failed",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let python = fake_python(dir.path(), venv, pip);
        let requirements = ["gunicorn==23.0.0".to_owned()];
        let cache = dir.path().join("cache");
        let error = ensure_env_in(&cache, &requirements, Some(&python), &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), text);
        let folders =
            fs::read_dir(&cache).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
        assert_eq!(folders.count(), 0, "half an environment must not stay");
    }
}

#[test]
fn a_full_disk_is_named_with_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let python =
        fake_python(dir.path(), "echo 'OSError: [Errno 28] No space left on device'; exit 1", "");
    let cache = dir.path().join("cache");
    let requirements = ["gunicorn==23.0.0".to_owned()];
    let error = ensure_env_in(&cache, &requirements, Some(&python), &mut |_| {}).unwrap_err();
    let text = error.to_string();
    let start = format!("no space left for Python packages in {}/", cache.display());
    assert!(text.starts_with(&start), "{text}");
    assert!(text.ends_with("; free some space, or set XDG_CACHE_HOME to another folder"), "{text}");
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for requirement in ["flask", "--index-url=x==1", ""] {
        let (result, _) = ensure(dir.path(), &[requirement]);
        assert_eq!(
            result.unwrap_err().to_string(),
            format!(
                "the Python package '{requirement}' has no fixed version; write it as name==1.2.3"
            )
        );
    }
    let nowhere = Path::new("/nowhere/python3");
    let error = ensure_env_in(dir.path(), &["a==1".to_owned()], Some(nowhere), &mut |_| {});
    assert_eq!(
        error.unwrap_err().to_string(),
        "'/nowhere/python3' is missing, and the packages a==1 need it; install that version of \
         Python and add it to PATH"
    );
    // What a version manager says without that version, and Python itself.
    let broken = [
        (
            "echo 'manager: no version 3.0'; echo; echo 'Try: manager list'",
            "manager: no version 3.0",
        ),
        ("echo 'Traceback (most recent call last):'; echo 'ImportError: os'", "ImportError: os"),
    ];
    let python = dir.path().join("python3.0");
    symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/broken-python.sh"), &python).unwrap();
    for (says, why) in broken {
        fs::write(dir.path().join("said.sh"), says).unwrap();
        let error = ensure_env_in(dir.path(), &["a==1".to_owned()], Some(&python), &mut |_| {});
        assert_eq!(
            error.unwrap_err().to_string(),
            format!(
                "'{}' does not work (exit status: 127): {why}; install it, or put one that works \
                 first on PATH",
                python.display()
            )
        );
    }
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let text = ensure(&file, &["a==1"]).0.unwrap_err().to_string();
    assert!(text.ends_with("; set XDG_CACHE_HOME to a writable folder"), "{text}");
}
