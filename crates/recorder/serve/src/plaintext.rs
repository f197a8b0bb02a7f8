//! Lines over streams, and Graphite's pickle protocol, whose frames become lines.
//!
//! These protocols have no answers. A sender that closes its side of the connection and waits for
//! the end of ours knows that everything is in the journal: the daemon closes a connection in order
//! only after its last line is there. If the journal could not be written, or the daemon is killed, a
//! TCP connection is reset.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use formats::{Malformed, pickle};
use tokio::sync::{oneshot, watch};

use crate::handover_item::{HandoverItem, ItemKind};
use crate::ingest::{Answer, Format, Ingest, Message};
use crate::metrics::{ByWay, Sender};
use crate::phase::Phase;
use crate::places::Place;
use crate::service::Service;
use crate::sockets::Stream;

/// Bytes to read at a time.
const READ_BYTES: usize = 256 << 10;

/// First size of a connection's buffer; it has none while it waits.
const FIRST_BYTES: usize = 16 << 10;

/// Messages of a connection that may wait for the journal.
const UNANSWERED_MAX: usize = 4;

/// Silence after which a connection is closed.
const SILENCE_MAX: Duration = Duration::from_secs(3_600);

/// Reads of a connection when the daemon stops: a sender that never pauses must not prevent it.
const LAST_READS: usize = 64;

/// How often to look whether senders need not wait any longer.
pub(crate) const FULL_TICK: Duration = Duration::from_millis(20);

/// Name of the reason for refusing a last line without its end: its number may be cut.
const TORN: &str = "torn_line";

/// The same for a frame.
const TORN_FRAME: &str = "torn_frame";

/// Lines of frames are handed over together up to this size.
const LINES_BYTES: usize = 256 << 10;

/// A connection that sends lines.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) sender: Sender,
    pub(crate) service: Service,
    pub(crate) format: Format,
    /// The beginning of a line or of a frame.
    pub(crate) half: Vec<u8>,
    /// Whether the rest of a line is skipped because it is too long.
    pub(crate) skipping: bool,
    pub(crate) place: Arc<Place>,
}

/// What a read found.
enum ReadOutcome {
    Bytes,
    Nothing,
    End,
}

impl Connection {
    /// Reads lines until the sender closes the connection, or the daemon stops; then what has
    /// arrived is read first. If a successor takes over, the connection is returned. It is reset if
    /// another one gets its place.
    pub(crate) async fn run(
        mut self,
        ingest: Ingest,
        mut phase: watch::Receiver<Phase>,
    ) -> Option<HandoverItem> {
        let open =
            ingest.metrics.connections.get_or_create(&ByWay { way: self.sender.way }).clone();
        open.inc();
        self.stream.abort_on_close();
        let mut unanswered = VecDeque::new();
        let mut last_reads = LAST_READS;
        let outcome = loop {
            let now = *phase.borrow_and_update();
            if now == Phase::HandOver {
                break Ok(());
            }
            if now != Phase::Stop {
                tokio::select! {
                    _ = phase.changed() => continue,
                    () = tokio::time::sleep(FULL_TICK), if ingest.is_full() => {
                        // Its lines wait for us.
                        self.place.rests();
                        continue;
                    }
                    () = tokio::time::sleep(SILENCE_MAX) => break Ok(()),
                    () = self.place.lost() => break Err(io::ErrorKind::TimedOut.into()),
                    readable = self.stream.readable(), if !ingest.is_full() => {
                        if let Err(error) = readable {
                            break Err(error);
                        }
                    }
                }
            }
            match self.read(&ingest, &mut unanswered).await {
                Ok(ReadOutcome::End) => break Ok(()),
                Ok(ReadOutcome::Bytes | ReadOutcome::Nothing) if now != Phase::Stop => {}
                Ok(ReadOutcome::Bytes) if last_reads > 0 => last_reads -= 1,
                Ok(ReadOutcome::Bytes | ReadOutcome::Nothing) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let mut is_written = outcome.is_ok();
        for answer in unanswered {
            is_written &= is_in_journal(answer).await;
        }
        open.dec();
        if is_written && *phase.borrow() == Phase::HandOver {
            return self.leave();
        }
        if !self.half.is_empty() || self.skipping {
            let reason = match self.service {
                _ if self.skipping => too_long(),
                Service::Pickle => TORN_FRAME,
                _ => TORN,
            };
            ingest.metrics.refuse_at_once(&self.sender, reason, 1);
        }
        if is_written {
            self.stream.close();
        }
        None
    }

    fn leave(self) -> Option<HandoverItem> {
        let Connection { stream, sender, service, half, skipping, .. } = self;
        let sender = sender.name.to_string();
        let what = ItemKind::Lines { service, sender, half, skipping };
        // A connection without descriptor is broken.
        Some(HandoverItem { fd: stream.into_fd().ok()?, what })
    }

    /// Reads what has arrived, and hands over its whole lines or frames.
    async fn read(
        &mut self,
        ingest: &Ingest,
        unanswered: &mut VecDeque<oneshot::Receiver<Answer>>,
    ) -> io::Result<ReadOutcome> {
        let mut bytes = std::mem::take(&mut self.half);
        bytes.reserve(FIRST_BYTES);
        let mut read = ReadOutcome::Nothing;
        let limit = bytes.len() + READ_BYTES;
        while bytes.len() < limit {
            match self.stream.try_read_buf(&mut bytes) {
                Ok(0) => {
                    read = ReadOutcome::End;
                    break;
                }
                Ok(_) => {
                    read = ReadOutcome::Bytes;
                    bytes.reserve(FIRST_BYTES);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.half = bytes;
                    return Err(error);
                }
            }
        }
        if self.service == Service::Pickle {
            self.frames(bytes, ingest, unanswered).await?;
            return Ok(read);
        }
        let Some(end) = memchr::memrchr(b'\n', &bytes) else {
            self.keep_half(bytes);
            return Ok(read);
        };
        let half = bytes.split_off(end + 1);
        if std::mem::take(&mut self.skipping) {
            ingest.metrics.refuse_at_once(&self.sender, too_long(), 1);
            let first = memchr::memchr(b'\n', &bytes).unwrap_or(end);
            bytes.drain(..=first);
        }
        self.keep_half(half);
        self.hand_over(bytes, ingest, unanswered).await?;
        Ok(read)
    }

    /// Hands over the lines of whole frames, and keeps the beginning of the next one.
    async fn frames(
        &mut self,
        mut bytes: Vec<u8>,
        ingest: &Ingest,
        unanswered: &mut VecDeque<oneshot::Receiver<Answer>>,
    ) -> io::Result<()> {
        let (mut at, mut lines) = (0, Vec::new());
        let ended = loop {
            let stream = &bytes[at..];
            let frame = match pickle::frame_bytes(stream) {
                Ok(Some(length)) if length <= stream.len() => {
                    at += length;
                    &stream[pickle::HEADER_BYTES..length]
                }
                Ok(_) => break Ok(()),
                Err(reason) => {
                    self.refuse(reason, ingest);
                    at = bytes.len();
                    break Err(io::ErrorKind::InvalidData.into());
                }
            };
            let mut refused = Vec::new();
            let read = pickle::lines(frame, &mut lines, &mut |reason| refused.push(reason));
            refused.into_iter().chain(read.err()).for_each(|reason| self.refuse(reason, ingest));
            if lines.len() >= LINES_BYTES {
                self.hand_over(std::mem::take(&mut lines), ingest, unanswered).await?;
            }
        };
        bytes.drain(..at);
        bytes.shrink_to_fit();
        self.half = bytes;
        self.hand_over(lines, ingest, unanswered).await?;
        ended
    }

    fn refuse(&self, reason: Malformed, ingest: &Ingest) {
        ingest.metrics.refuse_at_once(&self.sender, reason.name(), 1);
    }

    /// Hands over whole lines; waits for the answers to earlier ones if there are many.
    async fn hand_over(
        &self,
        lines: Vec<u8>,
        ingest: &Ingest,
        unanswered: &mut VecDeque<oneshot::Receiver<Answer>>,
    ) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.place.rests();
        if unanswered.len() >= UNANSWERED_MAX
            && let Some(oldest) = unanswered.pop_front()
            && !is_in_journal(oldest).await
        {
            return Err(io::ErrorKind::Other.into());
        }
        let room = ingest.room(lines.len()).await.ok_or(io::ErrorKind::OutOfMemory)?;
        let (answer, answered) = oneshot::channel();
        let message = Message {
            format: self.format,
            lines,
            arrived: ingest.state.arrived(),
            key: None,
            sender: self.sender.clone(),
            answer: Some(answer),
            room,
        };
        ingest.send(message).await;
        unanswered.push_back(answered);
        Ok(())
    }

    /// Keeps the beginning of a line, unless it is too long already.
    fn keep_half(&mut self, mut half: Vec<u8>) {
        // The longest line and the longest end.
        if half.len() > formats::LINE_MAX + 2 {
            self.skipping = true;
            half = Vec::new();
        }
        if self.skipping {
            half = Vec::new();
        }
        half.shrink_to_fit();
        self.half = half;
    }
}

fn too_long() -> &'static str {
    formats::Malformed::LineTooLong.name()
}

async fn is_in_journal(answer: oneshot::Receiver<Answer>) -> bool {
    matches!(answer.await, Ok(Answer::Written(_)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    use super::*;
    use crate::ingest::RefusedLines;
    use crate::metrics::Way;
    use crate::places::Places;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_only_sends_halves_of_lines_gives_way_to_a_new_one() {
        let (ingest, mut messages) = Ingest::for_tests();
        let places = Places::new(1, 1);
        let (ours, mut client) = UnixStream::pair().unwrap();
        let connection = Connection {
            stream: Stream::Unix(ours),
            sender: Sender { way: Way::graphite_stream, name: "slow".into() },
            service: Service::Graphite,
            format: Format::Graphite,
            half: Vec::new(),
            skipping: false,
            place: Arc::new(places.take(None).unwrap()),
        };
        let (_phase, phases) = watch::channel(Phase::Run);
        let running = tokio::spawn(connection.run(ingest.clone(), phases));
        tokio::time::advance(Duration::from_secs(15)).await;
        client.write_all(b"a 1 1\nb").await.unwrap();
        let message = messages.recv().await.unwrap();
        assert_eq!(message.lines, b"a 1 1\n");
        message.answer.unwrap().send(Answer::Written(RefusedLines::default())).unwrap();
        tokio::time::advance(Duration::from_secs(19)).await;
        client.write_all(b" 2").await.unwrap();
        assert_eq!(places.take(None).unwrap_err(), "too_many_connections");
        tokio::time::advance(Duration::from_secs(1)).await;
        let _new = places.take(None).unwrap();
        assert!(running.await.unwrap().is_none());
        // What it had not read yet makes it a reset.
        assert!(matches!(client.read(&mut [0]).await, Ok(0) | Err(_)), "it is closed");
        let figures = ingest.metrics.text(&ingest.state, false);
        let torn = "{way=\"graphite_stream\",sender=\"slow\",reason=\"torn_line\"} 1\n";
        assert!(figures.contains(torn), "the half is counted: {figures}");
    }
}
