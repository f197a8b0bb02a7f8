//! `tachograph serve`: Prometheus remote write and OTLP over HTTP.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use proofs::daemon::Daemon;
use prost::Message;

use crate::messages::{
    self, AnyValue, Data, Exemplar, Export, ExportResponse, Histogram, HistogramCount, Label,
    Metric, NumberDataPoint, NumberValue, Request, Sample, Status, Sum, TimeSeries1, WriteRequest,
};
use crate::support::daemon::serve;
use crate::support::{self, Place, eventually, gzip, slots, slots_of};

const REMOTE_WRITE_1: &str = "application/x-protobuf";
const REMOTE_WRITE_2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// A response.
#[derive(Debug)]
struct Answer {
    status: u32,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim()).next()
    }

    /// The samples, histograms and exemplars that were written, by the headers of remote write 2.0.
    fn written(&self) -> Option<[u64; 3]> {
        let count = |of: &str| {
            let name = format!("X-Prometheus-Remote-Write-{of}-Written");
            self.header(&name).map(|count| count.parse().unwrap())
        };
        Some([count("Samples")?, count("Histograms")?, count("Exemplars")?])
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// Sends a request with these lines of headers.
fn request(daemon: &Daemon, method: &str, path: &str, headers: &[String], body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(daemon.at("tcp://", 0)).unwrap();
    let length = body.len();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    headers.iter().for_each(|line| head.extend([line, "\r\n"]));
    write!(stream, "{head}Content-Length: {length}\r\n\r\n").unwrap();
    // A request that is refused early may be answered before all of it is read.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: answer[end..].to_vec() }
}

fn packed(message: &impl Message) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(&message.encode_to_vec()).unwrap()
}

fn header(name: &str, value: &str) -> String {
    format!("{name}: {value}")
}

fn remote_write(daemon: &Daemon, content_type: &str, body: &[u8]) -> Answer {
    let headers = [header("Content-Type", content_type), header("Content-Encoding", "snappy")];
    request(daemon, "POST", "/api/v1/write", &headers, body)
}

fn write_2(daemon: &Daemon, message: &Request) -> Answer {
    remote_write(daemon, REMOTE_WRITE_2, &packed(message))
}

fn export(daemon: &Daemon, message: &Export) -> Answer {
    let headers = [header("Content-Type", "application/x-protobuf")];
    request(daemon, "POST", "/v1/metrics", &headers, &message.encode_to_vec())
}

fn start(place: &Place, args: &[&str]) -> Daemon {
    serve(place, &[&["--no-graphite"], args].concat(), 1)
}

/// The start of a slot an hour ago, in milliseconds since the epoch.
fn an_hour_ago() -> i64 {
    support::an_hour_ago() as i64 * 1_000
}

/// What a measurement has in the record: the sum of its integrals, and the covered seconds.
fn total(place: &Place, measurement: &str, field: &str) -> (f64, f64) {
    let record = place.path("record.sqlite");
    let slots = slots_of(record.to_str().unwrap(), measurement, Some(field));
    let integral = slots.iter().map(|slot| slot.integral.as_f64()).sum();
    let covered: i64 = slots.iter().map(|slot| slot.covered_us).sum();
    (integral, covered as f64 / 1e6)
}

fn sample(timestamp: i64, value: f64) -> Sample {
    Sample { value, timestamp, start_timestamp: 0 }
}

/// A request with one sample.
fn one(labels: &[(&str, &str)], value: f64) -> Request {
    let mut request = Request::default();
    request.series(labels).samples = vec![sample(an_hour_ago(), value)];
    request
}

/// The requirements of "Prometheus Remote-Write 2.0" (prometheus/docs), and the cases of
/// prometheus/compliance's `remotewrite/receiver`: single and multiple metrics, request validation,
/// compatibility with 1.0, exemplars, metadata, and histograms.
#[test]
fn remote_write_answers_as_its_specification_demands() {
    let place = Place::new();
    let daemon = start(&place, &[]);
    let up = [("__name__", "up"), ("instance", "localhost:9090"), ("job", "test")];
    let good = one(&up, 1.0);
    let shape = |labels: &[(&str, &str)]| one(labels, 1.0);
    let histogram = |count, sum, positive: &[i64]| {
        let mut request = Request::default();
        request.series(&[("__name__", "h"), ("job", "test")]).histograms = vec![Histogram {
            count: Some(HistogramCount::Int(count)),
            sum,
            positive_deltas: positive.to_vec(),
            timestamp: an_hour_ago(),
            ..Histogram::default()
        }];
        request
    };
    let mut partial = shape(&[("job", "test"), ("instance", "a")]);
    for instance in ["b", "c", "d"] {
        let labels = [("__name__", "up"), ("instance", instance)];
        partial.series(&labels).samples = vec![sample(an_hour_ago(), 1.0)];
    }
    let mut exemplar = one(&[("__name__", "hits_total")], 100.0);
    exemplar.timeseries[0].exemplars =
        vec![Exemplar { value: 1.0, timestamp: an_hour_ago(), ..Exemplar::default() }];
    let mut created = one(&[("__name__", "http_requests_total"), ("job", "api")], 100.0);
    created.timeseries[0].samples[0].start_timestamp = an_hour_ago() - 3_600_000;
    let only_metadata = {
        let mut request = Request::default();
        request.series(&up);
        request
    };
    let dots = [("__name__", "resource.cpu.usage"), ("job.name", "test")];
    let spaces = [("__name__", "resource cpu usage"), ("job name", "test")];
    let lines = [("__name__", "up"), ("job", "test\njob\n")];
    // Name, request, status, and what was written.
    let cases: Vec<(&str, Request, u32, [u64; 3])> = vec![
        ("simple", good.clone(), 204, [1, 0, 0]),
        ("again", good.clone(), 204, [1, 0, 0]),
        ("stale marker", one(&up, STALE), 204, [1, 0, 0]),
        ("NaN", one(&up, f64::NAN), 204, [1, 0, 0]),
        ("dots", shape(&dots), 204, [1, 0, 0]),
        ("spaces", shape(&spaces), 204, [1, 0, 0]),
        ("without name", shape(&[("job", "test")]), 400, [0, 0, 0]),
        ("without labels", shape(&[]), 400, [0, 0, 0]),
        ("repeated label", shape(&[up[0], ("job", "a"), ("job", "b")]), 400, [0, 0, 0]),
        ("empty label name", shape(&[up[0], ("", "b")]), 400, [0, 0, 0]),
        ("one of four without name", partial, 400, [3, 0, 0]),
        ("created an hour before", created, 204, [1, 0, 0]),
        ("histogram", histogram(3, 1.5, &[1, 1]), 204, [0, 1, 0]),
        ("empty histogram", histogram(0, 0.0, &[]), 204, [0, 1, 0]),
        ("histogram with a wrong count", histogram(99, 1.5, &[1, 1]), 400, [0, 0, 0]),
        ("metadata only", only_metadata, 204, [0, 0, 0]),
        ("nothing", Request::default(), 204, [0, 0, 0]),
        // Where we differ (docs/serve.md): infinity has no area, control characters are in no name,
        // and exemplars are not recorded, which the header tells.
        ("infinity", one(&up, f64::INFINITY), 400, [0, 0, 0]),
        ("line feeds", shape(&lines), 400, [0, 0, 0]),
        ("exemplar", exemplar, 204, [1, 0, 0]),
    ];
    for (name, message, status, written) in cases {
        let answer = write_2(&daemon, &message);
        assert_eq!(
            (answer.status, answer.written()),
            (status, Some(written)),
            "{name}: {answer:?}"
        );
        // A success has an empty body, an error a sentence.
        assert_eq!(answer.body.is_empty(), status == 204, "{name}");
    }
    let answer = write_2(&daemon, &one(&up, f64::INFINITY));
    assert_eq!(
        answer.text(),
        "partial write: refused samples and histograms: 1, the first of them of 'up': the value is \
         infinite; the others were written\n"
    );

    // 1.0: the content type alone, or with its message.
    let label =
        |(name, value): &(&str, &str)| Label { name: (*name).into(), value: (*value).into() };
    let samples = vec![sample(an_hour_ago(), 1.0)];
    let labels = up.iter().map(label).collect();
    let timeseries = vec![TimeSeries1 { labels, samples, histograms: Vec::new() }];
    let first = packed(&WriteRequest { timeseries, metadata: Vec::new() });
    for content_type in [REMOTE_WRITE_1, "application/x-protobuf;proto=prometheus.WriteRequest"] {
        let answer = remote_write(&daemon, content_type, &first);
        assert_eq!((answer.status, answer.written()), (204, Some([1, 0, 0])), "{answer:?}");
    }
    // The message of 2.0 has no fields of 1.0: the headers tell the sender that nothing came.
    let answer = remote_write(&daemon, REMOTE_WRITE_1, &packed(&good));
    assert_eq!((answer.status, answer.written()), (204, Some([0, 0, 0])));

    // What is not supported is 415, what cannot be read 400, and neither is sent again.
    let body = packed(&good);
    for content_type in ["application/json", "image/png", "application/x-protobuf;proto=other"] {
        let answer = remote_write(&daemon, content_type, &body);
        assert_eq!((answer.status, answer.written()), (415, None), "{content_type}");
        assert!(answer.text().starts_with("this Content-Type is not supported: use "));
    }
    for encoding in ["gzip", "deflate", "zstd"] {
        let headers =
            [header("Content-Type", REMOTE_WRITE_2), header("Content-Encoding", encoding)];
        let answer = request(&daemon, "POST", "/api/v1/write", &headers, &body);
        assert_eq!(answer.status, 415, "{encoding}");
    }
    let mut corrupt = body.clone();
    corrupt[0] = b'0';
    let mut framed = b"\xff\x06\x00\x00sNaPpY".to_vec();
    framed.extend(&body);
    let no_message = snap::raw::Encoder::new().compress_vec(b"\x0b").unwrap();
    for wrong in [&corrupt[..], &framed, &no_message, b""] {
        let answer = remote_write(&daemon, REMOTE_WRITE_2, wrong);
        assert_eq!((answer.status, answer.written()), (400, Some([0, 0, 0])), "{answer:?}");
        assert_eq!(answer.header("Retry-After"), None);
    }
    // A bomb tells its length at its beginning: 4 GiB − 1.
    let answer = remote_write(&daemon, REMOTE_WRITE_2, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]);
    assert_eq!(answer.status, 413, "{answer:?}");
    assert!(answer.text().contains("longer than 8388608 bytes"), "{answer:?}");
    let large = snap::raw::Encoder::new().compress_vec(&vec![0; 9 << 20]).unwrap();
    assert_eq!(remote_write(&daemon, REMOTE_WRITE_2, &large).status, 413);
    assert_eq!(remote_write(&daemon, REMOTE_WRITE_2, &vec![0; 9 << 20]).status, 413);
    assert_eq!(request(&daemon, "GET", "/api/v1/write", &[], b"").status, 405);

    // Refusals are counted by sender and reason.
    let figures = request(&daemon, "GET", "/metrics", &[], b"").text();
    for (reason, count) in
        [("empty_name", 4), ("duplicate_tag", 1), ("infinite", 2), ("bad_buckets", 1)]
    {
        let wanted = format!(
            "tachograph_refused_lines_total{{way=\"remote_write_http\",sender=\"127.0.0.1\",\
             reason=\"{reason}\"}} {count}\n"
        );
        assert!(figures.contains(&wanted), "{wanted}{figures}");
    }
    daemon.stop().unwrap();
}

#[test]
fn a_counter_counts_exactly_from_its_start_and_not_over_a_stale_marker() {
    let place = Place::new();
    let mut daemon = start(&place, &["--write-each", "1ms"]);
    let from = an_hour_ago();
    let write = |daemon: &Daemon, labels: &[(&str, &str)], second: i64, start: i64, value: f64| {
        let mut request = Request::default();
        let start_timestamp = if start < 0 { 0 } else { from + start * 1_000 };
        let sample = Sample { value, timestamp: from + second * 1_000, start_timestamp };
        request.series(labels).samples = vec![sample];
        let answer = write_2(daemon, &request);
        assert_eq!((answer.status, answer.written()), (204, Some([1, 0, 0])), "{answer:?}");
    };
    let hits = [("__name__", "hits_total"), ("job", "a")];
    // 5 in the first 10 s, 7 in the next 15; a repetition; then the target is gone.
    write(&daemon, &hits, 10, 0, 5.0);
    write(&daemon, &hits, 25, 0, 12.0);
    write(&daemon, &hits, 10, 0, 5.0);
    daemon.replace().unwrap();
    write(&daemon, &hits, 25, 0, 12.0);
    write(&daemon, &hits, 40, -1, STALE);
    // It is back after a restart at 60 s, with 3 in 10 s.
    write(&daemon, &hits, 70, 60, 3.0);
    // Without a start time, what was counted before the first sample is unknown.
    let plain = [("__name__", "plain_total")];
    write(&daemon, &plain, 10, -1, 100.0);
    write(&daemon, &plain, 30, -1, 105.5);
    write(&daemon, &plain, 20, -1, 104.0);
    // After a restart, only what was counted since the first sample of it is known.
    write(&daemon, &plain, 40, -1, 3_000_000_000.0);
    write(&daemon, &plain, 50, -1, 2.0);
    write(&daemon, &plain, 60, -1, 4.0);
    let level = [("__name__", "level")];
    write(&daemon, &level, 0, -1, 1.0);
    write(&daemon, &level, 10, -1, 2.0);
    write(&daemon, &level, 20, -1, STALE);
    write(&daemon, &level, 30, -1, 7.0);
    write(&daemon, &level, 40, -1, 4.0);
    // Killed: everything that was acknowledged comes from the journal.
    drop(daemon);
    let daemon = start(&place, &[]);
    write(&daemon, &hits, 70, 60, 3.0);
    daemon.stop().unwrap();
    assert_eq!(total(&place, "hits_total", "value"), (15.0, 35.0));
    let grown = 5.5 + (3_000_000_000.0 - 105.5) + 2.0;
    assert_eq!(total(&place, "plain_total", "value"), (grown, 40.0));
    assert_eq!(total(&place, "level", "value"), (60.0, 20.0));
}

/// Two daemons on one record receive the samples of one cumulative sum in turn.
fn counted_by_two_daemons(record: &str) -> Vec<series::Accumulator> {
    let places = [Place::new(), Place::new()];
    let daemons = places.each_ref().map(|place| {
        let journal = place.path("journal").display().to_string();
        start(place, &["--write-each", "1ms", "--journal", &journal, "--record", record])
    });
    let from = an_hour_ago();
    for (daemon, second, value) in [(0, 3, 10.0), (1, 6, 20.0), (0, 9, 30.0), (1, 10, 31.0)] {
        let mut request = Request::default();
        let sample = Sample { value, timestamp: from + second * 1_000, start_timestamp: from };
        request.series(&[("__name__", "hits_total")]).samples = vec![sample];
        assert_eq!(write_2(&daemons[daemon], &request).status, 204);
        let has_it = || {
            slots(record, "hits_total").iter().any(|slot| slot.last().is_some_and(|l| l.1 == value))
        };
        eventually("it is in the record", has_it);
    }
    daemons.into_iter().for_each(|daemon| daemon.stop().unwrap());
    slots(record, "hits_total")
}

#[test]
fn two_daemons_count_a_cumulative_sum_as_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let server = throwaway::Throwaway::start(&["fsync=off"]).unwrap();
    let sqlite = folder.path().join("record.sqlite").display().to_string();
    for record in [sqlite, server.database("shared").unwrap()] {
        let slots = counted_by_two_daemons(&record);
        let counted: f64 = slots.iter().map(|slot| slot.integral.as_f64()).sum();
        let known: i64 = slots.iter().map(|slot| slot.covered_us).sum();
        assert_eq!((counted, known), (31.0, 10_000_000), "{record}");
    }
}

fn delta(name: &str, from_ms: i64, (start, end): (i64, i64), count: i64) -> Export {
    let nanos = |second: i64| ((from_ms + second * 1_000) * 1_000_000) as u64;
    let point = NumberDataPoint {
        start: nanos(start),
        time: nanos(end),
        value: Some(NumberValue::Int(count)),
        ..NumberDataPoint::default()
    };
    let sum = Sum { points: vec![point], temporality: 1, is_monotonic: true };
    let metrics = vec![Metric::of(name, Data::Sum(sum))];
    Export::of(&[("service.name", "shop"), ("service.instance.id", "1")], "lib", metrics)
}

#[test]
fn deltas_of_otlp_count_once_in_any_order_and_after_kill_9() {
    let place = Place::new();
    let from = an_hour_ago();
    let exports: Vec<Export> =
        (0..30).map(|i| delta("orders", from, (i * 7, i * 7 + 7), 100 + i)).collect();
    let counted: i64 = (0..30).map(|i| 100 + i).sum();
    let mut daemon = start(&place, &["--write-each", "20ms"]);
    for round in 0..3 {
        // Every export is sent several times, in another order each time.
        for at in 0..exports.len() {
            let at = (at * 7 + round * 11) % exports.len();
            let answer = export(&daemon, &exports[at]);
            assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
        }
        if round == 0 {
            eventually("all is in the record", || {
                total(&place, "orders", "value").0 == counted as f64
            });
            // What was written to the record is known after SIGKILL too.
            drop(daemon);
            daemon = start(&place, &["--write-each", "20ms"]);
        }
    }
    daemon.stop().unwrap();
    assert_eq!(total(&place, "orders", "value"), (counted as f64, 210.0));
}

#[test]
fn what_cannot_be_taken_now_may_be_sent_again() {
    let place = Place::new();
    let daemon = start(&place, &["--journal-max", "1"]);
    let good = one(&[("__name__", "up")], 1.0);
    let answer = write_2(&daemon, &good);
    assert_eq!((answer.status, answer.written()), (503, Some([0, 0, 0])), "{answer:?}");
    assert_eq!(answer.header("Retry-After"), Some("5"));
    let answer = export(&daemon, &delta("orders", an_hour_ago(), (0, 10), 5));
    assert_eq!((answer.status, answer.header("Retry-After")), (503, Some("5")), "{answer:?}");
    let said = Status::decode(&answer.body[..]).unwrap().message;
    assert!(said.ends_with("try again later"), "{said}");
    daemon.stop().unwrap();
    assert_eq!(total(&place, "orders", "value"), (0.0, 0.0));
}

#[test]
fn otlp_tells_what_it_refuses() {
    let place = Place::new();
    let daemon = start(&place, &[]);
    let from = an_hour_ago();
    let mut bad = delta("orders", from, (10, 10), 5);
    let good = delta("orders", from, (0, 10), 5);
    bad.resources.extend(good.resources.clone());
    bad.resources.extend(delta("orders", from, (20, 10), 5).resources);
    let answer = export(&daemon, &bad);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("Content-Type"), Some("application/x-protobuf"));
    let partial = ExportResponse::decode(&answer.body[..]).unwrap().partial_success.unwrap();
    assert_eq!(
        (partial.rejected, &*partial.message),
        (
            2,
            "the first refused data point is of 'orders': the interval does not end after it starts"
        )
    );
    // gzip is accepted, other encodings and JSON are not.
    let sound = gzip(&good.encode_to_vec());
    let send = |content_type: &str, encoding: &str, body: &[u8]| {
        let headers = [header("Content-Type", content_type), header("Content-Encoding", encoding)];
        request(&daemon, "POST", "/v1/metrics", &headers, body)
    };
    let protobuf = "application/x-protobuf";
    assert_eq!(send(protobuf, "gzip", &sound).status, 200);
    let said = |answer: &Answer| Status::decode(&answer.body[..]).unwrap().message;
    let answer = send("application/json", "identity", b"{}");
    assert_eq!(answer.status, 415);
    assert_eq!(
        said(&answer),
        "this Content-Type is not supported: use application/x-protobuf \
         (OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf)"
    );
    assert_eq!(send(protobuf, "zstd", &sound).status, 415);
    let answer = send(protobuf, "identity", b"\x0a\x05");
    assert_eq!(answer.status, 400);
    assert_eq!(said(&answer), "the body is not a protobuf message of this type");
    assert_eq!(send(protobuf, "gzip", &gzip(&vec![0; 64 << 20])).status, 413);
    assert_eq!(send(protobuf, "identity", b"").status, 200);
    // Maps within maps, far deeper than any sender's.
    let mut deep = AnyValue::default();
    for _ in 0..60 {
        let values = vec![deep];
        deep = AnyValue { value: Some(messages::Any::Array(messages::ArrayValue { values })) };
    }
    let mut nested = good.clone();
    let attributes = &mut nested.resources[0].resource.as_mut().unwrap().attributes;
    attributes[0].value = Some(deep);
    let answer = export(&daemon, &nested);
    let partial = ExportResponse::decode(&answer.body[..]).unwrap().partial_success.unwrap();
    assert_eq!(partial.rejected, 1);
    let figures = request(&daemon, "GET", "/metrics", &[], b"").text();
    for reason in ["empty_interval\"} 2", "bad_tag\"} 1"] {
        let wanted = format!("way=\"otlp_http\",sender=\"127.0.0.1\",reason=\"{reason}\n");
        assert!(figures.contains(&wanted), "{wanted}{figures}");
    }
    daemon.stop().unwrap();
    assert_eq!(total(&place, "orders", "value"), (5.0, 10.0));
}
