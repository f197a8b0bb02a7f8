//! The fast path and the full parser give the same results, whatever arrives and however it is
//! split.

use proptest::prelude::*;
use proptest::sample::Index;

use super::tests::{Collected, answers, crlf};
use super::*;

/// A reader that keeps heads and one that parses every head.
struct Pair {
    fast: ResponseReader,
    full: ResponseReader,
}

impl Pair {
    fn new(to_head: bool) -> Pair {
        Pair {
            fast: ResponseReader::new(to_head),
            full: ResponseReader::parsing_every_head(to_head),
        }
    }

    /// Two readers, of which the fast one has kept the heads of `texts`.
    fn after(texts: &[&str]) -> Pair {
        let mut pair = Pair::new(false);
        for text in texts {
            pair.read(&crlf(text), &[]);
        }
        pair
    }

    /// Both read one response, split at `cuts`, on a connection that a fault would end.
    fn read(&mut self, bytes: &[u8], cuts: &[usize]) {
        self.fast.begin();
        self.full.begin();
        let (mut fast_kept, mut full_kept) = (Collected::default(), Collected::default());
        let (mut from, mut last) = (0, Ok(Flow::More));
        for to in cuts.iter().copied().chain([bytes.len()]) {
            let piece = &bytes[from.min(to)..to];
            from = from.max(to);
            let fast = self.fast.push(piece, &mut fast_kept);
            last = self.full.push(piece, &mut full_kept);
            assert_eq!(fast, last, "{} cut at {cuts:?}", bytes.escape_ascii());
            assert_eq!(fast_kept, full_kept, "{} cut at {cuts:?}", bytes.escape_ascii());
            if last.is_err() {
                break;
            }
        }
        if last == Ok(Flow::More) {
            last = self.full.end();
            assert_eq!(self.fast.end(), last, "{}", bytes.escape_ascii());
        }
        if last != Ok(Flow::Done { keep_alive: true }) {
            self.fast = self.fast.another();
            self.full = self.full.another();
        }
    }
}

const HELLO: &str = "HTTP/1.1 200 OK\nServer: x\nDate: Thu, 01 Jan 1970 00:00:00 GMT\nX-Id: 1\nContent-Length: 12\n\nHello World!";

#[test]
fn every_byte_of_a_known_answer_changed_to_every_other() {
    let mut pair = Pair::after(&[HELLO, &HELLO.replace("Id: 1", "Id: 2")]);
    let bytes = crlf(HELLO);
    for at in 0..bytes.len() {
        for byte in 0..=255 {
            let mut changed = bytes.clone();
            changed[at] = byte;
            // Changed heads fill the limited room, so each case begins with the two known ones.
            if byte == 0 {
                pair = Pair::after(&[HELLO, &HELLO.replace("Id: 1", "Id: 2")]);
            }
            pair.read(&changed, &[]);
        }
    }
}

#[test]
fn known_answers_cut_anywhere_and_with_anything_after_them() {
    let mut pair = Pair::after(&[HELLO]);
    for text in [
        HELLO.to_owned(),
        HELLO.replace("Jan", "Feb"),
        format!("{HELLO}!"),
        format!("{HELLO}{HELLO}"),
    ] {
        let bytes = crlf(&text);
        for cut in 0..=bytes.len() {
            pair.read(&bytes, &[cut]);
        }
        let everywhere: Vec<usize> = (0..bytes.len()).collect();
        pair.read(&bytes, &everywhere);
    }
}

#[test]
fn all_answers_after_each_other() {
    for (first, ..) in answers() {
        for (second, ..) in answers() {
            let mut pair = Pair::after(&[first, second, first, second]);
            pair.read(&crlf(second), &[]);
        }
    }
}

#[test]
fn the_fast_path_is_taken() {
    let pair = Pair::after(&[HELLO]);
    let heads = &pair.fast.known;
    assert!(heads[0].find(&crlf(&HELLO.replace("Jan", "Feb"))).is_some());
    assert!(Arc::ptr_eq(heads, &pair.fast.another().known));
    assert!(pair.full.another().known.is_empty());
}

/// A way in which a response differs from the previous one.
#[derive(Clone, Debug)]
enum Mutation {
    Set(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    /// Copy some bytes to another position.
    Copy(Index, Index, u8),
    /// Replace the first value after this position.
    Value(Index, String),
}

fn any_change() -> impl Strategy<Value = Mutation> {
    // Bytes with a meaning in heads are as frequent as all others together.
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"\r\n: \t,;0aAcC\x7f\x80".to_vec())];
    let value = prop_oneof![
        "[ -~]{0,40}",
        "[ -~\\t\u{80}-\u{ff}]{0,20}",
        "(close|chunked|keep-alive|[0-9]{1,3})"
    ];
    prop_oneof![
        (any::<Index>(), byte.clone()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (any::<Index>(), byte).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        any::<Index>().prop_map(Mutation::Remove),
        (any::<Index>(), any::<Index>(), 1u8..60)
            .prop_map(|(from, to, n)| Mutation::Copy(from, to, n)),
        (any::<Index>(), value).prop_map(|(at, value)| Mutation::Value(at, value)),
    ]
}

fn change(bytes: &mut Vec<u8>, change: &Mutation) {
    if bytes.is_empty() {
        return;
    }
    match change {
        Mutation::Set(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Mutation::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
        Mutation::Remove(at) => {
            bytes.remove(at.index(bytes.len()));
        }
        Mutation::Copy(from, to, n) => {
            let from = from.index(bytes.len());
            let part = bytes[from..bytes.len().min(from + usize::from(*n))].to_vec();
            let to = to.index(bytes.len());
            bytes.splice(to..to, part);
        }
        Mutation::Value(at, value) => {
            let at = at.index(bytes.len());
            let Some(colon) = memchr::memchr(b':', &bytes[at..]).map(|n| at + n + 1) else {
                return;
            };
            let Some(end) = memchr::memchr(b'\r', &bytes[colon..]).map(|n| colon + n) else {
                return;
            };
            bytes.splice(colon..end, value.bytes());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn answers_that_change_from_one_to_the_next(
        texts in prop::collection::vec(
            (
                prop_oneof![3 => Just(HELLO), 1 => prop::sample::select(answers().iter().map(|case| case.0).collect::<Vec<_>>())],
                prop::collection::vec(any_change(), 0..3),
                prop::collection::vec(any::<Index>(), 0..4),
            ),
            1..12,
        ),
        to_head: bool,
    ) {
        let mut pair = Pair::new(to_head);
        for (text, changes, cuts) in texts {
            let mut bytes = crlf(text);
            changes.iter().for_each(|one| change(&mut bytes, one));
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            pair.read(&bytes, &cuts);
            pair.read(&bytes, &[]);
        }
    }
}
