//! Influx line protocol: any bytes are read or refused.
#![no_main]

use ingest::{Arrival, Lines};
use ingest::text::{Influx, Reader};
use ingest::Precision;
use series::{Kind, Limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let arrival = Arrival::live(1_767_225_600_000_000);
    let mut reader = Reader::new(Box::new(Influx::new(Kind::Gauge, Precision::Nanoseconds)), Limits::DEFAULT, 100);
    let mut lines = Lines::new(bytes);
    while let Ok(Some(line)) = lines.next() {
        if reader.line(line, arrival).is_err() {
            return;
        }
    }
    let _ = reader.flush(arrival);
});
