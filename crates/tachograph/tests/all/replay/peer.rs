//! A server whose answer to each path a test decides.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a server does with a request.
pub(crate) enum Reply {
    /// Sends this.
    Answer(String),
    /// Closes the connection without an answer.
    Close,
    /// Sends this, which is not all, and closes the connection.
    Part(String),
    /// Resets the connection.
    Reset,
    /// Never answers.
    Silence,
}

impl Reply {
    /// A complete answer.
    pub(crate) fn of(status: u16, headers: &str, body: &str) -> Reply {
        let length = body.len();
        Reply::Answer(format!(
            "HTTP/1.1 {status} X\r\nDate: now\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        ))
    }
}

/// A server in threads of the test, which end with it.
pub(crate) struct Peer {
    pub(crate) url: String,
    /// Requests that have arrived.
    requests: Arc<AtomicU64>,
}

impl Peer {
    /// Starts one with this script: from method and path to what it does.
    pub(crate) fn start(script: impl Fn(&str, &str) -> Reply + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicU64::new(0));
        let (script, count) = (Arc::new(script), requests.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, count) = (script.clone(), count.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &*script, &count));
            }
        });
        Peer { url, requests }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, script: &dyn Fn(&str, &str) -> Reply, count: &AtomicU64) {
    stream.set_nodelay(true).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut first, mut line) = (String::new(), String::new());
        if lines.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        while line != "\r\n" {
            line.clear();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
        }
        count.fetch_add(1, Ordering::SeqCst);
        let mut words = first.split(' ');
        let reply = script(words.next().unwrap(), words.next().unwrap());
        let sent = match &reply {
            Reply::Answer(text) | Reply::Part(text) => stream.write_all(text.as_bytes()),
            _ => Ok(()),
        };
        match reply {
            Reply::Answer(_) if sent.is_ok() => {}
            Reply::Reset => {
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                return;
            }
            // Until the client closes.
            Reply::Silence => drop(lines.read_line(&mut line)),
            _ => return,
        }
    }
}
