//! Reads a log in its own thread, which ends with the replay.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;
use spec::{HttpRequest, LogEntry, LogReader, LogRequest};
use tokio::sync::mpsc::Sender;

use crate::error::ReplayError;
use crate::schedule::{DueRequest, Schedule};

/// Limits on what is read at once: entries, and bytes of lines.
const BATCH_ENTRIES: usize = 64;
const BATCH_BYTES: usize = 256 * 1024;

/// Some programs begin a text with it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Limit on a line.
const LINE_MAX: u64 = 16 << 20;

/// Why a request is left out that may change something.
const OTHER_METHODS: &str = "requests with other methods than GET and HEAD";

/// Where a log comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl LogSource {
    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            LogSource::Stdin => "standard input".to_owned(),
            LogSource::File(path) => path.display().to_string(),
        }
    }

    fn open(&self) -> io::Result<Box<dyn BufRead>> {
        Ok(match self {
            LogSource::Stdin => Box::new(BufReader::new(io::stdin())),
            LogSource::File(path) => Box::new(BufReader::new(File::open(path)?)),
        })
    }
}

/// What the reader hands over.
pub(crate) enum LogItem {
    /// A request, and when it is due after the first one.
    Request(Box<DueRequest<LogRequest>>),
    /// An entry that is not sent.
    LeftOut(&'static str),
}

/// Items in their order, or why there are no more.
pub(crate) type Batch = Result<Vec<LogItem>, ReplayError>;

/// What decides which entries are sent, and when.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    pub(crate) source: LogSource,
    /// What requests have unless the log says otherwise.
    pub(crate) defaults: HttpRequest,
    pub(crate) sends_unsafe: bool,
    /// The multiple of the log's speed; `None` for no waiting.
    pub(crate) speed: Option<f64>,
}

/// A log that is being read.
pub(crate) struct LogThread {
    options: LogOptions,
    reader: LogReader,
    schedule: Option<Schedule<LogRequest>>,
    /// Entries so far, for everybody to see.
    entries: Arc<AtomicU64>,
    items: Vec<LogItem>,
    bytes: usize,
    to: Sender<Batch>,
}

impl LogThread {
    /// Starts reading.
    pub(crate) fn start(
        options: LogOptions,
        entries: Arc<AtomicU64>,
        to: Sender<Batch>,
    ) -> io::Result<()> {
        let reader = LogReader::new(&options.source.name(), options.defaults.clone());
        let (items, bytes) = (Vec::new(), 0);
        let mut thread =
            LogThread { options, reader, schedule: None, entries, items, bytes, to: to.clone() };
        let read = move || {
            if let Err(error) = thread.read() {
                thread.hand_over();
                // The channel is closed if the replay has ended.
                let _ = to.blocking_send(Err(error));
            }
        };
        std::thread::Builder::new().name("log".to_owned()).spawn(read).map(drop)
    }

    /// Reads to the end of the log, or until the replay ends.
    fn read(&mut self) -> Result<(), ReplayError> {
        let log = self.options.source.name();
        let unreadable = |cause| ReplayError::Unreadable { log: log.clone(), cause };
        let mut file = self.options.source.open().map_err(unreadable)?;
        let folder = match &self.options.source {
            LogSource::File(path) => path.parent().unwrap_or(Path::new(".")).to_owned(),
            LogSource::Stdin => PathBuf::from("."),
        };
        let open = |named: &Path| std::fs::read_to_string(folder.join(named));
        let (mut line, mut number, mut is_first) = (Vec::new(), 0, true);
        loop {
            line.clear();
            let count = file.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut line);
            if count.map_err(unreadable)? == 0 {
                break;
            }
            number += 1;
            let is_blank = line.trim_ascii().is_empty();
            if is_first && !is_blank && self.is_whole(&line) {
                file.read_to_end(&mut line).map_err(unreadable)?;
                let text = String::from_utf8_lossy(&line);
                let entries = self.reader.whole(text.trim_start_matches(BYTE_ORDER_MARK))?;
                self.take(entries)?;
                break;
            }
            if line.len() as u64 > LINE_MAX {
                return Err(ReplayError::LongLine { log, line: number, max: LINE_MAX });
            }
            is_first &= is_blank;
            self.bytes += line.len();
            let entries = match std::str::from_utf8(&line) {
                Ok(text) => self.reader.line(text.trim_start_matches(BYTE_ORDER_MARK), &open)?,
                Err(_) => {
                    self.reader.line("", &open)?;
                    vec![LogEntry::LeftOut("lines that are not UTF-8")]
                }
            };
            self.take(entries)?;
            // What comes from a pipe is sent as soon as it is there.
            let is_waiting = self.options.source == LogSource::Stdin;
            if (is_waiting || self.bytes >= BATCH_BYTES) && !self.hand_over() {
                return Ok(());
            }
        }
        if let Some(schedule) = &mut self.schedule {
            let due = schedule.finish();
            self.items.extend(due.into_iter().map(|due| LogItem::Request(Box::new(due))));
        }
        self.hand_over();
        Ok(())
    }

    fn is_whole(&self, line: &[u8]) -> bool {
        let text = String::from_utf8_lossy(line);
        self.reader.is_whole(text.trim_start_matches(BYTE_ORDER_MARK))
    }

    /// Takes entries of the log.
    fn take(&mut self, entries: Vec<LogEntry>) -> Result<(), ReplayError> {
        for entry in entries {
            self.entries.fetch_add(1, Ordering::Relaxed);
            match (entry, self.options.speed) {
                (LogEntry::LeftOut(why), _) => self.items.push(LogItem::LeftOut(why)),
                (LogEntry::Request(request), _) if !self.sends(&request) => {
                    self.items.push(LogItem::LeftOut(OTHER_METHODS));
                }
                (LogEntry::Request(request), None) => {
                    let due = DueRequest { due: Nanos::ZERO, request };
                    self.items.push(LogItem::Request(Box::new(due)));
                }
                (LogEntry::Request(request), Some(speed)) => self.plan(request, speed)?,
            }
            if self.items.len() >= BATCH_ENTRIES && !self.hand_over() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the request may be sent: it changes nothing, or the user has allowed it.
    fn sends(&self, request: &LogRequest) -> bool {
        let method = request.request.request.method.as_str();
        self.options.sends_unsafe || matches!(method, "GET" | "HEAD")
    }

    fn plan(&mut self, request: LogRequest, speed: f64) -> Result<(), ReplayError> {
        let Some(time) = request.time else {
            let log = self.options.source.name();
            return Err(ReplayError::NoTime { log, line: request.line });
        };
        let whole = self.reader.has_whole_seconds();
        let schedule = self.schedule.get_or_insert_with(|| Schedule::new(speed, whole));
        let due = schedule.push(time, request);
        self.items.extend(due.into_iter().map(|due| LogItem::Request(Box::new(due))));
        Ok(())
    }

    /// Hands over what was read; false if the replay has ended.
    fn hand_over(&mut self) -> bool {
        self.bytes = 0;
        let items = std::mem::take(&mut self.items);
        items.is_empty() || self.to.blocking_send(Ok(items)).is_ok()
    }
}
