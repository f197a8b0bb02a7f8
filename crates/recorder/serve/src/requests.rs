//! HTTP connections.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;

use crate::access::Link;
use crate::handover_item::{HandoverItem, ItemKind};
use crate::in_progress::InProgress;
use crate::patience::TimeoutStream;
use crate::phase::Phase;
use crate::places::{Holder, Place};
use crate::sockets::Stream;

/// How long a client may be silent between two requests.
const SILENCE_MAX: Duration = Duration::from_secs(75);

/// How often a query looks whether its client is still there.
const LOOKED_EACH: Duration = Duration::from_millis(100);

/// The sender of a request, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct RequestSender {
    /// Its address, and the name of its token if it has one.
    pub(crate) name: Arc<str>,
    pub(crate) link: Link,
    /// Who holds the place of its connection, if that is known.
    pub(crate) holder: Option<Holder>,
    /// The socket of its connection.
    socket: Arc<OwnedFd>,
}

impl RequestSender {
    /// Whether it has closed its side of the connection.
    fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
        let at_once = Timespec::default();
        matches!(poll(&mut fds, Some(&at_once)), Ok(1..))
    }
}

/// Ends the answer to a query whose client closes its side of the connection. What was written is
/// finished in any case.
pub(crate) async fn while_wanted(request: axum::extract::Request, next: Next) -> Response {
    let peer = request.extensions().get::<RequestSender>().cloned();
    let Some(peer) = peer else { return next.run(request).await };
    // The HTTP server reads nothing while it waits for an answer.
    let gone = async {
        loop {
            tokio::time::sleep(LOOKED_EACH).await;
            if peer.is_gone() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        response = next.run(request) => response,
        () = gone => {
            (StatusCode::REQUEST_TIMEOUT, "the client closed the connection\n").into_response()
        }
    }
}

/// Answers the requests of a connection, until it is closed, another one gets its place, or the
/// daemon stops; then the request in progress is answered first. If a successor takes over while
/// none is in progress, the connection is returned.
pub(crate) async fn answer(
    stream: Stream,
    ahead: Vec<u8>,
    sender: String,
    router: Router,
    mut phase: watch::Receiver<Phase>,
    place: Arc<Place>,
    requests: InProgress,
) -> Option<HandoverItem> {
    let router = TowerToHyperService::new(router);
    let socket = Arc::new(stream.socket().ok()?);
    let (link, holder) = (stream.link(), place.holder());
    let peer = RequestSender { name: sender.as_str().into(), link, holder, socket };
    let is_answering = Arc::new(AtomicBool::new(false));
    let stream = TimeoutStream::new(stream, ahead, is_answering.clone());
    let held = place.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        is_answering.store(true, Ordering::Relaxed);
        let (place, in_progress) = (held.clone(), requests.begin());
        let request = request.map(|body| ArrivingBody::new(body, place.clone()));
        let (answer, is_answering) = (router.call(request), is_answering.clone());
        Box::pin(async move {
            let answer = answer.await;
            is_answering.store(false, Ordering::Relaxed);
            place.rests();
            // The request is in progress until its answer has been sent, or is dropped.
            answer.map(|answer| {
                answer.map(|body| {
                    body.map_frame(move |frame| {
                        let _held = &in_progress;
                        frame
                    })
                })
            })
        })
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(SILENCE_MAX);
    // A client may close its side after its request, and still waits for the answer.
    server.half_close(true);
    let mut connection = server.serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        biased;
        // Errors are those of the client or of the network, and end its connection.
        ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => Some(ended),
        _ = phase.wait_for(|phase| *phase != Phase::Run) => None,
        () = place.lost() => return None,
    };
    let mut is_idle = false;
    let ended = match ended {
        Some(ended) => ended,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            // An idle connection ends at once; another one after its answer, which says so.
            let first = poll_fn(|cx| Poll::Ready(connection.poll_without_shutdown(cx))).await;
            match first {
                Poll::Ready(ended) => {
                    is_idle = true;
                    ended
                }
                Poll::Pending => poll_fn(|cx| connection.poll_without_shutdown(cx)).await,
            }
        }
    };
    ended.ok()?;
    let parts = connection.into_parts();
    let TimeoutStream { ahead: unread, mut stream, .. } = parts.io.into_inner();
    if is_idle && *phase.borrow() != Phase::Stop && !matches!(stream, Stream::Tls(_)) {
        let mut ahead = parts.read_buf.to_vec();
        ahead.extend(unread);
        return Some(HandoverItem {
            fd: stream.into_fd().ok()?,
            what: ItemKind::Http { sender, ahead },
        });
    }
    let _ = stream.shutdown().await;
    None
}

/// The body of a request, which tells the place of its connection when all of it has arrived.
#[derive(Debug)]
struct ArrivingBody {
    body: Incoming,
    place: Arc<Place>,
}

impl ArrivingBody {
    fn new(body: Incoming, place: Arc<Place>) -> ArrivingBody {
        if body.is_end_stream() {
            place.works();
        }
        ArrivingBody { body, place }
    }
}

impl Body for ArrivingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) || this.body.is_end_stream() {
            this.place.works();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixStream;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::places::Places;

    /// A client of a router that answers `/slow` never, and what becomes of its connection.
    fn connected(
        place: Place,
    ) -> (UnixStream, watch::Sender<Phase>, JoinHandle<Option<HandoverItem>>) {
        let slow = Router::new().route("/slow", get(std::future::pending::<String>));
        let router = Router::new()
            .route("/", post(|body: String| async move { body }))
            .route("/patient", get(|| tokio::time::sleep(Duration::from_secs(5))))
            .merge(slow.layer(axum::middleware::from_fn(while_wanted)));
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (phase, phases) = watch::channel(Phase::Run);
        let answering = answer(
            Stream::Unix(ours),
            Vec::new(),
            "unix".to_owned(),
            router,
            phases,
            Arc::new(place),
            InProgress::default(),
        );
        (theirs, phase, tokio::spawn(answering))
    }

    /// Lets everything happen that waits for no time.
    async fn settle() {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_arrives_slowly_gives_way_and_a_request_that_is_answered_does_not() {
        let places = Places::new(3, 3);
        let (mut slow, _phase, slow_ended) = connected(places.take(None).unwrap());
        let (mut busy, _phase_of_busy, busy_ended) = connected(places.take(None).unwrap());
        let (mut idle, _phase_of_idle, idle_ended) = connected(places.take(None).unwrap());
        let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n";
        busy.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        slow.write_all(format!("{head}ab").as_bytes()).await.unwrap();
        settle().await;
        tokio::time::advance(Duration::from_secs(19)).await;
        idle.write_all(format!("{head}abcd").as_bytes()).await.unwrap();
        let mut answer = [0; 17];
        idle.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK\r\n");
        assert_eq!(places.take(None).unwrap_err(), "too_many_connections");
        tokio::time::advance(Duration::from_secs(1)).await;
        let _new = places.take(None).unwrap();
        assert!(slow_ended.await.unwrap().is_none());
        assert_eq!(slow.read(&mut [0; 99]).await.unwrap(), 0, "it gets no answer");
        assert_eq!(places.take(None).unwrap_err(), "too_many_connections");
        tokio::time::advance(Duration::from_secs(19)).await;
        let _newer = places.take(None).unwrap();
        assert!(idle_ended.await.unwrap().is_none());
        assert!(!busy_ended.is_finished(), "its request has arrived, and is being answered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_closes_its_side_ends_a_query_and_is_told_what_became_of_a_write() {
        let places = Places::new(3, 3);
        for (request, status) in [
            ("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", "408"),
            ("GET /patient HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd", "200"),
        ] {
            let (mut client, _phase, ended) = connected(places.take(None).unwrap());
            client.write_all(request.as_bytes()).await.unwrap();
            settle().await;
            client.shutdown().await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
            assert!(ended.await.unwrap().is_none());
        }
    }
}
