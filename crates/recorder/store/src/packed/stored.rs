//! The columns of packed rows that may be NULL: what is usual is not stored.

use super::{
    COVERED, INTEGRAL, LAST_AT, LAST_VAL, N, NumberColumn, PackedSlots, REST_BASE, VMAX, VMIN,
};

/// The base of a column where it is NULL: without digits, each slot has one update, at its end, and is
/// covered as a whole; rests are above or below 0.
pub(super) fn usual_base(column: usize, has_digits: bool, step_us: i64) -> i64 {
    match column {
        COVERED | LAST_AT if !has_digits => step_us,
        N if !has_digits => 1,
        INTEGRAL.. if has_digits && is_rest(column - INTEGRAL) => REST_BASE,
        _ => 0,
    }
}

/// Whether a column with a divisor is one of rests.
pub(super) fn is_rest(place: usize) -> bool {
    place % 2 == 1
}

/// The columns of doubles from which another one takes its divisor where it is NULL: the first that has
/// one, and 1 if none has.
pub(super) fn usual_divisors(column: usize) -> &'static [usize] {
    match column {
        VMAX | LAST_VAL => &[VMIN, INTEGRAL],
        _ => &[],
    }
}

/// The divisor of a column of doubles where it is NULL; none of a column of rests.
fn usual_divisor(stored: &[Option<f64>; 8], place: usize) -> Option<f64> {
    if is_rest(place) {
        return None;
    }
    let others = usual_divisors(INTEGRAL + place).iter();
    others.filter_map(|column| stored[column - INTEGRAL]).next().or(Some(1.0))
}

impl PackedSlots {
    /// A packed row: the first three columns after its format, and those that may be NULL, by their places
    /// in [`NUMBERS`](super::NUMBERS) and [`DIVIDED`](super::DIVIDED).
    ///
    /// # Errors
    /// Those of the columns.
    pub(crate) fn from_stored<E>(
        [first, count, shape]: [i64; 3],
        step_us: i64,
        base: impl Fn(usize) -> Result<Option<i64>, E>,
        digits: impl Fn(usize) -> Result<Option<Vec<u8>>, E>,
        divisor: impl Fn(usize) -> Result<Option<f64>, E>,
    ) -> Result<PackedSlots, E> {
        let mut numbers: [NumberColumn; 12] = std::array::from_fn(|_| NumberColumn::default());
        for (place, column) in numbers.iter_mut().enumerate() {
            column.digits = digits(place)?.unwrap_or_default();
            let usual = usual_base(place, !column.digits.is_empty(), step_us);
            column.base = base(place)?.unwrap_or(usual);
        }
        let mut stored = [None; 8];
        for (place, found) in stored.iter_mut().enumerate() {
            *found = divisor(place)?;
        }
        let divisors = std::array::from_fn(|place| stored[place].or(usual_divisor(&stored, place)));
        Ok(PackedSlots { first, count, shape, numbers, divisors })
    }

    /// The base of a column, unless it is the usual one.
    pub(crate) fn stored_base(&self, place: usize, step_us: i64) -> Option<i64> {
        let NumberColumn { base, digits } = &self.numbers[place];
        (*base != usual_base(place, !digits.is_empty(), step_us)).then_some(*base)
    }

    /// The digits of a column, if it has some.
    pub(crate) fn stored_digits(&self, place: usize) -> Option<&[u8]> {
        Some(self.numbers[place].digits.as_slice()).filter(|digits| !digits.is_empty())
    }

    /// The divisors that are not the usual ones.
    pub(crate) fn stored_divisors(&self) -> [Option<f64>; 8] {
        let mut stored = [None; 8];
        for place in 0..stored.len() {
            let usual = usual_divisor(&stored, place);
            stored[place] = self.divisors[place].filter(|divisor| Some(*divisor) != usual);
        }
        stored
    }
}
