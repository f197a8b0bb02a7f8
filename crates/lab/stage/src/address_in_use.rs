//! Addresses that are in use already.

use spec::Endpoint;

use crate::error::StageError;
use crate::ports;
use crate::ready::place;

/// The error for an address of a process that another process uses.
pub(crate) fn taken(process: &str, endpoint: &Endpoint) -> StageError {
    let holder = match endpoint {
        Endpoint::Tcp { port, .. } => ports::holder(*port),
        _ => None,
    };
    StageError::Taken { process: process.to_owned(), place: place(endpoint), holder }
}

/// Whether a log reports that an address was in use.
pub(crate) fn reports_address_in_use(lines: &[String]) -> bool {
    const SIGNS: &[&str] = &[
        "address already in use",
        "address in use",
        "connection in use",
        "eaddrinuse",
        "errno 98",
    ];
    lines.iter().any(|line| {
        let line = line.to_lowercase();
        SIGNS.iter().any(|sign| line.contains(sign))
    })
}

/// The error for a process whose log reports it.
pub(crate) fn address_in_use(process: &str, endpoint: Option<&Endpoint>) -> StageError {
    match endpoint {
        Some(endpoint) => taken(process, endpoint),
        None => StageError::Taken {
            process: process.to_owned(),
            place: "an address that it needs".to_owned(),
            holder: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_servers_for_a_taken_port_are_known() {
        for line in [
            "OSError: [Errno 98] Address already in use",
            "nginx: [emerg] bind() to 127.0.0.1:80 failed (98: Address already in use)",
            "Error: listen EADDRINUSE: address already in use :::3000",
            "[ERROR] Connection in use: ('127.0.0.1', 8000)",
        ] {
            assert!(reports_address_in_use(&[line.to_owned()]), "{line}");
        }
        assert!(!reports_address_in_use(&["ImportError: no module named app".to_owned()]));
    }
}
