//! systemd's watchdog.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Tells systemd that messages are being applied, if it wants to know: a daemon that hangs is killed
/// and started again.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Half of the time after which systemd kills the daemon.
    each: Option<Duration>,
    fed: Option<Instant>,
}

impl Watchdog {
    pub(super) fn new() -> Watchdog {
        Watchdog { each: sd_notify::watchdog_enabled().map(|limit| limit / 2), fed: None }
    }

    /// To be called with every step.
    pub(super) fn feed(&mut self) {
        let Some(each) = self.each else { return };
        if self.fed.is_none_or(|fed| fed.elapsed() >= each) {
            self.fed = Some(Instant::now());
            // Without systemd, the notification goes nowhere.
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
    }
}
