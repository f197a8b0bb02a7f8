//! Streams that may be compressed.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

use crate::FileError;

/// Larger than the default, because imports read gigabytes.
const BUFFER: usize = 1 << 18;

/// Default limit on the unpacked size of a compressed stream: 64 GiB.
pub const UNPACKED_MAX: u64 = 64 << 30;

/// A stream whose compression is known.
pub struct OpenedStream {
    /// The stream, unpacked.
    pub stream: Box<dyn BufRead>,
    /// Whether it was compressed by gzip.
    pub gzip: bool,
}

impl std::fmt::Debug for OpenedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("gzip", &self.gzip).finish_non_exhaustive()
    }
}

/// Unpacks gzip streams; passes on others.
///
/// Several gzip members in sequence are one stream, as produced by `cat a.gz b.gz`; trailing zeros,
/// with which tapes fill their blocks, are ignored. Reading fails beyond `unpacked_max` unpacked
/// bytes.
///
/// # Errors
/// [`FileError::Compressed`] for zstd, xz and bzip2, [`FileError::BinaryRrd`] for a binary RRD
/// file, and I/O errors.
pub fn open(input: impl Read + 'static, unpacked_max: u64) -> Result<OpenedStream, FileError> {
    let mut start = Vec::new();
    let mut input = input;
    input.by_ref().take(4).read_to_end(&mut start)?;
    let kind: Vec<u8> = start.clone();
    let stream = BufReader::with_capacity(BUFFER, io::Cursor::new(start).chain(input));
    match kind.as_slice() {
        [0x1f, 0x8b, ..] => {
            let members = Members::new(stream, unpacked_max);
            let stream = BufReader::with_capacity(BUFFER, members);
            Ok(OpenedStream { stream: Box::new(stream), gzip: true })
        }
        [0x28, 0xb5, 0x2f, 0xfd] => Err(FileError::Compressed { tool: "zstd" }),
        [0xfd, b'7', b'z', b'X'] => Err(FileError::Compressed { tool: "xz" }),
        [b'B', b'Z', b'h', b'1'..=b'9'] => Err(FileError::Compressed { tool: "bzip2" }),
        b"RRD\0" => Err(FileError::BinaryRrd),
        _ => Ok(OpenedStream { stream: Box::new(stream), gzip: false }),
    }
}

/// Reads a gzip file to its end and verifies its checksums; reads nothing of other files. The file
/// is read twice for this, so that nothing of a damaged file is imported.
///
/// # Errors
/// [`FileError::Damaged`] for a checksum mismatch, [`FileError::TooLarge`] beyond the limit, and those of [`open`].
pub fn check(input: impl Read + 'static, unpacked_max: u64) -> Result<(), FileError> {
    let mut opened = open(input, unpacked_max)?;
    if opened.gzip {
        io::copy(&mut opened.stream, &mut io::sink()).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => FileError::TooLarge(error),
            _ => FileError::Damaged(error),
        })?;
    }
    Ok(())
}

/// The members of a gzip file, unpacked.
struct Members<R> {
    /// The current member; `None` after the last.
    member: Option<GzDecoder<R>>,
    left: u64,
    unpacked_max: u64,
}

impl<R: BufRead> Members<R> {
    fn new(input: R, unpacked_max: u64) -> Members<R> {
        Members { member: Some(GzDecoder::new(input)), left: unpacked_max, unpacked_max }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let Some(member) = &mut self.member else { return Ok(0) };
            let read = member.read(buffer)?;
            if read as u64 > self.left {
                let most = self.unpacked_max;
                let text = format!("it unpacks to more than {most} bytes; raise --max-unpacked");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
            }
            if read > 0 {
                self.left -= read as u64;
                return Ok(read);
            }
            let Some(mut input) = self.member.take().map(GzDecoder::into_inner) else { continue };
            let zeros = pass_zeros(&mut input)?;
            match (input.fill_buf()?.first(), zeros) {
                (None, _) => {}
                (Some(0x1f), false) => self.member = Some(GzDecoder::new(input)),
                (Some(_), _) => {
                    let text = "data that is not gzip follows its compressed data";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
    }
}

/// Skips zeros; returns whether there were any.
fn pass_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    let mut any = false;
    loop {
        let available = input.fill_buf()?;
        let zeros = available.iter().take_while(|byte| **byte == 0).count();
        let ended = zeros < available.len() || available.is_empty();
        any |= zeros > 0;
        input.consume(zeros);
        if ended {
            return Ok(any);
        }
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
        open(io::Cursor::new(bytes), UNPACKED_MAX).unwrap().stream.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn gzip_is_unpacked_member_after_member() {
        let mut bytes = gzip("one\n");
        bytes.extend(gzip("two\n"));
        assert_eq!(read(bytes).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn zeros_behind_gzip_are_no_part_of_it_and_anything_else_is_an_error() {
        let mut bytes = gzip("one\n");
        bytes.extend([0; 1000]);
        assert_eq!(read(bytes.clone()).unwrap(), "one\n");
        bytes.extend(gzip("two\n"));
        let text = "data that is not gzip follows its compressed data";
        assert_eq!(read(bytes).unwrap_err().to_string(), text);
        let mut bytes = gzip("one\n");
        bytes.extend(b"two\n");
        assert_eq!(read(bytes).unwrap_err().to_string(), text);
    }

    #[test]
    fn what_unpacks_to_more_than_the_limit_is_an_error() {
        let bytes = [gzip("12345"), gzip("67890")].concat();
        let read = |most: u64| {
            let mut text = String::new();
            let opened = open(io::Cursor::new(bytes.clone()), most).unwrap();
            { opened }.stream.read_to_string(&mut text).map(|_| text).map_err(|e| e.to_string())
        };
        assert_eq!(read(10).unwrap(), "1234567890");
        assert_eq!(read(9).unwrap_err(), "it unpacks to more than 9 bytes; raise --max-unpacked");
    }

    #[test]
    fn a_flipped_bit_is_found_before_anything_is_taken() {
        let text = "some text\n".repeat(1_000);
        let bytes = gzip(&text);
        assert!(check(io::Cursor::new(bytes.clone()), UNPACKED_MAX).is_ok());
        assert!(check(&b"no gzip at all"[..], 0).is_ok());
        for at in 10..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            let found = check(io::Cursor::new(damaged.clone()), UNPACKED_MAX);
            // A bit without meaning, such as padding of the last byte, may be either.
            let same = || read(damaged).is_ok_and(|unpacked| unpacked == text);
            assert!(matches!(found, Err(FileError::Damaged(_))) || same(), "byte {at}");
        }
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
        let text = |bytes: &'static [u8]| open(bytes, UNPACKED_MAX).unwrap_err().to_string();
        assert_eq!(
            text(b"\x28\xb5\x2f\xfd..."),
            "it is compressed with zstd; unpack it: zstd -dc FILE | tachograph import -"
        );
        assert_eq!(
            text(b"RRD\x000003"),
            "it is a binary RRD file, whose format depends on the machine; import its dump: \
             rrdtool dump FILE | tachograph import --format rrd -"
        );
    }
}
