//! The names of generated code: `/tmp/perf-PID.map`.
//!
//! CPython 3.12 and later write it with `-X perf`, Node with `--perf-basic-prof`, the JVM when asked to.
//! Each line is a start and a length in hexadecimal digits and a name (Linux,
//! tools/perf/Documentation/jit-interface.txt).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a Java machine may take to write its map.
const JAVA_PATIENCE: Duration = Duration::from_secs(10);

/// How the names of Python functions begin.
pub(crate) const PYTHON: &str = "py::";

/// A piece of generated code, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedCode {
    start: u64,
    end: u64,
    name: String,
}

/// The generated code of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerfMap {
    /// In the order of their starts; of two at one place, the last one counts.
    pieces: Vec<NamedCode>,
}

impl PerfMap {
    /// That of a process, as it is seen from here. Empty if there is none.
    pub(crate) fn of(pid: u32) -> PerfMap {
        PerfMap::parse(&std::fs::read_to_string(file(pid)).unwrap_or_default())
    }

    /// That of a Java machine of version 17 or later, which writes it when its `jcmd` asks for it. Empty
    /// if there is none, or if it does not answer in time.
    pub(crate) fn of_java(pid: u32, program: &Path) -> PerfMap {
        let own = program.with_file_name("jcmd");
        let jcmd = if own.exists() { own } else { PathBuf::from("jcmd") };
        let (was_there, file) = (file(pid).exists(), file(pid));
        let asked = Command::new(jcmd)
            .args([&pid.to_string(), "Compiler.perfmap"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut asked) = asked else { return PerfMap::default() };
        let asked_at = Instant::now();
        while matches!(asked.try_wait(), Ok(None)) {
            if asked_at.elapsed() > JAVA_PATIENCE {
                // It may have ended by now.
                let _ = asked.kill();
                let _ = asked.wait();
                return PerfMap::default();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let map = PerfMap::of(pid);
        if !was_there {
            // It may not have written any.
            let _ = std::fs::remove_file(file);
        }
        map
    }

    fn parse(text: &str) -> PerfMap {
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let mut number =
                || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (start, length) = (number()?, number()?);
            let name = words.next()?.trim();
            let end = start.checked_add(length)?;
            (!name.is_empty()).then(|| NamedCode { start, end, name: name.to_owned() })
        };
        let mut pieces: Vec<NamedCode> = text.lines().filter_map(line).collect();
        pieces.sort_by_key(|piece| piece.start);
        PerfMap { pieces }
    }

    /// The name of the code at an address.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let after = self.pieces.partition_point(|piece| piece.start <= address);
        let piece = self.pieces[..after].last()?;
        (address < piece.end).then_some(piece.name.as_str())
    }
}

/// Where a process writes its map, seen from here: its own root and its own number, which differ in a
/// container.
pub(crate) fn file(pid: u32) -> PathBuf {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let inner = status.lines().find_map(|line| {
        line.strip_prefix("NSpid:")?.split_whitespace().last()?.parse::<u32>().ok()
    });
    let inner = inner.unwrap_or(pid);
    Path::new("/proc").join(format!("{pid}/root/tmp/perf-{inner}.map"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_names_of_their_pieces() {
        let map = PerfMap::parse(
            "7f00 10 py::handle:/srv/app.py\n0x6000 20 LazyCompile:*serve /srv/app.js:3\nbroken\n7f10 zz x\n",
        );
        assert_eq!(map.name(0x7f00), Some("py::handle:/srv/app.py"));
        assert_eq!(map.name(0x7f0f), Some("py::handle:/srv/app.py"));
        assert_eq!(map.name(0x7f10), None);
        assert_eq!(map.name(0x601f), Some("LazyCompile:*serve /srv/app.js:3"));
        assert_eq!(map.name(0x5fff), None);
        assert_eq!(PerfMap::default().name(1), None);
    }
}
