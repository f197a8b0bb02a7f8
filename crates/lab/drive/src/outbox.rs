//! What a session sends.

use std::collections::HashMap;
use std::sync::Arc;

use http2::RequestSet;
use netio::Messages;
use spec::{Exchange, HttpRequest, HttpVersion, Load, Target};

use crate::deck::{Choices, KindChoice};
use crate::http::request_bytes;
use crate::values::{RequestForm, ValueRules};

/// All messages of a session.
#[derive(Clone)]
pub(crate) struct Outbox {
    /// The messages, as bytes.
    pub(crate) messages: Messages,
    /// The same for HTTP/2, if that is spoken.
    pub(crate) http2: Option<RequestSet>,
    /// Of which kind each is.
    pub(crate) choices: Arc<Choices>,
    /// What is kept of responses for later requests, if anything is.
    pub(crate) values: Option<Arc<ValueRules>>,
}

impl Outbox {
    pub(crate) fn new(target: &Target, load: &Load) -> Outbox {
        // With resets no port stays in TIME_WAIT, so it does not matter which side closes first.
        let asks_to_close = load.new_connection && !load.linger_zero;
        match (&load.exchange, target) {
            (Exchange::Http(request), Target::Http { authority, path, tls, .. }) => {
                let called = load.grpc.as_ref().and_then(|calls| calls.method.as_deref());
                let called = called.map(|method| format!("/{method}"));
                let mut requests = vec![(request, called.as_deref().unwrap_or(path))];
                let mut choices = Choices::single(request.method == "HEAD");
                if !load.kinds.is_empty() {
                    (requests, choices) = distinct(load);
                }
                let bytes = |(request, path): &(&HttpRequest, &str)| {
                    Arc::from(request_bytes(request, authority, path, asks_to_close))
                };
                let scheme = if *tls { "https" } else { "http" };
                let scheme = Some(scheme).filter(|_| load.http == HttpVersion::Http2);
                let form = RequestForm { authority: authority.clone(), scheme, asks_to_close };
                let values = ValueRules::new(load, &requests, &choices, form);
                let asks = |message| {
                    values.as_ref().is_some_and(|values| values.asks_for_headers(message))
                };
                let http2 =
                    scheme.map(|scheme| RequestSet::asking(&requests, scheme, authority, asks));
                let messages = requests.iter().map(bytes).collect();
                let values = values.map(Arc::new);
                Outbox { messages, http2, choices: Arc::new(choices), values }
            }
            // Neighbouring bytes differ, so that a shifted echo is detected.
            (Exchange::Echo { size }, _) => {
                Outbox::single((0..size.0).map(|i| (i % 251) as u8).collect())
            }
            _ => Outbox::single(Vec::new()),
        }
    }

    fn single(message: Vec<u8>) -> Outbox {
        let messages = Arc::from([Arc::from(message)]);
        let choices = Arc::new(Choices::single(false));
        Outbox { messages, http2: None, choices, values: None }
    }
}

/// The requests of all kinds, each once, and the numbers of those of each kind.
fn distinct(load: &Load) -> (Vec<(&HttpRequest, &str)>, Choices) {
    let mut numbers: HashMap<(&HttpRequest, &str), u32> = HashMap::new();
    let (mut requests, mut choices) = (Vec::new(), Vec::new());
    for kind in &load.kinds {
        let (mut messages, mut to_head) = (Vec::new(), Vec::new());
        for one in &kind.requests {
            let request = (&one.request, one.path.as_str());
            messages.push(*numbers.entry(request).or_insert_with(|| {
                requests.push(request);
                requests.len() as u32 - 1
            }));
            to_head.push(one.request.method == "HEAD");
        }
        choices.push(KindChoice { weight: kind.weight, messages, to_head });
    }
    (requests, Choices::new(choices))
}

#[cfg(test)]
mod tests {
    use spec::{Expect, PathRequest, RequestKind};

    use super::*;

    #[test]
    fn equal_requests_are_one_message() {
        let request = |method: &str, path: &str| PathRequest {
            path: path.to_owned(),
            request: HttpRequest { method: method.to_owned(), ..HttpRequest::default() },
        };
        let kind = |requests: Vec<PathRequest>| RequestKind {
            name: "k".to_owned(),
            weight: 1,
            requests,
            expect: Expect::default(),
            keep: Vec::new(),
        };
        let load = Load {
            kinds: vec![
                kind(vec![request("GET", "/a"), request("GET", "/b"), request("GET", "/a")]),
                kind(vec![request("HEAD", "/a"), request("GET", "/b")]),
            ],
            ..Load::default()
        };
        let target = Target::parse("http://127.0.0.1:1/ignored").unwrap();
        let outbox = Outbox::new(&target, &load);
        let first = |message: &Arc<[u8]>| {
            String::from_utf8_lossy(message).lines().next().unwrap_or_default().to_owned()
        };
        let lines: Vec<String> = outbox.messages.iter().map(first).collect();
        assert_eq!(lines, ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "HEAD /a HTTP/1.1"]);
        let kind = |messages: [u32; 3], to_head: [bool; 3], count: usize| KindChoice {
            weight: 1,
            messages: messages[..count].to_vec(),
            to_head: to_head[..count].to_vec(),
        };
        let wanted = Choices::new(vec![
            kind([0, 1, 0], [false; 3], 3),
            kind([2, 1, 0], [true, false, false], 2),
        ]);
        assert_eq!(*outbox.choices, wanted);
    }
}
