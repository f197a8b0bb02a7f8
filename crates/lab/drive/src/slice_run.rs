//! One slice on one thread: the events on each connection.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use base::{Nanos, monotonic_now};
use netio::{Connect, Ending, Failure, GrpcFields, Handler, Handshake, TlsFailure, Wire};

use crate::Fault;
use crate::conn::{Conn, Link, OutstandingRequest};
use crate::deck::Deck;
use crate::events::Arrival;
use crate::http::Flow;
use crate::lines::LineWriter;
use crate::response::{Check, ExpectedResponse, ProbeBody, ReceivedResponse, ResponseEnd};
use crate::schedule::{ArrivalQueue, Budget};
use crate::slice::LoopStart;
use crate::slice_counts::{Completion, RequestTimes, SliceCounts, SliceTimes};
use crate::values::SessionValues;

/// How long a slot pauses after a failed connection attempt, so that a dead server costs a thousand
/// attempts per second and connection, not a whole CPU.
const PAUSE: Nanos = Nanos::from_millis(1);

/// An open loop opens additional connections only for requests noticed within this time. After a
/// pause of the client many are due at once: the open connections work these off, and hundreds of
/// new ones would overflow the server's backlog.
const NOTICED_IN_TIME: Nanos = Nanos::from_millis(1);

/// The longest wait for an event, so that a stop is noticed.
pub(crate) const TURN_MAX: Nanos = Nanos::from_millis(50);

/// Messages of lines that are sent before the next look at events.
pub(crate) const BURST: usize = 64;

/// The source of requests.
pub(crate) enum RequestSource<'a> {
    /// Each connection sends when its response is complete.
    Closed(&'a Budget),
    /// Requests arrive at given times.
    Open(ArrivalQueue),
}

/// One slice on one thread.
pub(crate) struct SliceRun<'a> {
    pub(crate) conns: &'a mut [Conn],
    pub(crate) setup: SliceSetup<'a>,
    /// Slots used so far; more than the active ones if an open loop needed them.
    pub(crate) used: usize,
    /// Limit on the slots used.
    pub(crate) used_max: usize,
    pub(crate) times: SliceTimes,
    pub(crate) slice_counts: SliceCounts,
    /// No more requests are sent.
    pub(crate) stopping: bool,
    /// Outstanding requests.
    pub(crate) busy: usize,
    /// Why the last connection without a request could not be made.
    pub(crate) refusal: Option<Failure>,
    /// Slots without a request, in order of use (open loop).
    pub(crate) free: VecDeque<usize>,
    /// At most one entry per slot, never later than the slot's deadline.
    deadlines: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Pausing slots, by the instant at which they resume.
    pub(crate) paused: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Slots that send their next message as soon as possible (closed loop, messages of lines).
    pub(crate) eager: VecDeque<usize>,
    /// Slots with unacknowledged messages.
    pub(crate) unacknowledged: usize,
}

/// Messages of lines, to which there is no response.
pub(crate) struct OneWay<'a> {
    pub(crate) writer: &'a mut LineWriter,
    /// Whether the peer acknowledges them, by closing after the end of the stream.
    pub(crate) acknowledged: bool,
}

/// What a run does, apart from when.
pub(crate) struct SliceSetup<'a> {
    pub(crate) source: RequestSource<'a>,
    /// What is sent.
    pub(crate) deck: &'a mut Deck,
    /// The only kind of request, if it is given.
    pub(crate) only_kind: Option<usize>,
    /// By kind of request.
    pub(crate) expected: &'a [ExpectedResponse],
    /// Whether events in responses are counted.
    pub(crate) events: bool,
    pub(crate) timeout: Nanos,
    /// Whether each request uses a new connection.
    pub(crate) one_request: bool,
    /// Values of responses that later requests use, if there are any.
    pub(crate) values: Option<&'a SessionValues>,
    /// Buffer for a probe's body.
    pub(crate) kept: Option<&'a mut ProbeBody>,
    /// Slots used from the start: the first ones.
    pub(crate) active: usize,
    /// What is sent, if messages of lines are.
    pub(crate) one_way: Option<OneWay<'a>>,
    /// How the closed loop begins.
    pub(crate) start: LoopStart,
    /// For the random parts of a continued loop.
    pub(crate) rng: base::Rng,
}

fn now() -> Nanos {
    monotonic_now()
}

impl<'a> SliceRun<'a> {
    pub(crate) fn new(
        conns: &'a mut [Conn],
        slice_counts: SliceCounts,
        times: SliceTimes,
        mut setup: SliceSetup<'a>,
    ) -> SliceRun<'a> {
        let slots = conns.len();
        for conn in conns.iter_mut() {
            conn.queued = false;
            conn.counted_from = None;
        }
        let active = setup.active.min(slots);
        setup.active = active;
        let (free, used_max) = match setup.source {
            RequestSource::Closed(_) => (VecDeque::new(), active),
            RequestSource::Open(_) => {
                let mut free = VecDeque::with_capacity(slots);
                free.extend(0..active);
                (free, slots)
            }
        };
        SliceRun {
            conns,
            setup,
            used: active,
            used_max,
            times,
            slice_counts,
            stopping: false,
            busy: 0,
            refusal: None,
            free,
            deadlines: BinaryHeap::with_capacity(slots),
            paused: BinaryHeap::with_capacity(slots),
            eager: VecDeque::new(),
            unacknowledged: 0,
        }
    }

    /// Sends the first requests.
    pub(crate) fn begin(&mut self, wire: &mut dyn Wire) {
        match self.setup.source {
            RequestSource::Closed(_) if self.is_continued() => self.carry_on(wire),
            RequestSource::Closed(_) => {
                (0..self.setup.active).for_each(|slot| self.proceed(wire, slot))
            }
            RequestSource::Open(_) => self.dispatch(wire),
        }
    }

    /// Whether all requests have been sent and have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.busy == 0 && self.unacknowledged == 0 && self.is_all_sent()
    }

    /// Whether no more requests will be sent.
    fn is_all_sent(&self) -> bool {
        match &self.setup.source {
            RequestSource::Closed(budget) => self.stopping || budget.is_spent(),
            RequestSource::Open(arriving) => arriving.is_spent(),
        }
    }

    /// The window is over: no more requests become due. Those that wait are still sent.
    fn end_window(&mut self, at: Nanos) {
        if self.stopping {
            return;
        }
        self.pull(at);
        if let RequestSource::Open(arriving) = &mut self.setup.source {
            arriving.end();
            self.slice_counts.waiting(arriving.waiting(), self.free.is_empty());
        }
        self.stopping = true;
    }

    /// Sends no more requests and drops the waiting ones. Ends the window at `at` if that is before
    /// its end.
    pub(crate) fn stop(&mut self, at: Nanos) {
        self.end_window(at);
        self.drop_waiting();
        self.times.window_end = self.times.window_end.min(at);
    }

    /// Drops the requests that still wait for a connection.
    fn drop_waiting(&mut self) {
        let RequestSource::Open(arriving) = &mut self.setup.source else { return };
        while let Some(due) = arriving.pop() {
            let due = self.times.start + due;
            self.slice_counts.not_sent(&self.times, due, self.setup.timeout);
        }
    }

    /// Handles what is due: arrivals, deadlines, ended pauses, the end of the window.
    pub(crate) fn tick(&mut self, wire: &mut dyn Wire) {
        let at = now();
        if at >= self.times.window_end {
            self.end_window(at);
        }
        self.expire(wire, at);
        while let Some(Reverse((resume, slot))) = self.paused.peek().copied()
            && resume <= at
        {
            self.paused.pop();
            self.proceed(wire, slot);
        }
        self.send_eagerly(wire);
        self.dispatch(wire);
        if self.is_all_sent() {
            self.shut_down(wire);
        }
    }

    /// How long until something is due; for an arrival, until `early` before it.
    pub(crate) fn idle_for(&self, early: Nanos) -> Nanos {
        if !self.eager.is_empty() {
            return Nanos::ZERO;
        }
        let at = now();
        let mut until = at + TURN_MAX;
        if !self.stopping {
            until = until.min(self.times.window_end);
        }
        if let Some(Reverse((deadline, _))) = self.deadlines.peek() {
            until = until.min(*deadline);
        }
        if let Some(Reverse((resume, _))) = self.paused.peek() {
            until = until.min(*resume);
        }
        if let RequestSource::Open(arriving) = &self.setup.source
            && let Some(due) = arriving.next_due()
            && (!self.free.is_empty() || self.used < self.used_max)
        {
            until = until.min((self.times.start + due).saturating_sub(early));
        }
        until.saturating_sub(at)
    }

    /// Whether further requests will arrive.
    pub(crate) fn awaits_arrivals(&self) -> bool {
        matches!(&self.setup.source, RequestSource::Open(arriving) if arriving.next_due().is_some())
    }

    /// Closes idle additional connections: they would occupy workers of the server, and every slice
    /// should start alike.
    pub(crate) fn shrink(&mut self, wire: &mut dyn Wire) {
        for slot in self.setup.active..self.used {
            wire.close(slot);
            self.conns[slot].link = Link::Closed;
            self.conns[slot].request = OutstandingRequest::None;
        }
    }

    /// Gives up all outstanding and waiting requests.
    pub(crate) fn abandon(&mut self, wire: &mut dyn Wire) {
        self.drop_waiting();
        let at = now();
        for (slot, conn) in self.conns.iter_mut().enumerate() {
            let is_busy = conn.is_busy();
            if is_busy {
                conn.request = OutstandingRequest::None;
                self.slice_counts.abandoned(&self.times, conn.since, at);
            }
            if is_busy || !conn.unacknowledged.is_empty() {
                wire.close(slot);
                conn.link = Link::Closed;
            }
            for message in conn.unacknowledged.drain(..) {
                self.slice_counts.abandoned(&self.times, message.since, at);
            }
        }
        self.busy = 0;
        self.unacknowledged = 0;
    }

    /// Takes the arrivals that are due by `at`.
    fn pull(&mut self, at: Nanos) {
        if let RequestSource::Open(arriving) = &mut self.setup.source {
            let until = at.min(self.times.window_end).saturating_sub(self.times.start);
            let (arrived, dropped) = arriving.pull(until);
            self.slice_counts.counts.offered += arrived;
            self.slice_counts.counts.dropped += dropped;
            if self.free.is_empty() {
                self.slice_counts.waiting_for_connections += dropped;
            }
        }
    }

    /// Sends waiting requests on free connections, and on additional ones if the load allows them
    /// and the requests were noticed in time.
    fn dispatch(&mut self, wire: &mut dyn Wire) {
        let RequestSource::Open(arriving) = &self.setup.source else { return };
        let waited_before = arriving.waiting();
        let at = now();
        self.pull(at);
        let mut popped = 0;
        while let Some(slot) = self.free.pop_front() {
            let RequestSource::Open(arriving) = &mut self.setup.source else { return };
            let Some(due) = arriving.pop() else {
                self.free.push_front(slot);
                return;
            };
            popped += 1;
            let due = self.times.start + due;
            self.request(wire, slot, due, due, now());
        }
        let since = at.saturating_sub(self.times.start).saturating_sub(NOTICED_IN_TIME);
        let RequestSource::Open(arriving) = &self.setup.source else { return };
        let new = arriving.waiting() - waited_before.saturating_sub(popped).min(arriving.waiting());
        let in_time = arriving.waiting_since(since).min(new);
        for _ in 0..in_time.min(self.used_max - self.used) {
            let RequestSource::Open(arriving) = &mut self.setup.source else { return };
            let Some(due) = arriving.pop() else { return };
            let slot = self.used;
            self.used += 1;
            let (due, at) = (self.times.start + due, now());
            // A request that was already waiting did so because no connection was free.
            let ready = if popped < waited_before { at } else { due };
            popped += 1;
            self.request(wire, slot, due, ready, at);
        }
    }

    /// The slot is free: sends the next request, if there is one.
    pub(crate) fn proceed(&mut self, wire: &mut dyn Wire, slot: usize) {
        self.proceed_at(wire, slot, now());
    }

    fn proceed_at(&mut self, wire: &mut dyn Wire, slot: usize, at: Nanos) {
        if at >= self.times.window_end {
            self.end_window(at);
        }
        match &mut self.setup.source {
            RequestSource::Closed(budget) => {
                if !self.stopping && budget.take() {
                    self.request(wire, slot, at, at, at);
                }
            }
            RequestSource::Open(_) => {
                self.pull(at);
                let RequestSource::Open(arriving) = &mut self.setup.source else { return };
                match arriving.pop() {
                    Some(due) => {
                        let due = self.times.start + due;
                        // If no other slot was free, the request could not be sent before now.
                        let ready = if self.free.is_empty() { at } else { due };
                        self.request(wire, slot, due, ready, at);
                    }
                    None => self.free.push_back(slot),
                }
            }
        }
    }

    /// Sends one request on a slot, over a new connection if necessary. It was due at `scheduled`,
    /// and could have been sent from `ready` on.
    fn request(
        &mut self,
        wire: &mut dyn Wire,
        slot: usize,
        scheduled: Nanos,
        ready: Nanos,
        at: Nanos,
    ) {
        let card = match self.setup.only_kind {
            None => self.setup.deck.draw(),
            Some(kind) => self.setup.deck.of_kind(kind),
        };
        let since = RequestTimes { scheduled, sent: at, kind: card.kind };
        self.slice_counts.sent(&self.times, since, ready);
        self.busy += 1;
        let conn = &mut self.conns[slot];
        self.slice_counts.counts.reconnected +=
            u64::from(conn.request == OutstandingRequest::NoneSinceLoss);
        conn.request = match conn.link {
            Link::Closed | Link::Connecting => OutstandingRequest::OnFresh,
            _ => OutstandingRequest::OnKept,
        };
        conn.card = card;
        conn.since = since;
        conn.seen = ReceivedResponse::default();
        conn.arrival = Arrival::default();
        conn.answer.begin(card);
        if let Some(values) = self.setup.values {
            conn.values.begin(values.kept(card.kind));
        }
        self.expect_end(slot);
        match self.conns[slot].link {
            Link::Closed => self.connect(wire, slot),
            Link::Connecting => {}
            _ => self.send(wire, slot),
        }
    }

    /// Looks at the slot again once its request, sent at `sent`, has taken as long as it may.
    pub(crate) fn expect_end(&mut self, slot: usize) {
        let conn = &mut self.conns[slot];
        if !conn.queued {
            conn.queued = true;
            self.deadlines.push(Reverse((conn.since.sent + self.setup.timeout, slot)));
        }
    }

    /// Opens a connection, and sends the slot's request on it if it has one.
    pub(crate) fn connect(&mut self, wire: &mut dyn Wire, slot: usize) {
        match wire.connect(slot) {
            Ok(Connect::Done) => self.connected(wire, slot, None),
            Ok(Connect::Pending) => self.conns[slot].link = Link::Connecting,
            Err(failure) => self.not_connected(slot, failure),
        }
    }

    fn not_connected(&mut self, slot: usize, failure: Failure) {
        self.conns[slot].link = Link::Closed;
        if self.conns[slot].is_busy() {
            let at = now();
            self.end_request(slot, Err(Fault::Net(failure)), at);
            self.pause(slot, at);
        } else {
            self.refusal = Some(failure);
        }
    }

    fn send(&mut self, wire: &mut dyn Wire, slot: usize) {
        if self.setup.one_way.is_some() {
            return self.hand_over(wire, slot);
        }
        let conn = &mut self.conns[slot];
        let filled = self.setup.values.and_then(|values| values.message(conn.card, &conn.values));
        let outcome = match filled {
            Some(message) => wire.send_own(slot, &message),
            None => wire.send(slot, conn.card.message as usize).map(|()| true),
        };
        conn.values.is_sending = outcome == Ok(false);
        match outcome.map(drop) {
            Ok(()) if conn.link == Link::Tainted => self.fail(wire, slot, Fault::SurplusBytes),
            Ok(()) => wire.release(slot),
            Err(Failure::ClosedByPeer) if conn.request == OutstandingRequest::OnKept => {
                self.resend_on_new_connection(wire, slot);
            }
            Err(failure) => {
                conn.link = Link::Closed;
                let at = now();
                self.end_request(slot, Err(Fault::Net(failure)), at);
                self.pause(slot, at);
            }
        }
    }

    /// The slot's connection failed at `at`: it pauses before the next attempt.
    pub(crate) fn pause(&mut self, slot: usize, at: Nanos) {
        self.paused.push(Reverse((at + PAUSE, slot)));
    }

    /// The connection was closed while idle, and no byte was sent on it: sends the request over a
    /// new one.
    pub(crate) fn resend_on_new_connection(&mut self, wire: &mut dyn Wire, slot: usize) {
        self.slice_counts.closed_idle += 1;
        self.slice_counts.counts.reconnected += 1;
        let conn = &mut self.conns[slot];
        conn.link = Link::Closed;
        conn.request = OutstandingRequest::OnFresh;
        self.connect(wire, slot);
    }

    /// Records the end of the slot's request.
    pub(crate) fn end_request(&mut self, slot: usize, outcome: Result<(), Fault>, at: Nanos) {
        let counted = self.counts_from(slot, outcome.is_ok(), at);
        let conn = &mut self.conns[slot];
        conn.request = OutstandingRequest::None;
        self.busy -= 1;
        let since = conn.since;
        match outcome {
            Ok(()) => {
                let completion = Completion { since, done: at, payload_bytes: conn.seen.bytes };
                self.slice_counts.completed(&self.times, completion, counted);
                if self.setup.events && counted.is_some() {
                    self.slice_counts.streamed(&self.times, since, &self.conns[slot].arrival);
                }
            }
            Err(fault) => self.slice_counts.failed(&self.times, fault, since, at, counted),
        }
    }

    /// The slot's request failed, and its connection is unusable.
    fn fail(&mut self, wire: &mut dyn Wire, slot: usize, fault: Fault) {
        wire.close(slot);
        if self.setup.one_way.is_some() {
            return self.lose(slot, fault);
        }
        self.conns[slot].link = Link::Closed;
        let at = now();
        self.end_request(slot, Err(fault), at);
        self.proceed_at(wire, slot, at);
    }

    /// The response is complete: compares it and continues.
    fn answered(&mut self, wire: &mut dyn Wire, slot: usize, keep_alive: bool, closing: bool) {
        let at = now();
        let conn = &mut self.conns[slot];
        let expected = &self.setup.expected[conn.card.kind as usize];
        let sound = conn.answer.verdict(&conn.seen);
        let mut verdict = sound.and_then(|()| conn.seen.verdict(expected));
        if let Some(values) = self.setup.values {
            verdict = verdict.and_then(|()| conn.values.keep(values.kept(conn.card.kind)));
        }
        self.end_request(slot, verdict, at);
        let conn = &mut self.conns[slot];
        if std::mem::take(&mut conn.values.is_sending) {
            // The server did not wait for the rest of the request.
            wire.close(slot);
            conn.link = Link::Closed;
        } else if !keep_alive || self.setup.one_request {
            wire.retire(slot);
            conn.link = Link::Closed;
        } else if closing {
            conn.link = Link::Ending;
            return;
        }
        self.proceed_at(wire, slot, at);
    }

    /// A part of the slot's response has arrived.
    fn note_arrival(&mut self, slot: usize) {
        if self.setup.events {
            let at = now();
            let (events, gap) = self.conns[slot].arrival.note(at);
            self.slice_counts.arrived(&self.times, at, events, gap);
        }
    }

    fn expire(&mut self, wire: &mut dyn Wire, at: Nanos) {
        while let Some(Reverse((entry, slot))) = self.deadlines.peek().copied() {
            if entry > at {
                return;
            }
            self.deadlines.pop();
            let conn = &mut self.conns[slot];
            conn.queued = false;
            if !conn.is_busy() && conn.link != Link::Shut {
                continue;
            }
            let deadline = conn.since.sent + self.setup.timeout;
            if deadline > at {
                conn.queued = true;
                self.deadlines.push(Reverse((deadline, slot)));
            } else if conn.link == Link::Connecting {
                self.fail(wire, slot, Fault::Net(Failure::ConnectTimeout));
            } else {
                self.fail(wire, slot, Fault::Timeout);
            }
        }
    }

    /// Counts the chunks of a stream that have arrived.
    fn take_chunks(&mut self, wire: &mut dyn Wire, slot: usize) {
        loop {
            let conn = &mut self.conns[slot];
            if !conn.is_busy() {
                return wire.hold(slot);
            }
            if !conn.answer.take_chunk(&mut conn.seen) {
                return;
            }
            self.answered(wire, slot, true, false);
        }
    }
}

impl Handler for SliceRun<'_> {
    fn connected(&mut self, wire: &mut dyn Wire, slot: usize, handshake: Option<Handshake>) {
        handshake.iter().for_each(|handshake| self.slice_counts.agreed(handshake));
        let conn = &mut self.conns[slot];
        conn.link = Link::Open;
        conn.answer.connected();
        if conn.is_busy() {
            self.send(wire, slot);
        } else if conn.answer.needs_no_request() {
            wire.hold(slot);
        }
    }

    fn taken(&mut self, _wire: &mut dyn Wire, slot: usize) {
        self.conns[slot].values.is_sending = false;
        self.message_taken(slot);
    }

    fn received(&mut self, wire: &mut dyn Wire, slot: usize, bytes: &[u8], closing: bool) {
        if self.setup.one_way.is_some() {
            return self.fail(wire, slot, Fault::SurplusBytes);
        }
        let conn = &mut self.conns[slot];
        let streams = matches!(conn.answer, ResponseEnd::Stream { .. });
        if !conn.is_busy() && !streams {
            // What precedes an announced close is lost with it.
            if conn.link == Link::Open {
                conn.link = Link::Tainted;
            }
            return;
        }
        let mut check = Check {
            expected: &self.setup.expected[conn.card.kind as usize],
            seen: &mut conn.seen,
            kept: self.setup.kept.as_deref_mut(),
            events: self.setup.events.then_some(&mut conn.arrival.reader),
            copy: self.setup.values.map(|_| &mut conn.values.copy),
        };
        let flow = conn.answer.push(bytes, &mut check);
        self.note_arrival(slot);
        match flow {
            Ok(Flow::More) if streams => self.take_chunks(wire, slot),
            Ok(Flow::More) => {}
            Ok(Flow::Done { keep_alive }) => self.answered(wire, slot, keep_alive, closing),
            Err(fault) => self.fail(wire, slot, fault),
        }
    }

    fn responded(&mut self, _wire: &mut dyn Wire, slot: usize, status: u16) {
        self.conns[slot].seen.status = status;
        self.note_arrival(slot);
    }

    fn header(&mut self, slot: usize, name: &[u8], value: &[u8]) {
        self.conns[slot].values.copy.header(name, value);
    }

    fn called(&mut self, slot: usize, fields: GrpcFields) {
        self.conns[slot].answer.called(fields);
    }

    fn completed(&mut self, wire: &mut dyn Wire, slot: usize, keeps: bool) {
        self.answered(wire, slot, keeps, false);
    }

    fn ended(&mut self, wire: &mut dyn Wire, slot: usize, ending: Ending) {
        let conn = &mut self.conns[slot];
        let link = std::mem::replace(&mut conn.link, Link::Closed);
        if link == Link::Connecting {
            if let Ending::Failed(failure) = ending {
                self.not_connected(slot, failure);
            }
        } else if self.setup.one_way.is_some() {
            self.one_way_ended(slot, link, ending);
        } else if !conn.is_busy() {
            self.slice_counts.closed_idle += 1;
            conn.request = OutstandingRequest::NoneSinceLoss;
            if link == Link::Ending {
                self.proceed(wire, slot);
            }
        } else {
            match ending {
                Ending::Failed(Failure::ClosedByPeer)
                    if conn.request == OutstandingRequest::OnKept =>
                {
                    self.resend_on_new_connection(wire, slot)
                }
                // A response whose end is the end of the connection may be cut off (RFC 9112, 9.8).
                Ending::Failed(failure @ Failure::Tls(TlsFailure::Unannounced)) => {
                    let fault = conn.answer.end(&conn.seen).err();
                    self.fail(wire, slot, fault.unwrap_or(Fault::Net(failure)));
                }
                Ending::Failed(failure) => self.fail(wire, slot, Fault::Net(failure)),
                Ending::Closed => match conn.answer.end(&conn.seen) {
                    Ok(_) => self.answered(wire, slot, false, true),
                    Err(fault) => self.fail(wire, slot, fault),
                },
            }
        }
    }
}
