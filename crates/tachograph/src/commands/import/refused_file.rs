//! The file of refused lines.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use base::Bytes;
use import::RefusedLine;
use recordfile::refuse_foreign;

/// Refused lines, each with a comment that gives the reason; created with the first one.
///
/// Appends to those of earlier imports, so none is lost if an interrupted import is continued.
pub(super) struct RefusedFile {
    path: PathBuf,
    /// The header that makes the file importable.
    header: Vec<u8>,
    file: Option<BufWriter<File>>,
    /// Its size, and the limit.
    bytes: u64,
    bytes_max: u64,
}

impl RefusedFile {
    pub(super) fn new(path: PathBuf, header: Vec<u8>, bytes_max: u64) -> RefusedFile {
        RefusedFile { path, header, file: None, bytes: 0, bytes_max }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line, or a piece of one that is too long.
    pub(super) fn keep(&mut self, refused: RefusedLine<'_>) -> io::Result<()> {
        self.write(refused).map_err(|error| self.named(error))
    }

    /// Adds the file's path to an error.
    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }

    fn write(&mut self, refused: RefusedLine<'_>) -> io::Result<()> {
        let RefusedLine { line, reasons } = refused;
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = make(&self.path, &self.header)?;
                self.bytes = file.get_ref().metadata()?.len();
                self.file.insert(file)
            }
        };
        let mut head = String::new();
        if line.first {
            let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            head = format!("# line {}: {}\n", line.number, reasons.join("; "));
        }
        self.bytes += (head.len() + line.bytes.len() + 1) as u64;
        if self.bytes > self.bytes_max {
            return Err(io::Error::other(format!(
                "it would exceed {}; check --format, move it away, or raise --max-refused",
                Bytes(self.bytes_max)
            )));
        }
        file.write_all(head.as_bytes())?;
        file.write_all(line.bytes)?;
        if line.last { file.write_all(b"\n") } else { Ok(()) }
    }

    pub(super) fn settle(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let settled = file.flush().and_then(|()| file.get_ref().sync_data());
        settled.map_err(|error| self.named(error))
    }
}

fn make(path: &Path, header: &[u8]) -> io::Result<BufWriter<File>> {
    let refuse = || refuse_foreign(path).map_err(|foreign| io::Error::other(foreign.to_string()));
    refuse()?;
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    // Another user may have been quicker.
    refuse()?;
    let fresh = file.metadata()?.len() == 0;
    let mut file = BufWriter::new(file);
    if fresh && !header.is_empty() {
        file.write_all(header)?;
        file.write_all(b"\n")?;
    }
    Ok(file)
}
