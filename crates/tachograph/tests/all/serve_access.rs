//! `tachograph serve`: who may talk to it, and clients that are slow or lie.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use proofs::daemon::{Daemon, points};
use rustix::process::Signal;

use crate::support::daemon::{figure, serve};
use crate::support::{Place, eventually, not_run, run_by, status};

const TOKEN: &str = "b1946ac92492d2347c6235b4d2611184";

fn connect(daemon: &Daemon) -> TcpStream {
    let stream = TcpStream::connect(daemon.at("tcp://", 0)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream
}

/// The answer to a request with these headers, each of which ends its line.
fn ask(mut stream: impl std::io::Read + std::io::Write, request: &str, headers: &str) -> String {
    write!(stream, "{request} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn token_file(place: &Place, mode: u32) -> String {
    let path = place.write("tokens", &format!("# who\nlab {TOKEN}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn with_tokens_every_request_over_tcp_needs_one_and_open_addresses_are_accepted() {
    let place = Place::new();
    let tokens = token_file(&place, 0o600);
    let socket = place.path("http.sock");
    let unix = format!("unix:{}", socket.display());
    let args = [
        &["--token-file", &tokens, "--http", "0.0.0.0:0", "--http", &unix][..],
        &["--graphite", "0.0.0.0:0", "--allow", "192.0.2.0/24", "--allow", "2001:db8::1"],
    ];
    let mut daemon = serve(&place, &args.concat(), 4);
    // A successor reads the file again.
    for restarted in [false, true] {
        if restarted {
            daemon.replace().unwrap();
        }
        let open = daemon.at("tcp://0.0.0.0:", 0);
        for at in [daemon.at("tcp://127.0.0.1:", 0), open] {
            let stream = || TcpStream::connect(format!("127.0.0.1:{at}")).unwrap();
            for path in ["/", "/health", "/metrics", "/render", "/api/series", "/query?q=x"] {
                let answer = ask(stream(), &format!("GET {path}"), "Host: t\r\n");
                assert_eq!(status(&answer), 401, "{path}");
                let challenge = "\r\nwww-authenticate: Basic realm=";
                assert!(answer.to_lowercase().contains(&challenge.to_lowercase()), "{answer}");
            }
            assert_eq!(status(&ask(stream(), "GET /ping", "Host: t\r\n")), 204);
            // With a token the name of the host does not matter.
            let bearer = format!("Host: t\r\nAuthorization: Bearer {TOKEN}\r\n");
            assert_eq!(status(&ask(stream(), "GET /health", &bearer)), 200);
            let wrong = format!("Host: t\r\nAuthorization: Bearer {TOKEN}x\r\n");
            assert_eq!(status(&ask(stream(), "GET /health", &wrong)), 401);
            let influx = format!("POST /write?db=x&u=lab&p={TOKEN}");
            let line = "Host: t\r\nContent-Length: 0\r\n";
            assert_eq!(status(&ask(stream(), &influx, line)), 204);
            assert_eq!(status(&ask(stream(), "POST /write?db=x", line)), 401);
            let page = format!("{bearer}Origin: https://evil.example\r\n");
            assert_eq!(status(&ask(stream(), "GET /health", &page)), 403);
        }
        let metrics = ask(UnixStream::connect(&socket).unwrap(), "GET /metrics", "");
        let turned_away = "tachograph_turned_away_total{way=\"http\",sender=\"127.0.0.1\",\
                           reason=\"no_token\"} ";
        assert!(metrics.contains(turned_away), "{metrics}");
    }
    daemon.stop().unwrap();
}

#[test]
fn a_token_file_that_others_can_read_is_refused() {
    let place = Place::new();
    let tokens = token_file(&place, 0o644);
    let ended = place.run(&["serve", "--token-file", &tokens]);
    let said = format!(
        "error: other users can read or change {tokens}, which is secret: chmod 600 {tokens}\n"
    );
    assert_eq!((ended.status, ended.err), (Some(2), said));
}

#[test]
fn a_successor_that_refuses_the_token_file_changes_nothing() {
    let place = Place::new();
    let tokens = token_file(&place, 0o600);
    let daemon = serve(&place, &["--no-graphite", "--token-file", &tokens], 1);
    token_file(&place, 0o644);
    daemon.signal(Signal::USR2).unwrap();
    assert!(daemon.note().unwrap().contains("which is secret: chmod 600"));
    let note = daemon.note().unwrap();
    assert!(note.starts_with("not replaced: the new process did not get ready"), "{note}");
    let bearer = format!("Host: t\r\nAuthorization: Bearer {TOKEN}\r\n");
    assert_eq!(status(&ask(connect(&daemon), "GET /health", &bearer)), 200);
    daemon.stop().unwrap();
}

#[test]
fn a_page_that_points_its_name_at_this_machine_reads_and_writes_nothing() {
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite", "--allow-host", "metrics.example"], 1);
    let get = |headers: &str| ask(connect(&daemon), "GET /health", headers);
    assert_eq!(status(&get("Host: localhost:8086\r\n")), 200);
    assert_eq!(status(&get("Host: metrics.example\r\n")), 200);
    let answer = get("Host: evil.example:8086\r\n");
    assert_eq!(status(&answer), 421);
    let said = "'evil.example' is not a name of this daemon: call it localhost, or start it with \
                --allow-host evil.example";
    assert!(answer.contains(said), "{answer}");
    let headers = "Host: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 6\r\n";
    assert_eq!(status(&ask(connect(&daemon), "POST /write", headers)), 403);
    let of_pages = "tachograph_turned_away_total{way=\"http\",sender=\"127.0.0.1\",reason=\"other_";
    assert_eq!(figure(&daemon, &format!("{of_pages}host\"}}")), Some(1.0));
    assert_eq!(figure(&daemon, &format!("{of_pages}origin\"}}")), Some(1.0));
    daemon.stop().unwrap();
}

/// Resident memory of a process, in bytes.
fn resident(id: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn hundreds_of_slow_clients_hinder_no_other_and_are_closed() {
    let place = Place::new();
    let args = ["--graphite", "127.0.0.1:0", "--max-connections-per-sender", "400"];
    let daemon = serve(&place, &args, 2);
    let before = resident(daemon.id());
    // The head of a request that never ends, and a line that never ends.
    let slow: Vec<TcpStream> = (0..360)
        .map(|_| {
            let mut stream = connect(&daemon);
            stream.write_all(b"POST /write HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
            stream
        })
        .collect();
    let silent: Vec<TcpStream> = (0..360)
        .map(|_| {
            let mut stream = TcpStream::connect(daemon.at("tcp://", 1)).unwrap();
            stream.write_all(b"half.a.line 1").unwrap();
            stream
        })
        .collect();
    assert_eq!(status(&ask(connect(&daemon), "GET /health", "Host: localhost\r\n")), 200);
    let open = "tachograph_connections{way=\"graphite_stream\"}";
    eventually("all are open", || figure(&daemon, open) == Some(360.0));
    let each = resident(daemon.id()).saturating_sub(before) / 720;
    assert!(each < 64 << 10, "a waiting connection takes {each} bytes");
    let more: Vec<TcpStream> =
        (0..60).map(|_| TcpStream::connect(daemon.at("tcp://", 1)).unwrap()).collect();
    let turned_away = "tachograph_turned_away_total{way=\"graphite_stream\",sender=\"127.0.0.1\",\
                       reason=\"too_many_connections_of_sender\"}";
    eventually("further ones are turned away", || figure(&daemon, turned_away) == Some(20.0));
    drop((more, silent));
    for mut stream in slow {
        // The end, or a reset.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    daemon.stop().unwrap();
}

#[test]
fn one_user_cannot_hold_all_places() {
    let place = Place::new();
    let socket = place.path("http.sock");
    let unix = format!("unix:{}", socket.display());
    let http = ["--no-graphite", "--http", &unix, "--http", "127.0.0.1:0"];
    let limits = ["--socket-mode", "666", "--max-connections", "20"];
    let daemon = serve(&place, &[&http[..], &limits].concat(), 3);
    let tcp = daemon.at("tcp://", 1);
    let mut slow: Vec<Box<dyn Write>> = Vec::new();
    for _ in 0..30 {
        slow.push(Box::new(UnixStream::connect(&socket).unwrap()));
        slow.push(Box::new(TcpStream::connect(&tcp).unwrap()));
    }
    for stream in &mut slow {
        // One that is turned away may be closed already.
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nX: ");
    }
    for sender in ["unix", "127.0.0.1"] {
        let turned_away = format!(
            "tachograph_turned_away_total{{way=\"http\",sender=\"{sender}\",\
             reason=\"too_many_connections_of_sender\"}}"
        );
        let are_away = || figure(&daemon, &turned_away) == Some(20.0);
        eventually("further ones are turned away", are_away);
    }
    if rustix::process::geteuid().is_root() {
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.dir.path(), open).unwrap();
        let socket = socket.display().to_string();
        let of_tcp = format!("http://{tcp}/health");
        let of_unix = ["--unix-socket", &socket, "http://localhost/health"];
        for to in [&of_unix[..], &[&of_tcp]] {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "curl", "-s"]);
            let other = command.args(to).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&other.stdout), "ok\n", "{other:?}");
        }
    } else {
        not_run("only root can connect as another user");
    }
    drop(slow);
    daemon.stop().unwrap();
}

#[test]
fn bodies_of_one_user_that_arrive_slowly_leave_room_for_others() {
    if !rustix::process::geteuid().is_root() {
        return not_run("only root can connect as another user");
    }
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite"], 1);
    let body = vec![b'#'; 8 << 20];
    let mut slow: Vec<TcpStream> = Vec::new();
    let as_user = |user: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups", "curl", "-s"]);
        command.args(["-o", "/dev/null", "-w", "%{http_code}", "--data-binary", "a value=1"]);
        let ended = command.arg(format!("http://{}/write", daemon.at("tcp://", 0))).output();
        String::from_utf8_lossy(&ended.unwrap().stdout).into_owned()
    };
    eventually("there is no room for another body", || {
        let mut stream = connect(&daemon);
        let head = "POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388608\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        // What is beyond the user's share is refused meanwhile, of two that arrive at once perhaps
        // both. The last byte never comes.
        let _ = stream.write_all(&body[1..]);
        slow.push(stream);
        as_user("0") == "503"
    });
    assert_eq!(as_user("65534"), "204");
    drop(slow);
    daemon.stop().unwrap();
}

#[test]
fn a_request_with_very_many_series_is_refused_before_it_takes_memory() {
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite"], 1);
    let write = |body: &str| {
        let headers = format!("Host: localhost\r\nContent-Length: {}\r\n", body.len());
        let mut stream = connect(&daemon);
        let head = format!("POST /write HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let before = resident(daemon.id());
    let lines: String = (0..700_000).map(|i| format!("s{i} v=1\n")).collect();
    // As many series in a few lines.
    let fields: Vec<String> = (0..600_000).map(|i| format!("f{i}=1")).collect();
    let wide: String = fields.chunks(5_000).map(|some| format!("w {}\n", some.join(","))).collect();
    for body in [&lines, &wide] {
        let answer = write(body);
        assert_eq!(status(&answer), 413, "{answer}");
        let said = "the request has more than 262144 lines, or more than 524288 tags and fields: \
                    send less at a time";
        assert!(answer.contains(said), "{answer}");
    }
    let taken = resident(daemon.id()).saturating_sub(before);
    assert!(taken < 64 << 20, "{taken} bytes");
    assert_eq!(status(&write("s value=1\n")), 204);
    daemon.stop().unwrap();
}

#[test]
fn a_sender_that_lies_about_its_length_is_not_acknowledged_and_spoils_nothing() {
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite"], 1);
    let line = "lie value=1\n";
    let headers = |length: usize| format!("Host: localhost\r\nContent-Length: {length}\r\n\r\n");
    // Less than announced: the body never ends, so nothing of it counts.
    let mut short = connect(&daemon);
    write!(short, "POST /write HTTP/1.1\r\n{}{line}", headers(1_000)).unwrap();
    short.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    let _ = short.read_to_string(&mut answer);
    assert_ne!(status(&answer), 204, "{answer}");
    // More than announced: what follows is no request.
    let mut long = connect(&daemon);
    write!(long, "POST /write HTTP/1.1\r\n{}{line}{line}", headers(line.len())).unwrap();
    let mut answer = String::new();
    let _ = long.read_to_string(&mut answer);
    assert_eq!(status(&answer), 204, "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 2, "{answer}");
    assert!(answer.contains("HTTP/1.1 400 "), "{answer}");
    // Two lengths that differ, and a length with chunks, are not guessed at.
    for both in ["Content-Length: 12\r\nContent-Length: 5\r\n", "Content-Length: x\r\n"] {
        let mut stream = connect(&daemon);
        write!(stream, "POST /write HTTP/1.1\r\nHost: localhost\r\n{both}\r\n{line}").unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert_eq!(status(&answer), 400, "{both}: {answer}");
    }
    daemon.stop().unwrap();
    let record = place.path("record.sqlite");
    assert_eq!(points(record.to_str().unwrap(), &["lie"]).unwrap(), [1]);
}

/// Runs a command of a test, which must succeed.
fn made(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A certificate for localhost, its key, and a certificate and key of a client that it has signed.
fn certificates(place: &Place) {
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let new = |name: &str, further: &[&str]| {
        let (key, cert) = (format!("{name}.key"), format!("{name}.pem"));
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-days", "2"]).args(curve).args(further);
        made(command.args(["-keyout", &key, "-out", &cert]).current_dir(place.dir.path()));
    };
    let name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    new("server", &name);
    new("ca", &["-subj", "/CN=authority"]);
    let client = ["-subj", "/CN=client", "-CA", "ca.pem", "-CAkey", "ca.key"];
    new("client", &[&client[..], &["-addext", "basicConstraints=critical,CA:FALSE"]].concat());
}

/// Sends points over HTTPS on a kept connection, and connects again when it is closed; prints the
/// number of each point that was answered with 204, until it has sent as many as wanted.
const SENDER: &str = r#"
import http.client, ssl, sys, time
port, count, token = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context(cafile='server.pem')
if len(sys.argv) > 4:
    context.load_cert_chain('client.pem', 'client.key')
connection = http.client.HTTPSConnection('localhost', port, context=context, timeout=60)
start = int(time.time()) // 10 * 10 - 3000
for number in range(count):
    while True:
        try:
            connection.request('POST', '/write?precision=s', f'tls value={number} {start + number}',
                               {'Authorization': 'Bearer ' + token})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 204, answer.status
            break
        except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
            connection.close()
    print(number, flush=True)
"#;

fn sender(place: &Place, daemon: &Daemon, count: u32, further: &[&str]) -> Command {
    let port = daemon.at("tcp://127.0.0.1:", 0);
    let mut command = Command::new("python3");
    command.args(["-c", SENDER, &port, &count.to_string(), TOKEN]).args(further);
    command.current_dir(place.dir.path());
    command
}

#[test]
fn a_sender_over_tls_loses_nothing_while_the_daemon_is_replaced() {
    let place = Place::new();
    certificates(&place);
    let tokens = token_file(&place, 0o600);
    let tls = ["--tls-cert", "server.pem", "--tls-key", "server.key", "--token-file", &tokens];
    let mut daemon = serve(&place, &[&["--no-graphite"], &tls[..]].concat(), 1);
    // Nothing that is not TLS is answered.
    let mut plain = connect(&daemon);
    plain.write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    // A client that never agrees on the keys does not prevent the restart.
    let _silent = connect(&daemon);
    let count = 600;
    let mut sending = sender(&place, &daemon, count, &[]);
    let mut sending = sending.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(sending.stdout.take().unwrap()).lines();
    let mut sent = 0;
    for _ in 0..5 {
        for _ in 0..60 {
            sent += u32::from(lines.next().is_some());
        }
        daemon.replace().unwrap();
    }
    sent += lines.map_while(Result::ok).count() as u32;
    let mut error = String::new();
    sending.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert!(sending.wait().unwrap().success(), "{error}");
    assert_eq!(sent, count);
    daemon.stop().unwrap();
    let record = place.path("record.sqlite");
    assert_eq!(points(record.to_str().unwrap(), &["tls"]).unwrap(), [i64::from(count)]);
}

#[test]
fn clients_need_a_certificate_where_an_authority_is_given() {
    let place = Place::new();
    certificates(&place);
    let args = ["--no-graphite", "--tls-cert", "server.pem", "--tls-key", "server.key"];
    let args = [&args[..], &["--tls-client-ca", "ca.pem", "--http", "0.0.0.0:0"]].concat();
    let daemon = serve(&place, &args, 2);
    let with = sender(&place, &daemon, 3, &["with a certificate"]).output().unwrap();
    assert!(with.status.success(), "{}", String::from_utf8_lossy(&with.stderr));
    let mut without = sender(&place, &daemon, 1, &[]);
    let without = without.output().unwrap();
    assert!(!without.status.success());
    let said = String::from_utf8_lossy(&without.stderr).to_lowercase();
    assert!(said.contains("certificate required"), "{said}");
    daemon.stop().unwrap();
    let record = place.path("record.sqlite");
    assert_eq!(points(record.to_str().unwrap(), &["tls"]).unwrap(), [3]);
}

#[test]
fn a_key_that_others_can_read_or_that_fits_no_certificate_is_refused() {
    let place = Place::new();
    certificates(&place);
    let serve = |key: &str| {
        place.run(&["serve", "--no-graphite", "--tls-cert", "server.pem", "--tls-key", key])
    };
    let ended = serve("ca.key");
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("error: cannot use server.pem for TLS ("), "{}", ended.err);
    let ended = serve("server.pem");
    assert_eq!(ended.status, Some(2));
    let public = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path("server.key"), public).unwrap();
    let ended = serve("server.key");
    let said = "error: other users can read or change server.key, which is secret: chmod 600 \
                server.key\n";
    assert_eq!((ended.status, ended.err.as_str()), (Some(2), said));
}

/// Sends from an allowed and from a refused address of a network namespace, and prints what
/// /metrics counts. Addresses of loopback networks would all be allowed.
const SENDERS: &str = r#"
import atexit, signal, socket, subprocess, sys, time, urllib.request
for args in (["link", "set", "lo", "up"], ["addr", "add", "198.51.100.1/24", "dev", "lo"],
             ["addr", "add", "198.51.100.2/24", "dev", "lo"],
             ["addr", "add", "198.51.100.3/24", "dev", "lo"]):
    subprocess.run(["ip"] + args, check=True)
daemon = subprocess.Popen([sys.argv[1], "serve", "--http", "127.0.0.1:0",
    "--graphite", "tcp://198.51.100.1:2003", "--graphite", "udp://198.51.100.1:2003",
    "--allow", "198.51.100.2"], stdout=subprocess.PIPE, text=True)
# Also if this script fails: the test would wait for the daemon's output.
atexit.register(daemon.kill)
http = daemon.stdout.readline().split("tcp://")[1].strip()
for _ in range(2):
    daemon.stdout.readline()
def by_tcp(sender, name):
    # A connection that is refused is reset, at any moment.
    with socket.socket() as s:
        s.bind((sender, 0))
        try:
            s.connect(("198.51.100.1", 2003))
            s.sendall(f"{name} 1 {int(time.time())}\n".encode())
            s.shutdown(socket.SHUT_WR)
            return s.recv(1) == b""
        # Also "not connected", if it was reset before the shutdown.
        except OSError:
            return False
def by_udp(sender, name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((sender, 0))
        s.sendto(f"{name} 1 {int(time.time())}\n".encode(), ("198.51.100.1", 2003))
print("allowed", by_tcp("198.51.100.2", "tcp.allowed"))
print("refused", by_tcp("198.51.100.3", "tcp.refused"))
print("loopback", by_tcp("198.51.100.1", "tcp.own"))
by_udp("198.51.100.3", "udp.refused")
by_udp("198.51.100.2", "udp.allowed")
def metrics():
    return urllib.request.urlopen(f"http://{http}/metrics").read().decode().splitlines()
wanted = 'tachograph_lines_total{way="graphite_datagram"} 1'
deadline = time.monotonic() + 120
while wanted not in metrics() and time.monotonic() < deadline:
    time.sleep(0.01)
for line in metrics():
    if "turned_away_total{" in line or "lines_total{" in line or "datagrams_total{" in line:
        print(line)
daemon.send_signal(signal.SIGTERM)
sys.exit(daemon.wait())
"#;

#[test]
fn a_body_in_chunks_of_one_byte_is_accepted() {
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite"], 1);
    // More chunks than there are units of memory for all requests.
    let line = "chunks value=1 1700000000\n";
    let body: String = line.repeat((70 << 10) / line.len());
    let mut request =
        b"POST /write?precision=s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
        Transfer-Encoding: chunked\r\n\r\n"
            .to_vec();
    for byte in body.bytes() {
        request.extend_from_slice(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']);
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let mut stream = connect(&daemon);
    stream.write_all(&request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), 204, "{answer}");
    daemon.stop().unwrap();
}

#[test]
fn a_client_that_has_closed_its_side_gets_its_answer() {
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite"], 1);
    let line = "half value=1\n";
    for (request, wanted) in [
        ("POST /write HTTP/1.1\r\nHost: x.localhost\r\n\r\n".to_owned(), 421),
        (
            format!(
                "POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{line}",
                line.len()
            ),
            204,
        ),
        ("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 200),
    ] {
        let mut stream = connect(&daemon);
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(status(&answer), wanted, "{answer}");
    }
    daemon.stop().unwrap();
}

#[test]
fn a_request_with_two_hosts_is_refused() {
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite"], 1);
    for path in ["/health", "/ping"] {
        let two = "Host: localhost\r\nHost: evil.example\r\n";
        let answer = ask(connect(&daemon), &format!("GET {path}"), two);
        assert_eq!(status(&answer), 400, "{answer}");
        assert!(answer.contains("a request must have one Host header"), "{answer}");
    }
    daemon.stop().unwrap();
}

#[test]
fn senders_that_are_not_allowed_are_turned_away_and_counted() {
    let place = Place::new();
    let template = place.command(&["serve"]);
    let args = ["--user", "--map-root-user", "--net", "python3", "-c", SENDERS];
    let command = run_by("unshare", &args, &template);
    let ended = place.finish(command);
    ended.status(0);
    let has = |line: &str| assert!(ended.out.lines().any(|known| known == line), "{}", ended.out);
    has("allowed True");
    has("refused False");
    // The address is one of those that are not allowed, and no loopback address.
    has("loopback False");
    has("tachograph_lines_total{way=\"graphite_stream\"} 1");
    has("tachograph_lines_total{way=\"graphite_datagram\"} 1");
    has("tachograph_datagrams_total{way=\"graphite_datagram\"} 1");
    let turned_away = |way: &str, sender: &str| {
        has(&format!(
            "tachograph_turned_away_total{{way=\"{way}\",sender=\"{sender}\",\
             reason=\"not_allowed\"}} 1"
        ));
    };
    turned_away("graphite_stream", "198.51.100.3");
    turned_away("graphite_stream", "198.51.100.1");
    turned_away("graphite_datagram", "198.51.100.3");
    let record = place.path("record.sqlite");
    let names = ["tcp.allowed", "udp.allowed", "tcp.refused", "udp.refused", "tcp.own"];
    assert_eq!(points(record.to_str().unwrap(), &names).unwrap(), [1, 1, 0, 0, 0]);
}
