//! A temporary Spark cluster: a master, two workers, and the Thrift server with HiveServer2's
//! protocol, all on loopback (`hive/spark.sh`).

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kdc::{Kdc, REALM, free_port};
use crate::{HeldProcess, NoServer, failed};

const SCRIPT: &str = include_str!("../hive/spark.sh");

/// Spark as a package of Python; it has the Thrift server too.
const PACKAGE: &str = "pyspark==3.5.9";

/// How long the cluster may take to listen, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running cluster. It ends with this value, or with the process, however that ends.
#[derive(Debug)]
pub struct Spark {
    folder: PathBuf,
    port: u16,
    _guard: HeldProcess,
}

impl Spark {
    /// Starts a cluster. Spark is installed in `cache`, about 400 MB; with a realm and the keytab of
    /// `hive/localhost`, the Thrift server accepts Kerberos only.
    ///
    /// # Errors
    /// [`NoServer`].
    pub fn start(cache: &Path, realm: Option<(&Kdc, &Path)>) -> Result<Spark, NoServer> {
        let home = home(cache)?;
        let folder = std::env::temp_dir().join(format!("tachograph-spark-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(failed)?;
        let (master, port) = (free_port()?, free_port()?);
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "spark"]).arg(&folder).arg(home);
        command.args([master.to_string(), port.to_string()]);
        if let Some((kdc, keytab)) = realm {
            let [(_, config), ..] = kdc.environment();
            command
                .env("SPARK_TEST_JAVA", format!("-Djava.security.krb5.conf={}", config.display()));
            let settings = [
                ("authentication", "KERBEROS".to_owned()),
                ("authentication.kerberos.principal", format!("hive/localhost@{REALM}")),
                ("authentication.kerberos.keytab", keytab.display().to_string()),
            ];
            for (name, value) in settings {
                command.args(["--hiveconf".to_owned(), format!("hive.server2.{name}={value}")]);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In a separate group, so that Ctrl-C does not reach the guard.
        let guard = HeldProcess(command.process_group(0).spawn().map_err(failed)?);
        let spark = Spark { folder, port, _guard: guard };
        spark.wait()?;
        Ok(spark)
    }

    fn wait(&self) -> Result<(), NoServer> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let log = std::fs::read_to_string(self.folder.join("thrift.log")).unwrap_or_default();
            if Instant::now() > deadline || log.contains("Shutdown hook called") {
                let errors =
                    log.lines().filter(|line| line.contains("ERROR") || line.contains("Caused"));
                let errors: Vec<&str> = errors.take(5).collect();
                return Err(NoServer::Failed(format!("Spark:\n{}", errors.join("\n"))));
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        Ok(())
    }

    /// The Thrift server's port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Spark's version.
    pub fn version() -> &'static str {
        PACKAGE.rsplit("==").next().unwrap_or(PACKAGE)
    }
}

/// Spark's folder in a Python environment.
fn home(cache: &Path) -> Result<PathBuf, NoServer> {
    let missing = |what: &str| NoServer::Failed(what.to_owned());
    if Command::new("java").arg("-version").output().is_err() {
        return Err(missing("Spark needs Java: apt-get install default-jre-headless"));
    }
    let packages = [PACKAGE.to_owned()];
    let programs =
        stage::python::ensure_env_in(cache, &packages, None, &mut |_| ()).map_err(failed)?;
    let find = "import os, pyspark; print(os.path.dirname(pyspark.__file__))";
    let output =
        Command::new(programs.join("python")).args(["-c", find]).output().map_err(failed)?;
    let home = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if home.is_empty() { Err(missing("pyspark was not installed")) } else { Ok(home.into()) }
}
