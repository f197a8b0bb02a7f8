//! Parses responses from memory, to count what the reader costs:
//!
//! ```text
//! valgrind --tool=callgrind target/release/examples/read fast 100000
//! valgrind --tool=callgrind target/release/examples/read full 100000
//! ```

use std::error::Error;

use drive::http::{Flow, ResponseReader, Sink};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: gunicorn\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: keep-alive\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 12\r\n\r\nHello World!";

/// Compares the body, as a load does.
struct Compared(u64);

impl Sink for Compared {
    fn status(&mut self, _: u16) {}
    fn body(&mut self, bytes: &[u8]) {
        self.0 += u64::from(bytes == b"Hello World!");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mut reader, count) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fast", count] => (ResponseReader::new(false), count.parse::<u64>()?),
        ["full", count] => (ResponseReader::parsing_every_head(false), count.parse()?),
        _ => return Err("read fast|full COUNT".into()),
    };
    let mut compared = Compared(0);
    for _ in 0..count {
        reader.begin();
        let flow = reader.push(std::hint::black_box(ANSWER), &mut compared);
        if flow != Ok(Flow::Done { keep_alive: true }) {
            return Err("an answer was not read".into());
        }
    }
    if compared.0 == count { Ok(()) } else { Err("a body differs".into()) }
}
