//! The server-side count of a variant in a block.
//!
//! It is read until it settles: at least the client's completed count, and unchanged for 200 ms, so that
//! a late double count is detected.

use base::Nanos;
use spec::{ServedBy, Variant};
use stage::server_count;

use crate::error::StartError;
use crate::wherever::{CountReader, Stack};

/// How long the server-side count may lag behind the client's after the last response: nginx writes
/// its log, and WSGI closes the response, after the last byte is sent; an idle nxweb keeps the last
/// lines of its log for a second.
const SETTLE: Nanos = Nanos::from_millis(2500);

/// How long the server-side count must be unchanged: a double count may come late.
const QUIET: Nanos = Nanos::from_millis(200);

/// A source of the server-side count.
pub(crate) struct Counter {
    reader: CountReader,
    base: server_count::Count,
    /// How long the count may lag behind the client's.
    patience: Nanos,
    /// What [`Counter::arrivals`] has returned so far; `None` once a count did not add up.
    arrived: Option<server_count::Count>,
    /// The WSGI counter is also looked for if it is not declared; then zero means that there is no
    /// count.
    declared: bool,
}

impl Counter {
    /// The counter of a stack that is ready and not yet loaded.
    ///
    /// A stream has none: what the server handed to the kernel and what the client received differ
    /// by what was in transit.
    pub(crate) fn of(variant: &Variant, stack: &Stack) -> Result<Option<Counter>, StartError> {
        if matches!(variant.load.exchange, spec::Exchange::Bulk { .. }) {
            return Ok(None);
        }
        if variant.stack.processes.is_empty() {
            let counter = variant.served_by.as_ref().map(Counter::external).transpose()?;
            return Ok(counter.map(|counter| counter.patient_with(variant)));
        }
        let by = variant.served_by.clone().unwrap_or(ServedBy::Wsgi);
        let reader = CountReader::new(&by, stack)?;
        let counter = Counter::from_now(reader, variant.served_by.is_some())?;
        Ok(Some(counter.patient_with(variant)))
    }

    /// If nothing is answered, the server may be as late as its answers otherwise might be.
    fn patient_with(mut self, variant: &Variant) -> Counter {
        if variant.is_one_way() {
            self.patience = self.patience.max(variant.load.timeout);
        }
        self
    }

    /// The counter of a server that was already running.
    pub(crate) fn external(by: &ServedBy) -> Result<Counter, StartError> {
        Counter::from_now(CountReader::Near(server_count::CountReader::external(by)?), true)
    }

    fn from_now(mut reader: CountReader, declared: bool) -> Result<Counter, StartError> {
        // A log line may be written after its response is sent.
        let base = reader.read_settled(Nanos::from_millis(20), Nanos::from_secs(1))?;
        let arrived = Some(server_count::Count::default());
        Ok(Counter { reader, base, patience: SETTLE, arrived, declared })
    }

    /// Reads the count once it has reached `completed` and is unchanged, or when time is up.
    pub(crate) fn settle(&mut self, completed: u64) -> FinalCount {
        let is_silent = matches!(self.reader.read(), Ok(count) if count.served <= self.base.served);
        if !self.declared && is_silent {
            return FinalCount::default();
        }
        match self.reader.read_settled_from(self.base, completed, QUIET, self.patience) {
            Ok(count) => FinalCount {
                served: Some(self.in_requests(count, completed)),
                discarded: self.reader.counts_discarded().then_some(count.discarded),
                error: None,
            },
            Err(error) if self.declared => {
                FinalCount { error: Some(error.to_string()), ..FinalCount::default() }
            }
            Err(_) => FinalCount::default(),
        }
    }

    /// What has been served and discarded since the last call, in requests, once that accounts for
    /// all `completed` requests of the session. `None` from the first time on at which it does not:
    /// the count of the whole session will say so too.
    pub(crate) fn arrivals(&mut self, completed: u64) -> Option<server_count::Count> {
        let before = self.arrived.take()?;
        let patience = self.patience;
        let settled = self.reader.read_settled_from(self.base, completed, Nanos::ZERO, patience);
        let count = settled.ok()?;
        let now = server_count::Count { served: self.in_requests(count, completed), ..count };
        if now.served.checked_add(now.discarded) != Some(completed) {
            return None;
        }
        self.arrived = Some(now);
        Some(now.since(before))
    }

    /// The requests in a count of which each adds a fixed number. A remainder is rounded away from
    /// the expected number, so that only the exact count equals it.
    fn in_requests(&self, count: server_count::Count, completed: u64) -> u64 {
        in_requests(
            count.served,
            self.reader.per_request(),
            completed.saturating_sub(count.discarded),
        )
    }
}

fn in_requests(counted: u64, per_request: u64, expected: u64) -> u64 {
    let whole = counted / per_request.max(1);
    if whole < expected { whole } else { counted.div_ceil(per_request.max(1)) }
}

/// A server-side count at the end.
#[derive(Debug, Default)]
pub(crate) struct FinalCount {
    /// Requests served, if they are counted.
    pub(crate) served: Option<u64>,
    /// Requests that the server's kernel discarded, if they are counted.
    pub(crate) discarded: Option<u64>,
    /// Why a declared count could not be read.
    pub(crate) error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_number_of_lines_makes_the_expected_number_of_messages() {
        let messages = |lines| in_requests(lines, 20, 5);
        assert_eq!(messages(100), 5);
        assert_eq!([messages(99), messages(81), messages(80), messages(0)], [4, 4, 4, 0]);
        assert_eq!([messages(101), messages(119), messages(120)], [6, 6, 6]);
        assert_eq!([in_requests(7, 1, 7), in_requests(8, 1, 7)], [7, 8]);
    }
}
