//! Slots in rows of their own.

use postgres::Row;
use series::{Accumulator, Integral, SlotKey};

use super::types::Time;

/// The columns of a slot, in the order in which [`slot`] reads them.
pub(super) const SLOT: &str = "r.slot, r.series::bigint, r.lane, r.integral, r.covered_us, r.vmin, r.vmax, r.n, \
                    r.last_us, r.last_val, r.approximate";

/// A slot from the columns [`SLOT`]; its integral is a double.
pub(super) fn slot(row: &Row) -> Result<(SlotKey, Accumulator), postgres::Error> {
    let real = |column: usize, otherwise: f64| {
        Ok::<f64, postgres::Error>(row.try_get::<_, Option<f64>>(column)?.unwrap_or(otherwise))
    };
    let accumulator = Accumulator {
        integral: Integral::Area(row.try_get(3)?),
        covered_us: row.try_get(4)?,
        vmin: real(5, f64::INFINITY)?,
        vmax: real(6, f64::NEG_INFINITY)?,
        n: row.try_get(7)?,
        last_us: row.try_get::<_, Option<i64>>(8)?.unwrap_or(i64::MIN),
        last_val: real(9, 0.0)?,
        approximate: row.try_get(10)?,
    };
    let slot_us = row.try_get::<_, Time>(0)?.0;
    Ok((SlotKey { slot_us, series: row.try_get(1)?, lane: row.try_get(2)? }, accumulator))
}
