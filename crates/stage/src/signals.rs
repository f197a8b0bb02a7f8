//! Ctrl-C and its relatives.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// How many such signals have come.
static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// From now on the first SIGINT, SIGTERM or SIGHUP only sets the flag that is
/// returned. A second one makes stacks stop without patience ([`hurried`]).
/// A third one ends this process as if nothing were installed; the guards then clear up.
///
/// # Errors
/// If the system gives us no more signal handlers or threads.
pub fn install() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            flag.store(true, Ordering::Relaxed);
            if SIGNALS.fetch_add(1, Ordering::Relaxed) >= 2 {
                // It fails only for signals without a default, and these have one.
                let _ = emulate_default_handler(signal);
            }
        }
    })?;
    Ok(stop)
}

/// Whether somebody has asked to stop.
pub(crate) fn came() -> bool {
    SIGNALS.load(Ordering::Relaxed) >= 1
}

/// Whether somebody has asked twice: stacks are then killed rather than asked to stop.
pub fn hurried() -> bool {
    SIGNALS.load(Ordering::Relaxed) >= 2
}
