//! Text output: colour and width of the terminal, and closed pipes.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};

use crate::failure::Failure;

/// Default width without a terminal.
const WIDTH: usize = 80;

/// Whether standard error is a terminal, so that progress can be drawn.
pub(crate) fn progress_wanted() -> bool {
    std::io::stderr().is_terminal()
}

/// The style for standard output.
pub(crate) fn style(colour: ColourWhen) -> report::Style {
    let terminal = std::io::stdout().is_terminal();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = match colour {
        ColourWhen::Always => true,
        ColourWhen::Never => false,
        ColourWhen::Auto => terminal && !no_colour,
    };
    let width = if terminal { terminal_width().unwrap_or(WIDTH) } else { WIDTH };
    report::Style { colour, width }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColourWhen {
    /// On terminals, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Prints to standard output. A closed pipe is no error: its reader has read enough.
///
/// # Errors
/// If standard output cannot take the text, such as a file on a full disk.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The failure of a write to standard output, unless it is a closed pipe.
pub(crate) fn printed(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A number of things: `1 file`, `1,234 files`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {one}{s}", base::format_count(count))
}

/// Prints a note to standard error.
pub(crate) fn note(text: &str) {
    let mut err = std::io::stderr().lock();
    let _closed_pipe = writeln!(err, "{text}");
}

/// Prints an error to standard error.
pub(crate) fn error(error: &dyn Display) {
    note(&format!("error: {error}"));
}

/// Fails if a file cannot be written, before there is anything to write; `-` is standard output.
pub(crate) fn check_writable(path: &std::path::Path) -> Result<(), Failure> {
    // The reader of a pipe or a device might take opening and closing for the end of the data.
    if path == std::path::Path::new("-")
        || path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
    {
        return Ok(());
    }
    match std::fs::OpenOptions::new().append(true).create(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(format!("cannot write {}: {error}", path.display()))),
    }
}

/// Writes to a file, or to standard output for `-`.
pub(crate) fn write_file(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    if path == std::path::Path::new("-") {
        return print(text);
    }
    std::fs::write(path, text)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}
