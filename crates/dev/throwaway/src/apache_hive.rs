//! A temporary Apache HiveServer2 on loopback, with its metastore and MapReduce in one process
//! (`hive/hive.sh`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{JavaServer, NoServer, failed};

const SCRIPT: &str = include_str!("../hive/hive.sh");
/// The artefacts, from Maven's repository.
const ARTEFACTS: &str = include_str!("../hive/pom.xml");

/// Starts a server whose machine is in this time zone. Its artefacts are kept in `cache`, about
/// 500 MB.
///
/// There is none with Kerberos: MapReduce then needs Hadoop's native library ("Secure IO is not possible
/// without native code extensions"), which Maven does not have.
///
/// # Errors
/// [`NoServer`].
pub fn start(cache: &Path, zone: &str) -> Result<JavaServer, NoServer> {
    let libraries = libraries(cache)?;
    JavaServer::start("hive", SCRIPT, "hive.log", |command, port| {
        command.env("TZ", zone).arg(libraries).arg(port.to_string());
        Ok(())
    })
}

/// Hive's version.
pub fn version() -> &'static str {
    let version = ARTEFACTS.split_once("<hive.version>").map(|(_, rest)| rest);
    version.and_then(|rest| rest.split('<').next()).unwrap_or("of unknown version")
}

/// The folder with the artefacts. One that is not complete has another name.
fn libraries(cache: &Path) -> Result<PathBuf, NoServer> {
    let libraries = cache.join(format!("hive-{}", version()));
    if libraries.is_dir() {
        return Ok(libraries);
    }
    let partial = cache.join("hive-partial");
    let _ = std::fs::remove_dir_all(&partial);
    std::fs::create_dir_all(&partial).map_err(failed)?;
    let project = cache.join("hive-pom.xml");
    std::fs::write(&project, ARTEFACTS).map_err(failed)?;
    let mut maven = Command::new("mvn");
    maven.arg("--quiet").arg("--file").arg(&project).arg("dependency:copy-dependencies");
    maven.args([
        "-DincludeScope=runtime".into(),
        format!("-DoutputDirectory={}", partial.display()),
    ]);
    let output = maven.stdin(Stdio::null()).output().map_err(|error| {
        NoServer::Failed(format!("Hive needs Maven ({error}): apt-get install maven"))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        let first = said.lines().find(|line| line.contains("ERROR")).unwrap_or_default();
        return Err(NoServer::Failed(format!("Maven: {first}")));
    }
    std::fs::rename(&partial, &libraries).map_err(failed)?;
    Ok(libraries)
}
