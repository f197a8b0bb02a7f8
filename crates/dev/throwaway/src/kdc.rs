//! A temporary Kerberos realm: MIT's KDC on a loopback port, with its own configuration.
//!
//! Nothing of the machine's own Kerberos is read or changed: every program gets the realm's files
//! by its environment, [`Kdc::environment`].

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{HeldProcess, NoServer, START_TIMEOUT, failed};

/// The realm.
pub const REALM: &str = "TACHOGRAPH.TEST";

/// By how much clocks may differ, if a realm does not say otherwise.
pub const USUAL_SKEW: Duration = Duration::from_secs(300);

/// Runs a program until the pipe closes, then removes the folder.
const GUARD: &str = r#"
dir=$1; shift
"$@" >>"$dir/log" 2>&1 &
server=$!
read -r word
kill "$server"
wait "$server"
rm -rf "$dir"
"#;

/// A running KDC. It ends with this value, or with the process, however that ends.
#[derive(Debug)]
pub struct Kdc {
    folder: PathBuf,
    port: u16,
    guard: Option<HeldProcess>,
}

impl Kdc {
    /// Creates a realm in which clocks may differ by this much, and starts its KDC.
    ///
    /// # Errors
    /// [`NoServer`].
    pub fn start(skew: Duration) -> Result<Kdc, NoServer> {
        for name in ["krb5kdc", "kdb5_util", "kadmin.local", "kinit"] {
            program(name)?;
        }
        let folder = std::env::temp_dir().join(format!("tachograph-kdc-{}", unique()));
        std::fs::create_dir(&folder).map_err(failed)?;
        let port = free_port()?;
        // From here on, Drop removes the folder.
        let mut kdc = Kdc { folder, port, guard: None };
        kdc.configure(skew).map_err(failed)?;
        kdc.run("kdb5_util", &["-r", REALM, "create", "-s", "-P", "of a test"])?;
        kdc.listen()?;
        Ok(kdc)
    }

    fn configure(&self, skew: Duration) -> std::io::Result<()> {
        let (dir, port, skew) = (self.folder.display(), self.port, skew.as_secs());
        let client = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_lookup_realm = false\n \
             dns_lookup_kdc = false\n dns_canonicalize_hostname = false\n rdns = false\n \
             udp_preference_limit = 1\n clockskew = {skew}\n\
             [realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n\
             [domain_realm]\n localhost = {REALM}\n"
        );
        std::fs::write(self.folder.join("krb5.conf"), client)?;
        let server = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
             [realms]\n {REALM} = {{\n  database_name = {dir}/principal\n  \
             key_stash_file = {dir}/stash\n  acl_file = {dir}/acl\n  max_life = 1h\n  \
             supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }}\n\
             [logging]\n kdc = FILE:{dir}/kdc.log\n"
        );
        std::fs::write(self.folder.join("kdc.conf"), server)
    }

    fn listen(&mut self) -> Result<(), NoServer> {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard"]).arg(&self.folder).arg(program("krb5kdc")?);
        command.args(["-n", "-r", REALM]).envs(self.environment());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In a separate group, so that Ctrl-C does not reach the guard.
        self.guard = Some(HeldProcess(command.process_group(0).spawn().map_err(failed)?));
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(NoServer::Failed(format!(
                    "the KDC does not listen: {log}{}",
                    self.log()
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Creates a principal with a password.
    ///
    /// # Errors
    /// [`NoServer::Failed`] with the program's message.
    pub fn user(&self, name: &str, password: &str) -> Result<(), NoServer> {
        self.run("kadmin.local", &["-r", REALM, "addprinc", "-pw", password, name]).map(drop)
    }

    /// Creates a principal with a random key, and returns a keytab with it.
    ///
    /// # Errors
    /// [`NoServer::Failed`] with the program's message.
    pub fn keytab(&self, principal: &str) -> Result<PathBuf, NoServer> {
        let path = self.folder.join(format!("{}.keytab", principal.replace(['/', '@'], "-")));
        let file = path.display().to_string();
        self.run("kadmin.local", &["-r", REALM, "addprinc", "-randkey", principal])?;
        self.run("kadmin.local", &["-r", REALM, "ktadd", "-k", &file, principal])?;
        Ok(path)
    }

    /// Gets a ticket by a keytab, into the realm's own cache; `life` is a duration such as `5s`.
    ///
    /// # Errors
    /// [`NoServer::Failed`] with the program's message.
    pub fn ticket(&self, keytab: &Path, principal: &str, life: &str) -> Result<(), NoServer> {
        let keytab = keytab.display().to_string();
        self.run("kinit", &["-l", life, "-k", "-t", &keytab, principal]).map(drop)
    }

    /// What makes a program use this realm and its ticket cache.
    pub fn environment(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("KRB5_CONFIG", self.folder.join("krb5.conf")),
            ("KRB5_KDC_PROFILE", self.folder.join("kdc.conf")),
            ("KRB5CCNAME", self.folder.join("tickets")),
        ]
    }

    /// The option by which Java uses this realm.
    pub(crate) fn java_option(&self) -> String {
        format!("-Djava.security.krb5.conf={}", self.folder.join("krb5.conf").display())
    }

    /// What the KDC logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("kdc.log")).unwrap_or_default()
    }

    fn run(&self, name: &str, args: &[&str]) -> Result<String, NoServer> {
        let mut command = Command::new(program(name)?);
        command.args(args).envs(self.environment()).stdin(Stdio::null());
        let output = command.output().map_err(failed)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(NoServer::Failed(format!("{name} {}: {message}", args.join(" "))))
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        // A guard removes the folder itself.
        if self.guard.is_none() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// A program on the path or in the folders of system programs, which are not on every path.
fn program(name: &str) -> Result<PathBuf, NoServer> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|path| path.exists());
    found.ok_or_else(|| {
        NoServer::Failed(format!(
            "{name} is not installed: apt-get install krb5-kdc krb5-admin-server krb5-user"
        ))
    })
}

/// A TCP port on loopback that is free at this moment.
pub(crate) fn free_port() -> Result<u16, NoServer> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    Ok(listener.local_addr().map_err(failed)?.port())
}

/// Different for every KDC of every process.
fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
