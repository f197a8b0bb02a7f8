//! A temporary Spark cluster: a master, two workers, and the Thrift server with HiveServer2's
//! protocol, all on loopback (`hive/spark.sh`).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kdc::{Kdc, REALM, free_port};
use crate::{JavaServer, NoServer, failed};

const SCRIPT: &str = include_str!("../hive/spark.sh");

/// Spark as a package of Python; it has the Thrift server too.
const PACKAGE: &str = "pyspark==3.5.9";

/// Starts a cluster. Spark is installed in `cache`, about 400 MB; with a realm and the keytab of
/// `hive/localhost`, the Thrift server accepts Kerberos only.
///
/// # Errors
/// [`NoServer`].
pub fn start(cache: &Path, realm: Option<(&Kdc, &Path)>) -> Result<JavaServer, NoServer> {
    let home = home(cache)?;
    JavaServer::start("spark", SCRIPT, "thrift.log", |command, port| {
        command.arg(home).args([free_port()?.to_string(), port.to_string()]);
        if let Some((kdc, keytab)) = realm {
            command.env("SPARK_TEST_JAVA", kdc.java_option());
            let properties = [
                "hive.server2.authentication=KERBEROS".to_owned(),
                format!("hive.server2.authentication.kerberos.principal=hive/localhost@{REALM}"),
                format!("hive.server2.authentication.kerberos.keytab={}", keytab.display()),
            ];
            for property in properties {
                command.args(["--hiveconf".to_owned(), property]);
            }
        }
        Ok(())
    })
}

/// Spark's version.
pub fn version() -> &'static str {
    PACKAGE.rsplit("==").next().unwrap_or(PACKAGE)
}

/// Spark's folder in a Python environment.
fn home(cache: &Path) -> Result<PathBuf, NoServer> {
    let missing = |what: &str| NoServer::Failed(what.to_owned());
    let packages = [PACKAGE.to_owned()];
    let programs =
        stage::python::ensure_env_in(cache, &packages, None, &mut |_| ()).map_err(failed)?;
    let find = "import os, pyspark; print(os.path.dirname(pyspark.__file__))";
    let output =
        Command::new(programs.join("python")).args(["-c", find]).output().map_err(failed)?;
    let home = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if home.is_empty() { Err(missing("pyspark was not installed")) } else { Ok(home.into()) }
}
