//! What a login by Kerberos costs more than one by PLAIN, on loopback.

use std::process::Command;
use std::time::Instant;

use hive::{Address, Auth, Qop, Session, Transport};
use throwaway::hive::HiveServer;
use throwaway::kdc::{Kdc, REALM, USUAL_SKEW};

use super::LIMITS;
use crate::process::output;
use crate::say;

/// Logins of each kind in each round, and rounds; the first round is not counted.
const LOGINS: usize = 20;
const ROUNDS: usize = 6;
/// The most that Kerberos may cost more, in milliseconds.
const GOAL_MS: f64 = 20.0;

/// Compares the medians of both, in rounds of one after the other.
pub(super) fn compare() -> Result<bool, String> {
    let text = |error: throwaway::NoServer| error.to_string();
    let kdc = Kdc::start(USUAL_SKEW).map_err(text)?;
    let service = format!("hive/localhost@{REALM}");
    let keytab = kdc.keytab(&service).map_err(text)?.display().to_string();
    let client = kdc.keytab(&format!("ada@{REALM}")).map_err(text)?;
    kdc.ticket(&client, &format!("ada@{REALM}"), "1h").map_err(text)?;
    let options = ["--auth", "kerberos", "--keytab", &keytab];
    let kerberos = HiveServer::start(&options, Some(&kdc), None).map_err(text)?;
    let plain = HiveServer::start(&[], None, None).map_err(text)?;
    let (mut by_plain, mut by_kerberos) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let some = [times(&plain, None)?, times(&kerberos, Some((&kdc, &service)))?];
        if round > 0 {
            let [plain, kerberos] = some;
            by_plain.extend(plain);
            by_kerberos.extend(kerberos);
        }
    }
    let (plain, kerberos) = (stats::median(&by_plain), stats::median(&by_kerberos));
    let (Some(plain), Some(kerberos)) = (plain, kerberos) else {
        return Err("no logins".to_owned());
    };
    say(&format!(
        "\n{} logins of each kind on loopback, connection and session included, median: PLAIN \
         {plain:.2} ms, Kerberos {kerberos:.2} ms; {:.2} ms more",
        LOGINS * (ROUNDS - 1),
        kerberos - plain
    ));
    Ok(kerberos - plain <= GOAL_MS)
}

/// The times of logins by a process with the realm's environment.
fn times(server: &HiveServer, realm: Option<(&Kdc, &str)>) -> Result<Vec<f64>, String> {
    let ours = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(ours);
    command.arg("hive-logins").arg(format!("hive://localhost:{}", server.port()));
    if let Some((kdc, service)) = realm {
        command.arg(service).envs(kdc.environment());
    }
    let lines = output(&mut command)?;
    lines.lines().map(|line| line.parse().map_err(|_| line.to_owned())).collect()
}

/// Logs in again and again, and prints the milliseconds of each login.
pub(crate) fn log_in(address: &Address, principal: Option<&str>) -> Result<(), String> {
    let auth = match principal.map(str::to_owned) {
        None => Auth::None { user: None },
        Some(principal) => Auth::Kerberos { principal, keytab: None, user: None, qop: Qop::Auth },
    };
    for _ in 0..LOGINS {
        let began = Instant::now();
        let session = Session::open(address, &Transport::default(), &auth, LIMITS);
        let took_ms = began.elapsed().as_secs_f64() * 1e3;
        session.and_then(Session::close).map_err(|error| error.to_string())?;
        say(&took_ms.to_string());
    }
    Ok(())
}
