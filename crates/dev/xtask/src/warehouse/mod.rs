//! `prove warehouse`: three recorders, a real Spark cluster, a real Apache Hive and a real KDC; what
//! they add up is the truth.

mod history;
mod logins;
mod queries;
mod recorders;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::format_count;
use hive::{Address, Auth, Limits, Session, Transport, Value};
use throwaway::apache_hive::{ApacheHive, Keystore};
use throwaway::kdc::{Kdc, REALM, USUAL_SKEW};
use throwaway::{JavaServer, NoServer, apache_hive, spark};
use trust::Trust;

use crate::options::Options;
use crate::{binary, say};
use history::History;
pub(crate) use logins::log_in;
use recorders::Recorders;

/// Limits for a server whose CPUs are busy.
const LIMITS: Limits =
    Limits { answer: Duration::from_secs(120), statement: Duration::from_secs(600) };

/// Where Hive believes to be: no result may depend on it.
const HIVE_ZONE: &str = "Asia/Kolkata";

/// The sums of a table: by series, step and day.
type Sums = BTreeMap<[String; 3], f64>;

/// Publishes what three recorders exported, twice, and compares the sums of Spark and of Hive with
/// the truth, and `query --hive` with `query`.
pub(crate) fn prove(options: Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let cache = cache(&tachograph);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut recorders = Recorders::new(&tachograph, folder.path(), options.seed);
    let mut history = History::new(options.seed, options.runs);
    say(&format!("Spark {}: a master, two workers, the Thrift server", spark::version()));
    let mut holds = true;
    {
        let server = spark::start(&cache, None).map_err(text)?;
        let url = url(&server);
        for round in 1..=2 {
            recorders.record(&mut history)?;
            let kills = recorders.export(round == 2)?;
            let said = recorders.publish(&url, &[], &[])?;
            say(&format!("\nround {round}, export killed {kills} times\n{}", said.trim_end()));
            let found = sums(&url, &Transport::default())?;
            holds &= compare(&found, &history, "Spark")?;
        }
        let again = recorders.publish(&url, &[], &[])?;
        say(&format!("\npublished again\n{}", again.trim_end()));
        holds &= again.contains("added 0 partitions");
        holds &= queries::compare(&mut recorders, &url, "Spark")?;
    }
    say(&format!("\nApache Hive {} in the zone {HIVE_ZONE}", apache_hive::version()));
    holds &= with_hive(&cache, &mut recorders, &history, None)?;
    let keystore = Keystore::make(folder.path()).map_err(text)?;
    holds &= with_hive(&cache, &mut recorders, &history, Some(&keystore))?;
    holds &= with_kerberos(&cache, &recorders)?;
    holds &= logins::compare()?;
    Ok(holds)
}

fn text(error: NoServer) -> String {
    error.to_string()
}

fn url(server: &JavaServer) -> String {
    url_of(server.port())
}

fn url_of(port: u16) -> String {
    format!("hive://localhost:{port}/default")
}

/// The same folder in Apache Hive, whose sums are read by the binary protocol and over HTTP; with a
/// keystore both by TLS.
fn with_hive(
    cache: &Path,
    recorders: &mut Recorders<'_>,
    history: &History,
    keystore: Option<&Keystore>,
) -> Result<bool, String> {
    let ApacheHive { server, http_port } =
        apache_hive::start(cache, HIVE_ZONE, keystore).map_err(text)?;
    let cacert = keystore.map(|keystore| keystore.certificate.clone());
    let shown = cacert.as_ref().map(|path| path.display().to_string());
    let options = shown.as_deref().map(|path| ["--tls", "--cacert", path]);
    let said =
        recorders.publish(&url(&server), options.as_ref().map_or(&[], |all| &all[..]), &[])?;
    say(&format!("\n{}{}", if cacert.is_some() { "with TLS\n" } else { "" }, said.trim_end()));
    let mut holds = true;
    for (way, port, http_path) in [
        ("Hive", server.port(), None),
        ("Hive over HTTP", http_port, Some("cliservice".to_owned())),
    ] {
        let tls = cacert.clone().map(|file| Trust { cacert: Some(file), ..Trust::default() });
        let found = sums(&url_of(port), &Transport { tls, http_path })?;
        holds &= compare(&found, history, way)?;
    }
    if keystore.is_none() {
        holds &= queries::compare(recorders, &url(&server), "Hive")?;
    }
    Ok(holds)
}

/// Spark and Hive are installed beside the build.
fn cache(tachograph: &Path) -> PathBuf {
    let target = tachograph.parent().and_then(Path::parent);
    target.map_or_else(|| PathBuf::from("target"), Path::to_owned).join("warehouse")
}

/// The sums of a server.
fn sums(url: &str, transport: &Transport) -> Result<Sums, String> {
    let address: Address = url.parse().map_err(|_| "a wrong URL".to_owned())?;
    let auth = Auth::None { user: None };
    let session = Session::open(&address, transport, &auth, LIMITS);
    let mut session = session.map_err(|error| error.to_string())?;
    let keys = "`tags`['shop'], `step`, `day`";
    let statement =
        format!("SELECT {keys}, sum(`total`) FROM `default`.`tachograph` GROUP BY {keys}");
    let rows = session.execute(&statement).map_err(|error| error.to_string())?;
    session.close().map_err(|error| error.to_string())?;
    let read = |row: &[Value]| {
        let [shop, step, day, sum] = row else { return None };
        let key = [shop, step, day].map(|value| value.as_text().unwrap_or_default().to_owned());
        Some((key, sum.as_f64()?))
    };
    let sums: Option<Sums> = rows.iter().map(|row| read(row)).collect();
    sums.ok_or_else(|| "the server sent other columns".to_owned())
}

/// Prints both sums by step and day, and compares them by series, step and day.
fn compare(found: &Sums, history: &History, server: &str) -> Result<bool, String> {
    let truth = history.sums();
    let wrong = truth.iter().filter(|(key, sum)| found.get(*key) != Some(sum)).count();
    let foreign = found.keys().filter(|key| !truth.contains_key(*key)).count();
    let mut table: BTreeMap<(&str, &str), (f64, f64)> = BTreeMap::new();
    for ([_, step, day], sum) in &truth {
        table.entry((step, day)).or_default().0 += sum;
    }
    for ([_, step, day], sum) in found {
        table.entry((step, day)).or_default().1 += sum;
    }
    say(&format!("\n| step | day | truth | {server} |\n| --- | --- | ---: | ---: |"));
    for ((step, day), (truth, sum)) in table {
        say(&format!("| {step} | {day} | {truth} | {sum} |"));
    }
    let all = format_count(truth.len() as u64);
    say(&format!("{all} sums by series, step and day: {wrong} wrong, {foreign} without a truth"));
    Ok(wrong == 0 && foreign == 0)
}

/// The same folder in a Spark that accepts only Kerberos, by a ticket of the real KDC.
fn with_kerberos(cache: &Path, recorders: &Recorders<'_>) -> Result<bool, String> {
    let kdc = Kdc::start(USUAL_SKEW).map_err(text)?;
    let keytab = kdc.keytab(&format!("hive/localhost@{REALM}")).map_err(text)?;
    let client = kdc.keytab(&format!("ada@{REALM}")).map_err(text)?;
    kdc.ticket(&client, &format!("ada@{REALM}"), "1h").map_err(text)?;
    let server = spark::start(cache, Some((&kdc, &keytab))).map_err(text)?;
    let principal = format!("hive/_HOST@{REALM}");
    let options = ["--principal", &principal];
    let said = recorders.publish(&url(&server), &options, &kdc.environment())?;
    say(&format!("\nwith Kerberos\n{}", said.trim_end()));
    let service = format!("ada@{REALM} for hive/localhost@{REALM}");
    let log = kdc.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&service)).collect();
    say(&format!("the KDC's log: {}", lines.first().unwrap_or(&"nothing")));
    Ok(!lines.is_empty())
}
