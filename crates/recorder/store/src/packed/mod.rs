//! Packed slots: those of one series and lane in one span, in one row of a table.
//!
//! ```text
//!  slots ─→ Stretch: a place for each slot of the span, most of them filled
//!              │ pack: every accumulator becomes a column of whole numbers
//!              ▼
//!           Packed: of each column the least number, and by how much each slot
//!                   exceeds it, in digits of one byte that SQL itself can read
//! ```
//!
//! The format is documented in docs/packing.md. Packing is lossless: what cannot be packed exactly
//! stays as rows.

mod doubles;
mod numbers;
mod sql;
mod stored;
mod stretch;

use std::ops::Range;

use series::{Accumulator, Integral, SECOND_US};

use doubles::Doubles;
pub(crate) use numbers::NumberColumn;
pub(crate) use sql::{
    SERIES_COLUMNS, no_rows, postgres_slots, sqlite_last, sqlite_numbers, sqlite_slots,
    sqlite_spans,
};
pub(crate) use stretch::{Stretch, StretchKey};

use crate::scan::SlotSum;
use crate::stored_retention::SPAN_SLOTS;

/// The format of what is packed; earlier ones were never released.
pub(crate) const FORMAT: i64 = 4;

/// The integer columns, by their names in SQL.
pub(crate) const NUMBERS: [&str; 12] = [
    "flags",
    "covered",
    "n",
    "last_at",
    "integral",
    "integral_rest",
    "vmin",
    "vmin_rest",
    "vmax",
    "vmax_rest",
    "last_val",
    "last_val_rest",
];

/// The columns with a divisor.
pub(crate) const DIVIDED: [&str; 8] = [
    "integral",
    "integral_rest",
    "vmin",
    "vmin_rest",
    "vmax",
    "vmax_rest",
    "last_val",
    "last_val_rest",
];

const FLAGS: usize = 0;
const COVERED: usize = 1;
const N: usize = 2;
const LAST_AT: usize = 3;
const INTEGRAL: usize = 4;
const VMIN: usize = 6;
const VMAX: usize = 8;
const LAST_VAL: usize = 10;

/// The usual base of a column of rests, which are a few units above or below 0.
const REST_BASE: i64 = -63;

/// Bits of a slot's flags.
const APPROXIMATE: i64 = 1;
const NO_BOUNDS: i64 = 2;
const NO_LAST: i64 = 4;
const ABSENT: i64 = 8;
const NO_COVER: i64 = 16;
/// The flags of a scattered slot are followed by its place, counted from the first one.
const PLACE_SHIFT: u32 = 5;

/// Bits of the shape: how a column is derived.
const INTEGRAL_FROM_VMIN: i64 = 1;
const VMIN_FROM_INTEGRAL: i64 = 2;
const VMAX_IS_VMIN: i64 = 4;
const VMAX_FROM_VMIN: i64 = 8;
const LAST_FROM_VMIN: i64 = 16;
const LAST_FROM_INTEGRAL: i64 = 32;
const WHOLE_SECONDS: i64 = 64;
/// Only places with slots are stored, and the flags say which.
const SCATTERED: i64 = 128;

/// Which slots are packed when written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Minimum number of slots of a series in a span for a packed row.
    fewest: usize,
}

impl Packing {
    /// The default: at least four slots. Fewer of a span that is over are packed by SQLite only, where
    /// rows have no index by series.
    pub const USUAL: Packing = Packing { fewest: 4 };
    /// Pack every slot at once, which is slow, and good for tests.
    pub const ALWAYS: Packing = Packing { fewest: 1 };
    /// Pack nothing.
    pub const NEVER: Packing = Packing { fewest: usize::MAX };

    /// Whether this many slots are packed.
    pub(crate) fn admits(self, slots: usize) -> bool {
        slots >= self.fewest
    }

    /// Minimum number of slots for a packed row.
    pub(crate) fn fewest(self) -> i64 {
        i64::try_from(self.fewest).unwrap_or(i64::MAX)
    }
}

impl Default for Packing {
    fn default() -> Packing {
        Packing::USUAL
    }
}

/// Slots as stored: integer columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PackedSlots {
    /// Position of the first slot in the span.
    pub(crate) first: i64,
    /// Number of positions from the first slot to the last; of slots if they are scattered.
    pub(crate) count: i64,
    /// How columns are derived.
    pub(crate) shape: i64,
    /// In the order of [`NUMBERS`].
    pub(crate) numbers: [NumberColumn; 12],
    /// In the order of [`DIVIDED`]; `None` for rests that there are not, and, before it is stored, for
    /// other columns without numbers.
    pub(crate) divisors: [Option<f64>; 8],
}

/// Slots as columns; gaps repeat the previous value, so that they cost nothing.
struct FilledColumns {
    flags: Vec<i64>,
    covered: Vec<i64>,
    /// The stored `covered`: 0 may be represented by a flag.
    covered_stored: Vec<i64>,
    n: Vec<i64>,
    last_at: Vec<i64>,
    integral: Vec<f64>,
    vmin: Vec<f64>,
    vmax: Vec<f64>,
    last_val: Vec<f64>,
}

impl FilledColumns {
    fn for_places(places: usize) -> FilledColumns {
        let whole = || Vec::with_capacity(places);
        let doubles = || Vec::with_capacity(places);
        FilledColumns {
            flags: whole(),
            covered: whole(),
            covered_stored: whole(),
            n: whole(),
            last_at: whole(),
            integral: doubles(),
            vmin: doubles(),
            vmax: doubles(),
            last_val: doubles(),
        }
    }

    /// The columns of rows at some places, or of rows one after the other.
    fn new(
        rows: &[Option<Accumulator>],
        places: Option<&[usize]>,
        slot0_us: i64,
        step_us: i64,
    ) -> Option<FilledColumns> {
        let place_of = |at: usize| match places {
            Some(places) => places.get(at).map_or(0, |place| *place as i64),
            None => at as i64,
        };
        let mut filled = FilledColumns::for_places(rows.len());
        let mut before = rows.iter().flatten().next().copied()?;
        let mut bounds =
            rows.iter().flatten().find_map(|row| row.min().zip(row.max())).unwrap_or_default();
        let updated = rows.iter().enumerate().find_map(|(at, row)| {
            let (last_us, value) = row.as_ref()?.last()?;
            Some((last_us.checked_sub(slot0_us + place_of(at) * step_us)?, value))
        });
        let mut last = updated.unwrap_or_default();
        let some_covered = rows.iter().flatten().map(|row| row.covered_us).find(|us| *us != 0);
        let mut covered = some_covered.unwrap_or_default();
        for (at, row) in rows.iter().enumerate() {
            let slot_us = slot0_us + place_of(at) * step_us;
            let mut flags = if places.is_some() { place_of(at) << PLACE_SHIFT } else { 0 };
            match row {
                None => flags |= ABSENT,
                Some(row) => {
                    before = *row;
                    flags |= if row.approximate { APPROXIMATE } else { 0 };
                    match row.last() {
                        Some((last_us, value)) => last = (last_us.checked_sub(slot_us)?, value),
                        None => flags |= NO_LAST,
                    }
                    match row.min().zip(row.max()) {
                        Some(found) => bounds = found,
                        None if row.min().is_some() || row.max().is_some() => return None,
                        None => flags |= NO_BOUNDS,
                    }
                    match row.covered_us {
                        0 if some_covered.is_some() => flags |= NO_COVER,
                        us => covered = us,
                    }
                }
            }
            filled.flags.push(flags);
            filled.covered.push(before.covered_us);
            filled.covered_stored.push(covered);
            filled.n.push(before.n);
            filled.integral.push(before.integral.as_f64());
            // Meaningless bounds are set to the values that are cheapest beside the last value.
            let shown = if flags & NO_BOUNDS == 0 { bounds } else { (last.1, last.1) };
            filled.vmin.push(shown.0);
            filled.vmax.push(shown.1);
            filled.last_at.push(last.0);
            filled.last_val.push(last.1);
        }
        Some(filled)
    }

    fn integral_from_vmin(&self) -> bool {
        let places = self.integral.iter().zip(&self.vmin).zip(&self.covered);
        places.into_iter().all(|((integral, vmin), covered)| area(*vmin, *covered) == *integral)
    }

    fn vmin_from_integral(&self) -> bool {
        let places = self.integral.iter().zip(&self.vmin).zip(&self.covered).zip(&self.flags);
        places.into_iter().all(|(((integral, vmin), covered), flags)| {
            flags & NO_BOUNDS != 0 || rate(*integral, *covered) == *vmin
        })
    }

    /// `covered` and the times of the last updates in whole seconds, if they are and if that is
    /// shorter.
    fn in_seconds(&self) -> Option<(Vec<i64>, Vec<i64>)> {
        let differ = |numbers: &[i64]| numbers.windows(2).any(|pair| pair[0] != pair[1]);
        if !differ(&self.covered_stored) && !differ(&self.last_at) {
            return None;
        }
        let whole = |numbers: &[i64]| -> Option<Vec<i64>> {
            let second = |us: &i64| (us % SECOND_US == 0).then_some(us / SECOND_US);
            numbers.iter().map(second).collect()
        };
        whole(&self.covered_stored).zip(whole(&self.last_at))
    }

    /// Likely divisors for this stretch: the covered seconds, and those of an update.
    fn seconds(&self, step_us: i64) -> [f64; 3] {
        let covered_us = self.covered.first().copied().unwrap_or(0) as f64;
        let n = self.n.first().copied().unwrap_or(0).max(1) as f64;
        let second_us = SECOND_US as f64;
        [covered_us / second_us, covered_us / n / second_us, step_us as f64 / second_us]
    }
}

/// Level × seconds, with exactly the operations of an interval.
fn area(level: f64, covered_us: i64) -> f64 {
    level * covered_us as f64 / SECOND_US as f64
}

/// Count ÷ seconds, with exactly the operations of an interval.
fn rate(integral: f64, covered_us: i64) -> f64 {
    integral / (covered_us as f64 / SECOND_US as f64)
}

/// Packs rows at some places, or rows one after the other.
fn pack(
    first: usize,
    rows: &[Option<Accumulator>],
    places: Option<&[usize]>,
    slot0_us: i64,
    step_us: i64,
) -> Option<PackedSlots> {
    let filled = FilledColumns::new(rows, places, slot0_us, step_us)?;
    let hints = filled.seconds(step_us);
    let mut packed = PackedSlots {
        first: first as i64,
        count: rows.len() as i64,
        shape: if places.is_some() { SCATTERED } else { 0 },
        numbers: std::array::from_fn(|_| NumberColumn::default()),
        divisors: [None; 8],
    };
    let flags = NumberColumn::above_least(&filled.flags)?;
    packed.numbers[FLAGS] = if places.is_some() { flags } else { flags.trimmed() };
    packed.numbers[COVERED] = NumberColumn::new(&filled.covered_stored)?;
    packed.numbers[N] = NumberColumn::new(&filled.n)?;
    packed.numbers[LAST_AT] = NumberColumn::new(&filled.last_at)?;
    if let Some((covered, last_at)) = filled.in_seconds() {
        packed.numbers[COVERED] = NumberColumn::new(&covered)?;
        packed.numbers[LAST_AT] = NumberColumn::new(&last_at)?;
        packed.shape |= WHOLE_SECONDS;
    }

    let whole = filled.integral.iter().all(|integral| integral.fract() == 0.0);
    let (of_vmin, of_integral) = (filled.integral_from_vmin(), filled.vmin_from_integral());
    packed.shape |= if of_vmin && filled.vmin == filled.last_val {
        INTEGRAL_FROM_VMIN
    } else if whole && of_integral {
        VMIN_FROM_INTEGRAL
    } else if of_vmin {
        INTEGRAL_FROM_VMIN
    } else if of_integral {
        VMIN_FROM_INTEGRAL
    } else {
        0
    };
    let integral = match packed.shape & INTEGRAL_FROM_VMIN {
        0 => Some(packed.put(INTEGRAL, Doubles::new(&filled.integral, &hints)?, None)?),
        _ => None,
    };
    let vmin = match packed.shape & VMIN_FROM_INTEGRAL {
        0 => Some(packed.put(VMIN, Doubles::new(&filled.vmin, &hints)?, None)?),
        _ => None,
    };
    if filled.vmin == filled.vmax {
        packed.shape |= VMAX_IS_VMIN;
    } else {
        let vmax = Doubles::new(&filled.vmax, &with_scale(&hints, vmin.as_ref()))?;
        packed.put_near(VMAX, vmax, vmin.as_ref(), VMAX_FROM_VMIN)?;
    }
    let (near, bit) = match (&vmin, &integral) {
        (Some(vmin), _) => (Some(vmin), LAST_FROM_VMIN),
        (None, integral) => (integral.as_ref(), LAST_FROM_INTEGRAL),
    };
    let last_val = match &vmin {
        Some(vmin) if vmin.rest.is_none() && filled.last_val == filled.vmin => vmin.clone(),
        _ => Doubles::new(&filled.last_val, &with_scale(&hints, near))?,
    };
    packed.put_near(LAST_VAL, last_val, near, bit)?;
    Some(packed)
}

/// The hints, preceded by the scale of a column that may be similar.
fn with_scale(hints: &[f64; 3], near: Option<&Doubles>) -> [f64; 4] {
    let [a, b, c] = *hints;
    [near.map_or(1.0, |near| near.divisor), a, b, c]
}

impl PackedSlots {
    /// Puts doubles into their two columns, minus the numbers of `near`.
    fn put(&mut self, at: usize, doubles: Doubles, near: Option<&Doubles>) -> Option<Doubles> {
        let divided = at - INTEGRAL;
        self.numbers[at] = match near {
            None => NumberColumn::new(&doubles.numbers)?,
            Some(near) => less(&doubles, near)?,
        };
        self.divisors[divided] = Some(doubles.divisor);
        if let Some((rest, divisor)) = &doubles.rest {
            self.numbers[at + 1] = NumberColumn::near(REST_BASE, rest)?;
            self.divisors[divided + 1] = Some(*divisor);
        }
        Some(doubles)
    }

    /// Puts doubles minus the numbers of `near`, or unchanged if that is shorter.
    fn put_near(
        &mut self,
        at: usize,
        doubles: Doubles,
        near: Option<&Doubles>,
        bit: i64,
    ) -> Option<Doubles> {
        let alone = NumberColumn::digits_of(doubles.numbers.iter().copied());
        let difference = near.and_then(|near| {
            let pairs = doubles.numbers.iter().zip(&near.numbers);
            let overflows = pairs.clone().any(|(a, b)| a.checked_sub(*b).is_none());
            if overflows { None } else { NumberColumn::digits_of(pairs.map(|(a, b)| a - b)) }
        });
        // Differences of as many digits often need no base.
        let shorter = match (alone, difference) {
            (Some(alone), Some(difference)) => difference <= alone,
            (None, Some(_)) => true,
            _ => false,
        };
        if shorter {
            self.shape |= bit;
        }
        self.put(at, doubles, near.filter(|_| shorter))
    }

    /// Bytes of its digits.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.numbers.iter().map(NumberColumn::bytes).sum()
    }

    fn number(&self, column: usize, places: &Range<usize>) -> Result<Vec<i64>, String> {
        let count = usize::try_from(self.count).map_err(|e| e.to_string())?;
        self.numbers[column]
            .some(count, places.clone())
            .ok_or_else(|| format!("the column {} of packed slots is too short", NUMBERS[column]))
    }

    /// The doubles of a column, and its numbers.
    fn doubles(
        &self,
        at: usize,
        near: Option<&[i64]>,
        places: &Range<usize>,
    ) -> Result<(Vec<f64>, Vec<i64>), String> {
        let mut numbers = self.number(at, places)?;
        for (number, near) in numbers.iter_mut().zip(near.unwrap_or(&[])) {
            *number = number.wrapping_add(*near);
        }
        let divisor = self.divisors[at - INTEGRAL].unwrap_or(1.0);
        let mut doubles: Vec<f64> = numbers.iter().map(|n| *n as f64 / divisor).collect();
        if let Some(divisor) = self.divisors[at - INTEGRAL + 1] {
            for (double, rest) in doubles.iter_mut().zip(self.number(at + 1, places)?) {
                *double += rest as f64 / divisor;
            }
        }
        Ok((doubles, numbers))
    }

    fn is(&self, bit: i64) -> bool {
        self.shape & bit != 0
    }

    /// The place in the span of what is stored at a position.
    fn place(&self, at: usize, flags: i64) -> i64 {
        self.first + if self.is(SCATTERED) { flags >> PLACE_SHIFT } else { at as i64 }
    }

    /// Unpacks into a stretch.
    ///
    /// # Errors
    /// A message if the columns are invalid.
    pub(crate) fn unpack(&self, stretch: &mut Stretch) -> Result<(), String> {
        let count = usize::try_from(self.count).map_err(|e| e.to_string())?;
        let places = 0..count;
        let unpacked = UnpackedColumns::new(self, &places)?;
        let mut last_at = self.number(LAST_AT, &places)?;
        if self.is(WHOLE_SECONDS) {
            last_at.iter_mut().for_each(|us| *us = us.wrapping_mul(SECOND_US));
        }
        let near = match (self.is(LAST_FROM_VMIN), self.is(LAST_FROM_INTEGRAL)) {
            (true, _) => Some(unpacked.vmins.as_slice()),
            (_, true) => Some(unpacked.integrals.as_slice()),
            _ => None,
        };
        let (last_val, _) = self.doubles(LAST_VAL, near, &places)?;
        for at in places {
            let flags = unpacked.flags[at];
            if flags & ABSENT != 0 {
                continue;
            }
            let slot_us = stretch.key.span_us + self.place(at, flags) * stretch.step_us;
            let last = match flags & NO_LAST != 0 {
                true => (i64::MIN, 0.0),
                false => (slot_us.wrapping_add(last_at[at]), last_val[at]),
            };
            let (vmin, vmax) = unpacked.bounds(at);
            let row = Accumulator {
                integral: Integral::Area(unpacked.integral[at]),
                covered_us: unpacked.covered[at],
                vmin,
                vmax,
                n: unpacked.n[at],
                last_us: last.0,
                last_val: last.1,
                approximate: flags & APPROXIMATE != 0,
            };
            let slot = stretch.slot(slot_us);
            slot.map_err(|_| "packed slots lie outside their span")?.merge(&row);
        }
        Ok(())
    }

    /// Adds the sums of the slots that start at or after `from_us` and before `until_us`: only these
    /// are unpacked.
    ///
    /// # Errors
    /// A message if the columns are invalid.
    pub(crate) fn sums(
        &self,
        key: StretchKey,
        step_us: i64,
        from_us: i64,
        until_us: i64,
        sums: &mut Vec<SlotSum>,
    ) -> Result<(), String> {
        if self.first < 0 || self.first.saturating_add(self.count) > SPAN_SLOTS {
            return Err("packed slots lie outside their span".to_owned());
        }
        let first_us = key.span_us.saturating_add(self.first.saturating_mul(step_us));
        let place_of = |us: i64| {
            let slots = us.saturating_sub(first_us).saturating_add(step_us - 1).div_euclid(step_us);
            usize::try_from(slots.clamp(0, self.count.max(0))).unwrap_or(0)
        };
        let places = match self.is(SCATTERED) {
            true => 0..usize::try_from(self.count).map_err(|e| e.to_string())?,
            false => place_of(from_us)..place_of(until_us),
        };
        if places.is_empty() {
            return Ok(());
        }
        let unpacked = UnpackedColumns::new(self, &places)?;
        sums.reserve(places.len());
        for (at, place) in places.enumerate() {
            let flags = unpacked.flags[at];
            let slot_us = key.span_us.saturating_add(self.place(place, flags) * step_us);
            if flags & ABSENT != 0 || !(from_us..until_us).contains(&slot_us) {
                continue;
            }
            let (vmin, vmax) = unpacked.bounds(at);
            sums.push(SlotSum {
                slot_us,
                integral: unpacked.integral[at],
                covered_us: unpacked.covered[at],
                n: unpacked.n[at],
                vmin,
                vmax,
                approximate: flags & APPROXIMATE != 0,
                lane: key.lane,
            });
        }
        Ok(())
    }

    /// Everything stored, as bytes for a digest.
    pub(crate) fn row_bytes(&self, bytes: &mut Vec<u8>, key: StretchKey) {
        bytes.clear();
        bytes.push(b'p');
        let lane = i64::from(key.lane);
        let head = [key.span_us, key.series, lane, self.first, self.count, self.shape];
        bytes.extend(head.into_iter().flat_map(i64::to_le_bytes));
        for column in &self.numbers {
            bytes.extend(column.base.to_le_bytes());
            bytes.extend((column.digits.len() as u64).to_le_bytes());
            bytes.extend(&column.digits);
        }
        for divisor in &self.divisors {
            bytes.extend(divisor.unwrap_or(0.0).to_le_bytes());
        }
    }
}

/// The columns of some positions, without those of the last update.
struct UnpackedColumns {
    flags: Vec<i64>,
    covered: Vec<i64>,
    n: Vec<i64>,
    integral: Vec<f64>,
    /// The integers of `integral`.
    integrals: Vec<i64>,
    vmin: Vec<f64>,
    /// The integers of `vmin`.
    vmins: Vec<i64>,
    /// Empty if it equals `vmin`.
    vmax: Vec<f64>,
}

impl UnpackedColumns {
    fn new(packed: &PackedSlots, places: &Range<usize>) -> Result<UnpackedColumns, String> {
        let count = usize::try_from(packed.count).map_err(|e| e.to_string())?;
        let flags = packed.numbers[FLAGS].untrimmed(count).some(count, places.clone());
        let flags = flags.ok_or("the flags of packed slots are too many")?;
        let (mut covered, n) = (packed.number(COVERED, places)?, packed.number(N, places)?);
        for (covered, flags) in covered.iter_mut().zip(&flags) {
            let seconds = if packed.is(WHOLE_SECONDS) { SECOND_US } else { 1 };
            *covered = if flags & NO_COVER != 0 { 0 } else { covered.wrapping_mul(seconds) };
        }
        let (mut integral, integrals) = packed.doubles(INTEGRAL, None, places)?;
        let (mut vmin, vmins) = packed.doubles(VMIN, None, places)?;
        let vmax = if packed.is(VMAX_IS_VMIN) {
            Vec::new()
        } else {
            let near = packed.is(VMAX_FROM_VMIN).then_some(vmins.as_slice());
            packed.doubles(VMAX, near, places)?.0
        };
        if packed.is(INTEGRAL_FROM_VMIN) {
            for ((integral, vmin), covered) in integral.iter_mut().zip(&vmin).zip(&covered) {
                *integral = area(*vmin, *covered);
            }
        } else if packed.is(VMIN_FROM_INTEGRAL) {
            for ((vmin, integral), covered) in vmin.iter_mut().zip(&integral).zip(&covered) {
                *vmin = rate(*integral, *covered);
            }
        }
        Ok(UnpackedColumns { flags, covered, n, integral, integrals, vmin, vmins, vmax })
    }

    /// The minimum and the maximum of a position; infinite without them.
    fn bounds(&self, at: usize) -> (f64, f64) {
        match self.flags[at] & NO_BOUNDS != 0 {
            true => (f64::INFINITY, f64::NEG_INFINITY),
            false => (self.vmin[at], self.vmax.get(at).copied().unwrap_or(self.vmin[at])),
        }
    }
}

/// The column of the differences between numbers.
fn less(doubles: &Doubles, near: &Doubles) -> Option<NumberColumn> {
    let pairs = doubles.numbers.iter().zip(&near.numbers);
    let mut differences = Vec::with_capacity(doubles.numbers.len());
    for (a, b) in pairs {
        differences.push(a.checked_sub(*b)?);
    }
    NumberColumn::new(&differences)
}

#[cfg(test)]
mod tests;
