//! The server: HTTP/1.1 with kept connections, a thread for each.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base::Seed;

use crate::behaviour::Behaviour;
use crate::model::{Model, Service};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello World!";

/// Longest head of a request.
const HEAD_MAX: usize = 16 << 10;

/// What the connections share.
struct ServerState {
    model: Mutex<Model>,
    began: Instant,
    /// Longest pause between an answer's due time and the next request that does not count; see
    /// [`answer_all`].
    turn_s: f64,
}

impl ServerState {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

/// Answers all connections until the process ends.
///
/// # Errors
/// If no thread can be started, or no connection can be accepted.
pub fn serve(listener: &TcpListener, behaviour: Behaviour, seed: Seed) -> io::Result<()> {
    // Threads inherit it. The default of 50 µs would make every sleep that much longer.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let turn_s = behaviour.fast_s / 2.0;
    let model = Mutex::new(Model::new(behaviour, seed));
    let shared = Arc::new(ServerState { model, began: Instant::now(), turn_s });
    loop {
        let (stream, _) = listener.accept()?;
        let shared = shared.clone();
        // A connection that the client closes ends its thread only.
        thread::Builder::new().stack_size(128 << 10).spawn(move || answer_all(&shared, stream))?;
    }
}

/// Answers the requests of a connection, one after another.
///
/// The way over loopback and the waking of threads would make a closed loop slower than its known
/// behaviour. So a request that arrives shortly after the answer before it was due counts as having
/// arrived when that answer was due; a loop of requests then takes exactly the work of its requests.
fn answer_all(shared: &ServerState, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let factor = shared.model().accept();
    let mut last: Option<(f64, f64)> = None;
    let mut unread = Vec::new();
    while next_request(&mut stream, &mut unread)? {
        let now_s = shared.now_s();
        let service = {
            let mut model = shared.model();
            let at_work_s = match last {
                Some((due_s, due_work_s)) if now_s - due_s <= shared.turn_s => due_work_s,
                _ => model.work_at(now_s),
            };
            model.receive(at_work_s, factor)
        };
        let due_s = wait(shared, service);
        last = Some((due_s, service.due_work_s));
        stream.write_all(RESPONSE)?;
    }
    Ok(())
}

/// Waits until the request is due, and returns when that was.
fn wait(shared: &ServerState, service: Service) -> f64 {
    loop {
        let left_s = {
            let mut model = shared.model();
            let due_s = model.real_at(service.due_work_s);
            let left_s = due_s - shared.now_s();
            if left_s <= 0.0 {
                model.answer(service.due_work_s);
                return due_s;
            }
            left_s
        };
        let left = Duration::from_secs_f64(left_s);
        if service.computes {
            let begin = Instant::now();
            while begin.elapsed() < left {
                std::hint::spin_loop();
            }
        } else {
            thread::sleep(left);
        }
    }
}

/// Reads up to the end of a request without a body; `false` at the end of the connection.
fn next_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<bool> {
    const END: &[u8] = b"\r\n\r\n";
    let mut chunk = [0; 4096];
    loop {
        if let Some(at) = unread.windows(END.len()).position(|bytes| bytes == END) {
            unread.drain(..at + END.len());
            return Ok(true);
        }
        let read = stream.read(&mut chunk)?;
        if read == 0 || unread.len() > HEAD_MAX {
            return Ok(false);
        }
        unread.extend_from_slice(&chunk[..read]);
    }
}
