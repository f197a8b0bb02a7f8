//! What the far end's script answers.

use crate::reach::Cause;

/// What every answer begins with. It stands at the beginning of a line.
const MARKER: &str = "tachograph-reach ";

/// What is learned of the far machine on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its machine, as `uname -m` prints it.
    pub machine: String,
    /// Its kernel's release (`uname -r`).
    pub kernel: String,
    /// Our address and port as seen there (SSH_CONNECTION); empty if sshd does not say so. Behind a
    /// jump host it is that host's.
    pub near_address: String,
    /// Its own address and port as seen there; empty if sshd does not say so.
    pub far_address: String,
    /// The program that runs there.
    pub program: String,
    /// Bytes that were copied there; 0 if the program was there.
    pub copied_bytes: u64,
    /// Time until the program ran there.
    pub took: std::time::Duration,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptAnswer {
    /// The machine.
    Here { system: String, facts: Facts },
    /// The folder in which binaries are kept.
    Folder(String),
    /// The binary of this hash is to be sent.
    Need(String),
    /// The program starts, and owns the channel from now on.
    Start(String),
    /// It does not work, for this reason.
    No(ScriptFailure),
}

/// Why the script gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptFailure {
    System,
    Machine,
    Folder(String),
    Silent,
    Write { free_bytes: Option<u64> },
    Cut,
    Hash,
    Run { status: String, said: String },
    Unknown(String),
}

impl ScriptAnswer {
    /// The answer in a line; `None` if it is the noise of a login shell.
    pub(crate) fn of(line: &str) -> Option<ScriptAnswer> {
        let line = line.trim_end_matches(['\r', '\n']).strip_prefix(MARKER)?;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "here" => here(rest),
            "folder" => ScriptAnswer::Folder(rest.to_owned()),
            "need" => ScriptAnswer::Need(rest.to_owned()),
            "start" => ScriptAnswer::Start(rest.to_owned()),
            "no" => ScriptAnswer::No(ScriptFailure::of(rest)),
            _ => ScriptAnswer::No(ScriptFailure::Unknown(line.to_owned())),
        })
    }
}

/// `SYSTEM MACHINE KERNEL [NEAR PORT FAR PORT]`
fn here(rest: &str) -> ScriptAnswer {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let word = |i: usize| words.get(i).copied().unwrap_or_default().to_owned();
    let address = |i: usize| match (words.get(i), words.get(i + 1)) {
        (Some(address), Some(port)) if address.contains(':') => format!("[{address}]:{port}"),
        (Some(address), Some(port)) => format!("{address}:{port}"),
        _ => String::new(),
    };
    let facts = Facts {
        machine: word(1),
        kernel: word(2),
        near_address: address(3),
        far_address: address(5),
        ..Facts::default()
    };
    ScriptAnswer::Here { system: word(0), facts }
}

impl ScriptFailure {
    fn of(rest: &str) -> ScriptFailure {
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "system" => ScriptFailure::System,
            "machine" => ScriptFailure::Machine,
            "folder" => ScriptFailure::Folder(rest.to_owned()),
            "silent" => ScriptFailure::Silent,
            // `df -P` counts units of 1,024 bytes.
            "write" => ScriptFailure::Write {
                free_bytes: rest.trim().parse::<u64>().ok().map(|free| free.saturating_mul(1024)),
            },
            "cut" => ScriptFailure::Cut,
            "hash" => ScriptFailure::Hash,
            "run" => {
                let (status, said) = rest.split_once(' ').unwrap_or((rest, ""));
                ScriptFailure::Run { status: status.to_owned(), said: said.to_owned() }
            }
            _ => ScriptFailure::Unknown(format!("{word} {rest}")),
        }
    }

    /// The cause in terms of the far machine and its operating system; `size` is that of the
    /// program, `folder` where it should have been.
    pub(crate) fn cause(self, system: &str, machine: &str, folder: &str, size: u64) -> Cause {
        let folder = folder.to_owned();
        match self {
            ScriptFailure::System => Cause::OtherSystem { system: system.to_owned() },
            ScriptFailure::Machine => Cause::OtherMachine { machine: machine.to_owned() },
            ScriptFailure::Folder(why) => Cause::Folder { folder, why: after_program(&why) },
            ScriptFailure::Write { free_bytes: Some(free_bytes) } if free_bytes < size => {
                Cause::Full { folder, free_bytes, bytes: size }
            }
            ScriptFailure::Write { .. } => Cause::Write { folder },
            ScriptFailure::Silent | ScriptFailure::Cut => Cause::CopyInterrupted,
            ScriptFailure::Hash => Cause::OtherHash,
            ScriptFailure::Run { status, said } => ran_not(&status, said, folder, machine),
            ScriptFailure::Unknown(said) => Cause::NotOurs { said },
        }
    }
}

/// Why a program that was copied does not run. The shell's status is 126 for a file that may not be
/// executed, and 127 for one that cannot be found, which includes its loader (POSIX, 2.8.2).
fn ran_not(status: &str, said: String, folder: String, machine: &str) -> Cause {
    if said.contains("Exec format error") {
        Cause::OtherMachine { machine: machine.to_owned() }
    } else if status == "126" && said.contains("Permission denied") {
        Cause::Noexec { folder }
    } else if status == "127" || said.contains("GLIBC_") || said.contains("version `") {
        Cause::OtherLibraries { said }
    } else {
        Cause::DoesNotRun { status: status.to_owned(), said }
    }
}

/// What a utility said, without its own name: `mkdir: cannot create directory: Read-only file
/// system`.
fn after_program(said: &str) -> String {
    said.split_once(": ").map_or(said, |(_, rest)| rest).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_no_answer() {
        for line in ["", "Welcome!", " tachograph-reach start", "echo tachograph-reach start /x"] {
            assert_eq!(ScriptAnswer::of(line), None, "{line}");
        }
        assert_eq!(
            ScriptAnswer::of("tachograph-reach start /home/ann/a b/x\r\n"),
            Some(ScriptAnswer::Start("/home/ann/a b/x".to_owned()))
        );
    }

    #[test]
    fn the_machine_is_described_with_its_addresses() {
        let line = "tachograph-reach here Linux aarch64 6.1.0-13 10.0.0.1 5012 fe80::2 22";
        let Some(ScriptAnswer::Here { system, facts }) = ScriptAnswer::of(line) else {
            panic!("{line}")
        };
        assert_eq!((system.as_str(), facts.machine.as_str()), ("Linux", "aarch64"));
        assert_eq!(facts.kernel, "6.1.0-13");
        assert_eq!(facts.near_address, "10.0.0.1:5012");
        assert_eq!(facts.far_address, "[fe80::2]:22");
        let line = "tachograph-reach here Linux x86_64 6.1";
        let Some(ScriptAnswer::Here { facts, .. }) = ScriptAnswer::of(line) else {
            panic!("{line}")
        };
        assert_eq!((facts.near_address.as_str(), facts.far_address.as_str()), ("", ""));
    }

    #[test]
    fn refusals_become_causes() {
        let folder = "/home/ann/.cache/tachograph/far".to_owned();
        let machine = || Cause::OtherMachine { machine: "riscv64".to_owned() };
        let cases = [
            ("system", Cause::OtherSystem { system: "FreeBSD".to_owned() }),
            ("machine", machine()),
            (
                "folder mkdir: cannot create directory '/x': Read-only file system",
                Cause::Folder {
                    folder: folder.clone(),
                    why: "cannot create directory '/x': Read-only file system".to_owned(),
                },
            ),
            ("write 12", Cause::Full { folder: folder.clone(), free_bytes: 12_288, bytes: 20_000 }),
            ("write 4000", Cause::Write { folder: folder.clone() }),
            ("write ", Cause::Write { folder: folder.clone() }),
            ("cut", Cause::CopyInterrupted),
            ("silent", Cause::CopyInterrupted),
            ("hash", Cause::OtherHash),
            ("run 126 sh: 1: /x: Permission denied", Cause::Noexec { folder: folder.clone() }),
            ("run 126 sh: 1: /x: Exec format error", machine()),
            (
                "run 127 sh: 1: /x: not found",
                Cause::OtherLibraries { said: "sh: 1: /x: not found".to_owned() },
            ),
            (
                "run 1 /x: libc.so.6: version `GLIBC_2.99' not found",
                Cause::OtherLibraries {
                    said: "/x: libc.so.6: version `GLIBC_2.99' not found".to_owned(),
                },
            ),
            ("run 139", Cause::DoesNotRun { status: "139".to_owned(), said: String::new() }),
            ("wonder", Cause::NotOurs { said: "wonder ".to_owned() }),
        ];
        for (said, cause) in cases {
            let Some(ScriptAnswer::No(refusal)) =
                ScriptAnswer::of(&format!("tachograph-reach no {said}"))
            else {
                panic!("{said}")
            };
            assert_eq!(refusal.cause("FreeBSD", "riscv64", &folder, 20_000), cause, "{said}");
        }
    }
}
