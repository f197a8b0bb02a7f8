//! Quoted texts that span several lines.

/// How a format quotes a text that may contain line ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quotes {
    /// No such texts.
    #[default]
    None,
    /// Influx line protocol: a field's value, in which a backslash escapes a quote.
    Influx,
    /// CSV: a cell, in which two quotes are one. The character is the field separator.
    Csv(char),
}

/// Tracks, line by line, whether a quote is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuoteTracker {
    quotes: Quotes,
    state: State,
    /// The last byte was a backslash that may escape the next one.
    escaped: bool,
    /// Bytes of CSV's separator seen so far.
    separator: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Only white space so far.
    Start,
    /// Influx: measurement and tags.
    Head,
    /// Influx: the key of a field, or white space before it.
    Key,
    /// At the beginning of a value or cell.
    Value,
    /// In a value or cell without quotes, or after its closing quote.
    Plain,
    /// In a quoted text.
    Text,
    /// CSV: after a quote in a quoted text, which ends it unless another follows.
    Quote,
    /// In a comment, or in Influx's time: no further quote can open.
    Rest,
}

impl QuoteTracker {
    pub(crate) fn new(quotes: Quotes) -> QuoteTracker {
        QuoteTracker { quotes, state: State::Start, escaped: false, separator: 0 }
    }

    /// Whether a quote is open after this line and its end.
    pub(crate) fn after(&mut self, line: &[u8]) -> bool {
        if self.state == State::Start {
            // Most lines contain no quote and need not be parsed.
            if self.quotes == Quotes::None || memchr::memchr(b'"', line).is_none() {
                return false;
            }
            self.state = match (is_comment(line), self.quotes) {
                (true, _) => State::Rest,
                (false, Quotes::Csv(_)) => State::Value,
                (false, _) => State::Start,
            };
        }
        match self.quotes {
            Quotes::None => {}
            Quotes::Influx => line.iter().for_each(|byte| self.influx(*byte)),
            Quotes::Csv(separator) => {
                let mut bytes = [0; 4];
                let separator = separator.encode_utf8(&mut bytes).as_bytes();
                line.iter().for_each(|byte| self.csv(*byte, separator));
            }
        }
        matches!(self.state, State::Text)
    }

    fn influx(&mut self, byte: u8) {
        if std::mem::take(&mut self.escaped) {
            let escapes: &[u8] = if self.state == State::Text { b"\"\\" } else { b", =" };
            if escapes.contains(&byte) {
                return;
            }
        }
        let has_escapes = !matches!(self.state, State::Plain | State::Rest);
        if byte == b'\\' && has_escapes {
            self.escaped = true;
        }
        self.state = match (self.state, byte) {
            (State::Start, b' ') => State::Start,
            (State::Start, _) => State::Head,
            (State::Head, b' ') | (State::Plain, b',') => State::Key,
            (State::Key, b'=') => State::Value,
            (State::Value, b'"') => State::Text,
            (State::Value, b',') => State::Key,
            (State::Value | State::Plain, b' ') => State::Rest,
            (State::Value, _) | (State::Text, b'"') => State::Plain,
            (state, _) => state,
        };
    }

    fn csv(&mut self, byte: u8, separator: &[u8]) {
        self.state = match (self.state, byte) {
            (State::Value, b'"') | (State::Quote, b'"') => State::Text,
            (State::Text, b'"') => State::Quote,
            (State::Text | State::Rest, _) => return,
            _ => {
                self.separator = match separator.get(self.separator) {
                    Some(next) if *next == byte => self.separator + 1,
                    _ => usize::from(separator.first() == Some(&byte)),
                };
                if self.separator == separator.len() {
                    self.separator = 0;
                    State::Value
                } else {
                    State::Plain
                }
            }
        };
    }
}

/// Whether a line is a comment in every text format: its first non-blank character is `#`.
pub(crate) fn is_comment(line: &[u8]) -> bool {
    line.iter().find(|byte| !matches!(byte, b' ' | b'\t')) == Some(&b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_open_where_its_format_opens_one() {
        for (quotes, line, open) in [
            (Quotes::None, "m s=\"a", false),
            (Quotes::Influx, "m s=\"a", true),
            (Quotes::Influx, "m s=\"a\"", false),
            (Quotes::Influx, r#"m s="a\""#, true),
            (Quotes::Influx, r#"m s="a\\""#, false),
            (Quotes::Influx, r#"m,t="a v=1"#, false),
            (Quotes::Influx, r#"m\ s="a v=1"#, false),
            (Quotes::Influx, r#"m v=1,s="a"#, true),
            (Quotes::Influx, r#"m v=1,a\=s="a"#, true),
            (Quotes::Influx, r#"m v=1 s="a"#, false),
            (Quotes::Influx, r#"m v=a"b,s=1"#, false),
            (Quotes::Influx, r#"  # m s="a"#, false),
            (Quotes::Csv(','), "1,\"a", true),
            (Quotes::Csv(','), "\"a", true),
            (Quotes::Csv(','), "1,\"a\"\"", true),
            (Quotes::Csv(','), "1,\"a\"\"\"", false),
            (Quotes::Csv(','), "1,b\"a", false),
            (Quotes::Csv(','), "1;\"a", false),
            (Quotes::Csv('→'), "1→\"a", true),
            (Quotes::Csv(','), "#,\"a", false),
            (Quotes::Csv(','), " #,\"a", false),
            (Quotes::Csv(','), " \"a", false),
            (Quotes::Csv('\t'), "\t\"a", true),
        ] {
            assert_eq!(QuoteTracker::new(quotes).after(line.as_bytes()), open, "{line}");
        }
    }
}
