//! HTTP connections.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;

use crate::access::Link;
use crate::handover_item::{HandoverItem, ItemKind};
use crate::patience::Patient;
use crate::phase::Phase;
use crate::sockets::Stream;

/// How long a client may be silent between two requests.
const SILENCE_MAX: Duration = Duration::from_secs(75);

/// The sender of a request, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Its address, and the name of its token if it has one.
    pub(crate) name: Arc<str>,
    pub(crate) link: Link,
}

/// Answers the requests of a connection, until it is closed or the daemon stops; then the request
/// in progress is answered first. If a successor takes over while none is in progress, the
/// connection is returned.
pub(crate) async fn answer(
    (stream, ahead): (Stream, Vec<u8>),
    sender: String,
    router: Router,
    mut phase: watch::Receiver<Phase>,
) -> Option<HandoverItem> {
    let router = TowerToHyperService::new(router);
    let peer = Peer { name: sender.as_str().into(), link: stream.link() };
    let is_answering = Arc::new(AtomicBool::new(false));
    let stream = Patient::new(stream, ahead, is_answering.clone());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        is_answering.store(true, Ordering::Relaxed);
        let (answer, is_answering) = (router.call(request), is_answering.clone());
        Box::pin(async move {
            let answer = answer.await;
            is_answering.store(false, Ordering::Relaxed);
            answer
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
    let Patient { ahead: unread, mut stream, .. } = parts.io.into_inner();
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
