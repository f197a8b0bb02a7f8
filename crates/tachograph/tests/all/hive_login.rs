//! Logins to HiveServer2: each way in, and a sentence for each refusal, against a server of other
//! parts (crates/dev/throwaway/hive) and a real KDC.

use std::path::PathBuf;
use std::time::Duration;

use throwaway::hive::HiveServer;
use throwaway::kdc::{Kdc, REALM, USUAL_SKEW};

use crate::nginx::make_certificate;
use crate::support::{Ended, Place, eventually};

/// What the server says about a table that does not exist: the login has succeeded.
const NO_TABLE: &str = "Table not found 'default.tachograph'";

/// A realm with a server's keytab, a client's keytab, and a ticket of the client.
struct Realm {
    kdc: Kdc,
    server: PathBuf,
    client: PathBuf,
}

fn realm(skew: Duration) -> Realm {
    let kdc = Kdc::start(skew).unwrap();
    let server = kdc.keytab(&format!("hive/localhost@{REALM}")).unwrap();
    let client = kdc.keytab(&format!("ada@{REALM}")).unwrap();
    Realm { kdc, server, client }
}

impl Realm {
    fn with_ticket(life: &str) -> Realm {
        let realm = realm(USUAL_SKEW);
        realm.kdc.ticket(&realm.client, &format!("ada@{REALM}"), life).unwrap();
        realm
    }

    /// A server with Kerberos; further options, and another clock.
    fn server(&self, options: &[&str], shift: Option<&str>) -> HiveServer {
        let keytab = self.server.display().to_string();
        let all = [&["--auth", "kerberos", "--keytab", &keytab], options].concat();
        HiveServer::start(&all, Some(&self.kdc), shift).unwrap()
    }

    fn query(&self, server: &HiveServer, options: &[&str]) -> Ended {
        let principal = format!("hive/_HOST@{REALM}");
        query(server, &[&["--principal", &principal], options].concat(), Some(&self.kdc))
    }
}

/// Asks a server, as `localhost`, for a table that does not exist.
fn query(server: &HiveServer, options: &[&str], realm: Option<&Kdc>) -> Ended {
    let place = Place::new();
    let url = url(server, "");
    let mut command =
        place.command(&[&["query", "orders", "--hive", url.as_str()], options].concat());
    if let Some(realm) = realm {
        command.envs(realm.environment());
    }
    let ended = place.finish(command);
    ended.status(2);
    ended
}

fn url(server: &HiveServer, user: &str) -> String {
    format!("hive://{user}localhost:{}", server.port())
}

/// Fails unless the command printed exactly this error for the server.
#[track_caller]
fn refuses(ended: &Ended, server: &HiveServer, sentence: &str) {
    let text = format!("error: HiveServer2 at localhost:{}: {sentence}\n", server.port());
    assert_eq!(ended.err, text);
}

#[test]
fn each_login_without_kerberos_gets_in() {
    for auth in ["none", "nosasl"] {
        let server = HiveServer::start(&["--auth", auth], None, None).unwrap();
        query(&server, &["--auth", auth], None).says(NO_TABLE);
    }
    let server = HiveServer::start(&["--auth", "plain"], None, None).unwrap();
    let place = Place::new();
    let password = place.write("password", "secret\n");
    let user = url(&server, "ada@");
    let args = ["query", "orders", "--hive", &user, "--auth", "plain"];
    let file = ["--password-file", password.to_str().unwrap()];
    place.run(&[&args[..], &file].concat()).status(2).says(NO_TABLE);
    let mut command = place.command(&args);
    command.env("TACHOGRAPH_HIVE_PASSWORD", "secret");
    place.finish(command).status(2).says(NO_TABLE);
    let mut command = place.command(&args);
    command.env("TACHOGRAPH_HIVE_PASSWORD", "other");
    let ended = place.finish(command);
    refuses(&ended, &server, "the server refused the login: Error validating the login");
}

#[test]
fn kerberos_gets_in_with_each_protection_by_ticket_and_by_keytab() {
    let realm = realm(USUAL_SKEW);
    let server = realm.server(&[], None);
    let keytab = realm.client.display().to_string();
    for (qop, chosen) in [("auth", 1), ("auth-int", 2), ("auth-conf", 4)] {
        realm.query(&server, &["--qop", qop, "--keytab", &keytab]).says(NO_TABLE);
        let said = format!("logged in: ada@{REALM} {chosen}\n");
        eventually("the login is logged", || server.said().contains(&said));
    }
    realm.query(&server, &[]).says("there is no Kerberos ticket (");
    realm.kdc.ticket(&realm.client, &format!("ada@{REALM}"), "10m").unwrap();
    realm.query(&server, &[]).says(NO_TABLE);
    let service = format!("ada@{REALM} for hive/localhost@{REALM}");
    assert!(realm.kdc.log().contains(&service), "{}", realm.kdc.log());
}

/// A certificate for `localhost`, and a file that has its key too.
fn certificate(place: &Place) -> [String; 2] {
    make_certificate(place);
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    let both = place.write("both.pem", &(read("cert.pem") + &read("key.pem")));
    [place.path("cert.pem"), both].map(|path| path.display().to_string())
}

#[test]
fn each_login_gets_in_over_http_and_with_tls() {
    let place = Place::new();
    let [trusted, both] = certificate(&place);
    let (http, tls) = (["--http", "cliservice"], ["--tls", both.as_str()]);
    let (by_path, by_tls) = (["--http-path", "cliservice"], ["--tls", "--cacert", &trusted]);
    for auth in ["none", "nosasl"] {
        for (there, here) in [
            (tls.to_vec(), by_tls.to_vec()),
            (http.to_vec(), by_path.to_vec()),
            ([http, tls].concat(), [&by_path[..], &by_tls].concat()),
        ] {
            let server = HiveServer::start(&[&["--auth", auth], &there[..]].concat(), None, None);
            query(&server.unwrap(), &[&["--auth", auth], &here[..]].concat(), None).says(NO_TABLE);
        }
    }
    let plain = [&["--auth", "plain"], &http[..]].concat();
    let server = HiveServer::start(&plain, None, None).unwrap();
    let user = url(&server, "ada@");
    for (password, words) in [
        ("secret", NO_TABLE),
        ("other", "the server refused the login: 401 Unauthorized: Authentication Error: no such"),
    ] {
        let args = ["query", "orders", "--hive", &user, "--auth", "plain", "--http-path"];
        let mut command = place.command(&[&args[..], &["cliservice"]].concat());
        command.env("TACHOGRAPH_HIVE_PASSWORD", password);
        place.finish(command).status(2).says(words);
    }
    let realm = Realm::with_ticket("10m");
    let server = realm.server(&http, None);
    realm.query(&server, &by_path).says(NO_TABLE);
    // One login, and then the cookie.
    let login = format!("logged in: ada@{REALM} http\n");
    eventually("the login is logged", || server.said().contains(&login));
    assert_eq!(server.said().matches(&login).count(), 1);
}

#[test]
fn wrong_ways_have_their_sentences() {
    let place = Place::new();
    let [trusted, both] = certificate(&place);
    let protected = HiveServer::start(&["--tls", &both], None, None).unwrap();
    let path = HiveServer::start(&["--http", "cliservice"], None, None).unwrap();
    let bare = HiveServer::start(&[], None, None).unwrap();
    let unknown = "TLS failed: the certificate's issuer is not trusted here; check --cacert, that \
                   the URL has the certificate's name, and that the server speaks TLS \
                   (hive.server2.use.SSL)";
    refuses(&query(&protected, &["--tls"], None), &protected, unknown);
    query(&protected, &["--tls", "--insecure"], None).says(NO_TABLE);
    query(&protected, &[], None).says("and whether it speaks TLS (--tls)");
    let no_tls = "the server does not speak TLS here; leave out --tls, or check the port";
    let options = ["--tls", "--cacert", &trusted, "--timeout", "500ms"];
    refuses(&query(&bare, &options, None), &bare, no_tls);
    let other = "HTTP status 404 Not Found for /other; check --http-path, which is the server's \
                 hive.server2.thrift.http.path";
    refuses(&query(&path, &["--http-path", "other"], None), &path, other);
    let options = ["--http-path", "cliservice", "--timeout", "500ms"];
    query(&bare, &options, None).says("no answer within 0.5 s; raise --timeout");
}

#[test]
fn a_wrong_principal_has_its_sentence() {
    let realm = Realm::with_ticket("10m");
    let server = realm.server(&[], None);
    let wrong = |principal: &str| query(&server, &["--principal", principal], Some(&realm.kdc));
    let check = "check --principal, which must be the principal in the server's configuration";
    let unknown = format!("the KDC does not know the service hive/other@{REALM}; {check}");
    refuses(&wrong(&format!("hive/other@{REALM}")), &server, &unknown);
    let unreadable = "'hive@R' is not a service's principal; use hive/_HOST@REALM";
    refuses(&wrong("hive@R"), &server, unreadable);
    // A principal that the KDC knows, but for which the server has no key.
    realm.kdc.keytab(&format!("http/localhost@{REALM}")).unwrap();
    let ended = wrong(&format!("http/_HOST@{REALM}"));
    ended
        .says(&format!("the server cannot read our ticket for http/localhost@{REALM} ("))
        .says(check);
}

#[test]
fn an_expired_ticket_has_its_sentence() {
    let realm = realm(Duration::from_secs(1));
    realm.kdc.ticket(&realm.client, &format!("ada@{REALM}"), "2s").unwrap();
    let server = realm.server(&[], None);
    // Everyone accepts a ticket for as long after its end as clocks may differ. In the moment in
    // which we still accept it and the server, a little later, does not, it closes the connection.
    let mut ended = realm.query(&server, &[]);
    let between = "the server closed the connection while logging in";
    eventually("the ticket expires", || {
        ended = realm.query(&server, &[]);
        !ended.err.contains(NO_TABLE) && !ended.err.contains(between)
    });
    let expired = "the Kerberos ticket has expired; run kinit again, or use --keytab FILE";
    refuses(&ended, &server, expired);
}

#[test]
fn clocks_that_differ_have_their_sentence() {
    let realm = Realm::with_ticket("10m");
    let skew = "the clock of this machine and that of the server or the KDC differ by more than \
                Kerberos allows, usually 5 minutes; synchronise them";
    // As Hive tells it, in the refusal, and as the mechanism itself does, by a token.
    // A server that is late sees a ticket that is not yet valid.
    for shift in ["+6m", "-6m"] {
        for options in [&[][..], &["--fault", "token"]] {
            let server = realm.server(options, Some(shift));
            refuses(&realm.query(&server, &[]), &server, skew);
        }
    }
}

#[test]
fn a_refused_protection_has_its_sentence() {
    let realm = Realm::with_ticket("10m");
    let server = realm.server(&["--qop", "auth-conf"], None);
    let refused = "the server refuses --qop auth: it offers only auth-conf; use --qop auth-conf";
    refuses(&realm.query(&server, &[]), &server, refused);
}

#[test]
fn an_early_end_of_the_login_has_its_sentence() {
    let realm = Realm::with_ticket("10m");
    let server = realm.server(&["--fault", "early"], None);
    let early = "the server ended the login early, before it had proved its identity; it may not \
                 be the server that you mean";
    refuses(&realm.query(&server, &[]), &server, early);
}

#[test]
fn broken_frames_have_their_sentences() {
    let start = |fault| HiveServer::start(&["--fault", fault], None, None).unwrap();
    let server = start("oversized");
    let long = "the server announced 2147483647 bytes, but the limit is 67108864";
    refuses(&query(&server, &[], None), &server, long);
    let server = start("half");
    query(&server, &[], None).says("closed the connection in the middle of a frame, after ");
    let server = start("old");
    let old = "it speaks version 5 of the protocol; version 6 (Hive 0.13) or newer is needed";
    refuses(&query(&server, &[], None), &server, old);
    let server = start("silent");
    let silent = "no answer within 0.3 s; raise --timeout, or check that --auth is the server's \
                  (hive.server2.authentication)";
    refuses(&query(&server, &["--timeout", "300ms"], None), &server, silent);
}

#[test]
fn a_server_with_another_login_has_its_sentence() {
    let realm = Realm::with_ticket("10m");
    let server = realm.server(&[], None);
    let mechanism = "the server refused the login: Unsupported mechanism type PLAIN";
    refuses(&query(&server, &[], None), &server, mechanism);
    // Nothing listens on a port from which a server has gone.
    let port = server.port();
    drop(server);
    let place = Place::new();
    let url = format!("hive://localhost:{port}");
    let ended = place.run(&["query", "orders", "--hive", &url]);
    ended.status(2).says("cannot connect (Connection refused (os error 111)); check the URL");
}

#[test]
fn wrong_options_are_refused_before_anything_is_sent() {
    let place = Place::new();
    let refused = |options: &[&str], text: &str| {
        let args = ["query", "orders", "--hive", "hive://localhost:1"];
        place.run(&[&args[..], options].concat()).status(2).says(text);
    };
    refused(&["--auth", "kerberos"], "add --principal hive/_HOST@REALM");
    refused(&["--auth", "plain"], "write the URL as hive://user@host/database");
    refused(&["--auth", "none", "--principal", "a/b"], "--principal is for Kerberos");
    refused(&["--qop", "auth-conf"], "--qop is for Kerberos");
    refused(&["--timeout", "0s"], "--timeout must not be 0");
    refused(&["--cacert", "a.pem"], "--tls");
    refused(&["--tls", "--cacert", "/none.pem"], "cannot read /none.pem: No such file");
    refused(
        &["--http-path", "x", "--principal", "hive/_HOST@R", "--qop", "auth-conf"],
        "over HTTP there are none: use --tls",
    );
    refused(&["--table", "a.b"], "the database is in the URL");
    let url = "hive://ada:secret@localhost";
    let ended = place.run(&["query", "orders", "--hive", url]);
    ended.status(2).says("a password does not belong in the URL");
}
