//! Lanes: each sends one request at a time to both servers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use base::Nanos;
use drive::Fault;
use drive::http::request_bytes;
use futures_util::future::join;
use record::{Pair, Side};
use spec::LogRequest;
use tokio::sync::Mutex;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until, timeout};

use crate::answer::Answer;
use crate::client::{Server, ServerConnection};
use crate::comparison::{ComparisonRules, OwnNames};
use crate::error::ReplayError;
use crate::log::{Batch, LogItem};
use crate::schedule::DueRequest;
use crate::tally::Tally;

/// What all lanes share. They run on one thread.
pub(crate) struct LaneState {
    servers: Pair<Server>,
    own_names: Pair<OwnNames>,
    comparison: ComparisonRules,
    timeout: Duration,
    source: Mutex<Source>,
    pub(crate) tally: RefCell<Tally>,
    /// When the first request was sent.
    began: Cell<Option<Instant>>,
    /// When the last one was answered.
    ended: Cell<Option<Instant>>,
    /// How late the latest request was.
    pub(crate) late: Cell<Nanos>,
    /// Set to take no more requests.
    pub(crate) is_stopping: Cell<bool>,
    /// Why the log has no more requests.
    pub(crate) error: RefCell<Option<ReplayError>>,
}

/// What is left of the log.
struct Source {
    from: Receiver<Batch>,
    items: std::vec::IntoIter<LogItem>,
}

impl LaneState {
    pub(crate) fn new(
        servers: Pair<Server>,
        comparison: ComparisonRules,
        timeout: Duration,
        from: Receiver<Batch>,
    ) -> LaneState {
        let own_names =
            Pair { old: servers.old.own_names.clone(), new: servers.new.own_names.clone() };
        LaneState {
            servers,
            own_names,
            comparison,
            timeout,
            source: Mutex::new(Source { from, items: Vec::new().into_iter() }),
            tally: RefCell::default(),
            began: Cell::default(),
            ended: Cell::default(),
            late: Cell::default(),
            is_stopping: Cell::default(),
            error: RefCell::default(),
        }
    }

    /// From the first request to the last answer.
    pub(crate) fn elapsed(&self) -> Nanos {
        let both = self.began.get().zip(self.ended.get());
        both.map_or(Nanos::ZERO, |(began, ended)| ended.duration_since(began).into())
    }

    /// The next request of the log.
    async fn next(&self) -> Option<DueRequest<LogRequest>> {
        let mut source = self.source.lock().await;
        loop {
            if self.is_stopping.get() {
                return None;
            }
            match source.items.next() {
                Some(LogItem::Request(request)) => return Some(*request),
                Some(LogItem::LeftOut(why)) => self.tally.borrow_mut().leave_out(why),
                None => match source.from.recv().await? {
                    Ok(items) => source.items = items.into_iter(),
                    Err(error) => {
                        *self.error.borrow_mut() = Some(error);
                        self.is_stopping.set(true);
                    }
                },
            }
        }
    }

    /// Waits until a request is due; the first one is at once.
    async fn wait(&self, due: Nanos) {
        let now = Instant::now();
        let began = self.began.get().unwrap_or_else(|| {
            self.began.set(Some(now));
            now
        });
        let at = began + Duration::from(due);
        if at > now {
            sleep_until(at).await;
        }
        let late = Instant::now().duration_since(at).into();
        self.late.set(self.late.get().max(late));
    }
}

/// Sends requests to both servers, one after the other, until there are no more.
pub(crate) async fn lane(shared: Rc<LaneState>) {
    let mut clients = Pair { old: LaneClient::new(Side::Old), new: LaneClient::new(Side::New) };
    while let Some(DueRequest { due, request }) = shared.next().await {
        shared.wait(due).await;
        if shared.is_stopping.get() {
            return;
        }
        shared.tally.borrow_mut().ask();
        let Pair { old, new } = &mut clients;
        let both = join(old.ask(&shared, &request), new.ask(&shared, &request)).await;
        shared.ended.set(Some(Instant::now()));
        let mut tally = shared.tally.borrow_mut();
        match both {
            (Ok(old), Ok(new)) => {
                let answers = Pair { old, new };
                let found = shared.comparison.differences(&answers, &shared.own_names);
                tally.compared(&request, found);
            }
            (old, new) => {
                let cause = |answer: Result<Answer, Fault>| answer.err().map(Fault::kind);
                tally.failed(&request, Pair { old: cause(old), new: cause(new) });
            }
        }
    }
}

/// One lane's connection to one server.
struct LaneClient {
    side: Side,
    /// The connection, while it can carry another request.
    connection: Option<ServerConnection>,
}

impl LaneClient {
    fn new(side: Side) -> LaneClient {
        LaneClient { side, connection: None }
    }

    /// Sends a request, waits for the answer, and counts both.
    async fn ask(&mut self, shared: &LaneState, request: &LogRequest) -> Result<Answer, Fault> {
        let side = self.side;
        {
            let mut tally = shared.tally.borrow_mut();
            let counts = &mut tally.ledgers.of_mut(side).counts;
            counts.offered += 1;
            counts.sent += 1;
            counts.in_flight += 1;
        }
        let outcome = timeout(shared.timeout, self.exchange(shared, request)).await;
        let outcome = outcome.unwrap_or(Err(Fault::Timeout));
        let mut tally = shared.tally.borrow_mut();
        let ledger = tally.ledgers.of_mut(side);
        ledger.counts.in_flight -= 1;
        match &outcome {
            Ok(_) => ledger.counts.completed += 1,
            Err(fault) => {
                ledger.counts.failed += 1;
                *ledger.errors.entry(fault.kind()).or_default() += 1;
            }
        }
        outcome
    }

    /// Nothing is sent twice: a request goes over a new connection only if the server had closed the
    /// other one before it took any byte.
    async fn exchange(
        &mut self,
        shared: &LaneState,
        request: &LogRequest,
    ) -> Result<Answer, Fault> {
        let server = shared.servers.of(self.side);
        let http = &request.request.request;
        let bytes = request_bytes(http, &server.authority, &request.request.path, false);
        let mut connection = match self.begun(&bytes).await? {
            Some(connection) => connection,
            None => {
                let mut connection = server.connect().await?;
                connection.begin(&bytes).await??;
                connection
            }
        };
        let exchanged = connection.answer(http.method == "HEAD").await?;
        self.connection = exchanged.keeps.then_some(connection);
        Ok(exchanged.answer)
    }

    /// Sends a request over the connection that there is; `None` if there is none.
    async fn begun(&mut self, bytes: &[u8]) -> Result<Option<ServerConnection>, Fault> {
        let Some(mut connection) = self.connection.take() else { return Ok(None) };
        if !connection.is_open().await {
            return Ok(None);
        }
        match connection.begin(bytes).await {
            Ok(sent) => sent.map(|()| Some(connection)),
            Err(_) => Ok(None),
        }
    }
}
