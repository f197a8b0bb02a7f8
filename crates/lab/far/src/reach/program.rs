//! The binary that runs at the far end.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// A binary of tachograph: its place here, and what identifies it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its place on this machine.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// SHA-256 of its content in hexadecimal (FIPS 180-4).
    pub sha256: String,
    /// The machine that it is built for, as `uname -m` prints it; `None` if it is no ELF file of a
    /// machine known here, and is then tried on any.
    pub machine: Option<&'static str>,
    /// Whether it needs no dynamic loader, so that it runs on any Linux of its machine.
    pub is_static: bool,
}

/// A binary that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the program {}, which should run at the far end: {source}", path.display())]
pub struct ProgramError {
    path: PathBuf,
    source: io::Error,
}

impl Program {
    /// This very program, also if its file has been replaced since its start.
    ///
    /// # Errors
    /// If /proc is missing.
    pub fn own() -> Result<Program, ProgramError> {
        Program::read(Path::new("/proc/self/exe"))
    }

    /// Reads a binary.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> Result<Program, ProgramError> {
        let error = |source| ProgramError { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(error)?;
        let mut hash = Sha256::new();
        let mut start = Vec::new();
        let mut bytes = 0;
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(source) if source.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(error(source)),
            };
            if bytes == 0 {
                start.extend_from_slice(&buffer[..count]);
            }
            hash.update(&buffer[..count]);
            bytes += count as u64;
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let elf = Elf::of(&start);
        Ok(Program {
            path: path.to_owned(),
            bytes,
            sha256,
            machine: elf.as_ref().and_then(|elf| elf.machine),
            is_static: elf.is_some_and(|elf| !elf.has_loader),
        })
    }

    /// How the far end's script is told of it: `MACHINE:SHA256:BYTES`.
    pub(crate) fn offer(&self) -> String {
        format!("{}:{}:{}", self.machine.unwrap_or("any"), self.sha256, self.bytes)
    }
}

/// What the beginning of an ELF file says (System V ABI, "Object Files": ELF header and program
/// header).
struct Elf {
    machine: Option<&'static str>,
    has_loader: bool,
}

/// Type of the program header that names the dynamic loader (`PT_INTERP`).
const INTERPRETER: u64 = 3;

impl Elf {
    fn of(start: &[u8]) -> Option<Elf> {
        let wide = match start.get(..6)? {
            [0x7f, b'E', b'L', b'F', 1, _] => false,
            [0x7f, b'E', b'L', b'F', 2, _] => true,
            _ => return None,
        };
        let number = |at: usize, size: usize| -> Option<u64> {
            let bytes = start.get(at..at.checked_add(size)?)?.iter();
            let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            Some(if start[5] == 1 { bytes.rev().fold(0, add) } else { bytes.fold(0, add) })
        };
        let machine = match (number(18, 2)?, wide, start[5]) {
            (62, true, _) => Some("x86_64"),
            (183, true, 1) => Some("aarch64"),
            (243, true, _) => Some("riscv64"),
            (22, true, _) => Some("s390x"),
            (21, true, 1) => Some("ppc64le"),
            (258, true, _) => Some("loongarch64"),
            _ => None,
        };
        let (table, size, count) = match wide {
            true => (number(32, 8)?, number(54, 2)?, number(56, 2)?),
            false => (number(28, 4)?, number(42, 2)?, number(44, 2)?),
        };
        let has_loader = (0..count).any(|entry| {
            let at = table.checked_add(entry * size).and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| number(at, 4)) == Some(INTERPRETER)
        });
        Some(Elf { machine, has_loader })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_program_of_this_machine() {
        let own = Program::own().unwrap();
        assert_eq!(own.machine, Some(std::env::consts::ARCH));
        assert_eq!(own.is_static, cfg!(target_feature = "crt-static"));
        assert_eq!(own.bytes, std::fs::metadata(std::env::current_exe().unwrap()).unwrap().len());
        assert_eq!(own.sha256.len(), 64);
    }

    #[test]
    fn a_file_of_any_kind_has_a_hash() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let program = Program::read(file.path()).unwrap();
        // The example of FIPS 180-4's test vectors.
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(program.offer(), format!("any:{sha256}:3"));
        assert!(!program.is_static);
        assert_eq!(
            Program::read(Path::new("/nowhere")).unwrap_err().to_string(),
            "cannot read the program /nowhere, which should run at the far end: No such file or \
             directory (os error 2)"
        );
    }

    #[test]
    fn torn_headers_are_no_programs_and_no_panic() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        for length in 0..128 {
            if let Some(elf) = Elf::of(&own[..length]) {
                assert!(length >= 58 && elf.machine.is_some());
            }
        }
        let mut other = own[..64].to_vec();
        other[18] = 0xff;
        assert_eq!(Elf::of(&other).and_then(|elf| elf.machine), None);
    }
}
