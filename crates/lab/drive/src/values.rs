//! Values of responses that later requests of the same connection use, such as cookies and tokens.
//!
//! A connection begins with the values of the probes, and replaces them by those of its own responses;
//! when it has to be opened again, it keeps them.

use std::sync::Arc;

use http2::own_request;
use serde_json::Value;
use spec::{HttpRequest, KeptValue, Load, PathRequest, ValueSource};

use crate::Fault;
use crate::deck::{Card, Choices};
use crate::http::request_bytes;

/// Limit on a body in which values are looked for.
const BODY_MAX: usize = 1 << 20;

/// The values of a connection or of the probes, by number.
pub(crate) type ValueList = Vec<Option<Box<str>>>;

/// How requests become bytes.
#[derive(Clone, Debug)]
pub(crate) struct RequestForm {
    /// The value of `Host` or `:authority`.
    pub(crate) authority: String,
    /// The scheme, for HTTP/2; `None` for HTTP/1.1.
    pub(crate) scheme: Option<&'static str>,
    /// Whether the server is asked to close the connection.
    pub(crate) asks_to_close: bool,
}

/// What a session keeps of responses, and which of its messages use it.
#[derive(Debug)]
pub(crate) struct ValueRules {
    /// By kind of request.
    kinds: Vec<Vec<KeptValue>>,
    /// By message: the request, if it uses values.
    users: Vec<Option<PathRequest>>,
    /// By message: whether the headers of its responses are needed.
    asking: Vec<bool>,
    form: RequestForm,
}

impl ValueRules {
    /// The rules of a load with these messages; `None` if it keeps nothing.
    pub(crate) fn new(
        load: &Load,
        requests: &[(&HttpRequest, &str)],
        choices: &Choices,
        form: RequestForm,
    ) -> Option<ValueRules> {
        let kinds: Vec<Vec<KeptValue>> = load.kinds.iter().map(|kind| kind.keep.clone()).collect();
        if kinds.iter().all(Vec::is_empty) {
            return None;
        }
        let mut asking = vec![false; requests.len()];
        for (kind, kept) in kinds.iter().enumerate() {
            if kept.iter().any(|kept| !is_in_body(kept)) {
                choices.messages(kind).iter().for_each(|number| asking[*number as usize] = true);
            }
        }
        let user = |(request, path): &(&HttpRequest, &str)| {
            let one = PathRequest { path: (*path).to_owned(), request: (*request).clone() };
            one.uses_values().then_some(one)
        };
        Some(ValueRules { kinds, users: requests.iter().map(user).collect(), asking, form })
    }

    /// Whether the headers of the responses to a message are needed.
    pub(crate) fn asks_for_headers(&self, message: usize) -> bool {
        self.asking[message]
    }
}

fn is_in_body(kept: &KeptValue) -> bool {
    matches!(kept.source, ValueSource::Json(_))
}

/// The rules of a session, and the values with which its connections begin.
#[derive(Clone, Debug)]
pub(crate) struct SessionValues {
    rules: Arc<ValueRules>,
    /// Those of the probes.
    first: Arc<ValueList>,
}

impl SessionValues {
    /// No values yet.
    pub(crate) fn new(rules: Arc<ValueRules>) -> SessionValues {
        SessionValues { rules, first: Arc::default() }
    }

    /// Connections begin with these.
    pub(crate) fn begin_with(&mut self, values: ValueList) {
        self.first = Arc::new(values);
    }

    /// What is kept of the responses to a kind of request.
    pub(crate) fn kept(&self, kind: u32) -> &[KeptValue] {
        &self.rules.kinds[kind as usize]
    }

    /// The bytes of a message that uses values, for a connection with these; `None` for others.
    pub(crate) fn message(&self, card: Card, own: &ConnValues) -> Option<Vec<u8>> {
        let ValueRules { users, asking, form, .. } = &*self.rules;
        let message = card.message as usize;
        let known = |number: usize| {
            let of = |list: &'_ ValueList| list.get(number).is_some_and(Option::is_some);
            let list = if of(&own.list) { &own.list } else { &*self.first };
            list.get(number).and_then(Option::as_deref).unwrap_or_default()
        };
        let PathRequest { path, request } = users[message].as_ref()?.filled(known);
        let RequestForm { authority, scheme, asks_to_close } = form;
        Some(match scheme {
            None => request_bytes(&request, authority, &path, *asks_to_close),
            Some(scheme) => own_request(&request, &path, scheme, authority, asking[message]),
        })
    }
}

/// The values of a connection, and what is needed of the response in progress.
#[derive(Debug, Default)]
pub(crate) struct ConnValues {
    list: ValueList,
    pub(crate) copy: ResponseCopy,
    /// Whether the kernel has not taken the whole request yet.
    pub(crate) is_sending: bool,
}

impl ConnValues {
    /// A request is sent, of whose response this is kept.
    pub(crate) fn begin(&mut self, kept: &[KeptValue]) {
        self.copy.head.clear();
        self.copy.body.clear();
        self.copy.needs_head = kept.iter().any(|kept| !is_in_body(kept));
        self.copy.needs_body = kept.iter().any(is_in_body);
    }

    /// Keeps the values of a complete response.
    pub(crate) fn keep(&mut self, kept: &[KeptValue]) -> Result<(), Fault> {
        for KeptValue { number, source, .. } in kept {
            let value = self.copy.find(source).ok_or(Fault::NoValue)?;
            if self.list.len() <= *number {
                self.list.resize(number + 1, None);
            }
            self.list[*number] = Some(value.into());
        }
        Ok(())
    }

    /// All values.
    pub(crate) fn list(&self) -> &ValueList {
        &self.list
    }
}

/// The parts of a response in which values are looked for.
#[derive(Debug, Default)]
pub(crate) struct ResponseCopy {
    /// Lines of headers.
    head: Vec<u8>,
    body: Vec<u8>,
    needs_head: bool,
    needs_body: bool,
}

impl ResponseCopy {
    /// The head of the response, as HTTP/1.1 has it.
    pub(crate) fn head(&mut self, bytes: &[u8]) {
        if self.needs_head {
            self.head.extend_from_slice(bytes);
        }
    }

    /// A header of the response.
    pub(crate) fn header(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, b":", value, b"\r\n"] {
            self.head(part);
        }
    }

    /// A part of its body.
    pub(crate) fn body(&mut self, bytes: &[u8]) {
        if self.needs_body {
            let room = BODY_MAX.saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// A value, unless it is missing or has characters that end a line.
    fn find(&self, source: &ValueSource) -> Option<String> {
        let value = match source {
            ValueSource::Header(name) => self.headers(name).next()?.to_owned(),
            ValueSource::Cookie(name) => {
                let cookies = self.headers("set-cookie").filter_map(|header| {
                    let (known, value) = header.split(';').next()?.split_once('=')?;
                    (known.trim() == name).then(|| value.trim().to_owned())
                });
                cookies.last()?
            }
            ValueSource::Json(pointer) => {
                let body: Value = serde_json::from_slice(&self.body).ok()?;
                match body.pointer(pointer)? {
                    Value::String(text) => text.clone(),
                    value @ (Value::Number(_) | Value::Bool(_)) => value.to_string(),
                    _ => return None,
                }
            }
        };
        (!value.contains(|c: char| c.is_ascii_control())).then_some(value)
    }

    /// The values of the headers with a name.
    fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.head.split(|byte| *byte == b'\n').filter_map(move |line| {
            let (known, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy() -> ResponseCopy {
        let mut copy = ResponseCopy { needs_head: true, needs_body: true, ..Default::default() };
        copy.head(
            b"HTTP/1.1 200 OK\r\nX-Request-Id:  7 \r\nset-cookie: a=1; Path=/\r\n\
              Set-Cookie: sid=\"x=y\"; HttpOnly\r\nSet-Cookie: a=2\r\nx-bad: \xff\r\n\r\n",
        );
        for part in [&b"{\"a\": {\"token\": \"t/1\", \"n\": 12, "[..], b"\"line\": \"x\\r\\ny\"}}"]
        {
            copy.body(part);
        }
        copy
    }

    #[test]
    fn values_are_found_in_headers_cookies_and_bodies() {
        let header = |name: &str| ValueSource::Header(name.to_owned());
        let cookie = |name: &str| ValueSource::Cookie(name.to_owned());
        let json = |pointer: &str| ValueSource::Json(pointer.to_owned());
        for (source, value) in [
            (header("x-request-id"), Some("7")),
            (header("X-Bad"), None),
            (header("X-Other"), None),
            (cookie("sid"), Some("\"x=y\"")),
            // The one that is set last (RFC 6265, 5.3).
            (cookie("a"), Some("2")),
            (cookie("A"), None),
            (json("/a/token"), Some("t/1")),
            (json("/a/n"), Some("12")),
            (json("/a"), None),
            (json("/b"), None),
            (json("/a/line"), None),
        ] {
            assert_eq!(copy().find(&source).as_deref(), value, "{source}");
        }
        let mut long = copy();
        long.body(&vec![b' '; BODY_MAX]);
        long.body(b"no JSON");
        assert_eq!(long.find(&json("/a/n")).as_deref(), Some("12"), "what is too long is left out");
    }

    #[test]
    fn a_connection_uses_its_own_values_and_before_those_of_the_probes() {
        let kept = KeptValue {
            number: 0,
            name: "id".to_owned(),
            source: ValueSource::Header("id".to_owned()),
        };
        let mark = '\u{10fffd}';
        let request = HttpRequest {
            method: "POST".to_owned(),
            headers: vec![("Cookie".to_owned(), format!("id={mark}0{mark}; b={mark}1{mark}"))],
            body: format!("{mark}0{mark}!").into_bytes(),
        };
        let rules = ValueRules {
            kinds: vec![vec![kept]],
            users: vec![None, Some(PathRequest { path: format!("/{mark}0{mark}"), request })],
            asking: vec![true, false],
            form: RequestForm { authority: "h".to_owned(), scheme: None, asks_to_close: false },
        };
        let mut session = SessionValues::new(Arc::new(rules));
        session.begin_with(vec![Some("a b".into())]);
        let mut own = ConnValues::default();
        let text = |session: &SessionValues, own: &ConnValues| {
            let card = Card { message: 1, ..Card::default() };
            String::from_utf8(session.message(card, own).unwrap()).unwrap()
        };
        let sent = text(&session, &own);
        assert!(sent.starts_with("POST /a%20b HTTP/1.1\r\n"), "{sent}");
        assert!(sent.contains("\r\nContent-Length: 4\r\n"), "{sent}");
        assert!(sent.ends_with("\r\nCookie: id=a b; b=\r\n\r\na b!"), "{sent}");
        own.begin(session.kept(0));
        assert_eq!(own.keep(session.kept(0)), Err(Fault::NoValue));
        own.copy.header(b"ID", b"own");
        assert_eq!(own.keep(session.kept(0)), Ok(()));
        assert!(text(&session, &own).ends_with("\r\nCookie: id=own; b=\r\n\r\nown!"));
        assert_eq!(session.message(Card::default(), &own), None, "a message without values");
    }
}
