//! A temporary Apache HiveServer2 on loopback, with its metastore and MapReduce in one process
//! (`hive/hive.sh`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kdc::free_port;
use crate::{JavaServer, NoServer, failed};

const SCRIPT: &str = include_str!("../hive/hive.sh");
/// The artefacts, from Maven's repository.
const ARTEFACTS: &str = include_str!("../hive/pom.xml");

/// A running server, which speaks the binary protocol and HTTP.
#[derive(Debug)]
pub struct ApacheHive {
    /// Its process, with the port of the binary protocol.
    pub server: JavaServer,
    /// The port of HTTP.
    pub http_port: u16,
}

/// A key with its certificate for `localhost`, which a server in Java uses.
#[derive(Debug)]
pub struct Keystore {
    file: PathBuf,
    /// The certificate, in PEM form.
    pub certificate: PathBuf,
}

impl Keystore {
    /// Makes one in this folder.
    ///
    /// # Errors
    /// [`NoServer`].
    pub fn make(folder: &Path) -> Result<Keystore, NoServer> {
        let (file, certificate) = (folder.join("key.p12"), folder.join("cert.pem"));
        let run = |words: &[&str], path: &Path| {
            let mut command = Command::new("keytool");
            command.args(words).args(["-alias", "hive", "-storepass", KEY_PASSWORD]);
            command.args(["-storetype", "PKCS12"]).arg("-keystore").arg(&file);
            if path != file {
                command.arg("-file").arg(path);
            }
            let output = command.stdin(Stdio::null()).output().map_err(failed)?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() { Ok(()) } else { Err(NoServer::Failed(said)) }
        };
        let name = ["-dname", "CN=localhost", "-ext", "san=dns:localhost", "-validity", "2"];
        run(&[&["-genkeypair", "-keyalg", "EC"], &name[..]].concat(), &file)?;
        run(&["-exportcert", "-rfc"], &certificate)?;
        Ok(Keystore { file, certificate })
    }
}

/// The password of a keystore, which Java demands.
const KEY_PASSWORD: &str = "throwaway";

/// Starts a server whose machine is in this time zone; with a keystore it speaks TLS. Its artefacts are
/// kept in `cache`, about 500 MB.
///
/// There is none with Kerberos: MapReduce then needs Hadoop's native library ("Secure IO is not possible
/// without native code extensions"), which Maven does not have.
///
/// # Errors
/// [`NoServer`].
pub fn start(
    cache: &Path,
    zone: &str,
    keystore: Option<&Keystore>,
) -> Result<ApacheHive, NoServer> {
    let (libraries, http_port) = (libraries(cache)?, free_port()?);
    let server = JavaServer::start("hive", SCRIPT, "hive.log", |command, port| {
        command.env("TZ", zone).arg(libraries).args([port, http_port].map(|port| port.to_string()));
        if let Some(keystore) = keystore {
            command.arg(&keystore.file).arg(KEY_PASSWORD);
        }
        Ok(())
    })?;
    Ok(ApacheHive { server, http_port })
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
