use super::*;
use proptest::prelude::*;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Collected {
    status: Option<u16>,
    body: Vec<u8>,
}

impl Sink for Collected {
    fn status(&mut self, status: u16) {
        self.status = Some(status);
    }
    fn body(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

/// Reads `bytes` split at `cuts`, then the end of the connection if the response is incomplete.
fn read(bytes: &[u8], cuts: &[usize], to_head: bool) -> (Collected, Result<Flow, Fault>) {
    let mut reader = ResponseReader::new(to_head);
    reader.begin();
    let mut kept = Collected::default();
    let mut from = 0;
    let mut flow = Flow::More;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        let piece = &bytes[from.min(to)..to];
        from = from.max(to);
        if piece.is_empty() {
            continue;
        }
        match reader.push(piece, &mut kept) {
            Ok(next) => flow = next,
            Err(fault) => return (kept, Err(fault)),
        }
    }
    match flow {
        Flow::More => (kept, reader.end()),
        done => (kept, Ok(done)),
    }
}

pub(super) fn crlf(text: &str) -> Vec<u8> {
    text.replace('\n', "\r\n").into_bytes()
}

const KEPT: Flow = Flow::Done { keep_alive: true };
const CLOSED: Flow = Flow::Done { keep_alive: false };

/// A response as text with LF for CRLF, its status and body, and the result.
pub(super) type Case = (&'static str, Option<u16>, &'static str, Result<Flow, Fault>);

pub(super) fn answers() -> Vec<Case> {
    vec![
        ("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", Some(200), "hello", Ok(KEPT)),
        ("HTTP/1.1 500 Oh\nContent-Length: 0\n\n", Some(500), "", Ok(KEPT)),
        ("HTTP/1.1 200\nContent-Length: 1\n\nx", Some(200), "x", Ok(KEPT)),
        (
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5;x=y\nhello\n1\n!\n0\nA: b\n\n",
            Some(200),
            "hello!",
            Ok(KEPT),
        ),
        ("HTTP/1.1 200 OK\n\nto the end", Some(200), "to the end", Ok(CLOSED)),
        ("HTTP/1.0 200 OK\nContent-Length: 2\n\nab", Some(200), "ab", Ok(CLOSED)),
        (
            "HTTP/1.1 200 OK\nConnection: close\nContent-Length: 2\n\nab",
            Some(200),
            "ab",
            Ok(CLOSED),
        ),
        ("HTTP/1.1 204 No Content\nContent-Length: 9\n\n", Some(204), "", Ok(KEPT)),
        (
            "HTTP/1.1 103 Early Hints\nLink: x\n\nHTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Length: 1\n\nx",
            Some(200),
            "x",
            Ok(KEPT),
        ),
        ("HTTP/1.1 100 Continue\n\n", None, "", Err(Fault::ClosedWithin)),
        ("HTTP/1.1 101 Switching\nUpgrade: x\n\n", None, "", Err(Fault::UnexpectedUpgrade)),
        ("HTTP/1.1 200 OK\nContent-Length: 5\n\nhell", Some(200), "hell", Err(Fault::ClosedWithin)),
        ("HTTP/1.1 200 OK\nContent-Le", None, "", Err(Fault::ClosedWithin)),
        ("", None, "", Err(Fault::ClosedBefore)),
        ("HTTP/1.1 200 OK\nContent-Length: 1\n\nxy", Some(200), "x", Err(Fault::SurplusBytes)),
        ("HTTP/1.1 204 No\n\nx", Some(204), "", Err(Fault::SurplusBytes)),
        (
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n0\n\nx",
            Some(200),
            "",
            Err(Fault::SurplusBytes),
        ),
        (
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nzz\n",
            Some(200),
            "",
            Err(Fault::BadChunk),
        ),
        (
            "HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2\n\nx",
            None,
            "",
            Err(Fault::BadFraming),
        ),
        ("HTTP/1.1 000 No\nContent-Length: 0\n\n", None, "", Err(Fault::NotHttp)),
        ("HTTP/1.1 099 No\nContent-Length: 0\n\n", None, "", Err(Fault::NotHttp)),
        ("HTTP/1.1 2x0 OK\n\n", None, "", Err(Fault::NotHttp)),
        ("HTTP/2 200\n\n", None, "", Err(Fault::NotHttp)),
        ("\n\n", None, "", Err(Fault::NotHttp)),
        ("220 mail.example ESMTP\n", None, "", Err(Fault::NotHttp)),
        ("\u{15}\u{3}\u{3}\0\u{2}\u{2}F", None, "", Err(Fault::Tls)),
    ]
}

#[test]
fn answers_in_one_piece() {
    for (text, status, body, outcome) in answers() {
        let (kept, got) = read(&crlf(text), &[], false);
        assert_eq!(got, outcome, "{text:?}");
        assert_eq!(kept.status, status, "{text:?}");
        assert_eq!(String::from_utf8_lossy(&kept.body), body, "{text:?}");
    }
}

#[test]
fn cutting_an_answer_anywhere_changes_nothing() {
    for (text, ..) in answers() {
        let bytes = crlf(text);
        let whole = read(&bytes, &[], false);
        for cut in 0..=bytes.len() {
            assert_eq!(read(&bytes, &[cut], false), whole, "{text:?} cut at {cut}");
        }
        let everywhere: Vec<usize> = (0..bytes.len()).collect();
        assert_eq!(read(&bytes, &everywhere, false), whole, "{text:?} byte by byte");
    }
}

#[test]
fn an_answer_to_head_ends_with_its_head() {
    let bytes = crlf("HTTP/1.1 200 OK\nContent-Length: 5\n\n");
    assert_eq!(read(&bytes, &[], true).1, Ok(KEPT));
    let bytes = crlf("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello");
    assert_eq!(read(&bytes, &[], true).1, Err(Fault::SurplusBytes));
}

#[test]
fn bytes_before_any_request_are_unasked() {
    let mut reader = ResponseReader::new(false);
    assert_eq!(
        reader.push(b"HTTP/1.1 200 OK\r\n", &mut Collected::default()),
        Err(Fault::SurplusBytes)
    );
}

#[test]
fn a_head_without_end_is_given_up() {
    let mut endless = b"HTTP/1.1 200 OK\r\n".to_vec();
    while endless.len() < 2 * HEAD_MAX {
        endless.extend_from_slice(b"A: b\r\n");
    }
    assert_eq!(read(&endless, &[], false).1, Err(Fault::HeadTooLarge));
    let cuts: Vec<usize> = (0..endless.len()).step_by(100).collect();
    assert_eq!(read(&endless, &cuts, false).1, Err(Fault::HeadTooLarge));
    let mut line = b"HTTP/1.1 200 ".to_vec();
    line.resize(2 * HEAD_MAX, b'x');
    assert_eq!(read(&line, &[], false).1, Err(Fault::HeadTooLarge));
}

#[test]
fn the_longest_head_is_the_longest_wherever_it_is_cut() {
    for (length, right) in [(HEAD_MAX, Ok(KEPT)), (HEAD_MAX + 1, Err(Fault::HeadTooLarge))] {
        let mut bytes = b"HTTP/1.1 204 No\r\nA: ".to_vec();
        bytes.resize(length - 4, b'x');
        bytes.extend_from_slice(b"\r\n\r\n");
        for cut in [0, 1, 20, 1000, length - 5, length - 4, length - 3, length - 2, length - 1] {
            assert_eq!(read(&bytes, &[cut], false).1, right, "{length} cut at {cut}");
        }
    }
}

#[test]
fn one_reader_reads_answer_after_answer() {
    let mut reader = ResponseReader::new(false);
    let bytes = crlf("HTTP/1.1 200 OK\nContent-Length: 2\n\nab");
    for _ in 0..3 {
        let mut kept = Collected::default();
        reader.begin();
        assert_eq!(reader.push(&bytes[..20], &mut kept), Ok(Flow::More));
        assert_eq!(reader.push(&bytes[20..], &mut kept), Ok(KEPT));
        assert_eq!(kept.body, b"ab");
    }
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

proptest! {
    #[test]
    fn any_cuts_of_any_bytes_give_the_same(
        choice in 0usize..26,
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut bytes = crlf(answers()[choice].0);
        for (at, byte) in noise {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(read(&bytes, &cuts, false), read(&bytes, &[], false));
    }

    #[test]
    fn a_body_survives_either_framing(
        body in any_body(),
        chunk in 1usize..50,
        cuts in prop::collection::vec(0usize..400, 0..6),
    ) {
        let mut by_length =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        by_length.extend_from_slice(&body);
        let mut by_chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for part in body.chunks(chunk) {
            by_chunks.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            by_chunks.extend_from_slice(part);
            by_chunks.extend_from_slice(b"\r\n");
        }
        by_chunks.extend_from_slice(b"0\r\n\r\n");
        for bytes in [by_length, by_chunks] {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.min(&bytes.len())).collect();
            cuts.sort_unstable();
            let (kept, outcome) = read(&bytes, &cuts, false);
            prop_assert_eq!(outcome, Ok(KEPT));
            prop_assert_eq!(&kept.body, &body);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), to_head: bool) {
        let _ = read(&bytes, &[], to_head);
        let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        answer.extend_from_slice(&bytes);
        let _ = read(&answer, &[], to_head);
    }
}
