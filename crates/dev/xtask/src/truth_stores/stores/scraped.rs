//! Prometheus in its usual way: it reads a counter every few seconds.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::prometheus::{PROMETHEUS, Remote, prometheus};
use super::{AskedTime, Message, Reply, Slots, Store, StoreKind, Times, name};
use crate::truth_stores::history::SERIES;

pub(super) const SCRAPED: StoreKind = StoreKind {
    name: "Prometheus, scraped",
    protocol: "a counter that is 0 before the first count, scraped by HTTP",
    settings: "`scrape_interval: 5s`",
    query: "`sum(increase(…))` over the time in question, at its end",
    times: Times::Reading("it reads counters when it wants to, so it knows nothing of the past"),
    open: |folder, quantity| {
        let (page, at) = Page::open()?;
        let config = format!(
            "scrape_configs:\n  - job_name: orders\n    scrape_interval: {}s\n    \
             static_configs:\n      - targets: ['{at}']\n",
            SCRAPE.as_secs()
        );
        let server = prometheus(folder, &config)?;
        Ok(Box::new(ScrapedServer {
            page,
            remote: Remote { server, quantity, is_victoria: false },
        }))
    },
    ..PROMETHEUS
};

/// The interval between two readings.
const SCRAPE: Duration = Duration::from_secs(5);

/// The counters, as a program shows them to be read.
#[derive(Debug, Default)]
struct Page([AtomicI64; SERIES]);

impl Page {
    /// Shows them at an address on loopback, until they are dropped.
    fn open() -> Result<(Arc<Page>, SocketAddr), String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.map_err(|error| error.to_string())?;
        let at = listener.local_addr().map_err(|error| error.to_string())?;
        let page = Arc::new(Page::default());
        let shown = Arc::downgrade(&page);
        thread::spawn(move || serve(&listener, &shown));
        Ok((page, at))
    }

    /// In the text format (prometheus.io, “Exposition formats”).
    fn text(&self) -> String {
        let mut text = String::new();
        for (series, counter) in self.0.iter().enumerate() {
            let (name, count) = (name(series), counter.load(Ordering::Relaxed));
            let _ = write!(text, "# TYPE {name} counter\n{name} {count}\n");
        }
        text
    }
}

fn serve(listener: &TcpListener, page: &Weak<Page>) {
    for stream in listener.incoming() {
        let Some(page) = page.upgrade() else { return };
        // Who has gone away needs no answer.
        let _ = stream.and_then(|stream| answer(stream, &page.text()));
    }
}

fn answer(mut stream: TcpStream, text: &str) -> std::io::Result<()> {
    let mut request = [0; 4096];
    // A request of this size comes as a whole.
    let _ = stream.read(&mut request)?;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
}

struct ScrapedServer {
    page: Arc<Page>,
    remote: Remote,
}

impl Store for ScrapedServer {
    fn start(&mut self) -> Result<(), String> {
        self.remote.start()
    }

    fn stop(&mut self) -> Result<(), String> {
        self.remote.stop()
    }

    fn process(&self) -> Option<u32> {
        self.remote.process()
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        if let Some(counter) = self.page.0.get(message.series) {
            counter.fetch_add(message.count, Ordering::Relaxed);
        }
        Ok(Reply::Unanswered)
    }

    fn finish(&mut self) -> Result<(), String> {
        thread::sleep(2 * SCRAPE);
        Ok(())
    }

    fn slots(&mut self, asked: AskedTime) -> Result<Slots, String> {
        self.remote.slots(asked)
    }

    fn total(&mut self, asked: AskedTime) -> Result<f64, String> {
        self.remote.total(asked)
    }
}
