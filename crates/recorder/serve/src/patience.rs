//! A connection whose client must not be too slow.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::sockets::Stream;

/// How long a client may take to send the head of a request, after its first byte.
const HEAD: Duration = Duration::from_secs(10);

/// How long a client may read nothing of an answer.
const WRITE: Duration = Duration::from_secs(60);

/// A stream of HTTP requests, whose first bytes may have been read before.
#[derive(Debug)]
pub(crate) struct TimeoutStream {
    pub(crate) ahead: Vec<u8>,
    pub(crate) stream: Stream,
    /// Whether a request is being answered.
    is_answering: Arc<AtomicBool>,
    /// When the head of a request must be complete.
    head: Option<Pin<Box<Sleep>>>,
    /// When something must have been written.
    write: Option<Pin<Box<Sleep>>>,
}

impl TimeoutStream {
    /// `is_answering` is set while a request is answered.
    pub(crate) fn new(
        stream: Stream,
        ahead: Vec<u8>,
        is_answering: Arc<AtomicBool>,
    ) -> TimeoutStream {
        TimeoutStream { ahead, stream, is_answering, head: None, write: None }
    }

    fn expect_head(&mut self) {
        if !self.is_answering.load(Ordering::Relaxed) {
            self.head.get_or_insert_with(|| Box::pin(sleep(HEAD)));
        }
    }

    /// The result of a write, or an error if the client has read nothing for too long.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.write = None;
            return done;
        }
        let limit = self.write.get_or_insert_with(|| Box::pin(sleep(WRITE)));
        ready!(limit.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimeoutStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_answering.load(Ordering::Relaxed) {
            this.head = None;
        }
        if !this.ahead.is_empty() {
            let count = this.ahead.len().min(to.remaining());
            to.put_slice(&this.ahead[..count]);
            this.ahead.drain(..count);
            this.expect_head();
            return Poll::Ready(Ok(()));
        }
        let before = to.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, to);
        if to.filled().len() > before {
            this.expect_head();
        }
        if read.is_pending()
            && let Some(head) = &mut this.head
        {
            ready!(head.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for TimeoutStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // The request whose answer this is has had its head, also if nothing was read since.
        this.head = None;
        let done = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(cx, done)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_flush(cx);
        this.written(cx, done)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.written(cx, done)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    use super::*;

    fn pair() -> (TimeoutStream, UnixStream, Arc<AtomicBool>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let is_answering = Arc::<AtomicBool>::default();
        let patient = TimeoutStream::new(Stream::Unix(ours), b"GE".to_vec(), is_answering.clone());
        (patient, theirs, is_answering)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_never_ends_times_out_however_often_a_byte_arrives() {
        let (mut patient, mut client, _) = pair();
        let mut buffer = [0; 8];
        assert_eq!(patient.read(&mut buffer).await.unwrap(), 2);
        for _ in 0..4 {
            tokio::time::advance(HEAD / 5).await;
            client.write_all(b"x").await.unwrap();
            assert_eq!(patient.read(&mut buffer).await.unwrap(), 1);
        }
        let error = patient.read(&mut buffer).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_is_not_a_slow_head() {
        let (mut patient, mut client, is_answering) = pair();
        let mut buffer = [0; 8];
        assert_eq!(patient.read(&mut buffer).await.unwrap(), 2);
        is_answering.store(true, Ordering::Relaxed);
        let silent = tokio::time::timeout(HEAD * 3, patient.read(&mut buffer)).await;
        assert!(silent.is_err(), "it waits");
        client.write_all(b"x").await.unwrap();
        assert_eq!(patient.read(&mut buffer).await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_was_closed_ten_seconds_after_its_first_request() {
        let (mut patient, _client, is_answering) = pair();
        let mut buffer = [0; 8];
        assert_eq!(patient.read(&mut buffer).await.unwrap(), 2);
        // Nothing is read while it is answered.
        is_answering.store(true, Ordering::Relaxed);
        is_answering.store(false, Ordering::Relaxed);
        patient.write_all(b"answer").await.unwrap();
        let silent = tokio::time::timeout(HEAD * 3, patient.read(&mut buffer)).await;
        assert!(silent.is_err(), "it waits for the next request");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_read_times_out() {
        let (mut patient, _client, _) = pair();
        let error = patient.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
