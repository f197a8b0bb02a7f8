//! Clients of others: programs and libraries send known counts, and the totals in SQL are exactly
//! those.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use proofs::daemon::Daemon;
use rustix::process::Signal;

use crate::support::daemon::{serve, totals};
use crate::support::{Place, Running, an_hour_ago, eventually, not_run, signal};

/// The clients, pinned.
const CLIENTS: [&str; 6] = [
    "statsd==4.0.1",
    "datadog==0.56.0",
    "influxdb==5.3.2",
    "influxdb-client==1.50.0",
    "msgpack==1.2.4",
    "requests==2.34.2",
];

/// The interpreter with the clients.
fn python() -> &'static PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let clients = CLIENTS.map(str::to_owned);
        stage::python::ensure_env(&clients, None, &mut |_| ()).unwrap().join("python")
    })
}

fn start(place: &Place, options: &[&str], addresses: usize) -> Daemon {
    serve(place, &[&["--write-each", "50ms"], options].concat(), addresses + 1)
}

/// Waits until the record has these totals, and stops the daemon, which changes none of them.
fn counted(place: &Place, daemon: Daemon, expected: &[String]) {
    let has = |totals: &[String]| expected.iter().all(|total| totals.contains(total));
    eventually("all counts are in the record", || has(&totals(place)));
    daemon.stop().unwrap();
    let totals = totals(place);
    assert!(has(&totals), "{totals:?}");
}

/// Runs a Python script with these arguments.
fn run(place: &Place, script: &str, args: &[&str]) {
    let script = place.write("sender.py", script);
    let mut command = Command::new(python());
    command.arg(script).args(args).stdin(Stdio::null());
    let ended = place.finish(command);
    ended.status(0);
}

#[test]
fn the_statsd_client_of_python_is_counted_over_udp_tcp_and_unix_sockets() {
    let place = Place::new();
    let socket = place.path("s.sock");
    let unix = format!("unix:{}", socket.display());
    let options =
        ["--no-graphite", "--statsd", "tcp://127.0.0.1:0", "--statsd", "udp://127.0.0.1:0"];
    let daemon = start(&place, &[&options[..], &["--statsd", &unix]].concat(), 3);
    let script = r#"
import sys, statsd
tcp, udp, unix = sys.argv[1:]
port = lambda at: int(at.split(':')[1])
clients = [
    statsd.StatsClient('127.0.0.1', port(udp), prefix='udp'),
    statsd.TCPStatsClient('127.0.0.1', port(tcp), prefix='tcp'),
    statsd.UnixSocketStatsClient(unix, prefix='unix'),
]
for client in clients:
    for i in range(1, 101):
        client.incr('orders', i)
        client.timing('took', i)
    with client.pipeline() as pipe:
        for i in range(50):
            pipe.incr('orders')
            pipe.set('users', i % 7)
    client.gauge('level', 10)
    client.gauge('level', -4, delta=True)
    client.close()
"#;
    run(
        &place,
        script,
        &[&daemon.at("tcp://", 1), &daemon.at("udp://", 0), &socket.display().to_string()],
    );
    let expected =
        |name: &str| [format!("{name}.orders count {{}} 5100"), format!("{name}.took n {{}} 100")];
    let expected: Vec<String> =
        ["tcp", "udp", "unix"].iter().flat_map(|name| expected(name)).collect();
    counted(&place, daemon, &expected);
}

#[test]
fn the_datadog_client_is_counted_over_udp_and_unix_datagrams() {
    let place = Place::new();
    let socket = place.path("d.sock");
    let unix = format!("unix-dgram:{}", socket.display());
    let options = ["--no-graphite", "--statsd", "udp://127.0.0.1:0", "--statsd", &unix];
    let daemon = start(&place, &options, 2);
    let script = r#"
import sys
from datadog.dogstatsd.base import DogStatsd
udp, unix = sys.argv[1:]
clients = [
    ('udp', dict(host='127.0.0.1', port=int(udp.split(':')[1]))),
    ('unix', dict(socket_path='unix://' + unix)),
]
for name, where in clients:
    with DogStatsd(namespace=name, constant_tags=['env:test', 'new'], disable_telemetry=True,
                   disable_aggregation=True, **where) as client:
        for i in range(1, 101):
            client.increment('orders', i, tags=['shop:a'])
            client.histogram('took', i)
            client.distribution('size', i)
            client.set('users', i % 7)
        client.decrement('stock', -5)
        client.gauge('level', 6)
    client.flush()
    client.close_socket()
"#;
    run(&place, script, &[&daemon.at("udp://", 0), &socket.display().to_string()]);
    let expected: Vec<String> = ["udp", "unix"]
        .iter()
        .flat_map(|name| {
            [
                format!(
                    "{name}.orders count {{\"env\":\"test\",\"new\":\"true\",\"shop\":\"a\"}} 5050"
                ),
                format!("{name}.size n {{\"env\":\"test\",\"new\":\"true\"}} 100"),
                format!("{name}.stock count {{\"env\":\"test\",\"new\":\"true\"}} 5"),
                format!("{name}.took n {{\"env\":\"test\",\"new\":\"true\"}} 100"),
            ]
        })
        .collect();
    counted(&place, daemon, &expected);
}

#[test]
fn the_influx_clients_of_python_start_write_and_show_our_errors() {
    let place = Place::new();
    let daemon = start(&place, &["--no-graphite"], 0);
    let script = r#"
import sys, time
host, port = sys.argv[1].split(':')
start = int(time.time()) // 10 * 10 - 3600
from influxdb import InfluxDBClient
from influxdb.exceptions import InfluxDBClientError
for gzip in (False, True):
    client = InfluxDBClient(host, int(port), database='shop', gzip=gzip)
    assert client.ping() == '1.8.10'
    client.create_database('shop')
    assert client.get_list_database() == [{'name': 'tachograph'}]
    policies = client.get_list_retention_policies('shop')
    assert [(p['name'], p['duration'], p['default']) for p in policies] == [
        ('10s', '24h0m0s', True), ('1m', '168h0m0s', False), ('1h', '26280h0m0s', False)], policies
    points = [{'measurement': 'v1', 'tags': {'gzip': str(gzip)}, 'time': start + 10 * i,
               'fields': {'orders': i, '_start': start + 10 * i, '_end': start + 10 * i + 10}}
              for i in range(1, 101)]
    assert client.write_points(points, time_precision='s', batch_size=30)
    try:
        client.query('SELECT * FROM v1')
        raise SystemExit('the query was answered')
    except InfluxDBClientError as error:
        assert 'InfluxQL is not supported' in str(error), error
    try:
        client.write(['v1 orders="many"'], {'db': 'shop'}, protocol='line')
        raise SystemExit('the line was accepted')
    except InfluxDBClientError as error:
        assert 'the value is text' in str(error), error
import influxdb_client
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
for gzip in (False, True):
    with influxdb_client.InfluxDBClient(f'http://{host}:{port}', token='none', org='o',
                                        enable_gzip=gzip) as client:
        assert client.ping() and client.version() == '1.8.10'
        write = client.write_api(write_options=SYNCHRONOUS)
        points = [influxdb_client.Point('v2').tag('gzip', gzip).field('orders', i)
                  .field('_start', start + 10 * i).field('_end', start + 10 * i + 10)
                  .time(start + 10 * i, influxdb_client.WritePrecision.S) for i in range(1, 101)]
        write.write('bucket', record=points, write_precision=influxdb_client.WritePrecision.S)
        try:
            write.write('bucket', record='v2 orders="many"')
            raise SystemExit('the line was accepted')
        except ApiException as error:
            assert error.status == 400 and 'the value is text' in error.body, error
"#;
    run(&place, script, &[&daemon.at("tcp://", 0)]);
    daemon.stop().unwrap();
    let places = [("v1", r#""_db":"shop""#), ("v2", r#""_bucket":"bucket","_org":"o""#)];
    let expected = places.map(|(name, place)| {
        ["False", "True"].map(|gzip| format!(r#"{name} orders {{{place},"gzip":"{gzip}"}} 5050"#))
    });
    assert_eq!(totals(&place), expected.concat());
}

#[test]
fn collectd_writes_graphite_over_tcp_and_udp() {
    let installed = ["/usr/sbin/collectd", "/usr/bin/collectd", "/usr/local/sbin/collectd"];
    let Some(collectd) = installed.into_iter().find(|path| std::path::Path::new(path).exists())
    else {
        return not_run("collectd is needed: sudo apt-get install collectd-core");
    };
    let place = Place::new();
    let options = ["--graphite", "tcp://127.0.0.1:0", "--graphite", "udp://127.0.0.1:0"];
    let daemon = start(&place, &options, 2);
    let port = |at: String| at.rsplit_once(':').unwrap().1.to_owned();
    let node = |name: &str, at: String| {
        format!(
            "<Node \"{name}\">\nHost \"127.0.0.1\"\nPort \"{}\"\nProtocol \"{name}\"\n\
             Prefix \"{name}.\"\nStoreRates false\nLogSendErrors true\n</Node>\n",
            port(at)
        )
    };
    let folder = place.dir.path().display();
    let configuration = format!(
        "Hostname \"h\"\nFQDNLookup false\nBaseDir \"{folder}\"\nPIDFile \"{folder}/c.pid\"\n\
         Interval 10\nWriteThreads 1\nLoadPlugin unixsock\nLoadPlugin write_graphite\n\
         <Plugin unixsock>\nSocketFile \"{folder}/c.sock\"\n</Plugin>\n\
         <Plugin write_graphite>\n{}{}</Plugin>\n",
        node("tcp", daemon.at("tcp://", 1)),
        node("udp", daemon.at("udp://", 0)),
    );
    let configuration = place.write("collectd.conf", &configuration);
    let mut command = Command::new(collectd);
    command.arg("-f").arg("-C").arg(configuration).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut collectd = Running(command.spawn().unwrap());
    let socket = place.path("c.sock");
    eventually("collectd listens", || UnixStream::connect(&socket).is_ok());
    let mut stream = UnixStream::connect(&socket).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let from = an_hour_ago();
    for i in 0..=100 {
        let at = from + 10 * i;
        writeln!(stream, "PUTVAL h/shop/gauge-orders interval=10 {at}:{i}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.starts_with("0 "), "{answer}");
    }
    // Values that still wait for its writing thread when it ends are lost.
    eventually("collectd has passed all values on", || {
        writeln!(stream, "GETVAL h/shop/gauge-orders").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        if answer.starts_with("1 ") {
            answers.read_line(&mut answer).unwrap();
        }
        answer.trim_end().ends_with("value=1.000000e+02")
    });
    // It sends what it has gathered when it ends.
    signal(collectd.0.id(), Signal::TERM);
    assert!(collectd.0.wait().unwrap().success());
    // Each value covers the ten seconds before it.
    let expected =
        ["tcp", "udp"].map(|name| format!("{name}.h.shop.gauge-orders value {{}} 50500"));
    eventually("all points are in the record", || totals(&place) == expected);
    daemon.stop().unwrap();
    assert_eq!(totals(&place), expected);
}
