//! The subset of XML that `rrdtool dump` writes: elements and text, in bounded memory.
//!
//! Attributes, comments, the prologue and the document type are skipped.
//! Entities are refused, because a dump has none.

use std::io::{self, BufRead, Read};

use quick_xml::events::Event;
use quick_xml::{Error, Reader};

use crate::FileError;

/// Limit on a text, tag or comment, including the stream's buffer.
const TOKEN_MAX: usize = 1 << 16;

/// A token of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// `<name>`.
    Open(String),
    /// `</name>` of the innermost open element.
    Close,
    /// Text, trimmed and never empty.
    Text(String),
}

/// The tokens of a stream.
#[derive(Debug)]
pub(super) struct Tokens<R> {
    reader: Reader<LimitedInput<R>>,
    buffer: Vec<u8>,
}

impl<R: BufRead> Tokens<R> {
    pub(super) fn new(input: R) -> Tokens<R> {
        let mut reader = Reader::from_reader(LimitedInput { input, left: TOKEN_MAX });
        reader.config_mut().expand_empty_elements = true;
        reader.config_mut().trim_text(true);
        Tokens { reader, buffer: Vec::new() }
    }

    /// The next token; `None` at the end of the stream.
    pub(super) fn next(&mut self) -> Result<Option<Token>, FileError> {
        loop {
            self.buffer.clear();
            self.reader.get_mut().left = TOKEN_MAX;
            let token = match self.reader.read_event_into(&mut self.buffer).map_err(failed)? {
                Event::Start(tag) => Token::Open(tag.name().as_ref().to_owned()),
                Event::End(_) => Token::Close,
                Event::Text(text) => Token::Text(text.into_inner().into_owned()),
                Event::CData(text) => Token::Text(text.into_inner().into_owned()),
                Event::GeneralRef(_) => return Err(damaged("it contains an entity")),
                Event::Eof => return Ok(None),
                Event::Empty(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_) => continue,
            };
            return Ok(Some(token));
        }
    }
}

/// A stream of which at most `left` bytes are read before it is set again.
#[derive(Debug)]
struct LimitedInput<R> {
    input: R,
    left: usize,
}

impl<R: BufRead> BufRead for LimitedInput<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            let message = format!("a text or a tag is longer than {TOKEN_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let available = self.input.fill_buf()?;
        Ok(&available[..available.len().min(self.left)])
    }

    fn consume(&mut self, count: usize) {
        self.left -= count;
        self.input.consume(count);
    }
}

impl<R: BufRead> Read for LimitedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

fn failed(error: Error) -> FileError {
    match error {
        Error::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            damaged(error.to_string())
        }
        Error::Io(error) => io::Error::new(error.kind(), error).into(),
        error => damaged(error.to_string()),
    }
}

pub(super) fn damaged(what: impl Into<String>) -> FileError {
    FileError::NotADump(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<String>, String> {
        let mut tokens = Tokens::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(token) = tokens.next().map_err(|error| error.to_string())? {
            all.push(match token {
                Token::Open(name) => format!("<{name}>"),
                Token::Close => "</>".to_owned(),
                Token::Text(text) => text,
            });
        }
        Ok(all)
    }

    #[test]
    fn elements_and_texts_come_in_order() {
        let text = "<?xml version=\"1.0\"?><!DOCTYPE rrd SYSTEM \"x.dtd\">\n<!-- a > b -- c -->\
                    <rrd a=\"b\"> <step> 10 </step> <!-- seconds --> <cdef/> </rrd>";
        assert_eq!(tokens(text).unwrap(), ["<rrd>", "<step>", "10", "</>", "<cdef>", "</>", "</>"]);
    }

    #[test]
    fn damage_is_reported() {
        for (text, what) in [
            ("<rrd", "syntax error: tag not closed: `>` not found before end of input"),
            ("<!-- x > y", "syntax error: comment not closed: `-->` not found before end of input"),
            ("<rrd></rra>", "ill-formed document: expected `</rrd>`, but `</rra>` was found"),
            ("<rrd>&amp;</rrd>", "it contains an entity"),
        ] {
            assert_eq!(
                tokens(text).unwrap_err(),
                format!("it is not the output of 'rrdtool dump': {what}")
            );
        }
        for text in ["x".repeat(TOKEN_MAX + 1), format!("<{}>", "x".repeat(TOKEN_MAX))] {
            assert!(tokens(&text).unwrap_err().contains("longer than 65536 bytes"));
        }
    }
}
