//! Flags of `publish`, and of `query --hive`.

use std::path::PathBuf;

use base::Nanos;
use clap::{Args, ValueEnum};
use hive::{Address, Qop};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph export --parquet /srv/warehouse
  tachograph publish hive://db.example.com/metrics --folder /srv/warehouse
  tachograph publish hive://db.example.com:10000/metrics --folder /mnt/lake \\
      --location s3a://lake --principal hive/_HOST@EXAMPLE.COM
  tachograph query --hive hive://db.example.com/metrics requests --step 1m

Publishing again changes nothing but what is new in the folder. docs/warehouse.md has recipes for
Hive, Spark and Kerberos.";

/// The environment variable with the password of `--auth plain`.
pub(crate) const PASSWORD: &str = "TACHOGRAPH_HIVE_PASSWORD";

/// Flags of `publish`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PublishFlags {
    /// HiveServer2 or Spark's Thrift server, as hive://user@host:port/database
    #[arg(value_name = "URL")]
    pub(crate) url: Address,
    /// Folder that 'tachograph export --parquet' wrote
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The folder as the server sees it: file:///…, hdfs://… or s3a://… [default: file:// and the
    /// folder's path]
    #[arg(long, value_name = "URL")]
    pub(crate) location: Option<String>,
    #[command(flatten)]
    pub(crate) door: DoorFlags,
}

/// How to reach a table through HiveServer2.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Hive")]
pub(crate) struct DoorFlags {
    /// Name of the table
    #[arg(long, default_value = "tachograph", value_name = "NAME", value_parser = parse_table)]
    pub(crate) table: String,
    /// Login, as in hive.server2.authentication [default: kerberos with --principal, otherwise
    /// none]
    #[arg(long, value_name = "LOGIN")]
    pub(crate) auth: Option<Login>,
    /// File with the password for --auth plain; otherwise it is read from TACHOGRAPH_HIVE_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Kerberos principal of the server, as hive/_HOST@REALM; _HOST is the URL's host
    #[arg(long, value_name = "PRINCIPAL")]
    pub(crate) principal: Option<String>,
    /// Keytab with our own Kerberos key [default: the ticket cache]
    #[arg(long, value_name = "FILE", requires = "principal")]
    pub(crate) keytab: Option<PathBuf>,
    /// Protection of messages with Kerberos, as in hive.server2.thrift.sasl.qop
    #[arg(long, default_value = "auth", value_name = "QOP")]
    pub(crate) qop: Protection,
    /// The server speaks TLS, as with hive.server2.use.SSL
    #[arg(long)]
    pub(crate) tls: bool,
    /// Certificates to trust instead of the system's (PEM)
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub(crate) cacert: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, requires = "tls")]
    pub(crate) insecure: bool,
    /// The server is reached over HTTP, with hive.server2.thrift.http.path, usually cliservice
    #[arg(long, value_name = "PATH")]
    pub(crate) http_path: Option<String>,
    /// Time limit for a connection, and for each answer
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) timeout: Nanos,
    /// Time limit for a statement
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) statement_timeout: Nanos,
}

/// Logins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Login {
    /// NONE: a user's name that the server does not check
    None,
    /// NOSASL: no login
    Nosasl,
    /// LDAP, PAM or CUSTOM: a user with a password
    Plain,
    /// KERBEROS
    Kerberos,
}

/// Quality of protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protection {
    /// Only the login is protected
    Auth,
    /// Messages cannot be changed
    AuthInt,
    /// Messages cannot be changed or read
    AuthConf,
}

impl From<Protection> for Qop {
    fn from(protection: Protection) -> Qop {
        match protection {
            Protection::Auth => Qop::Auth,
            Protection::AuthInt => Qop::Int,
            Protection::AuthConf => Qop::Conf,
        }
    }
}

fn parse_table(text: &str) -> Result<String, String> {
    if hive::sql::is_name(text) {
        return Ok(text.to_lowercase());
    }
    Err("use letters, digits and _; the database is in the URL".to_owned())
}
