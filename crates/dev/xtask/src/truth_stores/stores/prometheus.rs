//! Prometheus and VictoriaMetrics: counters by remote write, read by PromQL.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use prost::Message as _;
use serde_json::Value;

use super::{
    AskedTime, Message, Quantity, Reply, Slots, Store, StoreKind, Times, name, version_of,
};
use crate::http::{self, Request, escaped};
use crate::process::output;
use crate::server::{Server, victoria_metrics};
use crate::tools::on_path;
use crate::truth_stores::history::SLOT_S;

pub(super) const PROMETHEUS: StoreKind = StoreKind {
    name: "Prometheus",
    protocol: "remote write 1.0, with the label `instance`: the sender's counter at the end of each interval, and also when it begins, or begins again after a silence; of rates, the rate at the beginning of its interval",
    settings: "`--web.enable-remote-write-receiver`, `out_of_order_time_window: 2d`",
    query: "`sum(increase(…[1h]))` at the end of the hour, of rates `sum(avg_over_time(…[1h])) * 3600`",
    install: "apt-get install prometheus",
    times: Times::Message,
    version: || version_of("prometheus", &["--version"]),
    open: |folder, quantity| {
        let config = "storage:\n  tsdb:\n    out_of_order_time_window: 2d\n";
        Ok(Box::new(Remote { server: prometheus(folder, config)?, quantity, is_victoria: false }))
    },
};

pub(super) const VICTORIA: StoreKind = StoreKind {
    name: "VictoriaMetrics",
    settings: "`-retentionPeriod=100y`, `-search.latencyOffset=0`, `-inmemoryDataFlushInterval=1s`, the shortest",
    query: "`sum(increase(…[1h]))` at the end of the hour, of rates `sum(integrate(…[1h]))`",
    install: "go install github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics@latest",
    version: || {
        // `go install` gives it no version to print, but notes that of the module.
        let program = on_path("victoria-metrics")?.display().to_string();
        let noted =
            output(Command::new("go").args(["version", "-m", &program])).unwrap_or_default();
        let module = noted.lines().find(|line| line.contains("\tmod\t"));
        let version = module.and_then(|module| module.split('\t').nth(3)).unwrap_or("");
        Some(format!("VictoriaMetrics {version}").trim_end().to_owned())
    },
    open: |folder, quantity| {
        // Queries of the recent past otherwise wait for samples that may still come.
        let options =
            ["-search.latencyOffset=0", "-inmemoryDataFlushInterval=1s"].map(ToOwned::to_owned);
        let server = victoria_metrics(&folder.join("data"), &options)?;
        Ok(Box::new(Remote { server, quantity, is_victoria: true }))
    },
    ..PROMETHEUS
};

/// Prometheus with these lines of configuration, not started.
pub(super) fn prometheus(folder: &Path, lines: &str) -> Result<Server, String> {
    let config = folder.join("prometheus.yml");
    std::fs::write(&config, lines).map_err(|error| error.to_string())?;
    let data = folder.join("data");
    Server::new(Some("/-/ready"), move |port| {
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", data.display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.arg("--web.enable-remote-write-receiver");
        command
    })
}

/// A server that is read by PromQL.
pub(super) struct Remote {
    pub(super) server: Server,
    pub(super) quantity: Quantity,
    pub(super) is_victoria: bool,
}

/// The messages of remote write 1.0 (prometheus/prompb/remote.proto).
mod wire {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct WriteRequest {
        #[prost(message, repeated, tag = "1")]
        pub(super) timeseries: Vec<TimeSeries>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct TimeSeries {
        #[prost(message, repeated, tag = "1")]
        pub(super) labels: Vec<Label>,
        #[prost(message, repeated, tag = "2")]
        pub(super) samples: Vec<Sample>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Label {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) value: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Sample {
        #[prost(double, tag = "1")]
        pub(super) value: f64,
        #[prost(int64, tag = "2")]
        pub(super) timestamp: i64,
    }
}

impl Remote {
    /// What a message says: the rate from its beginning on, or the counter, which is also said when it
    /// begins.
    fn samples_of(&self, message: &Message) -> Vec<wire::Sample> {
        let Message { start_s, end_s, count, sum, begins, .. } = *message;
        let sample = |at_s: i64, value: f64| wire::Sample { value, timestamp: at_s * 1_000 };
        match self.quantity {
            Quantity::Rate => vec![sample(start_s, message.rate())],
            Quantity::Count if begins => {
                vec![sample(start_s, (sum - count) as f64), sample(end_s, sum as f64)]
            }
            Quantity::Count => vec![sample(end_s, sum as f64)],
        }
    }

    /// Makes the request of a message.
    fn request<T>(
        &self,
        message: &Message,
        send: fn(&Request<'_>, u16) -> Result<T, String>,
    ) -> Result<T, String> {
        let label = |name: &str, value: String| wire::Label { name: name.to_owned(), value };
        let instance = label("instance", message.sender.to_string());
        let labels = vec![label("__name__", name(message.series)), instance];
        let samples = self.samples_of(message);
        let request = wire::WriteRequest { timeseries: vec![wire::TimeSeries { labels, samples }] };
        let packed = snap::raw::Encoder::new().compress_vec(&request.encode_to_vec());
        let headers = &[
            "Content-Type: application/x-protobuf",
            "Content-Encoding: snappy",
            "X-Prometheus-Remote-Write-Version: 0.1.0",
        ];
        let body = &packed.map_err(|error| error.to_string())?;
        send(&Request { method: "POST", target: "/api/v1/write", headers, body }, self.server.port)
    }

    /// The value of an expression at a time; 0 if it has none.
    fn value(&self, expression: &str, at_s: i64) -> Result<f64, String> {
        let target = format!("/api/v1/query?time={at_s}&query={}", escaped(expression));
        let answer = http::get(self.server.port, &target)?.success()?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        let value = answer.pointer("/data/result/0/value/1").and_then(Value::as_str);
        value.map_or(Ok(0.0), |value| value.parse().map_err(|_| value.to_owned()))
    }

    /// The raw samples of a series in the three days up to a time, by sender.
    fn samples(&self, series: usize, to_s: i64) -> Result<Vec<Vec<(i64, f64)>>, String> {
        let expression = format!("{}[3d]", name(series));
        let target = format!("/api/v1/query?time={to_s}&query={}", escaped(&expression));
        let answer = http::get(self.server.port, &target)?.success()?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        let results = answer.pointer("/data/result").and_then(Value::as_array);
        let sample = |sample: &Value| {
            let at_s = sample.get(0)?.as_f64()? as i64;
            Some((at_s, sample.get(1)?.as_str()?.parse().ok()?))
        };
        let samples = |result: &Value| {
            let values = result.get("values").and_then(Value::as_array);
            values.into_iter().flatten().filter_map(sample).collect()
        };
        Ok(results.into_iter().flatten().map(samples).collect())
    }
}

impl Store for Remote {
    fn start(&mut self) -> Result<(), String> {
        self.server.start()
    }

    fn stop(&mut self) -> Result<(), String> {
        self.server.stop()
    }

    fn process(&self) -> Option<u32> {
        self.server.process()
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        if message.count < 0 {
            return Ok(Reply::Unsayable("a counter that falls is taken for one that began again"));
        }
        self.request(message, |request, port| request.send(port)).map(Reply::of)
    }

    fn cut(&mut self, message: &Message) -> Result<bool, String> {
        self.request(message, |request, port| request.cut(port)).map(|()| true)
    }

    fn finish(&mut self) -> Result<(), String> {
        if self.is_victoria {
            // What it took in the last seconds is not shown yet.
            http::get(self.server.port, "/internal/force_flush")?.success()?;
        }
        Ok(())
    }

    fn slots(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<Slots, String> {
        let mut slots = BTreeMap::new();
        let mut add = |at_s: i64, amount: f64| {
            if (from_s..to_s).contains(&at_s) {
                *slots.entry(at_s.div_euclid(SLOT_S) * SLOT_S).or_insert(0.0) += amount;
            }
        };
        for mut samples in self.samples(series, to_s)? {
            if let (Quantity::Rate, Some((_, rate))) = (self.quantity, samples.last()) {
                samples.push((to_s, *rate));
            }
            for (before, after) in samples.iter().zip(samples.iter().skip(1)) {
                match self.quantity {
                    Quantity::Rate => (before.0..after.0).for_each(|at_s| add(at_s, before.1)),
                    // A counter that falls began again.
                    Quantity::Count if after.1 < before.1 => add(after.0 - 1, after.1),
                    Quantity::Count => add(after.0 - 1, after.1 - before.1),
                }
            }
        }
        Ok(slots)
    }

    fn total(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<f64, String> {
        let (name, length_s) = (name(series), to_s - from_s);
        let window = format!("{name}[{length_s}s]");
        self.value(
            &match self.quantity {
                Quantity::Count => format!("sum(increase({window}))"),
                Quantity::Rate if self.is_victoria => format!("sum(integrate({window}))"),
                Quantity::Rate => format!("sum(avg_over_time({window})) * {length_s}"),
            },
            to_s,
        )
    }
}
