//! Numbers for the series of one import, so that a line costs one look-up and no allocation.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Malformed, SeriesName};

/// Limit on the bytes of a book's series names and of the texts that refer to them.
const BYTES_MAX: usize = 256 << 20;

/// A series' number within one [`Book`], from 0, in order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series(pub u32);

/// The series seen so far.
#[derive(Clone, Debug)]
pub struct Book {
    names: Vec<SeriesName>,
    /// Without those of [further fields](Book::add_fields).
    numbers: HashMap<SeriesName, Series>,
    /// The same by their text in the input; a series may have several.
    texts: HashMap<Box<str>, Text>,
    /// The texts, one behind the other in order of first appearance. That is the order in which most
    /// are compared, so the processor fetches them in advance.
    written: String,
    /// For each series, the text that followed its own in the input. Data that arrives slot by slot
    /// repeats the order of its series, so one comparison often suffices.
    after: Vec<Option<Text>>,
    /// The series of the latest text.
    latest: Option<Series>,
    limit: usize,
    names_bytes: usize,
    bytes_max: usize,
}

/// A text of a series.
#[derive(Clone, Copy, Debug)]
struct Text {
    series: Series,
    /// Its place in [`Book::written`].
    start: u32,
    end: u32,
}

impl Book {
    /// A book for at most `limit` series.
    pub fn new(limit: usize) -> Book {
        let limit = limit.min(u32::MAX as usize);
        Book {
            names: Vec::new(),
            numbers: HashMap::new(),
            texts: HashMap::new(),
            written: String::new(),
            after: Vec::new(),
            latest: None,
            limit,
            names_bytes: 0,
            bytes_max: BYTES_MAX,
        }
    }

    /// The number of the series named by `text`; `read` parses a new text.
    ///
    /// # Errors
    /// Errors of `read`, and [`Malformed::TooManySeries`].
    pub fn number_of_text(
        &mut self,
        text: &str,
        read: impl FnOnce() -> Result<SeriesName, Malformed>,
    ) -> Result<Series, Malformed> {
        if let Some(series) = self.expected(text) {
            return Ok(series);
        }
        let text = match self.texts.get(text) {
            Some(known) => *known,
            None => {
                let series = self.number(read()?)?;
                self.keep(text, series)
            }
        };
        if let Some(latest) = self.latest.replace(text.series) {
            let latest = latest.0 as usize;
            if self.after.len() <= latest {
                self.after.resize(latest + 1, None);
            }
            self.after[latest] = Some(text);
        }
        Ok(text.series)
    }

    /// The series whose text usually follows the latest one, and that text.
    fn next(&self) -> Option<(Series, &str)> {
        let Text { series, start, end } = (*self.after.get(self.latest?.0 as usize)?)?;
        Some((series, self.written.get(start as usize..end as usize)?))
    }

    /// The number of the series named by `text`, if that is what usually follows the latest text.
    fn expected(&mut self, text: &str) -> Option<Series> {
        let (series, _) = self.next().filter(|(_, known)| *known == text)?;
        self.latest = Some(series);
        Some(series)
    }

    /// The series whose text usually follows the latest one, and the rest of a line behind it and a
    /// space, if the line begins so.
    pub(crate) fn expected_in<'t>(&mut self, line: &'t str) -> Option<(Series, &'t str)> {
        let (series, known) = self.next()?;
        let rest = line.strip_prefix(known)?.strip_prefix(' ')?;
        self.latest = Some(series);
        Some((series, rest))
    }

    fn keep(&mut self, text: &str, series: Series) -> Text {
        // Each is kept twice: here and as a key.
        let is_full = 2 * (self.written.len() + text.len()) > self.bytes_max;
        if self.texts.len() >= self.limit.saturating_mul(2) || is_full {
            // A series may be written in many ways; parsing them again costs little.
            self.texts.clear();
            self.written.clear();
            self.after.clear();
        }
        let start = self.written.len() as u32;
        self.written.push_str(text);
        let known = Text { series, start, end: self.written.len() as u32 };
        self.texts.insert(text.into(), known);
        known
    }

    /// The number of a series.
    ///
    /// # Errors
    /// [`Malformed::TooManySeries`] for a new one beyond the limit.
    pub fn number(&mut self, name: SeriesName) -> Result<Series, Malformed> {
        if let Some(series) = self.numbers.get(&name) {
            return Ok(*series);
        }
        let series = self.admit(1, name.bytes())?;
        self.names.push(name.clone());
        self.numbers.insert(name, series);
        Ok(series)
    }

    /// The number of the first of further fields that a series always has beside its own; the others
    /// follow. The caller keeps the number: neither a text nor a name leads to it.
    ///
    /// # Errors
    /// [`Malformed::TooManySeries`], and those of a field's name; then there is none of them.
    pub(crate) fn add_fields(
        &mut self,
        of: Series,
        fields: &[Arc<str>],
    ) -> Result<Series, Malformed> {
        let names = fields.iter().map(|field| self.name(of).with_field(Arc::clone(field)));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let first = self.admit(fields.len(), 0)?;
        self.names.extend(names);
        Ok(first)
    }

    /// The number that the first of so many new series gets, whose names have so many bytes more.
    ///
    /// # Errors
    /// [`Malformed::TooManySeries`] if there is no room for all of them.
    fn admit(&mut self, count: usize, bytes: usize) -> Result<Series, Malformed> {
        let bytes = self.names_bytes + bytes;
        if count > self.limit - self.names.len() || bytes > self.bytes_max {
            return Err(Malformed::TooManySeries);
        }
        self.names_bytes = bytes;
        Ok(Series(self.names.len() as u32))
    }

    /// The name of a series of this book.
    pub fn name(&self, series: Series) -> &SeriesName {
        &self.names[series.0 as usize]
    }

    /// Number of series.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(measurement: &str) -> Result<SeriesName, Malformed> {
        SeriesName::new(measurement, [], "value")
    }

    #[test]
    fn a_series_keeps_its_number_however_it_is_written() {
        let mut book = Book::new(2);
        let a = book.number_of_text("a", || name("a")).unwrap();
        assert_eq!(book.number_of_text("a ", || name("a")), Ok(a));
        assert_eq!(book.number_of_text("a", || panic!("known texts are not read again")), Ok(a));
        let b = book.number(name("b").unwrap()).unwrap();
        assert_ne!(a, b);
        assert_eq!(book.name(b).measurement(), "b");
        assert_eq!(book.number_of_text("c", || name("c")), Err(Malformed::TooManySeries));
        assert_eq!(book.number_of_text("c", || name("a")), Ok(a), "a refused text is not kept");
        assert_eq!(book.len(), 2);
    }

    #[test]
    fn further_fields_are_made_together_or_not_at_all() {
        let mut book = Book::new(4);
        let n = book.number_of_text("a", || SeriesName::new("a", [], "n")).unwrap();
        let fields = ["mean", "max"].map(Arc::from);
        assert_eq!(book.add_fields(n, &fields), Ok(Series(1)));
        let names = [0, 1, 2].map(|series| book.name(Series(series)).to_string());
        assert_eq!(names, ["a:n", "a:mean", "a:max"]);
        assert_eq!(book.add_fields(n, &fields), Err(Malformed::TooManySeries));
        assert_eq!(book.number(name("b").unwrap()), Ok(Series(3)), "there is room for one");
    }

    #[test]
    fn a_text_is_not_mistaken_for_the_one_that_is_expected() {
        let mut book = Book::new(9);
        // Twice the same order, then another one, with a text that was never seen in between.
        let texts =
            ["a", "b", "c", "a", "b", "c", "a", "c", "b", "b", "d", "a", "b", "c", "d", "d"];
        let found = texts.map(|text| book.number_of_text(text, || name(text)).unwrap());
        let names = found.map(|series| book.name(series).measurement().to_owned());
        assert_eq!(names, texts);
        assert!(book.number_of_text("x", || Err(Malformed::EmptyName)).is_err());
        assert_eq!(book.number_of_text("a", || panic!("known")), Ok(found[0]));
    }

    #[test]
    fn long_names_do_not_fill_the_memory() {
        let mut book = Book { bytes_max: 1_000, ..Book::new(usize::MAX) };
        let long = |i: u32| format!("{i:0100}");
        let made = (0..20).map(|i| book.number_of_text(&long(i), || name(&long(i))).is_ok());
        assert_eq!(made.filter(|made| *made).count(), 9, "of 105 bytes each");
        assert!(2 * book.written.len() <= 1_000);
    }

    #[test]
    fn many_ways_to_write_one_series_do_not_fill_the_memory() {
        let mut book = Book::new(2);
        for i in 0..100 {
            assert_eq!(book.number_of_text(&i.to_string(), || name("a")), Ok(Series(0)));
            assert!(book.texts.len() <= 4);
        }
    }
}
