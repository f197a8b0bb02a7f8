//! A server with fifty functions of equal cost, one of which may cost twice as much: fifty PORT [FUNCTION]

use std::io::{Read, Write};
use std::net::TcpListener;

const STEPS: u32 = 2500;

macro_rules! functions {
    ($($name:ident $seed:expr),*) => {
        $(
            #[inline(never)]
            fn $name(steps: u32) -> u32 {
                (0..steps).fold($seed, |x: u32, step| {
                    std::hint::black_box(x.wrapping_mul(1_664_525).wrapping_add($seed ^ step))
                })
            }
        )*
        const FUNCTIONS: [fn(u32) -> u32; 50] = [$($name),*];
    };
}
functions!(
    f00 100, f01 101, f02 102, f03 103, f04 104, f05 105, f06 106, f07 107, f08 108, f09 109,
    f10 110, f11 111, f12 112, f13 113, f14 114, f15 115, f16 116, f17 117, f18 118, f19 119,
    f20 120, f21 121, f22 122, f23 123, f24 124, f25 125, f26 126, f27 127, f28 128, f29 129,
    f30 130, f31 131, f32 132, f33 133, f34 134, f35 135, f36 136, f37 137, f38 138, f39 139,
    f40 140, f41 141, f42 142, f43 143, f44 144, f45 145, f46 146, f47 147, f48 148, f49 149
);

fn handle(slow: usize) -> u32 {
    let each = FUNCTIONS.iter().enumerate();
    each.fold(0, |sum, (i, f)| sum ^ f(if i == slow { 2 * STEPS } else { STEPS }))
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap());
    let port = words.next().unwrap() as u16;
    let slow = words.next().unwrap_or(usize::MAX);
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            let mut request = [0; 4096];
            while matches!(stream.read(&mut request), Ok(1..)) {
                std::hint::black_box(handle(slow));
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
        });
    }
}
