//! Why a file could not be read at all.

use std::io;

/// A file that cannot be read. It says what to do; which file it was is the caller's to say.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Reading failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Compressed in a way that is not understood.
    #[error("it is compressed with {tool}; unpack it: {tool} -dc FILE | tachograph import -")]
    Compressed {
        /// The program that unpacks it.
        tool: &'static str,
    },
    /// Compressed, and not as it was written.
    #[error("it is damaged ({0}); nothing of it was imported")]
    Damaged(io::Error),
    /// An RRD file itself.
    #[error(
        "it is a binary RRD file, whose format depends on the machine; import its dump: rrdtool \
         dump FILE | tachograph import --format rrd -"
    )]
    BinaryRrd,
    /// A CSV file without a column that is needed.
    #[error("the header has no column '{0}'; its columns are: {1}")]
    NoColumn(String, String),
    /// A CSV file without a header.
    #[error("the file is empty; a CSV file begins with a header")]
    NoHeader,
    /// A header that cannot be read.
    #[error("the header cannot be read: {0}")]
    BadHeader(crate::Malformed),
    /// A name that no series can have.
    #[error(transparent)]
    Name(#[from] crate::Malformed),
    /// Not the output of `rrdtool dump`.
    #[error("it is not the output of 'rrdtool dump': {0}")]
    NotADump(String),
    /// Not a whisper file.
    #[error("it is not a whisper file: {0}")]
    NotWhisper(String),
}
