//! Answers with heads that were seen before are read as if each were parsed.
//!
//! The input is a list of answers on one connection after another. Each begins with a byte that says
//! where it is cut, and ends at the byte FF FE; `~` copies the answer before it, so that a small
//! input can hold answers that differ in one byte.

#![no_main]

use drive::http::{Flow, ResponseReader, Sink};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Default, PartialEq)]
struct Kept {
    status: Option<u16>,
    body: Vec<u8>,
}

impl Sink for Kept {
    fn status(&mut self, status: u16) {
        self.status = Some(status);
    }
    fn body(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

fuzz_target!(|input: &[u8]| {
    let to_head = input.first().is_some_and(|byte| byte & 1 == 1);
    let (mut fast, mut full) =
        (ResponseReader::new(to_head), ResponseReader::parsing_every_head(to_head));
    let mut before: Vec<u8> = Vec::new();
    for part in split(input).take(16) {
        let [cut, rest @ ..] = part else { continue };
        let answer = edited(&before, rest);
        let cut = usize::from(*cut) * answer.len() / 255;
        fast.begin();
        full.begin();
        let (mut fast_kept, mut full_kept) = (Kept::default(), Kept::default());
        let mut last = Ok(Flow::More);
        for piece in [&answer[..cut], &answer[cut..]] {
            last = full.push(piece, &mut full_kept);
            assert_eq!(fast.push(piece, &mut fast_kept), last);
            assert_eq!(fast_kept, full_kept);
            if last.is_err() {
                break;
            }
        }
        if last == Ok(Flow::More) {
            last = full.end();
            assert_eq!(fast.end(), last);
        }
        if last != Ok(Flow::Done { keep_alive: true }) {
            (fast, full) = (fast.another(), full.another());
        }
        before = answer;
    }
});

fn split(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(input);
    std::iter::from_fn(move || {
        let now = rest?;
        let end = now.windows(2).position(|pair| pair == [0xff, 0xfe]);
        rest = end.map(|end| &now[end + 2..]);
        Some(end.map_or(now, |end| &now[..end]))
    })
}

/// The answer before with changes, if `part` begins with `~`: triples of where, what to do, and a byte.
fn edited(before: &[u8], part: &[u8]) -> Vec<u8> {
    let [b'~', edits @ ..] = part else { return part.to_vec() };
    let mut answer = before.to_vec();
    for edit in edits.chunks_exact(3) {
        if answer.is_empty() {
            break;
        }
        let at = usize::from(edit[0]) % answer.len();
        match edit[1] % 4 {
            0 => answer[at] = edit[2],
            1 => answer.insert(at, edit[2]),
            2 => drop(answer.remove(at)),
            _ => {
                let n = usize::from(edit[2]).min(answer.len() - at);
                let copy = answer[at..at + n].to_vec();
                answer.splice(at..at, copy);
            }
        }
    }
    answer
}
