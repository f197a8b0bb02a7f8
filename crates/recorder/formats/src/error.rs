//! Why a file could not be read at all.

use std::io;

/// A file that cannot be read. The message says what to do; the caller adds the file's name.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// I/O error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// An unsupported compression.
    #[error("it is compressed with {tool}; unpack it: {tool} -dc FILE | tachograph import -")]
    Compressed {
        /// The program that unpacks it.
        tool: &'static str,
    },
    /// A compressed file that is damaged.
    #[error("it is damaged ({0}); nothing of it was imported")]
    Damaged(io::Error),
    /// A compressed file that unpacks to more than the limit.
    #[error("{0}; nothing of it was imported")]
    TooLarge(io::Error),
    /// A binary RRD file.
    #[error(
        "it is a binary RRD file, whose format depends on the machine; import its dump: rrdtool \
         dump FILE | tachograph import --format rrd -"
    )]
    BinaryRrd,
    /// A required CSV column is missing.
    #[error("the header has no column '{0}'; its columns are: {1}")]
    NoColumn(String, String),
    /// A CSV file without a header.
    #[error("the file is empty; a CSV file begins with a header")]
    NoHeader,
    /// The header is malformed.
    #[error("the header cannot be read: {0}")]
    BadHeader(crate::Malformed),
    /// An invalid series name.
    #[error(transparent)]
    Name(#[from] crate::Malformed),
    /// Not the output of `rrdtool dump`.
    #[error("it is not the output of 'rrdtool dump': {0}")]
    NotADump(String),
    /// Not a whisper file.
    #[error("it is not a whisper file: {0}")]
    NotWhisper(String),
}
