//! The statement that reads the same slots by SQL.

use series::{SECOND_US, Step};
use store::Identity;

/// Slots of a series that a query read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReadSlots {
    pub(crate) identity: Identity,
    pub(crate) step: Step,
    pub(crate) from_us: i64,
    pub(crate) until_us: i64,
}

/// A text as SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A statement for SQLite or PostgreSQL, over the view of the step.
pub(crate) fn statement(read: &ReadSlots, is_postgres: bool) -> String {
    let ReadSlots { identity, step, from_us, until_us } = read;
    let mut conditions = vec![
        format!("measurement = {}", quoted(&identity.measurement)),
        format!("field = {}", quoted(&identity.field)),
    ];
    for (tag, value) in &identity.tags {
        let key = match is_postgres {
            true => quoted(tag),
            false => quoted(&format!("$.\"{tag}\"")),
        };
        conditions.push(format!("tags->>{key} = {}", quoted(value)));
    }
    match is_postgres {
        true => {
            let at = |us: i64| format!("to_timestamp({})", us.div_euclid(SECOND_US));
            conditions.push(format!("slot >= {}", at(*from_us)));
            conditions.push(format!("slot < {}", at(*until_us)));
        }
        false => {
            conditions.push(format!("slot_us >= {from_us}"));
            conditions.push(format!("slot_us < {until_us}"));
        }
    }
    format!(
        "SELECT slot, rate, total FROM {}\nWHERE {}\nORDER BY slot;",
        store::view_of(*step),
        conditions.join("\n  AND ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_quoted() {
        let identity = Identity::new("it's", [("a\"b", "x'; DROP TABLE series; --")]);
        let step = Step::from_secs(60).unwrap();
        let read = ReadSlots { identity, step, from_us: 0, until_us: 60_000_000 };
        assert_eq!(
            statement(&read, true),
            "SELECT slot, rate, total FROM every_1m\nWHERE measurement = 'it''s'\n  AND field = \
             'value'\n  AND tags->>'a\"b' = 'x''; DROP TABLE series; --'\n  AND slot >= \
             to_timestamp(0)\n  AND slot < to_timestamp(60)\nORDER BY slot;"
        );
        assert!(statement(&read, false).contains("slot_us < 60000000\nORDER BY slot;"));
    }
}
