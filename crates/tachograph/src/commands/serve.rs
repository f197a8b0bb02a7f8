//! `tachograph serve`: metrics into the record, and the record over HTTP, until it is stopped.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use base::Nanos;
use series::{Limits, Step};
use serve::{Access, Address, Event, Options, Tls, Tokens};
use store::SeriesLimit;

use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::serve::ServeFlags;
use crate::output;
use crate::stores::RecordLocation;

/// Addresses for Graphite's protocols and for StatsD, unless others are given.
const GRAPHITE: [&str; 2] = ["tcp://127.0.0.1:2003", "udp://127.0.0.1:2003"];
const PICKLE: [&str; 1] = ["tcp://127.0.0.1:2004"];
const STATSD: [&str; 2] = ["tcp://127.0.0.1:8125", "udp://127.0.0.1:8125"];

pub(crate) fn run(flags: &ServeFlags, global: &GlobalFlags) -> Outcome {
    refuse_zeros(flags)?;
    let place = RecordLocation::of(global)?;
    let options = Options {
        journal: journal(flags, &place)?,
        place: place.text(),
        http: flags.http.clone(),
        graphite: addresses(&flags.graphite, flags.no_graphite, &GRAPHITE)?,
        pickle: addresses(&flags.pickle, flags.no_pickle, &PICKLE)?,
        statsd: addresses(&flags.statsd, flags.no_statsd, &STATSD)?,
        databases: flags.database.clone(),
        socket_mode: flags.socket_mode,
        journal_max: flags.journal_max.0,
        write_each: Duration::from_nanos(flags.write_each.0),
        remember: Duration::from_nanos(flags.remember.0),
        connections_max: flags.max_connections,
        connections_of_sender_max: flags
            .max_connections_per_sender
            .unwrap_or(flags.max_connections.div_ceil(2)),
        access: access(flags)?,
        // A daemon that was started from a terminal ends when the terminal closes.
        replace_on_hangup: !std::io::stdin().is_terminal(),
        program: std::env::current_exe()?,
        import: import(flags)?,
    };
    let places = web::Places {
        runs: match &place {
            RecordLocation::File(path) => Some(path.clone()),
            RecordLocation::Postgres(_) => None,
        },
        is_postgres: matches!(place, RecordLocation::Postgres(_)),
    };
    serve::run(&options, |readers| web::router(readers, places), tell)?;
    Ok(Status::Well)
}

/// The addresses that are given, those that are usual, or none.
fn addresses(given: &[Address], none: bool, usual: &[&str]) -> Result<Vec<Address>, Failure> {
    match (none, given) {
        (true, _) => Ok(Vec::new()),
        (false, []) => {
            usual.iter().map(|text| Address::parse(text).map_err(Failure::new)).collect()
        }
        (false, given) => Ok(given.to_vec()),
    }
}

/// With these at zero nothing would ever be accepted, or nothing else would ever be done.
fn refuse_zeros(flags: &ServeFlags) -> Result<(), Failure> {
    let zeros = [
        ("--write-each", flags.write_each.0 == 0, "1s"),
        ("--head-memory", flags.head_memory.0 == 0, "64MiB"),
        ("--journal-max", flags.journal_max.0 == 0, "1GiB"),
        ("--max-connections", flags.max_connections == 0, "1000"),
        ("--max-connections-per-sender", flags.max_connections_per_sender == Some(0), "500"),
    ];
    match zeros.iter().find(|(_, is_zero, _)| *is_zero) {
        Some((option, _, usual)) => {
            Err(Failure::new(format!("{option} must not be 0: write {option} {usual}")))
        }
        None => Ok(()),
    }
}

fn journal(flags: &ServeFlags, place: &RecordLocation) -> Result<PathBuf, Failure> {
    match (&flags.journal, place) {
        (Some(folder), _) => Ok(folder.clone()),
        (None, RecordLocation::File(path)) => Ok(serve::journal_of(path)),
        (None, RecordLocation::Postgres(_)) => Ok(serve::journal_of(&recordfile::default_path()?)),
    }
}

fn access(flags: &ServeFlags) -> Result<Access, Failure> {
    let tokens = flags.token_file.as_deref().map(Tokens::read).transpose().map_err(Failure::new)?;
    let tls = match (&flags.tls_cert, &flags.tls_key) {
        (Some(cert), Some(key)) => Some(Tls::read(cert, key, flags.tls_client_ca.as_deref())),
        _ => None,
    };
    let tls = tls.transpose().map_err(Failure::new)?;
    Ok(Access { tokens, allowed: flags.allow.clone(), hosts: flags.allow_host.clone(), tls })
}

fn import(flags: &ServeFlags) -> Result<import::Options, Failure> {
    let us = |nanos: Nanos| i64::try_from(nanos.0 / 1_000).unwrap_or(i64::MAX);
    let step = Step::from_micros(us(flags.step))
        .ok_or_else(|| Failure::new("--step must be from a microsecond to ten years"))?;
    let series = SeriesLimit { series: i64::from(flags.max_series), ..SeriesLimit::DEFAULT };
    let head_bytes = usize::try_from(flags.head_memory.0).unwrap_or(usize::MAX);
    Ok(import::Options {
        heartbeat_us: flags.heartbeat.map_or(2 * step.us(), us),
        lateness_us: us(flags.lateness),
        lane: flags.lane.clone(),
        // From 1970; older points are mistakes of a clock.
        limits: Limits { earliest_us: 0, ..Limits::DEFAULT },
        series,
        head_bytes,
        ..import::Options::new(step)
    })
}

fn tell(event: Event<'_>) {
    match event {
        Event::Listening(addresses) => {
            for address in addresses {
                // The daemon goes on whether or not anybody can read this.
                if let Err(failure) = output::print(&format!("listening on {address}\n")) {
                    output::error(&failure);
                }
            }
        }
        Event::Missing(first, last) => output::note(&format!(
            "the journal lacks its records {first} to {last}: none was acknowledged if an earlier \
             process was killed while its disk failed; otherwise the disk has damaged them"
        )),
        Event::Unavailable(why) => {
            output::note(&format!("not listening yet, retrying every second: {why}"));
        }
        Event::Replaced { by } => output::note(&format!("process {by} has taken over")),
        Event::NotReplaced(error) => {
            output::note(&format!("not replaced: {error}; this process goes on"));
        }
    }
}
