//! What our reader takes for a complete answer, hyper takes for the same one.
//!
//! Ours refuses more: what hyper puts up with may be refused here only for a
//! reason that is listed in `is_stricter`.

#![no_main]

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use drive::Fault;
use drive::http::{Flow, ResponseReader, Sink};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};
use libfuzzer_sys::fuzz_target;

/// Status and body.
type Answer = (u16, Vec<u8>);

fuzz_target!(|input: &[u8]| {
    let [cut, bytes @ ..] = input else { return };
    let cut = usize::from(*cut) * bytes.len() / 255;
    let ours = read_ours(bytes, cut);
    let theirs = read_hyper(bytes, cut);
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        // Hyper takes fewer header lines, and shorter trailers.
        (Ok(_), Err(error)) if error.is_parse_too_large() => {}
        (Ok(ours), Err(error)) => panic!("hyper refuses what we take for {ours:?}: {error:?}"),
        (Err(fault), Ok(theirs)) => {
            assert!(
                is_stricter(fault, bytes),
                "we refuse what hyper takes for {theirs:?}: {fault:?}"
            );
        }
        (Err(_), Err(_)) => {}
    }
});

/// Whether we refuse an answer for this that hyper may accept.
fn is_stricter(fault: Fault, bytes: &[u8]) -> bool {
    match fault {
        // Hyper leaves what follows an answer to the next request, and an upgrade to its caller.
        Fault::SurplusBytes | Fault::UnexpectedUpgrade => true,
        // Contradictions in framing that hyper resolves; lines that it allows to be longer.
        Fault::BadFraming | Fault::BadChunk | Fault::HeadTooLarge => true,
        // Hyper skips empty lines before an answer, also before the one that follows an interim one.
        Fault::NotHttp => {
            bytes.starts_with(b"\r")
                || bytes.starts_with(b"\n")
                || bytes
                    .windows(3)
                    .any(|three| matches!(three, [b'\n', b'\n', b'\r' | b'\n'] | b"\n\r\n"))
        }
        _ => false,
    }
}

#[derive(Default)]
struct Kept {
    status: u16,
    body: Vec<u8>,
}

impl Sink for Kept {
    fn status(&mut self, status: u16) {
        self.status = status;
    }
    fn body(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

fn read_ours(bytes: &[u8], cut: usize) -> Result<Answer, Fault> {
    let mut reader = ResponseReader::parsing_every_head(false);
    let mut kept = Kept::default();
    reader.begin();
    let mut flow = reader.push(&bytes[..cut], &mut kept)?;
    if cut < bytes.len() {
        flow = reader.push(&bytes[cut..], &mut kept)?;
    }
    if flow == Flow::More {
        reader.end()?;
    }
    Ok((kept.status, kept.body))
}

/// What hyper's client makes of the bytes, which come in two pieces before the connection ends.
fn read_hyper(bytes: &[u8], cut: usize) -> Result<Answer, hyper::Error> {
    let wire = Wire {
        sent: false,
        pieces: [bytes[..cut].to_vec(), bytes[cut..].to_vec()].into_iter().collect(),
    };
    let (mut sender, connection) = ready(http1::handshake(wire))?;
    let mut connection = Box::pin(connection);
    let request = hyper::Request::new(Empty::<Bytes>::new());
    let exchange = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        Ok((status, answer.into_body().collect().await?.to_bytes().to_vec()))
    };
    let mut exchange = Box::pin(exchange);
    let mut context = Context::from_waker(Waker::noop());
    let mut over = false;
    // Each turn takes at least one piece or one step; far fewer are needed.
    for _ in 0..10_000 {
        over = over || connection.as_mut().poll(&mut context).is_ready();
        if let Poll::Ready(result) = exchange.as_mut().poll(&mut context) {
            return result;
        }
    }
    panic!("hyper neither reads nor ends");
}

fn ready<F: Future>(future: F) -> F::Output {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// A connection whose peer says its pieces once it has been asked, and closes.
struct Wire {
    sent: bool,
    pieces: std::collections::VecDeque<Vec<u8>>,
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        if !self.sent {
            return Poll::Pending;
        }
        while self.pieces.front().is_some_and(Vec::is_empty) {
            self.pieces.pop_front();
        }
        if let Some(piece) = self.pieces.front_mut() {
            let n = piece.len().min(into.remaining());
            into.put_slice(&piece[..n]);
            piece.drain(..n);
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.sent = true;
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
