//! SIGINT, SIGTERM and SIGHUP.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Whether such a signal has arrived.
static CAME: AtomicBool = AtomicBool::new(false);

/// Signals this soon after the first belong to it: timeout(1) signals both its child and the
/// child's group, and a terminal that closes sends two signals.
const TOGETHER: Duration = Duration::from_millis(300);

/// From now on the first SIGINT, SIGTERM or SIGHUP only sets the returned flag, so that the run can
/// stop and report. A second one ends this process at once by its default action; the guards then
/// clean up.
///
/// # Errors
/// If the system refuses the signal handlers or the thread.
pub fn install() -> io::Result<Arc<AtomicBool>> {
    watch(true)
}

/// The same for a process that must clean up after the first signal because nothing else does:
/// further signals are ignored.
///
/// # Errors
/// Those of [`install`].
pub fn install_to_clear_up() -> io::Result<Arc<AtomicBool>> {
    watch(false)
}

/// Sets the flag on the first signal; `ends` means that another one ends the process.
fn watch(ends: bool) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut first = None;
        for signal in signals.forever() {
            CAME.store(true, Ordering::Relaxed);
            flag.store(true, Ordering::Relaxed);
            if ends && first.get_or_insert_with(Instant::now).elapsed() > TOGETHER {
                // It fails only for signals without a default action; these have one.
                let _ = emulate_default_handler(signal);
            }
        }
    })?;
    Ok(stop)
}

/// Whether a stop was requested.
pub(crate) fn came() -> bool {
    CAME.load(Ordering::Relaxed)
}
