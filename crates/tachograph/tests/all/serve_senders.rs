//! The real Prometheus and the real OpenTelemetry SDK send to `tachograph serve`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proofs::daemon::Daemon;

use crate::support::daemon::serve;
use crate::support::{Place, Running, eventually, free_port, not_run, slots_of};

/// Pinned, because the test is of what they send.
const OPENTELEMETRY: [&str; 2] =
    ["opentelemetry-sdk==1.45.2", "opentelemetry-exporter-otlp-proto-http==1.45.2"];

/// What the series of a measurement and field have in the record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Recorded {
    integral: f64,
    covered_us: i64,
    updates: i64,
    least: f64,
}

fn recorded(place: &Place, measurement: &str, field: &str) -> Recorded {
    let record = place.path("record.sqlite");
    let slots = slots_of(record.to_str().unwrap(), measurement, Some(field));
    slots.iter().fold(Recorded { least: f64::INFINITY, ..Recorded::default() }, |sum, slot| {
        Recorded {
            integral: sum.integral + slot.integral.as_f64(),
            covered_us: sum.covered_us + slot.covered_us,
            updates: sum.updates + slot.n,
            least: sum.least.min(slot.vmin),
        }
    })
}

fn start(place: &Place) -> Daemon {
    serve(place, &["--no-graphite", "--no-statsd", "--write-each", "100ms"], 1)
}

/// A target of scrapes. While it counts, every scrape finds seven more.
struct Target {
    port: u16,
    count: Arc<AtomicU64>,
    counts: Arc<AtomicBool>,
    is_gone: Arc<AtomicBool>,
}

/// What the target's counter is before it counts.
const BEFORE: u64 = 1_000;

impl Target {
    fn start() -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target {
            port: listener.local_addr().unwrap().port(),
            count: Arc::new(AtomicU64::new(BEFORE)),
            counts: Arc::default(),
            is_gone: Arc::default(),
        };
        let (count, counts) = (target.count.clone(), target.counts.clone());
        let is_gone = target.is_gone.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_gone.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = BufReader::new(stream.unwrap());
                let mut line = String::new();
                // The head of the request ends with an empty line.
                while stream.read_line(&mut line).is_ok_and(|length| length > 2) {
                    line.clear();
                }
                let more = if counts.load(Ordering::SeqCst) { 7 } else { 0 };
                let count = count.fetch_add(more, Ordering::SeqCst) + more;
                let text = format!(
                    "# TYPE work_total counter\nwork_total{{kind=\"a\"}} {count}\n\
                     # TYPE busy_seconds counter\nbusy_seconds {}\n\
                     # TYPE work_size histogram\nwork_size_bucket{{le=\"+Inf\"}} {count}\n\
                     work_size_sum {}\nwork_size_count {count}\n\
                     # TYPE work_level gauge\nwork_level 2.5\n",
                    count as f64 * 0.1,
                    count as f64 * 0.5,
                );
                let _ = write!(
                    stream.get_mut(),
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
                     Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
                    text.len()
                );
            }
        });
        target
    }

    /// Ends it: from now on nothing listens.
    fn end(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
        let _ = std::net::TcpStream::connect(("127.0.0.1", self.port));
    }
}

#[test]
fn prometheus_counts_as_its_target_does_until_the_target_is_gone() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        return not_run("prometheus is not installed");
    }
    let place = Place::new();
    let daemon = start(&place);
    let target = Target::start();
    let config = format!(
        "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
         scrape_configs:\n- job_name: shop\n  static_configs: [{{ targets: ['127.0.0.1:{}'] }}]\n\
         remote_write:\n- url: http://{}/api/v1/write\n  queue_config: {{ batch_send_deadline: 1s }}\n  \
         metadata_config: {{ send_interval: 1s }}\n",
        target.port,
        daemon.at("tcp://", 0),
    );
    let config = place.write("prometheus.yml", &config);
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", place.path("tsdb").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{}", free_port()))
        .arg("--log.level=warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(place.path("prometheus.log")).unwrap());
    let prometheus = Running(command.spawn().unwrap());
    // It begins to send some seconds after its start; what it finds before is constant.
    eventually("all series arrive", || {
        let has = |name| recorded(&place, name, "value").updates > 0;
        has("work_total") && has("work_size_sum") && has("up")
    });
    target.counts.store(true, Ordering::SeqCst);
    let enough = BEFORE + 7 * 12;
    eventually("twelve scrapes", || target.count.load(Ordering::SeqCst) >= enough);
    target.counts.store(false, Ordering::SeqCst);
    let counted = (target.count.load(Ordering::SeqCst) - BEFORE) as f64;
    let total = |name| recorded(&place, name, "value").integral;
    eventually("the last scrape is in the record", || total("work_total") == counted);
    // They came in the same request, or before.
    eventually("the rest of it", || total("work_size_count") == counted);
    assert_eq!(total("work_size_bucket"), counted);
    // A counter with fractions: what a slot boundary divides, in binary fractions, adds up to the
    // last digit of a float, not exactly.
    let sum = total("work_size_sum");
    assert!((sum - counted * 0.5).abs() <= counted * 1e-14, "{sum} of {}", counted * 0.5);

    // Without its target, Prometheus marks the series as stale, and their coverage ends.
    target.end();
    eventually("the target is down", || recorded(&place, "up", "value").least == 0.0);
    let before = recorded(&place, "work_level", "value");
    let up = recorded(&place, "up", "value").updates;
    eventually("three more scrapes", || recorded(&place, "up", "value").updates >= up + 3);
    drop(prometheus);
    daemon.stop().unwrap();
    let after = recorded(&place, "work_level", "value");
    assert_eq!(after, before);
    let level = after.integral / (after.covered_us as f64 / 1e6);
    assert!((level - 2.5).abs() < 1e-9, "{after:?}");
    assert_eq!(total("work_total"), counted);
    let log = std::fs::read_to_string(place.path("prometheus.log")).unwrap();
    assert!(!log.contains("non-recoverable"), "{log}");
}

/// Counts with the SDK, and exports every collection three times, in random order.
const SCRIPT: &str = r#"
import json, random, sys
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider, UpDownCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.resources import Resource

random.seed(7)
delta, cumulative = AggregationTemporality.DELTA, AggregationTemporality.CUMULATIVE
temporality = {Counter: delta, Histogram: delta, UpDownCounter: cumulative}
reader = InMemoryMetricReader(preferred_temporality=temporality)
resource = Resource({"service.name": "shop", "service.instance.id": "one"})
meter = MeterProvider(metric_readers=[reader], resource=resource).get_meter("checkout")
orders = meter.create_counter("orders")
weight = meter.create_counter("weight")
latency = meter.create_histogram("latency")
queue = meter.create_up_down_counter("queue")
total = {"orders": 0, "weight": 0.0, "latency": 0, "seconds": 0.0}
collected = []
for _ in range(40):
    for _ in range(random.randrange(1, 50)):
        number = random.randrange(1, 1000)
        orders.add(number, {"paid": number % 2 == 0})
        weight.add(number / 8)
        latency.record(number / 16)
        queue.add(random.choice([-1, 1]))
        total["orders"] += number
        total["weight"] += number / 8
        total["latency"] += 1
        total["seconds"] += number / 16
    collected.append(reader.get_metrics_data())
exports = [(data, packed) for data in collected for packed in (0, 1, 0)]
random.shuffle(exports)
exporters = [OTLPMetricExporter(endpoint=sys.argv[1], compression=c) for c in (Compression.NoCompression, Compression.Gzip)]
for data, packed in exports:
    assert exporters[packed].export(data) == MetricExportResult.SUCCESS
print(json.dumps(total))
"#;

#[test]
fn deltas_of_the_opentelemetry_sdk_count_once_although_they_are_shuffled_and_repeated() {
    let requirements = OPENTELEMETRY.map(str::to_owned);
    let python = match stage::python::ensure_env(&requirements, None, &mut |_| ()) {
        Ok(bin) => bin.join("python"),
        Err(error) => return not_run(&error.to_string()),
    };
    let place = Place::new();
    let daemon = start(&place);
    let mut command = Command::new(python);
    let endpoint = format!("http://{}/v1/metrics", daemon.at("tcp://", 0));
    command.args(["-c", SCRIPT, &endpoint]).stdin(Stdio::null());
    let ended = place.finish(command);
    ended.status(0);
    assert_eq!(ended.err, "", "the exporter reports nothing, as a partial success");
    let counted = ended.json();
    daemon.stop().unwrap();
    let total = |name, field| recorded(&place, name, field).integral;
    let of = |name: &str| counted[name].as_f64().unwrap();
    assert_eq!(total("orders", "value"), of("orders"));
    assert_eq!(total("latency", "count"), of("latency"));
    for (found, wanted) in
        [(total("weight", "value"), of("weight")), (total("latency", "sum"), of("seconds"))]
    {
        assert!((found / wanted - 1.0).abs() < 1e-12, "{found} instead of {wanted}");
    }
    assert_eq!(recorded(&place, "queue", "value").updates, 40);
}
