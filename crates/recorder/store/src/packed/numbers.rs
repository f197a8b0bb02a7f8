//! Integer columns in digits that SQL can read.

use std::ops::Range;

/// The base of the digits. A digit d is the byte d + 1, so that no byte is 0 and
/// each is a character of ASCII: SQLite reads it with `unicode()`, PostgreSQL
/// with `get_byte()`.
const BASE: u64 = 127;

/// The most digits: 127^9 is just below 2^63.
const DIGITS_MAX: usize = 9;

/// Digits that are taken from 32 bits, because processors divide several such numbers at a time.
const GROUP_DIGITS: usize = 4;
const GROUP: u64 = BASE.pow(GROUP_DIGITS as u32);

/// Integers: a base, and the difference of each from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NumberColumn {
    /// The smallest number, or a usual base if differences from it take no more digits.
    pub(crate) base: i64,
    /// The last digit of every number, then the second last of every number, and so on. Empty if
    /// all numbers are equal.
    pub(crate) digits: Vec<u8>,
}

impl NumberColumn {
    /// The column of some numbers; `None` if they are too far apart.
    pub(crate) fn new(numbers: &[i64]) -> Option<NumberColumn> {
        NumberColumn::near(0, numbers)
    }

    /// The same with a base that need not be stored, if differences from it take no more digits.
    pub(crate) fn near(usual: i64, numbers: &[i64]) -> Option<NumberColumn> {
        let (least, greatest) = ends(numbers.iter().copied())?;
        let planes = planes(least, greatest)?;
        let is_near = least > usual && self::planes(usual, greatest) == Some(planes);
        Some(NumberColumn::above(if is_near { usual } else { least }, planes, numbers))
    }

    /// The same with the smallest number as its base, for [`NumberColumn::trimmed`].
    pub(crate) fn above_least(numbers: &[i64]) -> Option<NumberColumn> {
        let (least, greatest) = ends(numbers.iter().copied())?;
        Some(NumberColumn::above(least, planes(least, greatest)?, numbers))
    }

    /// The column of numbers that exceed a base by at most so many digits.
    fn above(base: i64, planes: usize, numbers: &[i64]) -> NumberColumn {
        let mut digits = Vec::with_capacity(planes * numbers.len());
        if planes > 0 {
            let differences = numbers.iter().map(|number| number.wrapping_sub(base).unsigned_abs());
            let mut rests: Vec<u64> = differences.collect();
            let mut left = planes;
            while left > GROUP_DIGITS {
                let group = rests.iter().map(|rest| (rest % GROUP) as u32).collect();
                push_digits(&mut digits, group, GROUP_DIGITS);
                rests.iter_mut().for_each(|rest| *rest /= GROUP);
                left -= GROUP_DIGITS;
            }
            push_digits(&mut digits, rests.into_iter().map(|rest| rest as u32).collect(), left);
        }
        NumberColumn { base, digits }
    }

    /// The number of digits of each number in the column of some numbers; `None` if there are none,
    /// or if they are too far apart.
    pub(crate) fn digits_of(numbers: impl Iterator<Item = i64>) -> Option<usize> {
        let (least, greatest) = ends(numbers)?;
        planes(least, greatest)
    }

    /// The column without trailing positions that equal the smallest number, for a column of one
    /// digit per position.
    pub(crate) fn trimmed(mut self) -> NumberColumn {
        while self.digits.last() == Some(&1) {
            self.digits.pop();
        }
        self
    }

    /// The inverse of [`NumberColumn::trimmed`].
    pub(crate) fn untrimmed(&self, count: usize) -> NumberColumn {
        let mut column = self.clone();
        if !column.digits.is_empty() && column.digits.len() < count {
            column.digits.resize(count, 1);
        }
        column
    }

    /// Bytes of its digits.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.digits.len()
    }

    /// The first `count` numbers; `None` if the number of digits does not match.
    #[cfg(test)]
    pub(crate) fn numbers(&self, count: usize) -> Option<Vec<i64>> {
        self.some(count, 0..count)
    }

    /// The numbers at some of the `count` positions; `None` if the number of digits does not match.
    pub(crate) fn some(&self, count: usize, places: Range<usize>) -> Option<Vec<i64>> {
        let mut numbers = vec![self.base; places.len()];
        if self.digits.is_empty() {
            return Some(numbers);
        }
        let planes = self.digits.len().checked_div(count)?;
        if planes > DIGITS_MAX || planes * count != self.digits.len() {
            return None;
        }
        let mut value = 1_i64;
        for plane in self.digits.chunks(count) {
            for (number, digit) in numbers.iter_mut().zip(plane.get(places.clone())?) {
                let digit = i64::from(digit.wrapping_sub(1));
                *number = number.wrapping_add(digit.wrapping_mul(value));
            }
            value = value.wrapping_mul(BASE as i64);
        }
        Some(numbers)
    }
}

/// The smallest and the greatest number; `None` if there are none.
fn ends(mut numbers: impl Iterator<Item = i64>) -> Option<(i64, i64)> {
    let first = numbers.next()?;
    Some(numbers.fold((first, first), |(least, greatest), number| {
        (least.min(number), greatest.max(number))
    }))
}

/// The digits of the difference between two numbers; `None` if they are too far apart.
fn planes(least: i64, greatest: i64) -> Option<usize> {
    let mut differ_by = greatest.checked_sub(least)?.unsigned_abs();
    let mut planes = 0;
    while differ_by > 0 {
        differ_by /= BASE;
        planes += 1;
    }
    (planes <= DIGITS_MAX).then_some(planes)
}

/// Appends so many digits of each number, at most [`GROUP_DIGITS`]: all last ones, all second last ones,
/// and so on.
fn push_digits(digits: &mut Vec<u8>, mut numbers: Vec<u32>, planes: usize) {
    let character = |digit: u32| (digit as u8).wrapping_add(1);
    for _ in 1..planes {
        digits.extend(numbers.iter().map(|number| character(number % BASE as u32)));
        numbers.iter_mut().for_each(|number| *number /= BASE as u32);
    }
    digits.extend(numbers.into_iter().map(character));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_take_as_few_digits_as_they_differ_by() {
        let cases: [(&[i64], usize); 7] = [
            (&[5, 5, 5], 0),
            (&[-7], 0),
            (&[0, 126], 2),
            (&[0, 127], 4),
            (&[-1_000_000, -999_990, -999_900], 3),
            (&[i64::MIN, i64::MIN + 8_000_000_000_000_000_000], 18),
            (&[1 << 60, -(1 << 60)], 18),
        ];
        for (numbers, bytes) in cases {
            let column = NumberColumn::new(numbers).unwrap();
            assert_eq!(column.bytes(), bytes, "{numbers:?}");
            assert_eq!(column.numbers(numbers.len()).unwrap(), numbers);
            assert!(column.digits.iter().all(|byte| (1..=127).contains(byte)));
        }
    }

    #[test]
    fn a_base_is_left_out_if_that_takes_no_more_digits() {
        for (numbers, base) in
            [(&[1, 6, 6][..], 0), (&[30, 60], 0), (&[100, 127], 100), (&[7, 7], 7)]
        {
            let column = NumberColumn::new(numbers).unwrap();
            assert_eq!(column.base, base, "{numbers:?}");
            assert_eq!(column.numbers(numbers.len()).unwrap(), numbers);
        }
    }

    #[test]
    fn numbers_too_far_apart_are_not_packed() {
        assert_eq!(NumberColumn::new(&[i64::MIN, i64::MAX]), None);
        assert_eq!(NumberColumn::new(&[0, i64::MAX]), None);
        assert_eq!(NumberColumn::new(&[]), None);
    }

    #[test]
    fn what_is_trimmed_comes_back() {
        for numbers in [&[4, 4, 4][..], &[16, 0, 0, 0], &[0, 0, 5], &[9, 4, 4]] {
            let trimmed = NumberColumn::above_least(numbers).unwrap().trimmed();
            let back = trimmed.untrimmed(numbers.len()).numbers(numbers.len());
            assert_eq!(back.as_deref(), Some(numbers));
        }
        assert_eq!(NumberColumn::above_least(&[16, 4, 4, 4]).unwrap().trimmed().bytes(), 1);
    }

    #[test]
    fn digits_of_another_count_are_refused() {
        let column = NumberColumn::new(&[1, 2, 3]).unwrap();
        assert_eq!(column.numbers(2), None);
        assert_eq!(column.numbers(0), None);
    }
}
