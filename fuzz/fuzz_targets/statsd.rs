//! StatsD lines: any bytes are read or refused.
#![no_main]

use formats::text::{Reader, Statsd};
use formats::{Arrival, Lines};
use libfuzzer_sys::fuzz_target;
use series::{Limits, Step};

fuzz_target!(|bytes: &[u8]| {
    let arrival = Arrival::live(1_767_225_600_000_000);
    let mut reader = Reader::new(
        Box::new(Statsd::new(Step::from_secs(10).expect("a step"))),
        Limits::DEFAULT,
        100,
    );
    let mut lines = Lines::quoted(bytes, reader.quotes(), bytes.len() % 2 == 0);
    while let Ok(Some(line)) = lines.next() {
        if reader.line(line, arrival).is_err() {
            return;
        }
    }
    let _ = reader.flush();
});
