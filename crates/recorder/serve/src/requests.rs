//! HTTP connections.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
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

use crate::daemon::Phase;
use crate::handover::{Left, What};
use crate::sockets::Ahead;

/// How long a client may take to send the head of a request, and be silent between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// The name of the sender of a request, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Peer(pub(crate) Arc<str>);

/// Answers the requests of a connection, until it is closed or the daemon stops; then the request
/// in progress is answered first. If a successor takes over while none is in progress, the
/// connection is returned.
pub(crate) async fn answer(
    stream: Ahead,
    peer: Peer,
    router: Router,
    mut phase: watch::Receiver<Phase>,
) -> Option<Left> {
    let router = TowerToHyperService::new(router);
    let sender = peer.0.to_string();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        Box::pin(router.call(request))
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
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
    let Ahead { ahead: unread, mut stream } = parts.io.into_inner();
    if is_idle && *phase.borrow() != Phase::Stop {
        let mut ahead = parts.read_buf.to_vec();
        ahead.extend(unread);
        return Some(Left { fd: stream.into_fd().ok()?, what: What::Http { sender, ahead } });
    }
    let _ = stream.shutdown().await;
    None
}
