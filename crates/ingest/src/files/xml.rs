//! As much of XML as `rrdtool dump` writes: elements and text, in bounded memory.
//!
//! Attributes, comments, the prologue and the document type are passed over.
//! Entities are not expanded, because a dump has none.

use std::io::BufRead;

use crate::FileError;

/// The longest text or tag.
const TOKEN_MAX: usize = 1 << 16;

/// What a dump is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// `<name>`.
    Open(String),
    /// `</name>`.
    Close(String),
    /// Text without the white space around it; never empty.
    Text(String),
}

/// The tokens of a stream.
#[derive(Debug)]
pub(super) struct Tokens<R> {
    input: R,
    buffer: Vec<u8>,
    /// The end of an element that had no content.
    pending: Option<String>,
}

impl<R: BufRead> Tokens<R> {
    pub(super) fn new(input: R) -> Tokens<R> {
        Tokens { input, buffer: Vec::new(), pending: None }
    }

    /// The next token; `None` at the end of the stream.
    pub(super) fn next(&mut self) -> Result<Option<Token>, FileError> {
        if let Some(name) = self.pending.take() {
            return Ok(Some(Token::Close(name)));
        }
        loop {
            let ended = !self.read_to(b'<')?;
            let text = self.text()?.trim().to_owned();
            if !text.is_empty() {
                return Ok(Some(Token::Text(text)));
            }
            if ended {
                return Ok(None);
            }
            if let Some(token) = self.tag()? {
                return Ok(Some(token));
            }
        }
    }

    /// Reads a tag whose `<` is still to come; `None` for what is passed over.
    fn tag(&mut self) -> Result<Option<Token>, FileError> {
        self.input.consume(1);
        if !self.read_to(b'>')? {
            return Err(damaged("it ends within a tag"));
        }
        self.input.consume(1);
        let tag = self.text()?;
        if let Some(comment) = tag.strip_prefix("!--") {
            let ended = comment.ends_with("--");
            if !ended {
                self.pass_comment()?;
            }
            return Ok(None);
        }
        if tag.starts_with(['?', '!']) {
            return Ok(None);
        }
        let (close, tag) = tag.strip_prefix('/').map_or((false, tag), |tag| (true, tag));
        let (empty, tag) = tag.strip_suffix('/').map_or((false, tag), |tag| (true, tag));
        let name = tag.split_ascii_whitespace().next().unwrap_or_default().to_owned();
        if name.is_empty() || (close && empty) {
            return Err(damaged("a tag has no name"));
        }
        if close {
            return Ok(Some(Token::Close(name)));
        }
        if empty {
            self.pending = Some(name.clone());
        }
        Ok(Some(Token::Open(name)))
    }

    /// Passes over the rest of a comment that has a `>` in it.
    fn pass_comment(&mut self) -> Result<(), FileError> {
        loop {
            if !self.read_to(b'>')? {
                return Err(damaged("it ends within a comment"));
            }
            self.input.consume(1);
            if self.buffer.ends_with(b"--") {
                return Ok(());
            }
        }
    }

    /// Reads up to a byte, which stays in the stream; false if the stream ends before it.
    fn read_to(&mut self, stop: u8) -> Result<bool, FileError> {
        self.buffer.clear();
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if available.is_empty() {
                return Ok(false);
            }
            let found = memchr::memchr(stop, available);
            let taken = found.unwrap_or(available.len());
            self.buffer.extend_from_slice(&available[..taken]);
            self.input.consume(taken);
            if self.buffer.len() > TOKEN_MAX {
                return Err(damaged("a text or a tag is longer than 65536 bytes"));
            }
            if found.is_some() {
                return Ok(true);
            }
        }
    }

    fn text(&self) -> Result<&str, FileError> {
        std::str::from_utf8(&self.buffer).map_err(|_| damaged("it is not UTF-8"))
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
                Token::Close(name) => format!("</{name}>"),
                Token::Text(text) => text,
            });
        }
        Ok(all)
    }

    #[test]
    fn elements_and_texts_come_in_order() {
        let text = "<?xml version=\"1.0\"?><!DOCTYPE rrd SYSTEM \"x.dtd\">\n<!-- a > b -- c -->\
                    <rrd a=\"b\"> <step> 10 </step> <!-- seconds --> <cdef/> </rrd>";
        assert_eq!(
            tokens(text).unwrap(),
            ["<rrd>", "<step>", "10", "</step>", "<cdef>", "</cdef>", "</rrd>"]
        );
    }

    #[test]
    fn damage_is_said() {
        for (text, what) in [
            ("<rrd", "it ends within a tag"),
            ("<!-- x > y", "it ends within a comment"),
            ("< >", "a tag has no name"),
            ("</x/>", "a tag has no name"),
        ] {
            assert_eq!(
                tokens(text).unwrap_err(),
                format!("it is not the output of 'rrdtool dump': {what}")
            );
        }
        let long = "x".repeat(TOKEN_MAX + 1);
        assert!(tokens(&long).unwrap_err().contains("65536 bytes"));
    }
}
