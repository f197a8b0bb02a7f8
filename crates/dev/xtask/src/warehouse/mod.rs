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
use hive::{Address, Auth, Limits, Session, Value};
use throwaway::kdc::{Kdc, REALM, USUAL_SKEW};
use throwaway::{JavaServer, NoServer, apache_hive, spark};

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
            holds &= compare(&sums(&url)?, &history, "Spark")?;
        }
        let again = recorders.publish(&url, &[], &[])?;
        say(&format!("\npublished again\n{}", again.trim_end()));
        holds &= again.contains("added 0 partitions");
        holds &= queries::compare(&mut recorders, &url, "Spark")?;
    }
    {
        say(&format!("\nApache Hive {} in the zone {HIVE_ZONE}", apache_hive::version()));
        let server = apache_hive::start(&cache, HIVE_ZONE).map_err(text)?;
        let url = url(&server);
        let said = recorders.publish(&url, &[], &[])?;
        say(said.trim_end());
        holds &= compare(&sums(&url)?, &history, "Hive")?;
        holds &= queries::compare(&mut recorders, &url, "Hive")?;
    }
    holds &= with_kerberos(&cache, &recorders)?;
    holds &= logins::compare()?;
    Ok(holds)
}

fn text(error: NoServer) -> String {
    error.to_string()
}

fn url(server: &JavaServer) -> String {
    format!("hive://localhost:{}/default", server.port())
}

/// Spark and Hive are installed beside the build.
fn cache(tachograph: &Path) -> PathBuf {
    let target = tachograph.parent().and_then(Path::parent);
    target.map_or_else(|| PathBuf::from("target"), Path::to_owned).join("warehouse")
}

/// The sums of a server.
fn sums(url: &str) -> Result<Sums, String> {
    let address: Address = url.parse().map_err(|_| "a wrong URL".to_owned())?;
    let auth = Auth::None { user: None };
    let mut session = Session::open(&address, &auth, LIMITS).map_err(|e| e.to_string())?;
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
