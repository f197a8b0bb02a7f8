//! Unpacking in plain SQL, so that any client of the database sees packed slots as rows.

use super::{
    ABSENT, APPROXIMATE, DIVIDED, FLAGS, INTEGRAL_FROM_VMIN, LAST_FROM_INTEGRAL, LAST_FROM_VMIN,
    NO_BOUNDS, NO_COVER, NO_LAST, NUMBERS, VMAX_FROM_VMIN, VMAX_IS_VMIN, VMIN_FROM_INTEGRAL,
    WHOLE_SECONDS,
};

/// Whose SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// SQLite's.
    Sqlite,
    /// PostgreSQL's.
    Postgres,
}

/// The most digits of a number.
const DIGITS_MAX: u32 = 9;

impl Dialect {
    /// Digit `place` of a column's number, counted from the last one.
    fn digit(self, column: &str, place: u32) -> String {
        match self {
            Dialect::Sqlite => {
                format!("(unicode(substr(p.{column}, i + 1 + {place} * p.count, 1)) - 1)")
            }
            Dialect::Postgres => format!("(get_byte(p.{column}, i + {place} * p.count) - 1)"),
        }
    }

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

    /// A slot's flags: one digit, which is missing for trailing positions with the smallest value.
    fn flags(self) -> String {
        let column = NUMBERS[FLAGS];
        let lacks = format!("p.{column} IS NULL OR length(p.{column}) <= i");
        let (zero, digit) = (self.whole(0), self.digit(column, 0));
        format!("(coalesce(p.{column}_base, 0) + CASE WHEN {lacks} THEN {zero} ELSE {digit} END)")
    }

    /// A column's integer. Digits that the column does not have are not read.
    fn number(self, column: &str) -> String {
        let mut digits = String::new();
        for place in (0..DIGITS_MAX).rev() {
            let value = self.whole(127_i64.pow(place));
            let digit = self.digit(column, place);
            let lacks = match place {
                0 => format!("p.{column} IS NULL"),
                _ => format!("length(p.{column}) <= {place} * p.count"),
            };
            let higher = if digits.is_empty() { String::new() } else { format!(" + {digits}") };
            let zero = self.whole(0);
            digits = format!("CASE WHEN {lacks} THEN {zero} ELSE {value} * {digit}{higher} END");
        }
        format!("(coalesce(p.{column}_base, 0) + {digits})")
    }
}

fn is(bits: &str, bit: i64) -> String {
    format!("({bits} & {bit}) <> 0")
}

/// The SELECT that shows the slots of a table of packed ones as rows, with the same columns in the
/// same order as the table of slots.
pub(crate) fn unpacking(dialect: Dialect, packed: &str, step_us: i64) -> String {
    let number = |column: &&str| match NUMBERS[FLAGS] {
        flags if flags == *column => format!("{} AS {column}", dialect.flags()),
        _ => format!("{} AS {column}", dialect.number(column)),
    };
    let numbers: Vec<String> = NUMBERS.iter().map(number).collect();
    let numbers = numbers.join(",\n");
    let divisors: Vec<String> = DIVIDED.iter().map(|column| format!("p.{column}_div")).collect();
    let divisors = divisors.join(", ");
    let from = match dialect {
        // LIMIT −1 keeps SQLite from computing each number again for each use.
        Dialect::Sqlite => format!(
            "(SELECT p.span_us + (p.first + i) * {step_us} AS slot, p.series, p.lane, p.shape,
                     {divisors},
                     {numbers}
              FROM {packed} p CROSS JOIN slot_place WHERE i < p.count LIMIT -1)"
        ),
        Dialect::Postgres => format!(
            "(SELECT p.span + (p.first + i) * interval '1 microsecond' * {step_us} AS slot,
                     p.series, p.lane, p.shape, {divisors}, d.*
              FROM {packed} p CROSS JOIN LATERAL generate_series(0, p.count - 1) AS g (i)
              CROSS JOIN LATERAL (SELECT {numbers} OFFSET 0) AS d) AS u"
        ),
    };
    let divided = |number: &str, column: &str| {
        let (number, rest) = (dialect.double(number), dialect.double(&format!("{column}_rest")));
        format!(
            "({number} / {column}_div + CASE WHEN {column}_rest_div IS NULL THEN 0 ELSE {rest} / {column}_rest_div END)"
        )
    };
    let second = format!("CASE WHEN {} THEN 1000000 ELSE 1 END", is("shape", WHOLE_SECONDS));
    let covered_us = format!(
        "CASE WHEN {} THEN {} ELSE covered * {second} END",
        is("flags", NO_COVER),
        dialect.whole(0)
    );
    let covered = dialect.double(&format!("({covered_us})"));
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
    let (slot_us, approximate) = match dialect {
        Dialect::Sqlite => ("slot".to_owned(), format!("flags & {APPROXIMATE}")),
        Dialect::Postgres => {
            ("(extract(epoch FROM slot) * 1000000)::bigint".to_owned(), is("flags", APPROXIMATE))
        }
    };
    format!(
        "SELECT slot{slot_as}, series, lane, {integral} AS integral, {covered_us} AS covered_us,
                CASE WHEN {no_bounds} THEN NULL ELSE {vmin} END AS vmin,
                CASE WHEN {no_bounds} THEN NULL ELSE {vmax} END AS vmax, n,
                CASE WHEN {no_last} THEN NULL ELSE {slot_us} + last_at * {second} END AS last_us,
                CASE WHEN {no_last} THEN NULL ELSE {last_val} END AS last_val,
                {approximate} AS approximate
         FROM {from}
         WHERE (flags & {ABSENT}) = 0",
        slot_as = if dialect == Dialect::Sqlite { " AS slot_us" } else { "" },
    )
}
