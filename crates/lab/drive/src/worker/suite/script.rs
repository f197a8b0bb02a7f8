//! Scripts: what the server does with each request, and what the client must count.

use std::collections::BTreeMap;

use base::Rng;
use rand::Rng as _;

/// The fate of one request, on whichever connection it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The right response at once.
    Answer,
    /// The right response in two pieces, the first of this many bytes.
    Cut(usize),
    /// The right response once nothing else is left to do; the last such one goes first.
    Late,
    /// The right response, which announces the close that follows.
    LastAnswer,
    /// The right response, then an unannounced close.
    AnswerAndClose,
    /// One wrong byte in the body.
    Corrupt,
    /// Another status.
    Unavailable,
    /// One byte after the response.
    Surplus,
    /// This many bytes of the right response, then a close.
    Close(usize),
    /// This many bytes of the right response, then a reset.
    Reset(usize),
    /// No response.
    Stall,
}

impl Act {
    /// The error that the client must report, if any.
    pub(super) fn error(self) -> Option<&'static str> {
        match self {
            Act::Answer | Act::Cut(_) | Act::Late | Act::LastAnswer | Act::AnswerAndClose => None,
            Act::Corrupt => Some("body differs"),
            Act::Unavailable => Some("status 503"),
            Act::Surplus => Some("bytes after the response"),
            Act::Close(0) => Some("closed before a response"),
            Act::Close(_) => Some("closed within a response"),
            Act::Reset(_) => Some("reset"),
            Act::Stall => Some("timeout"),
        }
    }

    /// The bytes to send, and how many of them at first.
    pub(super) fn bytes(self) -> (Vec<u8>, usize) {
        let bytes = match self {
            Act::Corrupt => answer("200 OK", "", "hellp"),
            Act::Unavailable => answer("503 No", "", "no"),
            Act::Surplus => [sound(), vec![b'!']].concat(),
            Act::LastAnswer => answer("200 OK", "Connection: close\r\n", "hello"),
            Act::Close(keep) | Act::Reset(keep) => sound()[..keep].to_vec(),
            Act::Stall => Vec::new(),
            _ => sound(),
        };
        let first = match self {
            Act::Cut(at) => at.min(bytes.len()),
            _ => bytes.len(),
        };
        (bytes, first)
    }

    /// Whether the connection ends after these bytes.
    pub(super) fn closes(self) -> bool {
        matches!(self, Act::LastAnswer | Act::AnswerAndClose | Act::Close(_) | Act::Reset(_))
    }
}

fn answer(status: &str, header: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{header}Content-Length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

/// The right response.
pub(super) fn sound() -> Vec<u8> {
    answer("200 OK", "", "hello")
}

/// Acts in the order of requests; repeats from the start.
#[derive(Clone, Debug)]
pub(super) struct Script(Vec<Act>);

impl Script {
    pub(super) fn new(acts: impl IntoIterator<Item = Act>) -> Script {
        let acts: Vec<Act> = acts.into_iter().collect();
        assert!(!acts.is_empty());
        Script(acts)
    }

    /// A random script of `acts` acts; each fault is as frequent as all forms of right responses
    /// together.
    pub(super) fn random(rng: &mut Rng, faults: &[Act], acts: usize) -> Script {
        let mut draw = |n: usize| (rng.next_u64() % n as u64) as usize;
        let length = sound().len();
        Script::new((0..acts).map(|_| match draw(faults.len() + 4) {
            0 => Act::Answer,
            1 => Act::Cut(1 + draw(length - 1)),
            2 => Act::Late,
            3 => Act::LastAnswer,
            fault => match faults[fault - 4] {
                Act::Close(_) => Act::Close(draw(length)),
                Act::Reset(_) => Act::Reset(draw(length)),
                other => other,
            },
        }))
    }

    pub(super) fn act(&self, request: usize) -> Act {
        self.0[request % self.0.len()]
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The correct counts after so many requests: completed ones, and errors by kind.
    pub(super) fn truth(&self, requests: u64) -> (u64, BTreeMap<String, u64>) {
        let (mut completed, mut errors) = (0, BTreeMap::new());
        for request in 0..requests as usize {
            match self.act(request).error() {
                None => completed += 1,
                Some(kind) => *errors.entry(kind.to_owned()).or_default() += 1,
            }
        }
        (completed, errors)
    }
}
