//! The requests of a file in its order, each once, line by line: a log may be larger than the memory.

use std::path::Path;

use base::Timestamp;
use serde_json::Value;

use super::{RequestDefaults, access_log, har, json_lines};
use crate::error::SpecError;
use crate::requests::{HttpRequest, PathRequest};

/// A request in its place in a log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRequest {
    /// Its line, from 1; in a HAR, the number of its entry.
    pub line: u64,
    /// When it was made, if the log says so. Access logs have whole seconds, and some servers log the
    /// time of the answer instead.
    pub time: Option<Timestamp>,
    /// The request.
    pub request: PathRequest,
}

/// What a log has in one place.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEntry {
    /// A request that can be sent again.
    Request(LogRequest),
    /// Something else, in words for many of it: `requests whose body is not in the log`.
    LeftOut(&'static str),
}

/// How a file contains its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogFormat {
    AccessLog,
    JsonLines,
    Har,
}

impl LogFormat {
    /// The format of a file with this first line that is not empty. A HAR is one object, mostly of
    /// many lines.
    fn of(line: &str) -> LogFormat {
        if !line.trim_start().starts_with('{') {
            return LogFormat::AccessLog;
        }
        match serde_json::from_str::<Value>(line) {
            Ok(object) if object.get("log").is_none() => LogFormat::JsonLines,
            Err(error) if !error.is_eof() => LogFormat::JsonLines,
            _ => LogFormat::Har,
        }
    }
}

/// Reads a log whose lines it is given.
#[derive(Clone, Debug)]
pub struct LogReader {
    path: String,
    defaults: RequestDefaults,
    format: Option<LogFormat>,
    line: u64,
}

impl LogReader {
    /// A reader of the log at `path`, which is only for messages. Requests have what `request` has
    /// unless the log says otherwise.
    pub fn new(path: &str, request: HttpRequest) -> LogReader {
        let defaults = RequestDefaults { request, ..RequestDefaults::default() };
        LogReader { path: path.to_owned(), defaults, format: None, line: 0 }
    }

    /// Whether the log, of which this is the first line that is not empty, has to be read as a whole,
    /// by [`LogReader::whole`].
    pub fn is_whole(&self, first: &str) -> bool {
        LogFormat::of(first) == LogFormat::Har
    }

    /// Whether times are whole seconds, within which requests are spread.
    pub fn has_whole_seconds(&self) -> bool {
        self.format == Some(LogFormat::AccessLog)
    }

    /// The entries of the next line: none of an empty line, several of a line of JSON with data.
    /// `read` reads the files that it names.
    ///
    /// # Errors
    /// A line of JSON that is not a request, with its number.
    pub fn line(
        &mut self,
        text: &str,
        read: &dyn Fn(&Path) -> std::io::Result<String>,
    ) -> Result<Vec<LogEntry>, SpecError> {
        self.line += 1;
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let line = self.line;
        if *self.format.get_or_insert_with(|| LogFormat::of(text)) == LogFormat::AccessLog {
            let entry = match access_log::request(text, &self.defaults.request) {
                Err(why) => LogEntry::LeftOut(why),
                Ok(seen) => LogEntry::Request(LogRequest {
                    line,
                    time: access_log::time(text),
                    request: seen.request,
                }),
            };
            return Ok(vec![entry]);
        }
        let requests = json_lines::requests_of_line(text, &self.defaults, read)
            .map_err(|why| SpecError::new(format!("line {line} of {}: {why}", self.path)))?;
        let entry = |request| LogEntry::Request(LogRequest { line, time: None, request });
        Ok(requests.into_iter().map(entry).collect())
    }

    /// The entries of a HAR.
    ///
    /// # Errors
    /// A text that is not a HAR, with the position of what is wrong.
    pub fn whole(&self, text: &str) -> Result<Vec<LogEntry>, SpecError> {
        let har: har::HarFile = serde_json::from_str(text).map_err(|why| {
            SpecError::new(format!("{} is neither a HAR nor JSON lines: {why}", self.path))
        })?;
        let entries = har::entries(&har, &self.defaults.request).zip(1..);
        let entry = |(entry, line): (har::ArchivedRequest, u64)| match entry.request {
            Err(why) => LogEntry::LeftOut(why),
            Ok(seen) => {
                LogEntry::Request(LogRequest { line, time: entry.time, request: seen.request })
            }
        };
        Ok(entries.map(entry).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Result<Vec<LogEntry>, String> {
        let read = |_: &Path| Ok("id\n7\n8\n".to_owned());
        let mut reader = LogReader::new("log", HttpRequest::default());
        if reader.is_whole(text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()) {
            return reader.whole(text).map_err(|error| error.to_string());
        }
        let mut all = Vec::new();
        for line in text.lines() {
            all.extend(reader.line(line, &read).map_err(|error| error.to_string())?);
        }
        Ok(all)
    }

    /// Line, time in milliseconds since the first one, method and path.
    fn shown(text: &str) -> Vec<String> {
        let all = entries(text).unwrap();
        let mut first = None;
        let one = |entry: &LogEntry| match entry {
            LogEntry::LeftOut(why) => format!("- {why}"),
            LogEntry::Request(LogRequest { line, time, request }) => {
                let since = time.map(|time| {
                    let first = *first.get_or_insert(time);
                    format!("+{} ", time.as_millisecond() - first.as_millisecond())
                });
                let since = since.unwrap_or_default();
                format!("{line} {since}{} {}", request.request.method, request.path)
            }
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn lines_of_a_log_keep_their_order_numbers_and_times() {
        let log = "::1 - - [29/Nov/2026:23:59:59 +0100] \"GET /b HTTP/1.1\" 200 1\n\n\
                   ::1 - - [30/Nov/2026:00:00:01 +0100] \"GET /a?x=1 HTTP/1.1\" 404 1\n\
                   ::1 - - [30/Nov/2026:00:00:01 +0100] \"POST /a HTTP/1.1\" 200 1\n\
                   \"HEAD /b HTTP/1.1\" 200\n\
                   nonsense\n";
        assert_eq!(
            shown(log),
            [
                "1 +0 GET /b",
                "3 +2000 GET /a?x=1",
                "- requests whose body is not in the log",
                "5 HEAD /b",
                "- lines without a request and its status",
            ]
        );
    }

    #[test]
    fn a_line_of_json_is_sent_once_whatever_its_weight_and_each_row_once() {
        let lines = "{\"path\": \"/\", \"weight\": 9}\n\
                     {\"path\": \"/{{ id }}\", \"data\": \"ids.csv\", \"method\": \"DELETE\"}\n\
                     {\"path\": \"/\"}\n";
        assert_eq!(shown(lines), ["1 GET /", "2 DELETE /7", "2 DELETE /8", "3 GET /"]);
        let error = entries("{\"path\": \"/\"}\n\n{\"path\": 1}\n").unwrap_err();
        assert!(error.starts_with("line 3 of log: not a request: "), "{error}");
    }

    #[test]
    fn the_entries_of_a_har_in_one_line_or_in_several() {
        let entry = |url: &str, at: &str| {
            format!(
                "{{\"startedDateTime\": \"{at}\", \"request\": {{\"method\": \"GET\", \"url\": \
                 \"{url}\"}}, \"response\": {{\"status\": 200}}}}"
            )
        };
        let har = format!(
            "{{\"log\": {{\"entries\": [{}, {}, {}]}}}}",
            entry("http://a/x", "2026-11-29T10:00:00.250Z"),
            entry("http://b/x", "2026-11-29T10:00:00.300Z"),
            entry("http://a/y?z#f", "2026-11-29T10:00:01Z"),
        );
        let expected =
            ["1 +0 GET /x", "- requests to other hosts than the first one", "3 +750 GET /y?z"];
        assert_eq!(shown(&har), expected);
        assert_eq!(shown(&har.replace("[{", "[\n{")), expected);
        let error = entries("{\"log\": 1}").unwrap_err();
        assert!(error.starts_with("log is neither a HAR nor JSON lines: "), "{error}");
    }
}
