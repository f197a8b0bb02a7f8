//! Translates PostgreSQL errors.

use std::error::Error as _;

use postgres::error::SqlState;

use crate::StoreError;

/// The error at `place`; `fresh` while connecting.
pub(super) fn explain(place: &str, fresh: bool, error: &postgres::Error) -> StoreError {
    let place = place.to_owned();
    let cause = text(error);
    let Some(code) = error.code() else {
        return match (fresh, error.is_closed() || is_io(error)) {
            (true, true) if is_unknown_host(&cause) => StoreError::NoHost { place, cause },
            (true, true) => StoreError::Unreachable { place, cause },
            // The URL lacks what the server asks for, such as a password.
            (true, false) if cause.starts_with("invalid configuration") => {
                StoreError::NotLetIn { place, cause }
            }
            (false, true) => StoreError::Lost { place },
            (_, false) => StoreError::Postgres { place, cause },
        };
    };
    match code.code() {
        "3D000" => StoreError::NoDatabase { place },
        "53100" => StoreError::Full { place },
        "42501" => StoreError::Denied { place, cause },
        // A row that another writer wrote at the same moment: a retry finds it.
        "55P03" | "40P01" | "23505" => StoreError::Busy { place },
        _ if *code == SqlState::ADMIN_SHUTDOWN
            || *code == SqlState::CRASH_SHUTDOWN
            || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
            || code.code().starts_with("08") =>
        {
            StoreError::Lost { place }
        }
        "57P03" | "53300" => StoreError::Unreachable { place, cause },
        class if class.starts_with("28") => StoreError::NotLetIn { place, cause },
        _ => StoreError::Postgres { place, cause },
    }
}

fn is_io(error: &postgres::Error) -> bool {
    error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// Whether a host name has no address, as the C library says it; it says otherwise that no name
/// server answers.
fn is_unknown_host(cause: &str) -> bool {
    cause.contains("failed to lookup address")
        && !cause.contains("ry again")
        && !cause.contains("emporary")
}

/// The server's message if there is one, or the chain of causes.
pub(super) fn text(error: &postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_an_address_is_told_from_a_name_server_that_does_not_answer() {
        let lookup = "error connecting to server: failed to lookup address information: ";
        for (cause, is_unknown) in [
            ("Name or service not known", true),
            ("No address associated with hostname", true),
            ("Name does not resolve", true),
            ("Temporary failure in name resolution", false),
            ("Try again", false),
        ] {
            assert_eq!(is_unknown_host(&format!("{lookup}{cause}")), is_unknown, "{cause}");
        }
        assert!(!is_unknown_host("error connecting to server: Connection refused"));
    }
}
