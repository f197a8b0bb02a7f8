//! Who may talk to the daemon.
//!
//! | address | HTTP | lines |
//! | --- | --- | --- |
//! | Unix socket | the permissions of its folder | the permissions of its folder |
//! | loopback | a token, if there are any; otherwise the names of this machine | everyone |
//! | others | a token or a client certificate | senders in `allowed` |
//!
//! Without a token, a browser on this machine could be made to send requests by any page whose name
//! its owner points at 127.0.0.1 (DNS rebinding), so `Host` must be a name of this machine. `Origin`
//! must be the daemon's own in any case: a browser adds credentials to the requests of other pages.

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ipnet::IpNet;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::secrets::refuse_public;
use crate::{AccessError, Address, Tls};

/// Shortest token.
const TOKEN_CHARS_MIN: usize = 16;

/// Longest name of a token.
const NAME_CHARS_MAX: usize = 64;

/// Limit on a file of tokens, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Who may talk to the daemon. Cloning shares the tokens.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Tokens, one of which every HTTP request over TCP must have; `None` if none is needed.
    pub tokens: Option<Tokens>,
    /// Senders that may use addresses which other machines can reach; empty for all.
    pub allowed: Vec<IpNet>,
    /// Names by which HTTP clients may call this machine, besides `localhost` and loopback
    /// addresses.
    pub hosts: Vec<String>,
    /// TLS for HTTP over TCP; `None` for none.
    pub tls: Option<Tls>,
}

/// Tokens with their names. Only their digests are in memory.
#[derive(Clone, Debug)]
pub struct Tokens {
    known: Arc<[(String, [u8; 32])]>,
}

impl Tokens {
    /// Reads a file with a name and a token in each line, separated by spaces. Empty lines, and
    /// lines that begin with `#`, are comments.
    ///
    /// # Errors
    /// [`AccessError`]; among others for a file that other users can read.
    pub fn read(path: &Path) -> Result<Tokens, AccessError> {
        let unreadable = |cause| AccessError::Unreadable { path: path.to_owned(), cause };
        let file = File::open(path).map_err(unreadable)?;
        refuse_public(&file, path)?;
        let mut text = String::new();
        file.take(FILE_MAX).read_to_string(&mut text).map_err(unreadable)?;
        Tokens::parse(&text).map_err(|why| AccessError::Tokens { path: path.to_owned(), why })
    }

    fn parse(text: &str) -> Result<Tokens, String> {
        let mut known: Vec<(String, [u8; 32])> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(name), Some(token), None) = (words.next(), words.next(), words.next()) else {
                return Err(format!("line {number} must be a name and a token"));
            };
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
                return Err(format!(
                    "line {number}: a name has at most {NAME_CHARS_MAX} letters, digits, '-', '_' \
                     and '.'"
                ));
            }
            if token.len() < TOKEN_CHARS_MIN || !token.chars().all(|c| c.is_ascii_graphic()) {
                return Err(format!(
                    "line {number}: a token has at least {TOKEN_CHARS_MIN} ASCII characters; make \
                     one with: openssl rand -hex 32"
                ));
            }
            if known.iter().any(|(earlier, _)| earlier == name) {
                return Err(format!("line {number}: there is another token named {name}"));
            }
            known.push((name.to_owned(), digest(token)));
        }
        match known.is_empty() {
            true => Err("it contains no token: add a line with a name and a token".to_owned()),
            false => Ok(Tokens { known: known.into() }),
        }
    }

    /// The name of a token. The time that this takes does not depend on the tokens.
    fn name_of(&self, token: &str) -> Option<&str> {
        let wanted = digest(token);
        let mut found = None;
        for (name, known) in self.known.iter() {
            if bool::from(known.ct_eq(&wanted)) {
                found = Some(name.as_str());
            }
        }
        found
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// How a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Unix,
    Tcp,
    Tls,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AccessDenial {
    pub(crate) status: StatusCode,
    /// The reason in `/metrics`.
    pub(crate) reason: &'static str,
    pub(crate) why: String,
}

impl Access {
    /// Checks that an address may be listened on.
    ///
    /// # Errors
    /// [`AccessError::OpenHttp`] and [`AccessError::OpenLines`].
    pub(crate) fn check(&self, address: &Address, is_http: bool) -> Result<(), AccessError> {
        match is_http {
            _ if !address.is_open() => Ok(()),
            true if self.tokens.is_none() && !self.checks_clients() => {
                Err(AccessError::OpenHttp(address.clone()))
            }
            false if self.allowed.is_empty() => Err(AccessError::OpenLines(address.clone())),
            _ => Ok(()),
        }
    }

    fn checks_clients(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.checks_clients)
    }

    /// Whether a sender may send at all; those on this machine may.
    pub(crate) fn allows(&self, sender: IpAddr) -> bool {
        let sender = sender.to_canonical();
        sender.is_loopback()
            || self.allowed.is_empty()
            || self.allowed.iter().any(|network| network.contains(&sender))
    }

    /// The name of the token of a request, if one is needed.
    pub(crate) fn admit(
        &self,
        link: Link,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Option<&str>, AccessDenial> {
        if link == Link::Unix {
            return Ok(None);
        }
        let host = uri.authority().map(|authority| authority.as_str());
        let host = host.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok()));
        if let Some(origin) = headers.get(ORIGIN) {
            self.check_origin(origin, host)?;
        }
        match &self.tokens {
            Some(tokens) => {
                let named = presented(uri, headers).find_map(|token| tokens.name_of(&token));
                Ok(Some(named.ok_or_else(|| AccessDenial {
                    status: StatusCode::UNAUTHORIZED,
                    reason: "no_token",
                    why: "a valid token is needed: send Authorization: Bearer TOKEN".to_owned(),
                })?))
            }
            // The name is that of the certificate.
            None if link == Link::Tls => Ok(None),
            None => self.check_host(host).map(|()| None),
        }
    }

    /// Only browsers must not call by another name, and they always send a name.
    fn check_host(&self, host: Option<&str>) -> Result<(), AccessDenial> {
        let Some(host) = host else { return Ok(()) };
        let name = name_in(host);
        if name.eq_ignore_ascii_case("localhost") || is_loopback(name) || self.is_host(name) {
            return Ok(());
        }
        Err(AccessDenial {
            status: StatusCode::MISDIRECTED_REQUEST,
            reason: "other_host",
            why: format!(
                "'{name}' is not a name of this daemon: call it localhost, or start it with \
                 --allow-host {name}"
            ),
        })
    }

    fn check_origin(&self, origin: &HeaderValue, host: Option<&str>) -> Result<(), AccessDenial> {
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        let is_own = authority.is_some_and(|authority| {
            host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
                || self.is_host(name_in(authority))
        });
        if is_own {
            return Ok(());
        }
        Err(AccessDenial {
            status: StatusCode::FORBIDDEN,
            reason: "other_origin",
            why: format!("pages of '{origin}' may not use this daemon: see --allow-host"),
        })
    }

    fn is_host(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}

/// The host of `host:port`, without brackets and the dot of the root.
fn name_in(authority: &str) -> &str {
    if let Some(address) = authority.strip_prefix('[') {
        return address.split_once(']').map_or(address, |(address, _)| address);
    }
    let name = authority.split_once(':').map_or(authority, |(name, _)| name);
    name.strip_suffix('.').unwrap_or(name)
}

fn is_loopback(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The tokens that a request has: `Bearer TOKEN`; `Token TOKEN` (Influx 2) or `Token NAME:TOKEN`;
/// `Basic`, or `u` and `p` of the query (Influx 1), where the token is the password, and the user is
/// not checked.
fn presented(uri: &Uri, headers: &HeaderMap) -> impl Iterator<Item = String> {
    let mut tokens = Vec::new();
    for value in headers.get_all(AUTHORIZATION) {
        let Some((scheme, rest)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
            continue;
        };
        let rest = rest.trim();
        let password = |text: &str| text.split_once(':').map(|(_, password)| password.to_owned());
        if scheme.eq_ignore_ascii_case("basic") {
            let text = BASE64.decode(rest).ok().and_then(|text| String::from_utf8(text).ok());
            tokens.extend(text.and_then(|text| password(&text)));
        } else if scheme.eq_ignore_ascii_case("token") {
            tokens.push(rest.to_owned());
            tokens.extend(password(rest));
        } else if scheme.eq_ignore_ascii_case("bearer") {
            tokens.push(rest.to_owned());
        }
    }
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    tokens.extend(query.filter(|(name, _)| name == "p").map(|(_, token)| token.into_owned()));
    tokens.into_iter()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123";

    fn access(tokens: bool, hosts: &[&str]) -> Access {
        let tokens = tokens.then(|| {
            Tokens::parse(&format!("# who\n\nlab {TOKEN}\nshop  another-token-of-20\n")).unwrap()
        });
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Access { tokens, hosts, ..Access::default() }
    }

    /// The name of the token, or the status of the refusal.
    fn asked(access: &Access, uri: &str, headers: &[(&str, &str)]) -> Result<String, u16> {
        let map: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                let name = axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap();
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect();
        let admitted = access.admit(Link::Tcp, &uri.parse().unwrap(), &map);
        let named = admitted.map_err(|denied| denied.status.as_u16())?;
        Ok(named.unwrap_or_default().to_owned())
    }

    #[test]
    fn a_token_is_accepted_in_every_form_that_clients_send() {
        let access = access(true, &[]);
        let basic = format!("Basic {}", BASE64.encode(format!("anyone:{TOKEN}")));
        let forms = [
            format!("Bearer {TOKEN}"),
            format!("bearer  {TOKEN}"),
            format!("Token {TOKEN}"),
            format!("Token lab:{TOKEN}"),
            basic,
        ];
        for form in &forms {
            let headers = [("authorization", form.as_str())];
            assert_eq!(asked(&access, "/write", &headers), Ok("lab".to_owned()), "{form}");
        }
        let uri = format!("/write?db=x&u=someone&p={TOKEN}");
        assert_eq!(asked(&access, &uri, &[]), Ok("lab".to_owned()));
        let shop = [("authorization", "Bearer another-token-of-20")];
        assert_eq!(asked(&access, "/", &shop), Ok("shop".to_owned()));
        let nothing = String::new();
        let wrong = [
            nothing.clone(),
            TOKEN.to_owned(),
            format!("Bearer {}", &TOKEN[1..]),
            format!("Bearer {TOKEN}0"),
            format!("Digest {TOKEN}"),
            "Basic !!".to_owned(),
            format!("Basic {}", BASE64.encode(TOKEN)),
        ];
        for form in &wrong {
            let headers = [("authorization", form.as_str())];
            assert_eq!(asked(&access, "/write?p=", &headers), Err(401), "{form}");
        }
        let unix = access.admit(Link::Unix, &Uri::from_static("/"), &HeaderMap::new());
        assert_eq!(unix, Ok(None));
    }

    #[test]
    fn only_names_of_this_machine_are_answered_without_a_token() {
        let access = access(false, &["Metrics.example"]);
        for host in
            ["localhost:8086", "LOCALHOST", "localhost.", "127.0.0.1:80", "127.8.9.1", "[::1]:8086"]
        {
            assert_eq!(asked(&access, "/", &[("host", host)]), Ok(String::new()), "{host}");
        }
        assert_eq!(asked(&access, "/", &[("host", "metrics.example:9")]), Ok(String::new()));
        assert_eq!(asked(&access, "/", &[]), Ok(String::new()), "no browser omits it");
        for host in
            ["evil.example", "evil.example:8086", "localhost.evil", "192.0.2.1", "[::2]", ""]
        {
            assert_eq!(asked(&access, "/", &[("host", host)]), Err(421), "{host}");
        }
        // An absolute target stands for the header.
        let headers = [("host", "localhost")];
        assert_eq!(asked(&access, "http://evil.example/", &headers), Err(421));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let authorization = format!("Bearer {TOKEN}");
        for tokens in [false, true] {
            let access = access(tokens, &["metrics.example"]);
            let from = |origin: &str| {
                let headers = [
                    ("host", "localhost:8086"),
                    ("origin", origin),
                    ("authorization", authorization.as_str()),
                ];
                asked(&access, "/write", &headers).map(|_| ())
            };
            assert_eq!(from("http://localhost:8086"), Ok(()));
            assert_eq!(from("https://metrics.example"), Ok(()));
            for origin in ["null", "", "http://localhost:3000", "https://evil.example"] {
                assert_eq!(from(origin), Err(403), "{origin}");
            }
        }
    }

    #[test]
    fn open_addresses_need_tokens_for_http_and_an_allow_list_for_lines() {
        let open = Address::parse("0.0.0.0:80").unwrap();
        let loopback = Address::parse("[::ffff:127.0.0.1]:80").unwrap();
        let mut access = access(false, &[]);
        for is_http in [false, true] {
            assert!(access.check(&loopback, is_http).is_ok());
            assert!(access.check(&open, is_http).is_err());
        }
        access.allowed.push("192.0.2.0/24".parse().unwrap());
        assert!(access.check(&open, false).is_ok());
        assert!(access.check(&open, true).is_err());
        for (sender, allowed) in [
            ("192.0.2.77", true),
            ("::ffff:192.0.2.77", true),
            ("127.0.0.1", true),
            ("192.0.3.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(access.allows(sender.parse().unwrap()), allowed, "{sender}");
        }
        access.tokens = super::Tokens::parse(&format!("a {TOKEN}")).ok();
        assert!(access.check(&open, true).is_ok());
    }

    #[test]
    fn a_file_of_tokens_that_others_can_read_or_with_a_mistake_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let shown = path.display();
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Tokens::read(&path).map(|tokens| tokens.known.len()).map_err(|error| error.to_string())
        };
        let line = format!("lab {TOKEN}\n");
        assert_eq!(read(&line, 0o600), Ok(1));
        assert_eq!(read(&line, 0o440), Ok(1), "as systemd's LoadCredential= has it");
        for mode in [0o644, 0o604, 0o620] {
            let said = format!(
                "other users can read or change {shown}, which is secret: chmod 600 {shown}"
            );
            assert_eq!(read(&line, mode), Err(said));
        }
        for (text, why) in [
            ("", "it contains no token: add a line with a name and a token"),
            ("# x\nlab\n", "line 2 must be a name and a token"),
            (
                "lab short",
                "line 1: a token has at least 16 ASCII characters; make one with: openssl rand \
                 -hex 32",
            ),
            (&format!("{line}{line}"), "line 2: there is another token named lab"),
        ] {
            assert_eq!(read(text, 0o600), Err(format!("{shown}: {why}")));
        }
        fs::remove_file(&path).unwrap();
        let missing = Tokens::read(&path).unwrap_err().to_string();
        assert!(missing.contains("cannot read") && missing.contains("check the path"), "{missing}");
    }
}
