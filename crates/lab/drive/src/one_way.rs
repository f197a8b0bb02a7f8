//! Messages of lines: nothing answers them, so what completes them depends on the transport.
//!
//! ```text
//!  stream     message message message … message │ shut down │ … the peer closes in order
//!             └──────────── unacknowledged ─────────────────┘ └ completed, all of them
//!  datagram   message message message …                         completed, each when the
//!                                                               socket has taken it
//! ```
//!
//! If the stream ends in any other way, all of its messages have failed: which of them arrived is
//! unknown. Of a datagram, the server's side must say whether it arrived.
//!
//! The service time of a message ends when the socket has taken it: so long was the sender held up.
//!
//! That the kernel took a message says nothing about its receiver: a stream's buffers hold megabytes.
//! Otherwise UDP would be fastest when it loses most. So of datagrams, `conduct` reads after every
//! slice what the server's side counted and what its kernel discarded, takes the latter from the
//! window, and extends the window until everything else is counted. A slice has no lead-in, because
//! when a single message arrived is unknown.

use base::{Nanos, monotonic_now};
use netio::{Ending, Failure, Wire};

use crate::Fault;
use crate::conn::{Link, OutstandingRequest};
use crate::slice_counts::Completion;
use crate::slice_run::{BURST, RequestSource, SliceRun};

fn now() -> Nanos {
    monotonic_now()
}

impl SliceRun<'_> {
    /// Sends the slot's next message.
    pub(crate) fn hand_over(&mut self, wire: &mut dyn Wire, slot: usize) {
        let Some(one_way) = &mut self.setup.one_way else { return };
        match wire.send_own(slot, one_way.writer.next_message()) {
            Ok(true) => self.message_taken(slot),
            // The rest is sent later.
            Ok(false) => {}
            Err(Failure::ClosedByPeer) if self.conns[slot].is_unused() => {
                self.resend_on_new_connection(wire, slot);
            }
            Err(failure) => self.lose(slot, Fault::Net(failure)),
        }
    }

    /// The socket has taken the slot's message, and can take the next one.
    pub(crate) fn message_taken(&mut self, slot: usize) {
        let Some(one_way) = &self.setup.one_way else { return };
        let conn = &mut self.conns[slot];
        let message = Completion { since: conn.since, done: now(), payload_bytes: 0 };
        conn.request = OutstandingRequest::None;
        self.busy -= 1;
        if one_way.acknowledged {
            self.unacknowledged += usize::from(conn.unacknowledged.is_empty());
            conn.unacknowledged.push(message);
        } else {
            self.slice_counts.completed(&self.times, message, Some(Nanos::ZERO));
        }
        match self.setup.source {
            RequestSource::Closed(_) => self.eager.push_back(slot),
            RequestSource::Open(_) => self.free.push_back(slot),
        }
    }

    /// Sends the next messages of the closed loop's connections, each in turn.
    pub(crate) fn send_eagerly(&mut self, wire: &mut dyn Wire) {
        for _ in 0..BURST {
            let Some(slot) = self.eager.pop_front() else { return };
            self.proceed(wire, slot);
        }
    }

    /// Shuts down the sending side of every stream with messages, to have them acknowledged.
    pub(crate) fn shut_down(&mut self, wire: &mut dyn Wire) {
        if self.unacknowledged == 0 {
            return;
        }
        for slot in 0..self.used {
            let conn = &mut self.conns[slot];
            if conn.link != Link::Open || conn.is_busy() || conn.unacknowledged.is_empty() {
                continue;
            }
            match wire.shut_down(slot) {
                Ok(()) => {
                    conn.link = Link::Shut;
                    // From now on the timeout is that of the acknowledgement.
                    conn.since.sent = now();
                    self.expect_end(slot);
                }
                Err(failure) => self.lose(slot, Fault::Net(failure)),
            }
        }
    }

    /// The connection, until then in state `link`, is closed: acknowledged, lost with all its
    /// messages, or idle.
    pub(crate) fn one_way_ended(&mut self, slot: usize, link: Link, ending: Ending) {
        let conn = &mut self.conns[slot];
        let has_messages = !conn.unacknowledged.is_empty();
        match ending {
            Ending::Closed if link == Link::Shut => self.acknowledge(slot),
            _ if !conn.is_busy() && !has_messages => {
                self.slice_counts.closed_idle += 1;
                conn.request = OutstandingRequest::NoneSinceLoss;
            }
            Ending::Closed => self.lose(slot, Fault::ClosedEarly),
            Ending::Failed(failure) => self.lose(slot, Fault::Net(failure)),
        }
    }

    fn acknowledge(&mut self, slot: usize) {
        let at = now();
        for message in self.conns[slot].unacknowledged.drain(..) {
            self.slice_counts.completed(&self.times, message, Some(Nanos::ZERO));
        }
        self.unacknowledged -= 1;
        self.slice_counts.acknowledged(at);
    }

    /// The connection broke, and is closed: none of its messages is acknowledged.
    pub(crate) fn lose(&mut self, slot: usize, fault: Fault) {
        let at = now();
        let conn = &mut self.conns[slot];
        conn.link = Link::Closed;
        let fault = match fault {
            // That was about the last message.
            Fault::Net(Failure::ClosedByPeer) if !conn.unacknowledged.is_empty() => {
                Fault::Net(Failure::Reset)
            }
            fault => fault,
        };
        self.unacknowledged -= usize::from(!conn.unacknowledged.is_empty());
        for message in conn.unacknowledged.drain(..) {
            self.slice_counts.failed(&self.times, fault, message.since, at, Some(Nanos::ZERO));
        }
        if conn.is_busy() {
            self.end_request(slot, Err(fault), at);
            self.pause(slot, at);
        }
    }
}
