//! The built-in server in the place of a variant's stack, which measures what client and network
//! could reach.

use std::collections::BTreeMap;

use base::Nanos;
use drive::LoopStart;
use spec::{HttpVersion, Mode, Part, Process, ReadyCheck, Stack, TlsOptions, Variant};

use crate::lead_in::slice_of;

/// The slice that measures a null server.
pub(crate) fn slice_of_null(variant: &Variant, part: &Part) -> drive::Slice {
    let length = if part.schedule.quick { 400 } else { 800 };
    slice_of(variant, Mode::Closed, LoopStart::Fresh, Nanos::from_millis(length), Nanos::ZERO)
}

/// A null server in the place of a variant's stack.
pub(crate) fn null_variant(
    like: &Variant,
    listen: &str,
    target: &str,
    mode: &str,
    body_bytes: u64,
) -> Variant {
    let ready = match listen.strip_prefix("unix:") {
        Some(path) => ReadyCheck::Socket(path.into()),
        None => ReadyCheck::Port("$HOST:$PORT".into()),
    };
    let tls = if target.starts_with("https") { " --tls" } else { "" };
    let http2 =
        if like.load.http == HttpVersion::Http2 && mode == "http" { " --http2" } else { "" };
    let process = Process {
        name: "null server".into(),
        command: format!(
            "$TACHOGRAPH serve-fixture --listen {listen} --mode {mode} --body-size {body_bytes}{tls}{http2}"
        ),
        env: BTreeMap::new(),
        ready: vec![ready],
        ready_timeout: Nanos::from_secs(5),
        stop_signal: spec::StopSignal::Term,
        stop_timeout: Nanos::from_secs(2),
        beside_client: false,
    };
    let mut variant = Variant {
        name: "null server".into(),
        stack: Stack { processes: vec![process], ..Stack::default() },
        target: target.into(),
        served_by: None,
        ..like.clone()
    };
    variant.load.expect = spec::Expect::default();
    variant.load.grpc = None;
    let resumption = like.load.tls.resumption;
    if mode != "http" {
        variant.load.http = HttpVersion::Http1;
        variant.load.streams = 1;
    }
    variant.load.tls = TlsOptions { insecure: true, resumption, ..TlsOptions::default() };
    variant
}
