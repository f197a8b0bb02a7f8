//! Unpacking in plain SQL, so that any client of the database sees packed slots as rows.
//!
//! A condition of the reader on a series or a time must reach the tables before anything is
//! unpacked. Both databases move conditions into the arms of a UNION ALL, and neither moves them
//! past a LIMIT. SQLite merges simple subqueries into the outer query and then computes each number
//! again for each use; an arm without a table, which has no rows, prevents that.

use super::stored::{is_rest, usual_base, usual_divisors};
use super::{
    ABSENT, APPROXIMATE, DIVIDED, FLAGS, INTEGRAL, INTEGRAL_FROM_VMIN, LAST_FROM_INTEGRAL,
    LAST_FROM_VMIN, NO_BOUNDS, NO_COVER, NO_LAST, NUMBERS, PLACE_SHIFT, SCATTERED, VMAX_FROM_VMIN,
    VMAX_IS_VMIN, VMIN_FROM_INTEGRAL, WHOLE_SECONDS,
};

/// The most digits of a number.
const DIGITS_MAX: u32 = 9;

/// The columns of a series that the views for people show or need, of the table `series` as `s`.
const OF_SERIES: &str = "s.id AS series, s.measurement, s.field, s.tags, s.flow, s.xff, s.laned";

/// The names of the columns [`OF_SERIES`].
pub(crate) const SERIES_COLUMNS: &str = "series, measurement, field, tags, flow, xff, laned";

/// Whose SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    fn whole(self, number: i64) -> String {
        match self {
            Dialect::Sqlite => number.to_string(),
            Dialect::Postgres => format!("{number}::bigint"),
        }
    }

    fn double(self, expression: &str) -> String {
        match self {
            Dialect::Sqlite => format!("({expression} * 1.0)"),
            Dialect::Postgres => format!("({expression})::double precision"),
        }
    }

    /// Digit `place` of a column's number, counted from the last one.
    fn digit(self, column: &str, place: u32) -> String {
        match self {
            Dialect::Sqlite => {
                format!("(unicode(substr({column}, i + 1 + {place} * count, 1)) - 1)")
            }
            Dialect::Postgres => format!("(get_byte(p.{column}, i + {place} * p.count) - 1)"),
        }
    }

    /// Whether a column's numbers have more than `place` digits.
    fn has_digit(self, column: &str, place: u32) -> String {
        match (self, place) {
            (Dialect::Sqlite, _) => format!("{column}_digits > {place}"),
            (Dialect::Postgres, 0) => format!("p.{column} IS NOT NULL"),
            (Dialect::Postgres, _) => format!("length(p.{column}) > {place} * p.count"),
        }
    }

    /// A column's base, of a table of packed rows `p`.
    fn stored_base(self, place: usize, step_us: i64) -> String {
        let (column, whole) = (NUMBERS[place], |number| self.whole(number));
        let [usual, with_digits] = [false, true].map(|has| usual_base(place, has, step_us));
        let usual = if usual == with_digits {
            whole(usual)
        } else {
            let (usual, with_digits) = (whole(usual), whole(with_digits));
            format!("CASE WHEN p.{column} IS NULL THEN {usual} ELSE {with_digits} END")
        };
        format!("coalesce(p.{column}_base, {usual})")
    }

    /// A column's base where its number is computed.
    fn base(self, place: usize, step_us: i64) -> String {
        match self {
            Dialect::Sqlite => format!("{}_base", NUMBERS[place]),
            Dialect::Postgres => self.stored_base(place, step_us),
        }
    }

    /// A slot's flags: one digit, which is missing for trailing positions with the smallest value; or
    /// two with its place, if slots are scattered.
    fn flags(self, step_us: i64) -> String {
        let column = NUMBERS[FLAGS];
        let (length, count) = match self {
            Dialect::Sqlite => (format!("{column}_digits"), "count"),
            Dialect::Postgres => (format!("length(p.{column})"), "p.count"),
        };
        let (zero, base) = (self.whole(0), self.base(FLAGS, step_us));
        let [digit, higher] = [0, 1].map(|place| self.digit(column, place));
        format!(
            "({base} + CASE WHEN i < {length} THEN {digit} ELSE {zero} END
                     + CASE WHEN {length} > {count} THEN {} * {higher} ELSE {zero} END)",
            self.whole(127)
        )
    }

    /// The place of what is stored at position `i`, counted from the first one, given its flags.
    fn place(self, shape: &str, flags: &str) -> String {
        format!("CASE WHEN {} THEN {flags} >> {PLACE_SHIFT} ELSE i END", is(shape, SCATTERED))
    }

    /// A column's integer. Digits that the column does not have are not read.
    fn number(self, of: usize, step_us: i64) -> String {
        let column = NUMBERS[of];
        let mut digits = String::new();
        for place in (0..DIGITS_MAX).rev() {
            let value = self.whole(127_i64.pow(place));
            let (has, digit) = (self.has_digit(column, place), self.digit(column, place));
            let higher = if digits.is_empty() { String::new() } else { format!(" + {digits}") };
            let zero = self.whole(0);
            digits = format!("CASE WHEN {has} THEN {value} * {digit}{higher} ELSE {zero} END");
        }
        format!("({} + {digits})", self.base(of, step_us))
    }

    /// All numbers, by name.
    fn numbers(self, step_us: i64) -> String {
        let number = |(place, column): (usize, &&str)| match place {
            FLAGS => format!("{} AS {column}", self.flags(step_us)),
            _ => format!("{} AS {column}", self.number(place, step_us)),
        };
        NUMBERS.iter().enumerate().map(number).collect::<Vec<String>>().join(",\n")
    }

    /// The columns of a slot after its key, from its numbers.
    fn slot(self) -> String {
        let divided = |number: &str, column: &str| {
            let (number, rest) = (self.double(number), self.double(&format!("{column}_rest")));
            format!(
                "({number} / {column}_div + CASE WHEN {column}_rest_div IS NULL THEN 0 ELSE {rest} / {column}_rest_div END)"
            )
        };
        let second = format!("CASE WHEN {} THEN 1000000 ELSE 1 END", is("shape", WHOLE_SECONDS));
        let covered_us = format!(
            "CASE WHEN {} THEN {} ELSE covered * {second} END",
            is("flags", NO_COVER),
            self.whole(0)
        );
        let covered = self.double(&format!("({covered_us})"));
        let (vmin, integral) = (divided("vmin", "vmin"), divided("integral", "integral"));
        let vmin = format!(
            "CASE WHEN {} THEN {integral} / ({covered} / 1000000.0) ELSE {vmin} END",
            is("shape", VMIN_FROM_INTEGRAL)
        );
        let integral = format!(
            "CASE WHEN {} THEN {} * {covered} / 1000000.0 ELSE {integral} END",
            is("shape", INTEGRAL_FROM_VMIN),
            divided("vmin", "vmin")
        );
        let vmax = format!(
            "CASE WHEN {} THEN {vmin} ELSE {} END",
            is("shape", VMAX_IS_VMIN),
            divided(
                &format!("(vmax + CASE WHEN {} THEN vmin ELSE 0 END)", is("shape", VMAX_FROM_VMIN)),
                "vmax"
            )
        );
        let last_val = divided(
            &format!(
                "(last_val + CASE WHEN {} THEN vmin WHEN {} THEN integral ELSE 0 END)",
                is("shape", LAST_FROM_VMIN),
                is("shape", LAST_FROM_INTEGRAL)
            ),
            "last_val",
        );
        let (no_bounds, no_last) = (is("flags", NO_BOUNDS), is("flags", NO_LAST));
        let (slot_us, approximate) = match self {
            Dialect::Sqlite => ("slot_us".to_owned(), format!("flags & {APPROXIMATE}")),
            Dialect::Postgres => (
                "(extract(epoch FROM slot) * 1000000)::bigint".to_owned(),
                is("flags", APPROXIMATE),
            ),
        };
        format!(
            "{integral} AS integral, {covered_us} AS covered_us,
             CASE WHEN {no_bounds} THEN NULL ELSE {vmin} END AS vmin,
             CASE WHEN {no_bounds} THEN NULL ELSE {vmax} END AS vmax, n,
             CASE WHEN {no_last} THEN NULL ELSE {slot_us} + last_at * {second} END AS last_us,
             CASE WHEN {no_last} THEN NULL ELSE {last_val} END AS last_val,
             {approximate} AS approximate"
        )
    }
}

fn is(bits: &str, bit: i64) -> String {
    format!("({bits} & {bit}) <> 0")
}

/// The divisors of a table of packed rows `p`.
fn stored_divisors() -> String {
    let divisor = |(place, column): (usize, &&str)| {
        let others = usual_divisors(INTEGRAL + place).iter();
        let others: String = others.map(|other| format!("p.{}_div, ", NUMBERS[*other])).collect();
        match is_rest(place) {
            false => format!("coalesce(p.{column}_div, {others}1.0) AS {column}_div"),
            true => format!("p.{column}_div"),
        }
    };
    DIVIDED.iter().enumerate().map(divisor).collect::<Vec<String>>().join(", ")
}

/// A SELECT of no rows with this many columns.
///
/// As an arm of a UNION ALL it keeps SQLite from merging the union into an outer query, which would
/// compute each column again for each use. Conditions of the outer query still reach the arms.
pub(crate) fn no_rows(columns: usize) -> String {
    format!("SELECT {} WHERE 0", vec!["NULL"; columns].join(", "))
}

/// SQLite: the SELECT that shows packed rows with the columns of their series, and the number of
/// digits of each column.
pub(crate) fn sqlite_spans(packed: &str, step_us: i64) -> String {
    let digits = |(place, column): (usize, &&str)| {
        let length = match place {
            FLAGS => format!("length(p.{column})"),
            _ => format!("length(p.{column}) / p.count"),
        };
        let base = Dialect::Sqlite.stored_base(place, step_us);
        format!("{base} AS {column}_base, p.{column}, ifnull({length}, 0) AS {column}_digits")
    };
    let digits: Vec<String> = NUMBERS.iter().enumerate().map(digits).collect();
    format!(
        "SELECT {OF_SERIES}, p.lane, p.span_us + p.first * {step_us} AS first_us, p.count, p.shape,
                {},
                {}
         FROM series s CROSS JOIN {packed} p ON p.series = s.id
         UNION ALL {}",
        stored_divisors(),
        digits.join(",\n"),
        no_rows(7 + 4 + DIVIDED.len() + 3 * NUMBERS.len())
    )
}

/// SQLite: the SELECT that shows the numbers of each slot of the view of [`sqlite_spans`].
pub(crate) fn sqlite_numbers(spans: &str, step_us: i64) -> String {
    let place = Dialect::Sqlite.place("shape", &Dialect::Sqlite.flags(step_us));
    let divisors: Vec<String> = DIVIDED.iter().map(|column| format!("{column}_div")).collect();
    format!(
        "SELECT {SERIES_COLUMNS}, lane, first_us + ({place}) * {step_us} AS slot_us, shape, {},
                {}
         FROM {spans} CROSS JOIN slot_place WHERE i < count
         UNION ALL {}",
        divisors.join(", "),
        Dialect::Sqlite.numbers(step_us),
        no_rows(7 + 3 + DIVIDED.len() + NUMBERS.len())
    )
}

/// SQLite: the place of the last slot of a packed row, counted from the first one.
pub(crate) fn sqlite_last() -> String {
    let flags = NUMBERS[FLAGS];
    let digit = |at: &str| format!("unicode(substr({flags}, {at}, 1)) - 1");
    let higher = format!("length({flags}) > count THEN 127 * ({})", digit("2 * count"));
    format!(
        "CASE WHEN {} THEN (ifnull({flags}_base, 0) + {} + CASE WHEN {higher} ELSE 0 END) >> {PLACE_SHIFT}
              ELSE count - 1 END",
        is("shape", SCATTERED),
        digit("count")
    )
}

/// SQLite: the SELECT that shows the slots of the view of [`sqlite_numbers`] after some of its own
/// columns.
pub(crate) fn sqlite_slots(numbers: &str, columns: &str) -> String {
    format!(
        "SELECT {columns}, {} FROM {numbers} WHERE (flags & {ABSENT}) = 0",
        Dialect::Sqlite.slot()
    )
}

/// PostgreSQL: the SELECT that shows the slots of a table of packed ones as rows, with the columns
/// of the table of slots and the start of the span.
pub(crate) fn postgres_slots(packed: &str, step_us: i64) -> String {
    format!(
        "SELECT slot, series, lane, {}, span
         FROM (SELECT p.span + (p.first + {}) * interval '1 microsecond' * {step_us} AS slot,
                      p.span, p.series, p.lane, p.shape, {}, d.*
               FROM {packed} p CROSS JOIN slot_place
               CROSS JOIN LATERAL (SELECT {} OFFSET 0) AS d
               WHERE i < p.count) AS u
         WHERE (flags & {ABSENT}) = 0",
        Dialect::Postgres.slot(),
        Dialect::Postgres.place("p.shape", "d.flags"),
        stored_divisors(),
        Dialect::Postgres.numbers(step_us)
    )
}
