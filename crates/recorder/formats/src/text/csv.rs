//! CSV with a header, as in RFC 4180, one record a line.
//!
//! A file whose header has columns for start and end contains intervals; one with a column for the
//! time, points. Each value column becomes a field of its name, or of the name in the field column
//! if there is one. The measurement is a column, or the same for the whole file. Every other column
//! is a tag; an empty cell is no tag.
//!
//! Times are RFC 3339, or numbers since 1970. An empty value is unknown: nothing is recorded or
//! refused. A quoted cell may span several lines.
//!
//! The crate `csv` accepts broken quotes silently: `"5"x` becomes `5x`, and an open quote swallows the
//! rest of the file. Such rows are refused here, with their line. A file that has grown is read on from
//! its last complete record, so records are framed line by line (`quotes.rs`).

use std::borrow::Cow;

use series::Kind;

use super::{Parser, ParserOutput, is_of_points};
use crate::name::FIELD;
use crate::{
    Arrival, FileError, Malformed, Number, Precision, Quotes, Reason, Series, SeriesName, Update,
    parse_time,
};

/// Column names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The start of an interval.
    pub start: String,
    /// Its end.
    pub end: String,
    /// The time of a point.
    pub time: String,
    /// The values.
    pub values: Vec<String>,
    /// The measurement, unless the file has only one.
    pub measurement: String,
    /// The field; only with a single value column.
    pub field: String,
    /// Field separator.
    pub separator: char,
}

impl Default for Columns {
    /// `start`, `end`, `time`, `value`, `measurement`, `field`, and commas.
    fn default() -> Columns {
        Columns {
            start: "start".to_owned(),
            end: "end".to_owned(),
            time: "time".to_owned(),
            values: vec!["value".to_owned()],
            measurement: "measurement".to_owned(),
            field: "field".to_owned(),
            separator: ',',
        }
    }
}

/// Parses CSV.
#[derive(Clone, Debug)]
pub struct Csv {
    columns: Columns,
    /// The measurement if there is no column for it.
    measurement: String,
    kind: Option<Kind>,
    precision: Precision,
    header: Option<Header>,
    key: String,
}

/// Column positions.
#[derive(Clone, Debug)]
struct Header {
    width: usize,
    times: TimeColumns,
    values: Vec<(usize, String)>,
    measurement: Option<usize>,
    field: Option<usize>,
    tags: Vec<(usize, String)>,
}

#[derive(Clone, Copy, Debug)]
enum TimeColumns {
    Points(usize),
    Intervals(usize, usize),
}

impl Csv {
    /// Parses these columns. `measurement` is used for a file without such a column. `kind` is the
    /// kind of the values; by default points are gauges and intervals counts.
    pub fn new(
        columns: Columns,
        measurement: impl Into<String>,
        kind: Option<Kind>,
        precision: Precision,
    ) -> Csv {
        let measurement = measurement.into();
        Csv { columns, measurement, kind, precision, header: None, key: String::new() }
    }

    /// The kind of a record's values.
    fn kind(&self, times: TimeColumns) -> Kind {
        match (times, self.kind) {
            (TimeColumns::Points(_), Some(kind)) if is_of_points(kind) => kind,
            (TimeColumns::Points(_), _) => Kind::Gauge,
            (TimeColumns::Intervals(..), Some(Kind::Level | Kind::Gauge)) => Kind::Level,
            (TimeColumns::Intervals(..), _) => Kind::Count,
        }
    }

    fn record(
        &mut self,
        header: &Header,
        cells: &[Cow<'_, str>],
        out: &mut ParserOutput<'_>,
    ) -> Result<(), Malformed> {
        if cells.len() != header.width {
            return Err(Malformed::WrongColumns);
        }
        let time =
            |at: usize| parse_time(cells[at].trim(), self.precision).ok_or(Malformed::BadTime);
        let (start_us, end_us) = match header.times {
            TimeColumns::Points(at) => (time(at)?, 0),
            TimeColumns::Intervals(start, end) => (time(start)?, time(end)?),
        };
        let kind = self.kind(header.times);
        for (at, column) in &header.values {
            let text = cells[*at].trim();
            if text.is_empty() {
                continue;
            }
            let update = match (Number::parse(text), header.times) {
                (None, _) => Err(Malformed::NotANumber.into()),
                (Some(number), TimeColumns::Points(_)) => {
                    number.point(kind, start_us).map_err(Reason::from)
                }
                (Some(number), TimeColumns::Intervals(..)) => {
                    number.interval(kind, start_us, end_us).map_err(Reason::from)
                }
            };
            let field = match header.field {
                Some(at) => cells[at].trim(),
                None if column == FIELD => FIELD,
                None => column,
            };
            match update {
                Err(reason) => out.refuse(reason),
                Ok(update) => match self.series(header, cells, field, out) {
                    Ok(series) => out.put(series, Ok::<Update, Reason>(update)),
                    Err(malformed) => out.refuse(malformed),
                },
            }
        }
        Ok(())
    }

    fn series(
        &mut self,
        header: &Header,
        cells: &[Cow<'_, str>],
        field: &str,
        out: &mut ParserOutput<'_>,
    ) -> Result<Series, Malformed> {
        let measurement =
            header.measurement.map_or(self.measurement.as_str(), |at| cells[at].trim());
        self.key.clear();
        self.key.extend([measurement, "\n", field]);
        for (at, _) in &header.tags {
            self.key.extend(["\n", cells[*at].trim()]);
        }
        out.book.number_of_text(&self.key, || {
            let tags =
                header.tags.iter().map(|(at, key)| (key.clone(), cells[*at].trim().to_owned()));
            SeriesName::new(measurement, tags.filter(|(_, value)| !value.is_empty()), field)
        })
    }
}

impl Parser for Csv {
    fn quotes(&self) -> Quotes {
        Quotes::Csv(self.columns.separator)
    }

    fn line(&mut self, line: &str, _: Arrival, to: &mut ParserOutput<'_>) -> Result<(), FileError> {
        let cells = split(line, self.columns.separator);
        let Some(header) = self.header.take() else {
            let cells = cells.map_err(FileError::BadHeader)?;
            self.header = Some(Header::new(&cells, &self.columns)?);
            return Ok(());
        };
        if let Err(malformed) = cells.and_then(|cells| self.record(&header, &cells, to)) {
            to.refuse(malformed);
        }
        self.header = Some(header);
        Ok(())
    }
}

impl Header {
    fn new(cells: &[Cow<'_, str>], columns: &Columns) -> Result<Header, FileError> {
        let names: Vec<&str> = cells.iter().map(|cell| cell.trim()).collect();
        let place = |name: &str| names.iter().position(|known| *known == name);
        let need = |name: &str| {
            place(name).ok_or_else(|| FileError::NoColumn(name.to_owned(), names.join(", ")))
        };
        let times = match (place(&columns.start), place(&columns.end), place(&columns.time)) {
            (Some(start), Some(end), _) => TimeColumns::Intervals(start, end),
            (_, _, Some(time)) => TimeColumns::Points(time),
            _ => TimeColumns::Intervals(need(&columns.start)?, need(&columns.end)?),
        };
        let values = columns.values.iter().map(|name| Ok((need(name)?, name.clone())));
        let values = values.collect::<Result<Vec<_>, FileError>>()?;
        let measurement = place(&columns.measurement);
        let field = place(&columns.field).filter(|_| values.len() == 1);
        let taken = |at: usize| {
            let times = match times {
                TimeColumns::Points(time) => at == time,
                TimeColumns::Intervals(start, end) => at == start || at == end,
            };
            times
                || values.iter().any(|(v, _)| *v == at)
                || [measurement, field].contains(&Some(at))
        };
        let tags = names.iter().enumerate().filter(|(at, name)| !taken(*at) && !name.is_empty());
        let tags = tags.map(|(at, name)| (at, (*name).to_owned())).collect();
        Ok(Header { width: cells.len(), times, values, measurement, field, tags })
    }
}

/// Splits a record into cells.
fn split(line: &str, separator: char) -> Result<Vec<Cow<'_, str>>, Malformed> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find(separator).unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(separator) {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(cells),
            None => return Err(Malformed::OpenQuote),
        }
    }
}

/// The text of a quoted cell, and what follows its closing quote. Two quotes are one.
fn unquote(quoted: &str) -> Result<(Cow<'_, str>, &str), Malformed> {
    let mut text = Cow::Borrowed("");
    let mut rest = quoted;
    loop {
        let end = rest.find('"').ok_or(Malformed::OpenQuote)?;
        text += &rest[..end];
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                text += "\"";
                rest = next;
            }
            None => return Ok((text, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ParsedLine;
    use super::super::tests::read;
    use super::*;
    use crate::Book;

    fn csv(kind: Option<Kind>, text: &str) -> Vec<String> {
        read(Csv::new(Columns::default(), "sold", kind, Precision::Seconds), text)
    }

    #[test]
    fn start_and_end_make_intervals_and_other_columns_tags() {
        assert_eq!(
            csv(
                None,
                "shop,start,end,value\na,1430701280,1430701290,75\n\
                 \"b, \"\"left\"\"\",2015-05-04T01:01:20Z,2015-05-04T01:01:30.5Z,-3\n,0,1,2"
            ),
            [
                "sold{shop=a} Count 75 1430701280..1430701290",
                "sold{shop=b, \"left\"} Count -3 1430701280..1430701290.5",
                "sold Count 2 0..1"
            ]
        );
    }

    #[test]
    fn a_time_makes_points_and_columns_may_name_measurement_and_field() {
        assert_eq!(
            csv(
                None,
                "time,measurement,field,value\n5,cpu,user,0.5\n6,cpu,system,\n7,mem,used,1e3"
            ),
            ["cpu:user Gauge 0.5 @5", "mem:used Gauge 1000 @7"]
        );
    }

    #[test]
    fn columns_can_have_other_names() {
        let columns = Columns {
            start: "from".to_owned(),
            end: "to".to_owned(),
            values: vec!["in".to_owned(), "out".to_owned()],
            separator: ';',
            ..Columns::default()
        };
        let parser = Csv::new(columns, "bytes", Some(Kind::Level), Precision::Milliseconds);
        assert_eq!(
            read(parser, "from;to;in;out\n1000;2000;1.5;2"),
            ["bytes:in Level 1.5 1..2", "bytes:out Level 2 1..2"]
        );
    }

    #[test]
    fn a_row_with_one_bad_column_is_refused_whole() {
        let columns =
            Columns { values: vec!["in".to_owned(), "out".to_owned()], ..Columns::default() };
        let parser = Csv::new(columns, "bytes", None, Precision::Seconds);
        let rows = "start,end,in,out\n0,1,5,x\n1,2,5,\n2,3,0.5,7";
        assert_eq!(read(parser, rows), ["! bad_number", "bytes:in Count 5 1..2", "! fraction"]);
    }

    #[test]
    fn a_line_end_in_a_quoted_cell_invents_no_series() {
        let rows = "time,value,h\n5,1,\"x\r\n6,100,evil\"\n7,2,\"y\"\n";
        assert_eq!(csv(None, rows), ["! control_character", "sold{h=y} Gauge 2 @7"]);
        let named = "time,value,\"h\nx\"\n5,1,\n";
        assert_eq!(csv(None, named), ["sold Gauge 1 @5"]);
    }

    #[test]
    fn malformed_records_have_their_reason() {
        for (record, shown) in [
            ("0,1", "! wrong_columns"),
            ("0,1,2,3", "! wrong_columns"),
            ("x,1,2", "! bad_time"),
            ("0,1,x", "! bad_number"),
            ("0,1,0.5", "! fraction"),
            ("0,1,NaN", "! not_a_number"),
            ("1,1,5", "! empty_interval"),
            ("0,1,\"5", "! open_quote"),
            ("0,1,\"5\"x", "! open_quote"),
            ("0,1,9007199254740993", "! too_large"),
        ] {
            assert_eq!(csv(None, &format!("start,end,value\n{record}")), [shown], "{record}");
        }
    }

    #[test]
    fn a_header_without_what_is_needed_is_an_error() {
        let error = |header: &str| {
            let (mut book, mut parsed) = (Book::new(1), ParsedLine::default());
            let limits = &series::Limits::DEFAULT;
            let mut out = ParserOutput { book: &mut book, parsed: &mut parsed, limits };
            let mut csv = Csv::new(Columns::default(), "m", None, Precision::Seconds);
            let arrival = Arrival { now_us: 0, at_us: None };
            csv.line(header, arrival, &mut out).unwrap_err().to_string()
        };
        assert_eq!(
            error("begin,end,value"),
            "the header has no column 'start'; its columns are: begin, end, value"
        );
        assert_eq!(
            error("time,count"),
            "the header has no column 'value'; its columns are: time, count"
        );
        assert!(error("\"time").starts_with("the header cannot be read: a quote"));
    }
}
