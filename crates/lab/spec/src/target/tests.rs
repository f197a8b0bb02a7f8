use proptest::prelude::*;

use super::*;

fn tcp(host: &str, port: u16) -> Endpoint {
    Endpoint::Tcp { host: host.to_owned(), port }
}

fn http(endpoint: Endpoint, authority: &str, path: &str) -> Target {
    Target::Http { endpoint, tls: false, authority: authority.to_owned(), path: path.to_owned() }
}

fn unix(path: &str) -> Endpoint {
    Endpoint::Unix(PathBuf::from(path))
}

#[test]
fn targets_are_read_and_printed_alike() {
    let cases = [
        ("http://host:8000/path?q=1", http(tcp("host", 8000), "host:8000", "/path?q=1")),
        ("http://[::1]:8000/", http(tcp("::1", 8000), "[::1]:8000", "/")),
        ("http://unix:/run/a.sock:/path", http(unix("/run/a.sock"), "localhost", "/path")),
        ("http://unix:@name:/", http(Endpoint::Abstract(b"name".into()), "localhost", "/")),
        (
            "http://unix:/a.sock:/go?u=http://b/",
            http(unix("/a.sock"), "localhost", "/go?u=http://b/"),
        ),
        ("tcp://127.0.0.1:9000", Target::Raw(tcp("127.0.0.1", 9000))),
        ("tcp://[::1]:9000", Target::Raw(tcp("::1", 9000))),
        ("udp://[::1]:9", Target::Raw(Endpoint::Udp { host: "::1".into(), port: 9 })),
        ("unix:/run/a.sock", Target::Raw(unix("/run/a.sock"))),
        ("unix:./a.sock", Target::Raw(unix("./a.sock"))),
        ("unix:@name", Target::Raw(Endpoint::Abstract(b"name".into()))),
        ("unix-dgram:/a", Target::Raw(Endpoint::UnixDatagram("/a".into()))),
        ("unix-seqpacket:/a", Target::Raw(Endpoint::UnixSeqpacket("/a".into()))),
        ("socketpair:/a", Target::Raw(Endpoint::Socketpair("/a".into()))),
    ];
    for (text, target) in cases {
        assert_eq!(Target::parse(text), Ok(target.clone()), "{text}");
        assert_eq!(target.to_string(), text);
    }
}

#[test]
fn what_people_leave_out_is_filled_in() {
    let cases = [
        ("localhost:8000", "http://localhost:8000/"),
        ("localhost:8000/path", "http://localhost:8000/path"),
        ("127.0.0.1:8000?q", "http://127.0.0.1:8000/?q"),
        ("localhost/path", "http://localhost:80/path"),
        ("[::1]:8000", "http://[::1]:8000/"),
        ("http://host", "http://host:80/"),
        ("HTTP://host:1", "http://host:1/"),
        (" http://host:1/ ", "http://host:1/"),
        ("http://host:1/a#fragment", "http://host:1/a"),
        ("http://unix:/run/a.sock", "http://unix:/run/a.sock:/"),
        ("unix:///run/a.sock", "unix:/run/a.sock"),
        ("tcp://host:1/", "tcp://host:1"),
        ("udp://host:1/", "udp://host:1"),
    ];
    for (text, full) in cases {
        assert_eq!(
            Target::parse(text).map(|target| target.to_string()),
            Ok(full.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn https_has_a_scheme_a_port_and_a_name_for_the_certificate() {
    for (text, shown, authority, name) in [
        ("https://example.org", "https://example.org:443/", "example.org", "example.org"),
        ("HTTPS://h:8443/x", "https://h:8443/x", "h:8443", "h"),
        ("https://[::1]:1/", "https://[::1]:1/", "[::1]:1", "::1"),
        ("https://unix:/s:/x", "https://unix:/s:/x", "localhost", "localhost"),
    ] {
        let target = Target::parse(text).unwrap();
        assert_eq!(target.to_string(), shown);
        assert_eq!(target.server_name(), Some(name));
        let Target::Http { tls: true, authority: found, .. } = &target else {
            panic!("{target:?}")
        };
        assert_eq!(found, authority);
        assert_eq!(Target::parse(shown), Ok(target));
    }
    let over = Target::parse_with_unix_socket("https://example.org/x", "/s").unwrap();
    assert_eq!(
        (over.to_string().as_str(), over.server_name()),
        ("https://unix:/s:/x", Some("example.org"))
    );
    assert_eq!(Target::parse("http://h/").unwrap().server_name(), None);
}

#[test]
fn port_80_is_not_named_in_the_host_header() {
    assert_eq!(Target::parse("http://[::1]/"), Ok(http(tcp("::1", 80), "[::1]", "/")));
}

#[test]
fn errors_say_what_to_write_instead() {
    let long = format!("unix:/{}", "x".repeat(107));
    let cases = [
        ("", "it is empty; write one such as http://127.0.0.1:8000/"),
        (
            "ftp://host/",
            "'ftp://' is not a supported scheme; use http://host:port/path, \
             http://unix:/path/to.sock:/path, tcp://host:port or unix:/path/to.sock",
        ),
        ("http+unix://%2Fa/", "write the socket as http://unix:/path/to.sock:/path"),
        (
            "server",
            "use http://host:port/path, http://unix:/path/to.sock:/path, tcp://host:port or \
             unix:/path/to.sock",
        ),
        (
            "/run/a.sock",
            "for a Unix socket write http://unix:/run/a.sock:/ (HTTP) or unix:/run/a.sock (raw bytes)",
        ),
        (
            "@name",
            "for an abstract Unix socket write http://unix:@name:/ (HTTP) or unix:@name (raw bytes)",
        ),
        ("http://:80/", "the host is missing; for this machine write 127.0.0.1 or localhost"),
        (":8000", "the host is missing; for this machine write 127.0.0.1 or localhost"),
        ("http://host:/", "the port after the colon is missing"),
        ("http://host:0/", "'0' is not a port; ports are 1 to 65535"),
        ("host:99999", "'99999' is not a port; ports are 1 to 65535"),
        ("http://host:+1/", "'+1' is not a port; ports are 1 to 65535"),
        ("http://ho st/", "a host name cannot contain ' '"),
        (
            "http://me:secret@host/",
            "a user name in a URL is not supported; write host and add -H 'Authorization: …'",
        ),
        ("http://::1:8000/", "an IPv6 address goes in brackets: http://[::1]:8000/"),
        ("http://[::1/", "the bracket of the IPv6 address is not closed"),
        ("http://[::x]/", "'::x' is not an IPv6 address"),
        ("http://[::1]8000/", "the IPv6 address must be followed by :PORT"),
        ("http://host/a b", "' ' in the path must be written as %20"),
        ("http://host/é", "'é' in the path must be written as %C3%A9"),
        ("http://host/\r\nX: 1", "it contains the control character \\r"),
        ("udp://host", "the port is missing; write udp://host:PORT"),
        ("tcp://host", "the port is missing; write tcp://host:PORT"),
        ("tcp://host:1/path", "tcp:// needs a host and a port, without a path"),
        ("unix:", "the path of the socket is missing"),
        ("unix:@", "the abstract socket's name is missing after '@'"),
        ("unix-dgram:@name", "only stream sockets may be abstract"),
        (
            "unix:/a:/b",
            "the path of a socket cannot contain ':/' or end with ':', because the request's path \
             begins there",
        ),
        (
            &long,
            "the path of a Unix socket can have at most 107 bytes, not 108; use a shorter folder such as /tmp",
        ),
    ];
    for (text, why) in cases {
        let shown = text.replace("secret", "***");
        let error = Target::parse(text).expect_err(text);
        assert_eq!(error.why, why, "{text}");
        assert_eq!(error.to_string(), format!("'{shown}' is not a target: {why}"));
    }
}

#[test]
fn a_socket_path_of_107_bytes_is_the_longest() {
    assert!(Target::parse(&format!("unix:/{}", "x".repeat(106))).is_ok());
}

#[test]
fn a_unix_socket_option_keeps_the_host_and_path_of_the_url() {
    let with = Target::parse_with_unix_socket;
    assert_eq!(
        with("http://example.com/a", "/run/a.sock"),
        Ok(http(unix("/run/a.sock"), "example.com", "/a"))
    );
    assert_eq!(
        with("/a", "@name"),
        Ok(http(Endpoint::Abstract(b"name".into()), "localhost", "/a"))
    );
    assert_eq!(with("", "a.sock"), Ok(http(unix("a.sock"), "localhost", "/")));
    assert_eq!(
        with("unix:/b.sock", "/a.sock").expect_err("two sockets").to_string(),
        "'unix:/b.sock' is not a target: with --unix-socket, use a URL such as \
         http://localhost/path"
    );
    assert_eq!(
        with("http://host/", "").expect_err("no socket").to_string(),
        "'' is not a target: as --unix-socket, the path of the socket is missing"
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_but_never_panics(text in any::<String>()) {
        let _ = Target::parse(&text);
        let _ = Target::parse_with_unix_socket(&text, &text);
    }

    #[test]
    fn whatever_is_read_prints_as_what_is_read_alike(
        text in "(http://|tcp://|unix:|unix-dgram:|http://unix:|)@?[a-z0-9./:@%?\\[\\]-]{0,30}"
    ) {
        if let Ok(target) = Target::parse(&text) {
            prop_assert_eq!(Target::parse(&target.to_string()), Ok(target));
        }
    }
}
