//! What a server does with one request after another, and what the client must make of it.

use std::collections::BTreeMap;

use base::Rng;
use rand::Rng as _;

/// What becomes of one request, whichever connection it comes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The right answer at once.
    Answer,
    /// The right answer in two pieces, the first of this many bytes.
    Cut(usize),
    /// The right answer, when nothing else is left to be done, the last such one first.
    Late,
    /// The right answer, which announces the close that follows.
    LastAnswer,
    /// The right answer, and then a close that nothing announced.
    AnswerAndClose,
    /// One wrong byte in the body.
    Corrupt,
    /// Another status.
    Unavailable,
    /// One byte more than the answer has.
    Surplus,
    /// This many bytes of the right answer, and then a close.
    Close(usize),
    /// This many bytes of the right answer, and then a reset.
    Reset(usize),
    /// Nothing at all.
    Stall,
}

impl Act {
    /// The error that the client must report, or none.
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

    /// The bytes that go out, and how many of them at first.
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

/// The right answer.
pub(super) fn sound() -> Vec<u8> {
    answer("200 OK", "", "hello")
}

/// Acts in the order in which requests come; from the beginning again after the last.
#[derive(Clone, Debug)]
pub(super) struct Script(Vec<Act>);

impl Script {
    pub(super) fn new(acts: impl IntoIterator<Item = Act>) -> Script {
        let acts: Vec<Act> = acts.into_iter().collect();
        assert!(!acts.is_empty());
        Script(acts)
    }

    /// As many acts as asked for, each of `faults` as often as a right answer in all its forms.
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

    /// What the client must have counted after so many requests: completed ones, and errors by kind.
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
