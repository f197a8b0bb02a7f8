//! The system calls of a daemon, as strace records them.
//!
//! strace writes a line before the kernel carries a call out, and the thread goes on only after the
//! line about its end is written. So if one call waited for another, their lines are in that order. A
//! call between its two lines may have had its effect, or not yet.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is recorded: the calls that change files and folders, and those that receive messages and
/// acknowledge them. A question mark is for calls that some machines do not have.
const CALLS: &str = "trace=openat,?open,write,pwrite64,ftruncate,fsync,fdatasync,?rename,?renameat,\
                     renameat2,?unlink,unlinkat,?mkdir,mkdirat,accept4,recvfrom,sendto,sendmsg,\
                     writev,setsockopt";

/// The line of what has not happened.
const NEVER: usize = usize::MAX;

/// A call that succeeded. Paths are relative to the folder of the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// A file is created if it is missing, and emptied on demand.
    Create { path: PathBuf, empties: bool },
    /// A folder is created.
    CreateFolder(PathBuf),
    /// Bytes are written at the end of a file.
    Append { path: PathBuf, bytes: Vec<u8> },
    /// Bytes are written at an offset.
    Write { path: PathBuf, offset: usize, bytes: Vec<u8> },
    /// A file gets another length.
    Length { path: PathBuf, length: usize },
    /// The content of a file, or the names in a folder, become durable.
    Sync(PathBuf),
    /// A file is renamed.
    Rename { from: PathBuf, to: PathBuf },
    /// A file is removed.
    Remove(PathBuf),
    /// There is a new connection.
    Accept(String),
    /// Bytes arrive on a connection.
    Receive(String, Vec<u8>),
    /// Bytes are sent on a connection.
    Answer(String, Vec<u8>),
    /// A connection is to be closed in order, and not reset.
    Close(String),
}

/// A call, and the lines of its beginning and of its end, from 1 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) begun: usize,
    pub(super) ended: usize,
    pub(super) call: Call,
}

impl Event {
    /// The line at which it counts. A change may happen at once, what is received or synced is known
    /// to be so at the end.
    fn at(&self) -> usize {
        match self.call {
            Call::Sync(_) | Call::Accept(_) | Call::Receive(..) => self.ended,
            _ => self.begun,
        }
    }
}

/// Whether strace is installed and may trace.
pub fn is_available() -> bool {
    let mut strace = Command::new("strace");
    strace.args(["-o", "/dev/null", "true"]).stdin(Stdio::null()).stderr(Stdio::null());
    strace.status().is_ok_and(|status| status.success())
}

/// The same command, with its calls and those of its children recorded in a file.
pub(super) fn traced(command: &Command, to: &Path) -> Command {
    let mut strace = Command::new("strace");
    // The daemon stays our child (-D). Texts are whole, and in hexadecimal.
    strace.args(["-D", "-f", "-y", "-xx", "-qq", "-s", "16777216", "-e", "signal=none"]);
    strace.args(["-e", CALLS, "-o"]).arg(to).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    strace
}

/// Reads a trace: the calls below a folder and on sockets, in order.
///
/// # Errors
/// A line that cannot be read.
pub(super) fn read(text: &str, folder: &Path) -> Result<Vec<Event>, String> {
    let mut events = Vec::new();
    let mut unfinished: HashMap<&str, (usize, &str)> = HashMap::new();
    for (line, number) in text.lines().zip(1..) {
        let wrong = || format!("line {number} of the trace cannot be read: {line:.200}");
        let (process, rest) = line.split_once(' ').ok_or_else(wrong)?;
        let rest = rest.trim_start();
        // Also a thread that was gone before its call could be read.
        if ["+++", "---", "???("].iter().any(|start| rest.starts_with(start)) {
            continue;
        }
        if let Some(head) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.insert(process, (number, head));
            continue;
        }
        let (begun, whole) = match rest.strip_prefix("<... ") {
            None => (number, rest.to_owned()),
            Some(rest) => {
                let (_, tail) = rest.split_once(" resumed>").ok_or_else(wrong)?;
                let (begun, head) = unfinished.remove(process).ok_or_else(wrong)?;
                (begun, format!("{head}{tail}"))
            }
        };
        let call = call(&whole, folder).ok_or_else(wrong)?;
        events.extend(call.map(|call| Event { begun, ended: number, call }));
    }
    for (begun, head) in unfinished.into_values() {
        let call = call(&format!("{head}) = ?"), folder).flatten();
        events.extend(call.map(|call| Event { begun, ended: NEVER, call }));
    }
    events.retain(|event| event.at() < NEVER);
    events.sort_by_key(Event::at);
    Ok(events)
}

/// Reads a call. The inner value is `None` if it failed or is about something else, the outer one if
/// it cannot be read.
fn call(text: &str, folder: &Path) -> Option<Option<Call>> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let arguments = arguments.trim_end().strip_suffix(')')?;
    if result.starts_with('-') {
        return Some(None);
    }
    let texts = texts(arguments)?;
    let on = descriptor(arguments);
    if let Some(socket) = on.as_ref().filter(|on| on.starts_with("socket:")) {
        let socket = socket.clone();
        return Some(match name {
            "accept4" => Some(Call::Accept(descriptor(result)?)),
            "recvfrom" => Some(Call::Receive(socket, texts.concat())),
            "sendto" | "sendmsg" | "write" | "writev" => Some(Call::Answer(socket, texts.concat())),
            "setsockopt" if arguments.contains("SO_LINGER, {l_onoff=0") => {
                Some(Call::Close(socket))
            }
            _ => None,
        });
    }
    // Of a file by its descriptor, or by a text that is relative to a descriptor.
    let base = PathBuf::from(on.unwrap_or_default());
    let below = |path: PathBuf| Some(path.strip_prefix(folder).ok()?.to_owned());
    let named = |nth: usize| {
        let text = texts.get(nth).map(|text| String::from_utf8_lossy(text).into_owned());
        below(base.join(text?))
    };
    let number = || arguments.rsplit_once(", ")?.1.parse::<usize>().ok();
    let bytes = || {
        let mut bytes = texts.first().cloned().unwrap_or_default();
        // A call that did not end may have written all.
        bytes.truncate(result.parse().unwrap_or(bytes.len()));
        bytes
    };
    let path = match name {
        "write" | "pwrite64" | "ftruncate" | "fsync" | "fdatasync" => below(base.clone()),
        "openat" | "open" if !arguments.contains("O_CREAT") && !arguments.contains("O_TRUNC") => {
            None
        }
        "openat" | "open" | "mkdir" | "mkdirat" | "unlink" | "unlinkat" | "rename" | "renameat"
        | "renameat2" => named(0),
        _ => None,
    };
    // SQLite builds its shared memory again.
    let Some(path) = path.filter(|path| !path.to_string_lossy().ends_with("-shm")) else {
        return Some(None);
    };
    Some(Some(match name {
        "openat" | "open" => Call::Create { path, empties: arguments.contains("O_TRUNC") },
        "mkdir" | "mkdirat" => Call::CreateFolder(path),
        "write" => Call::Append { path, bytes: bytes() },
        "pwrite64" => Call::Write { path, offset: number()?, bytes: bytes() },
        "ftruncate" => Call::Length { path, length: number()? },
        "fsync" | "fdatasync" => Call::Sync(path),
        "unlink" | "unlinkat" => Call::Remove(path),
        _ => Call::Rename { from: path, to: named(1)? },
    }))
}

/// All texts of a call; `None` if one is not whole.
fn texts(arguments: &str) -> Option<Vec<Vec<u8>>> {
    let mut parts = arguments.split('"');
    parts.next()?;
    let mut texts = Vec::new();
    while let Some(text) = parts.next() {
        texts.push(bytes_of(text)?);
        if parts.next()?.starts_with("...") {
            return None;
        }
    }
    Some(texts)
}

/// What the first descriptor of a call is, if it has one.
fn descriptor(arguments: &str) -> Option<String> {
    let (_, rest) = arguments.split_once('<')?;
    let (inner, _) = rest.split_once('>')?;
    String::from_utf8(bytes_of(inner)?).ok()
}

fn bytes_of(hexadecimal: &str) -> Option<Vec<u8>> {
    hexadecimal.split("\\x").skip(1).map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of a call as strace writes it: what is between quotes or angle brackets is hexadecimal.
    fn traced(readable: &str) -> String {
        let (mut text, mut is_inside) = (String::new(), false);
        for letter in readable.chars() {
            match letter {
                '"' => is_inside = !is_inside,
                '<' => is_inside = true,
                '>' => is_inside = false,
                letter if is_inside => {
                    text.push_str(&format!("\\x{:02x}", letter as u32));
                    continue;
                }
                _ => {}
            }
            text.push(letter);
        }
        text
    }

    #[test]
    fn calls_are_in_the_order_in_which_they_count() {
        let lines = [
            ("7", r#"openat(AT_FDCWD</>, "/d/a", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</d/a>"#),
            ("7", r#"openat(AT_FDCWD</>, "/d/a", O_RDONLY) = 3</d/a>"#),
            ("7", r#"openat(AT_FDCWD</>, "/other/a", O_CREAT) = 3</other/a>"#),
            ("7", r#"mkdir("/d/f", 0777) = -1 EEXIST (File exists)"#),
        ];
        let mut text: String =
            lines.iter().map(|(id, call)| format!("{id}     {}\n", traced(call))).collect();
        // A sync that begins before a write and ends after it.
        text += &format!("8     {} <unfinished ...>\n", traced("fdatasync(3</d/a>"));
        text += &format!("7     {} <unfinished ...>\n", traced(r#"write(3</d/a>, "abc", 3"#));
        text += "8     <... fdatasync resumed>)     = 0\n7     <... write resumed>)        = 2\n";
        text += &format!("9     {}  = 2\n", traced(r#"pwrite64(4</d/b>, "de", 2, 8192)"#));
        text += &format!("9     {} <unfinished ...>\n", traced("fsync(4</d/b>"));
        text += "7     ???( <detached ...>\n9     +++ killed by SIGKILL +++\n";
        let event = |begun, ended, call| Event { begun, ended, call };
        let path = PathBuf::from("a");
        let (offset, other) = (8_192, PathBuf::from("b"));
        assert_eq!(
            read(&text, Path::new("/d")).unwrap(),
            [
                event(1, 1, Call::Create { path: path.clone(), empties: true }),
                event(6, 8, Call::Append { path: path.clone(), bytes: b"ab".to_vec() }),
                event(5, 7, Call::Sync(path)),
                event(9, 9, Call::Write { path: other, offset, bytes: b"de".to_vec() }),
            ]
        );
    }

    #[test]
    fn a_text_that_is_not_whole_is_refused() {
        let line = format!("7 {}\n", traced(r#"write(3</d/a>, "abc"..., 3) = 3"#));
        let error = read(&line, Path::new("/d")).unwrap_err();
        assert!(error.starts_with("line 1 of the trace cannot be read: 7 write(3<"), "{error}");
    }
}
