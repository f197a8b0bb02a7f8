//! The server-side count of requests.
//!
//! Only differences of two readings matter: most servers also count readiness checks, so the first
//! reading is taken after the stack is ready and before the load. Use [`CountReader::read_settled`] for
//! both, because a request may be logged after its response.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use base::Nanos;
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};
use spec::{ServedBy, Target};

use crate::error::StageError;
use crate::http::{self, HttpError};
use crate::stack::LiveStack;

/// Timeout of a reading.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Limit on the length of a log line.
const LINE_BYTES_MAX: usize = 16 << 20;

/// The first bytes of a counter file of the WSGI middleware, including its version.
const WSGI_MAGIC: &[u8; 8] = b"TGCOUNT1";

/// Header of such a file: the magic and the number of slots.
const WSGI_HEAD_BYTES: usize = 16;

/// A slot: requests entered and served, each a little-endian u64.
const WSGI_SLOT_BYTES: usize = 16;

/// What the server's side has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// What the server has served: requests, or as many of something as [`CountReader::per_request`]
    /// says for each.
    pub served: u64,
    /// Messages that its kernel has discarded; 0 unless they are counted.
    pub discarded: u64,
}

impl Count {
    /// What was counted since an earlier reading.
    pub fn since(self, earlier: Count) -> Count {
        Count {
            served: self.served.saturating_sub(earlier.served),
            discarded: self.discarded.saturating_sub(earlier.discarded),
        }
    }
}

/// Reads one server's count repeatedly.
#[derive(Debug)]
pub struct CountReader {
    source: CountSource,
    /// Readings that the server has counted as requests.
    own_reads: u64,
    /// Whether a reading failed halfway, so that it is unknown if it was counted.
    is_uncertain: bool,
    /// How much a request adds to the count.
    per_request: u64,
}

#[derive(Debug)]
enum CountSource {
    Wsgi(PathBuf),
    StubStatus(Target),
    Http { target: Target, pattern: Regex, discarded: Option<Regex>, self_counting: bool },
    LogLines(LineCounter),
    FileSize(PathBuf),
    CounterFile(PathBuf),
}

impl CountReader {
    /// Creates a reader; reads nothing yet.
    ///
    /// # Errors
    /// If the target or the regular expression is malformed.
    pub fn new(served_by: &ServedBy, stack: &LiveStack) -> Result<CountReader, StageError> {
        CountReader::with(served_by, |text| stack.expand(text))
    }

    /// A reader for a server that we did not start: no variables are expanded.
    ///
    /// # Errors
    /// If the target or the regular expression is malformed, or the count would be in a stack's
    /// folder.
    pub fn external(served_by: &ServedBy) -> Result<CountReader, StageError> {
        if *served_by == ServedBy::Wsgi {
            let why = "counter files exist only for servers that tachograph starts; use a file, a \
                log or a URL";
            return Err(failure("wsgi", why));
        }
        CountReader::with(served_by, str::to_owned)
    }

    fn with(
        served_by: &ServedBy,
        expand: impl Fn(&str) -> String,
    ) -> Result<CountReader, StageError> {
        let path = |text: &str| PathBuf::from(expand(text));
        let source = match served_by {
            ServedBy::Wsgi => CountSource::Wsgi(path("$COUNTERS")),
            ServedBy::StubStatus(target) => CountSource::StubStatus(http_target(&expand(target))?),
            ServedBy::Http { target, pattern, self_counting, discarded, .. } => {
                let target = expand(target);
                let discarded = discarded.as_ref().map(|pattern| group_pattern(&target, pattern));
                CountSource::Http {
                    pattern: group_pattern(&target, pattern)?,
                    discarded: discarded.transpose()?,
                    target: http_target(&target)?,
                    self_counting: *self_counting,
                }
            }
            ServedBy::LogLines { path: file, pattern } => {
                let file = path(file);
                let pattern = match pattern {
                    Some(pattern) => Some(regex(&file.display().to_string(), pattern)?),
                    None => None,
                };
                CountSource::LogLines(LineCounter::new(file, pattern))
            }
            ServedBy::FileSize(file) => CountSource::FileSize(path(file)),
            ServedBy::CounterFile { path: file, .. } => CountSource::CounterFile(path(file)),
        };
        let per_request = match served_by {
            ServedBy::Http { per_request, .. } | ServedBy::CounterFile { per_request, .. } => {
                u64::from(*per_request)
            }
            _ => 1,
        };
        Ok(CountReader { source, own_reads: 0, is_uncertain: false, per_request })
    }

    /// How much a request adds to [`Count::served`]; at least 1.
    pub fn per_request(&self) -> u64 {
        self.per_request
    }

    /// Whether the messages that the server's kernel discards are counted too.
    pub fn counts_discarded(&self) -> bool {
        matches!(self.source, CountSource::Http { discarded: Some(_), .. })
    }

    /// The current count, without our own readings.
    ///
    /// If a page counts its own readings, only differences are exact, because it may count a
    /// reading before it responds. A file that does not exist yet counts as zero if its folder
    /// exists.
    ///
    /// # Errors
    /// [`StageError::Served`] with source and cause.
    pub fn read(&mut self) -> Result<Count, StageError> {
        let served = match &mut self.source {
            CountSource::Wsgi(dir) => wsgi(dir)?.served,
            CountSource::LogLines(lines) => lines.read()?,
            CountSource::FileSize(path) => file_size(path)?,
            CountSource::CounterFile(path) => counter_file(path)?,
            CountSource::StubStatus(target) => {
                let target = target.clone();
                let body = self.get(&target, true)?;
                let count = stub_status(&body).ok_or_else(|| {
                    failure(&target, "the response is not a page of nginx's stub_status")
                })?;
                // nginx counts a request when it begins, so this reading is included.
                count.saturating_sub(self.own_reads)
            }
            CountSource::Http { target, pattern, discarded, self_counting } => {
                let (target, counts) = (target.clone(), *self_counting);
                let (pattern, discarded) = (pattern.clone(), discarded.clone());
                let earlier_reads = self.own_reads;
                let body = self.get(&target, counts)?;
                let number = |pattern: &Regex| {
                    first_group(pattern, &body).map_err(|why| failure(&target, why))
                };
                return Ok(Count {
                    served: number(&pattern)?.saturating_sub(earlier_reads),
                    discarded: discarded.as_ref().map_or(Ok(0), number)?,
                });
            }
        };
        Ok(Count { served, discarded: 0 })
    }

    /// The count once it has been unchanged for `quiet`, because servers count and log some time
    /// after they respond. After `patience`, returns the last reading, settled or not.
    ///
    /// # Errors
    /// Those of [`CountReader::read`].
    pub fn read_settled(&mut self, quiet: Nanos, patience: Nanos) -> Result<Count, StageError> {
        let (quiet, patience) = (Duration::from(quiet), Duration::from(patience));
        let start = Instant::now();
        let mut count = self.read()?;
        let mut since = Instant::now();
        while since.elapsed() < quiet && start.elapsed() < patience {
            thread::sleep((quiet / 4).max(Duration::from_millis(1)));
            let now = self.read()?;
            if now != count {
                (count, since) = (now, Instant::now());
            }
        }
        Ok(count)
    }

    /// The count since `base`, once it accounts for `wanted` requests and has been unchanged for
    /// `quiet`, so that a late line of a request that was counted twice is detected. After
    /// `patience`, returns the last reading, whatever it is.
    ///
    /// # Errors
    /// Those of [`CountReader::read`].
    pub fn read_settled_from(
        &mut self,
        base: Count,
        wanted: u64,
        quiet: Nanos,
        patience: Nanos,
    ) -> Result<Count, StageError> {
        let (quiet, patience) = (Duration::from(quiet), Duration::from(patience));
        let look = (quiet / 20).clamp(Duration::from_millis(1), Duration::from_millis(20));
        let start = Instant::now();
        let mut count = self.read()?;
        let mut since = Instant::now();
        loop {
            let counted = count.since(base);
            let expected = wanted.saturating_sub(counted.discarded);
            let has_come = counted.served >= expected.saturating_mul(self.per_request);
            if has_come && since.elapsed() >= quiet || start.elapsed() >= patience {
                return Ok(counted);
            }
            thread::sleep(look);
            let now = self.read()?;
            if now != count {
                (count, since) = (now, Instant::now());
            }
        }
    }

    /// Requests a page; `counts` means that the server counts this request.
    fn get(&mut self, target: &Target, counts: bool) -> Result<Vec<u8>, StageError> {
        if self.is_uncertain {
            let why = "an earlier reading was interrupted, and the server may have counted it";
            return Err(failure(target, why));
        }
        let response = http::get(target, TIMEOUT).map_err(|error| {
            self.is_uncertain = counts && !matches!(error, HttpError::Connect(_));
            failure(target, error)
        })?;
        self.own_reads += u64::from(counts);
        match response.status {
            200 => Ok(response.body),
            status => Err(failure(target, format!("it answered with status {status}"))),
        }
    }
}

fn failure(place: impl ToString, why: impl ToString) -> StageError {
    StageError::Served { place: place.to_string(), why: why.to_string() }
}

fn file_failure(path: &Path, error: &io::Error) -> StageError {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "neither the file nor its folder exists".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    failure(path.display(), why)
}

fn http_target(text: &str) -> Result<Target, StageError> {
    match Target::parse(text) {
        Ok(target @ Target::Http { .. }) => Ok(target),
        Ok(_) => Err(failure(text, "it is not an HTTP target")),
        Err(error) => Err(failure(text, error.why)),
    }
}

fn regex(place: &str, pattern: &str) -> Result<Regex, StageError> {
    Regex::new(pattern)
        .map_err(|_| failure(place, format!("'{pattern}' is not a valid regular expression")))
}

fn group_pattern(place: &str, pattern: &str) -> Result<Regex, StageError> {
    let regex = regex(place, pattern)?;
    match regex.captures_len() {
        2.. => Ok(regex),
        _ => {
            let why = format!("'{pattern}' needs a group around the count, such as total=([0-9]+)");
            Err(failure(place, why))
        }
    }
}

fn first_group(pattern: &Regex, body: &[u8]) -> Result<u64, String> {
    let group = pattern.captures(body).and_then(|captures| captures.get(1));
    let text = group.ok_or_else(|| format!("nothing in the response matches '{pattern}'"))?;
    let text = String::from_utf8_lossy(text.as_bytes());
    text.parse().map_err(|_| format!("'{text}' is not a whole number"))
}

/// The requests from nginx's `ngx_http_stub_status_module`: the third number below `server accepts
/// handled requests`.
fn stub_status(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?;
    let mut lines = text.lines().skip_while(|line| !line.contains("accepts handled requests"));
    lines.next()?;
    lines.next()?.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// Sum of the WSGI middleware's counters in one folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WsgiCounts {
    /// Requests passed to the application.
    pub entered: u64,
    /// Requests whose response was handed over in full.
    pub served: u64,
}

const TOO_LARGE: &str = "its counts add up to more than 64 bits hold";

impl WsgiCounts {
    /// The sum; `None` if it is too large.
    fn with(self, other: WsgiCounts) -> Option<WsgiCounts> {
        Some(WsgiCounts {
            entered: self.entered.checked_add(other.entered)?,
            served: self.served.checked_add(other.served)?,
        })
    }
}

/// Adds up every `*.count` file of a folder: one per worker process, living or dead.
///
/// A file has a header of 16 bytes (`TGCOUNT1`, then the number of slots as a little-endian u64)
/// and that many slots of 16 bytes, one per thread: entered and served, little-endian.
///
/// # Errors
/// If the folder or a file cannot be read, or a file is invalid.
pub fn wsgi(dir: &Path) -> Result<WsgiCounts, StageError> {
    let mut sum = WsgiCounts::default();
    for entry in fs::read_dir(dir).map_err(|error| file_failure(dir, &error))? {
        let path = entry.map_err(|error| file_failure(dir, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "count") {
            let bytes = fs::read(&path).map_err(|error| file_failure(&path, &error))?;
            let counts = wsgi_file(&bytes).map_err(|why| failure(path.display(), why))?;
            sum = sum.with(counts).ok_or_else(|| failure(dir.display(), TOO_LARGE))?;
        }
    }
    Ok(sum)
}

fn wsgi_file(bytes: &[u8]) -> Result<WsgiCounts, &'static str> {
    if bytes.is_empty() {
        // A worker has created the file but not yet resized it.
        return Ok(WsgiCounts::default());
    }
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    if !bytes.starts_with(WSGI_MAGIC) {
        return Err("it does not start like a counter file");
    }
    let slots = number(8).and_then(|slots| usize::try_from(slots).ok());
    let slots = slots.ok_or("its header is truncated")?;
    let size =
        slots.checked_mul(WSGI_SLOT_BYTES).and_then(|size| size.checked_add(WSGI_HEAD_BYTES));
    if size.is_none_or(|size| size > bytes.len()) {
        return Err("it is shorter than its header states");
    }
    let mut sum = WsgiCounts::default();
    for slot in 0..slots {
        let at = WSGI_HEAD_BYTES + slot * WSGI_SLOT_BYTES;
        let counts = WsgiCounts {
            entered: number(at).unwrap_or_default(),
            served: number(at + 8).unwrap_or_default(),
        };
        sum = sum.with(counts).ok_or(TOO_LARGE)?;
    }
    Ok(sum)
}

fn file_size(path: &Path) -> Result<u64, StageError> {
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.len()),
        Err(error) => not_yet(path, &error),
    }
}

/// Zero for a missing file whose folder exists: most servers create it with the first request.
fn not_yet(path: &Path, error: &io::Error) -> Result<u64, StageError> {
    let folder_exists = path.parent().is_some_and(Path::is_dir);
    match error.kind() {
        io::ErrorKind::NotFound if folder_exists => Ok(0),
        _ => Err(file_failure(path, error)),
    }
}

/// A count in digits, or as 8 bytes, little-endian, as the built-in server writes it. A file may be
/// empty for a moment while it is rewritten, so that is retried.
fn counter_file(path: &Path) -> Result<u64, StageError> {
    let mut text = String::new();
    for _ in 0..20 {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => return not_yet(path, &error),
        };
        // A count below 2^56 ends in a zero byte, which no number in digits does.
        if let Ok(count @ [.., 0]) = <[u8; 8]>::try_from(bytes.as_slice()) {
            return Ok(u64::from_le_bytes(count));
        }
        text = String::from_utf8_lossy(&bytes).into_owned();
        if let Ok(count) = text.trim().parse() {
            return Ok(count);
        }
        thread::sleep(Duration::from_millis(5));
    }
    let shown: String = text.trim().chars().take(40).collect();
    Err(failure(path.display(), format!("it contains '{shown}' instead of a whole number")))
}

/// Counts the complete lines of a growing log, reading each part once.
#[derive(Debug)]
struct LineCounter {
    path: PathBuf,
    pattern: Option<Regex>,
    inode: Option<u64>,
    offset: u64,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    count: u64,
}

impl LineCounter {
    fn new(path: PathBuf, pattern: Option<Regex>) -> LineCounter {
        LineCounter { path, pattern, inode: None, offset: 0, partial: Vec::new(), count: 0 }
    }

    fn read(&mut self) -> Result<u64, StageError> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if self.inode.is_none() => return not_yet(&self.path, &error),
            Err(error) => return Err(file_failure(&self.path, &error)),
        };
        let meta = file.metadata().map_err(|error| file_failure(&self.path, &error))?;
        let is_same = self.inode.is_none_or(|inode| inode == meta.ino());
        if !is_same || meta.len() < self.offset {
            return Err(failure(
                self.path.display(),
                "it was rotated or truncated during the \
                measurement",
            ));
        }
        self.inode = Some(meta.ino());
        self.take(&mut file)?;
        Ok(self.count)
    }

    fn take(&mut self, file: &mut File) -> Result<(), StageError> {
        let failed = |error: io::Error| file_failure(&self.path, &error);
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let mut chunk = vec![0; 1 << 20];
        loop {
            let length = match file.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(file_failure(&self.path, &error)),
            };
            self.offset += length as u64;
            if chunk[..length].contains(&0) {
                let why = "it grew so large that its beginning was discarded; let the server \
                    write to a separate file";
                return Err(failure(self.path.display(), why));
            }
            self.add(&chunk[..length]);
            if self.partial.len() > LINE_BYTES_MAX {
                return Err(failure(self.path.display(), "it has a line of more than 16 MiB"));
            }
        }
    }

    fn add(&mut self, mut bytes: &[u8]) {
        let Some(pattern) = &self.pattern else {
            self.count += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            return;
        };
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(&bytes[..end]);
            self.count += u64::from(pattern.is_match(&self.partial));
            self.partial.clear();
            bytes = &bytes[end + 1..];
        }
        self.partial.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
