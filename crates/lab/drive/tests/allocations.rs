//! Reading responses does not allocate once the first ones have been read.

use drive::Fault;
use drive::http::{Flow, ResponseReader, Sink};

/// Responses read before counting: those that teach, and one that is split and makes room for
/// pieces.
const FIRST: u32 = 20;
const COUNTED: u32 = 10_000;

#[derive(Default)]
struct Bytes(usize);

impl Sink for Bytes {
    fn status(&mut self, _: u16) {}
    fn body(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Number of allocations while reading many responses, the n-th of which is made by `answer`.
fn allocations(
    mut reader: ResponseReader,
    cuts: &[usize],
    answer: impl Fn(u32, &mut Vec<u8>),
) -> u64 {
    let (mut bytes, mut sink) = (Vec::with_capacity(4096), Bytes::default());
    let mut read = |n: u32| -> Result<Flow, Fault> {
        bytes.clear();
        answer(n, &mut bytes);
        reader.begin();
        let mut from = 0;
        for to in cuts {
            reader.push(&bytes[from..*to], &mut sink)?;
            from = *to;
        }
        reader.push(&bytes[from..], &mut sink)
    };
    for n in 0..FIRST {
        assert_eq!(read(n), Ok(Flow::Done { keep_alive: true }));
    }
    let counted = allocation_counter::measure(|| {
        for n in FIRST..FIRST + COUNTED {
            assert_eq!(read(n), Ok(Flow::Done { keep_alive: true }));
        }
    });
    assert!(sink.0 > 0);
    counted.count_total
}

/// A response whose Date and number vary.
fn by_length(n: u32, out: &mut Vec<u8>) {
    put(out, b"HTTP/1.1 200 OK\r\nServer: x\r\nDate: ", n);
    put(out, b"\r\nX-Id: ", n);
    out.extend_from_slice(b"\r\nContent-Length: 12\r\n\r\nHello World!");
}

fn by_chunks(n: u32, out: &mut Vec<u8>) {
    put(out, b"HTTP/1.1 200 OK\r\nDate: ", n);
    out.extend_from_slice(
        b"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n7\r\n World!\r\n0\r\n\r\n",
    );
}

/// A response of a different length each time, which matches no kept head.
fn parsed(n: u32, out: &mut Vec<u8>) {
    let length = (n % 1000) as usize;
    put(out, b"HTTP/1.1 200 OK\r\nX-Id: ", n);
    put(out, b"\r\nContent-Length: ", length as u32);
    out.extend_from_slice(b"\r\n\r\n");
    out.resize(out.len() + length, b'x');
}

/// Appends text and a ten-digit number without allocating.
fn put(out: &mut Vec<u8>, text: &[u8], n: u32) {
    out.extend_from_slice(text);
    out.extend((0..10).rev().map(|digit| b'0' + (n / 10u32.pow(digit) % 10) as u8));
}

#[test]
fn reading_answers_allocates_nothing() {
    for (what, answer) in [
        ("by length", by_length as fn(u32, &mut Vec<u8>)),
        ("by chunks", by_chunks),
        ("of every length", parsed),
    ] {
        for cuts in [&[][..], &[1], &[30], &[10, 11, 40]] {
            for reader in [ResponseReader::new(false), ResponseReader::parsing_every_head(false)] {
                assert_eq!(allocations(reader, cuts, answer), 0, "{what}, cut at {cuts:?}");
            }
        }
    }
}

#[test]
fn an_allocation_would_be_seen() {
    let seen = allocations(ResponseReader::new(false), &[], |n, out| {
        by_length(n, out);
        drop(std::hint::black_box(out.clone()));
    });
    assert_eq!(seen, u64::from(COUNTED));
}

#[test]
fn a_head_in_pieces_keeps_nothing_of_the_body() {
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
    answer.resize(answer.len() + 1_000_000, b'x');
    let (mut reader, mut sink) = (ResponseReader::parsing_every_head(false), Bytes::default());
    reader.begin();
    let memory = allocation_counter::measure(|| {
        assert_eq!(reader.push(&answer[..10], &mut sink), Ok(Flow::More));
        assert_eq!(reader.push(&answer[10..], &mut sink), Ok(Flow::Done { keep_alive: true }));
    });
    assert_eq!(sink.0, 1_000_000);
    assert!(memory.bytes_max < 1000, "{} bytes", memory.bytes_max);
}
