//! Streams that may be compressed.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::FileError;

/// Larger than the default, because a back-fill reads gigabytes.
const BUFFER: usize = 1 << 18;

/// A stream that was looked at.
pub struct Opened {
    /// The stream, unpacked.
    pub stream: Box<dyn BufRead>,
    /// Whether it was compressed by gzip.
    pub gzip: bool,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("gzip", &self.gzip).finish_non_exhaustive()
    }
}

/// Unpacks what gzip has compressed, and hands on what is not compressed.
///
/// Several gzip members one after another are one stream, as `cat a.gz b.gz` makes them.
///
/// # Errors
/// [`FileError::Compressed`] for zstd, xz and bzip2, [`FileError::BinaryRrd`] for an
/// RRD file itself, and those of reading.
pub fn open(input: impl Read + 'static) -> Result<Opened, FileError> {
    let mut start = Vec::new();
    let mut input = input;
    input.by_ref().take(4).read_to_end(&mut start)?;
    let kind: Vec<u8> = start.clone();
    let stream = BufReader::with_capacity(BUFFER, io::Cursor::new(start).chain(input));
    match kind.as_slice() {
        [0x1f, 0x8b, ..] => {
            let stream = BufReader::with_capacity(BUFFER, MultiGzDecoder::new(stream));
            Ok(Opened { stream: Box::new(stream), gzip: true })
        }
        [0x28, 0xb5, 0x2f, 0xfd] => Err(FileError::Compressed { tool: "zstd" }),
        [0xfd, b'7', b'z', b'X'] => Err(FileError::Compressed { tool: "xz" }),
        [b'B', b'Z', b'h', b'1'..=b'9'] => Err(FileError::Compressed { tool: "bzip2" }),
        b"RRD\0" => Err(FileError::BinaryRrd),
        _ => Ok(Opened { stream: Box::new(stream), gzip: false }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: Vec<u8>) -> io::Result<String> {
        let mut text = String::new();
        open(io::Cursor::new(bytes)).unwrap().stream.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn gzip_is_unpacked_member_after_member() {
        let mut bytes = gzip("one\n");
        bytes.extend(gzip("two\n"));
        assert_eq!(read(bytes).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn plain_streams_pass_however_short() {
        for text in ["", "a", "abc", "plain text\n"] {
            assert_eq!(read(text.into()).unwrap(), text);
        }
    }

    #[test]
    fn a_gzip_stream_that_was_cut_off_is_an_error() {
        let mut bytes = gzip(&"some text\n".repeat(100));
        bytes.truncate(bytes.len() - 5);
        assert!(read(bytes).is_err());
    }

    #[test]
    fn what_is_not_understood_says_what_to_do() {
        let text = |bytes: &'static [u8]| open(bytes).unwrap_err().to_string();
        assert_eq!(
            text(b"\x28\xb5\x2f\xfd..."),
            "it is compressed by zstd; unpack it on the way: zstd -dc FILE | tachograph import -"
        );
        assert_eq!(
            text(b"RRD\x000003"),
            "it is an RRD file, whose form differs by machine; read its dump: rrdtool dump FILE | tachograph import --format rrd -"
        );
    }
}
