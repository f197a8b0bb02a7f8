//! Ctrl-C and its relatives.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Whether such a signal has come.
static CAME: AtomicBool = AtomicBool::new(false);

/// Signals that come this soon after the first belong to it: timeout(1) sends one to its child and
/// the same one to the child's group, and a terminal that closes sends two kinds.
const TOGETHER: Duration = Duration::from_millis(300);

/// From now on the first SIGINT, SIGTERM or SIGHUP only sets the flag that is
/// returned: whoever runs stops and reports. A second one ends this process at
/// once, as if nothing were installed; the guards then clear up.
///
/// # Errors
/// If the system gives us no more signal handlers or threads.
pub fn install() -> io::Result<Arc<AtomicBool>> {
    watch(true)
}

/// The same for a process whose work after the first signal is to clear up, which nobody does in
/// its place: further signals change nothing, however many come.
///
/// # Errors
/// As [`install`].
pub fn install_to_clear_up() -> io::Result<Arc<AtomicBool>> {
    watch(false)
}

/// Sets the flag with the first signal; `ends` says whether another one ends the process.
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
                // It fails only for signals without a default, and these have one.
                let _ = emulate_default_handler(signal);
            }
        }
    })?;
    Ok(stop)
}

/// Whether somebody has asked to stop.
pub(crate) fn came() -> bool {
    CAME.load(Ordering::Relaxed)
}
