//! Times in PostgreSQL's binary format.

use std::error::Error;

use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// PostgreSQL counts microseconds from 2000-01-01 (UTC).
const EPOCH_US: i64 = 946_684_800_000_000;

/// PostgreSQL's latest time is in the year 294276; ours end a little earlier.
const LATEST_US: i64 = 9_000_000_000_000_000_000;

/// PostgreSQL's earliest time, 4713 BC, is a little earlier than this.
const EARLIEST_US: i64 = -210_000_000_000_000_000;

/// Microseconds since 1970 as a `timestamptz`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) i64);

impl Time {
    /// The nearest time that PostgreSQL supports.
    pub(super) fn clamped(us: i64) -> Time {
        Time(us.clamp(EARLIEST_US, LATEST_US))
    }

    /// Whether PostgreSQL supports the time.
    pub(super) fn is_known(us: i64) -> bool {
        (EARLIEST_US..=LATEST_US).contains(&us)
    }
}

/// Microseconds since 1970 in PostgreSQL's epoch; the earliest time for an unsupported one.
pub(super) fn since_2000(us: i64) -> i64 {
    us.saturating_sub(EPOCH_US)
}

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        if self.0.checked_sub(EPOCH_US).is_none() {
            return Err("the time is out of range".into());
        }
        out.extend_from_slice(&since_2000(self.0).to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Time, Box<dyn Error + Sync + Send>> {
        let since_2000_us = i64::from_be_bytes(raw.try_into()?);
        Ok(Time(since_2000_us.checked_add(EPOCH_US).ok_or("the time is out of range")?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_microseconds_since_2000() {
        let mut out = BytesMut::new();
        Time(EPOCH_US + 5).to_sql(&Type::TIMESTAMPTZ, &mut out).unwrap();
        assert_eq!(out.as_ref(), 5i64.to_be_bytes());
        assert_eq!(Time::from_sql(&Type::TIMESTAMPTZ, &out).unwrap().0, EPOCH_US + 5);
        assert!(Time(i64::MIN).to_sql(&Type::TIMESTAMPTZ, &mut out).is_err());
        assert!(!Time::is_known(i64::MIN));
        assert!(Time(Time::clamped(i64::MIN).0).to_sql(&Type::TIMESTAMPTZ, &mut out).is_ok());
    }
}
