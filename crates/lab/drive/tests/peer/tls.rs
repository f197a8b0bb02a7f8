//! TLS: whose certificate is accepted, what is said about the others, and what handshakes count.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::helper::*;
use base::Nanos;
use drive::DriveError;
use fixture::{Certificate, Faults, Service, TlsConfig};
use spec::Endpoint;

/// A folder with certificates.
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn new() -> Certificates {
        Certificates(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, args: &str) {
        let output = Command::new("openssl").args(args.split(' ')).current_dir(&self.0).output();
        let output = output.expect("openssl is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A key, and a certificate for `name` that it has signed itself.
    fn own(&self, name: &str, alternative: &str, is_authority: bool) -> TlsConfig {
        let authority = if is_authority { "TRUE" } else { "FALSE" };
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
             -addext subjectAltName={alternative} -addext basicConstraints=critical,CA:{authority} \
             -keyout {name}.key -out {name}.pem"
        ));
        self.of(name)
    }

    fn of(&self, name: &str) -> TlsConfig {
        let (cert, key) = (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")));
        TlsConfig { certificate: Certificate::Files { cert, key }, client_ca: None }
    }

    /// A certificate for localhost that has expired.
    fn expired(&self) -> TlsConfig {
        self.openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=old -addext \
             subjectAltName=DNS:localhost -keyout old.key -out old.csr",
        );
        self.openssl(
            "x509 -req -in old.csr -signkey old.key -days -1 -copy_extensions copy -out old.pem",
        );
        self.of("old")
    }
}

/// A server with these certificates; nothing is trusted but what is in the file.
fn server(tls: TlsConfig, trusted: &Path) -> Rig {
    let mut rig = rig_with(On::Tls, Service::hello(), |config| config.tls = Some(tls));
    rig.load.tls.insecure = false;
    rig.load.tls.cacert = Some(trusted.to_owned());
    rig
}

fn refusal(rig: &Rig) -> String {
    let error: DriveError = rig.open().and_then(|mut s| s.learn().map(drop)).unwrap_err();
    error.to_string().replace(&rig.target.to_string(), "TARGET")
}

fn works(rig: &Rig) {
    let mut session = rig.session();
    assert_eq!(session.run(&requests(20)).unwrap().counts.completed, 20);
}

#[test]
fn a_certificate_is_accepted_that_an_authority_has_signed_or_that_is_trusted_itself() {
    let files = Certificates::new();
    for is_authority in [true, false] {
        let tls = files.own("self", "DNS:localhost", is_authority);
        works(&server(tls, &files.file("self.pem")));
    }
    files.own("ca", "DNS:authority", true);
    files.openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=signed -addext \
         subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE -CA ca.pem -CAkey \
         ca.key -keyout signed.key -out signed.pem",
    );
    works(&server(files.of("signed"), &files.file("ca.pem")));
}

#[test]
fn a_certificate_that_is_not_accepted_is_explained_and_can_be_ignored() {
    let files = Certificates::new();
    files.own("other", "DNS:elsewhere.example", true);
    files.own("unknown", "DNS:localhost", false);
    files.expired();
    for (server_has, trusted, sentence) in [
        (
            "old",
            "old.pem",
            "its certificate has expired; renew it, or use --insecure to accept any certificate",
        ),
        (
            "other",
            "other.pem",
            "its certificate is not for 'localhost'; use a name that it is for, or --insecure to \
             accept any certificate",
        ),
        (
            "unknown",
            "other.pem",
            "its certificate is not signed by a trusted authority; pass it with --cacert, or use \
             --insecure to accept any certificate",
        ),
    ] {
        let mut rig = server(files.of(server_has), &files.file(trusted));
        assert_eq!(refusal(&rig), format!("cannot connect to TARGET: {sentence}"));
        rig.load.tls.insecure = true;
        works(&rig);
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let files = Certificates::new();
    std::fs::write(files.file("empty.pem"), "").unwrap();
    let mut rig = server(TlsConfig::default(), &files.file("none.pem"));
    let path = |name: &str| files.file(name).display().to_string();
    let missing = "No such file or directory (os error 2)";
    assert_eq!(refusal(&rig), format!("cannot read {}: {missing}", path("none.pem")));
    rig.load.tls.cacert = Some(files.file("empty.pem"));
    let empty = format!("{}: it contains no certificate in PEM form", path("empty.pem"));
    assert_eq!(refusal(&rig), empty);
    rig.load.tls.insecure = true;
    rig.load.tls.cert = Some(files.file("empty.pem"));
    assert_eq!(refusal(&rig), "a client certificate needs both --cert and --key");
}

#[test]
fn a_server_may_ask_for_a_certificate() {
    let files = Certificates::new();
    let mut tls = files.own("me", "DNS:localhost", true);
    tls.client_ca = Some(files.file("me.pem"));
    files.openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=client -addext \
         basicConstraints=critical,CA:FALSE -CA me.pem -CAkey me.key -keyout client.key -out client.pem",
    );
    let mut rig = server(tls, &files.file("me.pem"));
    let asked = "it refuses this client (TLS alert 116); if it asks for a certificate, use --cert and \
                 --key";
    // The server refuses after the client's last word of the handshake.
    let refused = refusal(&rig);
    assert!(refused.ends_with(asked), "{refused}");
    rig.load.tls.cert = Some(files.file("client.pem"));
    rig.load.tls.key = Some(files.file("client.key"));
    works(&rig);
}

#[test]
fn a_port_without_tls_is_told_from_one_with_it() {
    let mut plain = rig(On::V4, Service::hello(), Faults::default());
    plain.target = http_target(plain.fixture.endpoint(), true);
    plain.load.timeout = Nanos::from_millis(500);
    // This server waits for the end of what it takes for a request.
    assert_eq!(
        refusal(&plain),
        "cannot connect to TARGET: no connection with TLS within 500 ms; check whether the port \
         speaks TLS, the address, and whether a firewall drops packets"
    );
    // Others refuse at once what is no request.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    plain.target = http_target(&Endpoint::Tcp { host: "127.0.0.1".into(), port }, true);
    let refused = refusal(&plain);
    server.join().unwrap();
    assert_eq!(
        refused,
        "cannot connect to TARGET: it does not speak TLS on this port; write http:// instead of \
         https://"
    );
}

#[test]
fn every_connection_has_a_handshake_and_may_resume_the_session_of_an_earlier_one() {
    for on in [On::Tls, On::TlsUnix] {
        for resumption in [false, true] {
            let mut rig = rig(on, Service::hello(), Faults::default());
            rig.load.new_connection = true;
            rig.load.tls.resumption = resumption;
            let mut session = rig.session();
            let seen = session.run(&requests(200)).unwrap();
            assert_laws(&seen);
            assert_eq!((seen.counts.completed, seen.connects), (200, 200), "{:?}", seen.errors);
            let handshakes = seen.handshakes.unwrap();
            assert_eq!(handshakes.took.len(), 200);
            assert_eq!(handshakes.resumed, if resumption { 200 } else { 0 });
            assert_eq!(handshakes.version, "TLS 1.3");
            assert_eq!(handshakes.cipher, "TLS13_AES_256_GCM_SHA384");
        }
    }
    let rig = rig(On::Tls, Service::hello(), Faults::default());
    let mut session = rig.session();
    assert!(session.run(&requests(100)).unwrap().handshakes.is_some_and(|h| h.took.len() == 3));
    assert!(session.run(&requests(100)).unwrap().handshakes.is_none(), "they are kept");
}

#[test]
fn a_long_body_is_compared_to_the_last_byte() {
    use fixture::{HttpAnswer, ResponseBody};
    let body: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    for every in [0, 3] {
        let shape = HttpAnswer { body: ResponseBody::Fixed(body.clone()), ..HttpAnswer::default() };
        let faults = Faults { corrupt_every: every, ..Faults::default() };
        let mut rig = rig(On::Tls, Service::Http(shape), faults);
        rig.load.expect.body = Some(body.clone());
        let mut session = rig.open().unwrap();
        let seen = session.run(&requests(30)).unwrap();
        let failed = if every == 0 { 0 } else { 10 };
        assert_eq!((seen.counts.completed, seen.counts.failed), (30 - failed, failed));
    }
}

#[test]
fn a_close_without_an_announcement_is_counted_as_one_with_it() {
    for on in [On::Tls, On::TlsUnix] {
        for close_tls_silently in [false, true] {
            let truncated = Faults { truncate_every: 50, close_tls_silently, ..Faults::default() };
            let truncating = rig(on, Service::hello(), truncated);
            let mut session = truncating.session();
            let seen = session.run(&requests(500)).unwrap();
            assert_laws(&seen);
            let expected = [("closed within a response".to_owned(), 10)].into();
            assert_eq!(seen.errors, expected, "{on:?} {close_tls_silently}");
            assert_eq!(truncating.fixture.stop().unwrap(), 503);
            let close_after_answers = 10;
            let closing = Faults { close_after_answers, close_tls_silently, ..Faults::default() };
            let closing = rig(on, Service::hello(), closing);
            let mut session = closing.session();
            let seen = session.run(&requests(500)).unwrap();
            assert_laws(&seen);
            // A request that was sent into the close is a failure, and never reached the server.
            let served = closing.fixture.stop().unwrap();
            assert_eq!(served, seen.counts.completed + 3, "{on:?} {:?}", seen.errors);
        }
    }
}

#[test]
fn a_response_that_ends_with_the_connection_needs_the_announcement() {
    use fixture::{Framing, HttpAnswer};
    for on in [On::Tls, On::TlsUnix] {
        for close_tls_silently in [false, true] {
            let shape = HttpAnswer { framing: Framing::UntilClose, ..HttpAnswer::default() };
            let faults = Faults { close_tls_silently, ..Faults::default() };
            let rig = rig(on, Service::Http(shape), faults);
            let seen = rig.open().unwrap().run(&requests(50)).unwrap();
            assert_laws(&seen);
            let expected = match close_tls_silently {
                true => [("closed without close_notify".to_owned(), 50)].into(),
                false => ledger::Errors::new(),
            };
            assert_eq!(seen.errors, expected, "{on:?}");
            assert_eq!(rig.fixture.stop().unwrap(), 50);
        }
    }
}
