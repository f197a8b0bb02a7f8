//! Targets of the load.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use crate::variables;

/// The longest path or abstract name of a Unix socket: the kernel keeps 108
/// bytes, one of which is the terminating (or, for abstract names, leading) NUL.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The socket that connections are made to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// TCP to a host name or address (IPv6 without brackets) and port.
    Tcp {
        /// A name, an IPv4 or an IPv6 address.
        host: String,
        /// The port.
        port: u16,
    },
    /// UDP to a host name or address and port (`udp://`), for the exchange of lines only.
    Udp {
        /// A name, an IPv4 or an IPv6 address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A stream Unix socket with a path in the file system.
    Unix(PathBuf),
    /// A stream Unix socket in the abstract namespace; the name without the leading NUL.
    Abstract(Vec<u8>),
    /// A datagram Unix socket with a path (`unix-dgram:`), for the exchanges of echoes and of
    /// lines only.
    UnixDatagram(PathBuf),
    /// A sequenced-packet Unix socket with a path (`unix-seqpacket:`), for the echo exchange only.
    UnixSeqpacket(PathBuf),
    /// A stream socketpair whose other end belongs to the fixture; each connection requests one
    /// over the Unix socket at this path (`socketpair:`).
    Socketpair(PathBuf),
}

/// A target as the user writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// `http://host:port/path` or `http://unix:/path/to.sock:/path`; `https` for TLS.
    ///
    /// The socket's path ends at the first `:/`, as in nginx's `proxy_pass`.
    Http {
        /// The endpoint.
        endpoint: Endpoint,
        /// Whether the connections speak TLS.
        tls: bool,
        /// The Host header: `host:port`, without the port if it is that of the scheme (80, 443);
        /// `localhost` for Unix sockets.
        authority: String,
        /// Path and query, beginning with a slash.
        path: String,
    },
    /// `tcp://host:port`, `udp://host:port`, `unix:/path`, `unix:@abstract`, …: bytes without HTTP.
    Raw(Endpoint),
}

/// A target that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a target: {why}", base::redact(text))]
pub struct TargetError {
    /// The text as typed.
    pub text: String,
    /// What is wrong, and what to write instead.
    pub why: String,
}

impl Target {
    /// Parses a target.
    ///
    /// `host:port/path` and `localhost/path` without a scheme are HTTP; HTTP without a port uses
    /// port 80, HTTPS port 443. What an address bar would accept but a benchmark must not guess
    /// (user names, spaces) is refused with a message that says what to write instead.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        read(text.trim()).map_err(|why| TargetError { text: text.to_owned(), why })
    }

    /// Parses an HTTP URL that is reached through a Unix socket, as with curl's `--unix-socket`.
    /// The URL still determines the Host header and the path; `socket` may be `@name` for an
    /// abstract socket.
    ///
    /// A URL without a host (`/path`), or an empty one, is on `localhost`.
    pub fn parse_with_unix_socket(text: &str, socket: &str) -> Result<Target, TargetError> {
        let url = match text.trim() {
            "" => "http://localhost/".to_owned(),
            path if path.starts_with('/') => format!("http://localhost{path}"),
            url => url.to_owned(),
        };
        let endpoint = unix_endpoint(socket).map_err(|why| TargetError {
            text: socket.to_owned(),
            why: format!("as --unix-socket, {why}"),
        })?;
        match Target::parse(&url)? {
            Target::Http { endpoint: Endpoint::Tcp { .. }, tls, authority, path } => {
                Ok(Target::Http { endpoint, tls, authority, path })
            }
            _ => Err(TargetError {
                text: text.to_owned(),
                why: "with --unix-socket, use a URL such as http://localhost/path".to_owned(),
            }),
        }
    }

    /// Parses a target with placeholders for the runner's variables.
    pub(crate) fn parse_with_placeholders(text: &str) -> Result<Target, String> {
        let value = |name: &str| match name {
            _ if name.starts_with("PORT") => Some("1".into()),
            _ if name.starts_with("SOCKET") => Some("/socket".into()),
            "CPUS" => Some("1".into()),
            "HOST" => Some(variables::LOOPBACK.into()),
            "ADDRESS" | "GATEWAY" => Some("10.0.0.1".into()),
            _ => Some("/folder".into()),
        };
        Target::parse(&variables::replace(text, value)).map_err(|error| error.why)
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        match self {
            Target::Http { endpoint, .. } | Target::Raw(endpoint) => endpoint,
        }
    }

    /// The name that the server's certificate must be for, if the target speaks TLS: a host name or
    /// an address (IPv6 without brackets).
    pub fn server_name(&self) -> Option<&str> {
        let Target::Http { tls: true, authority, .. } = self else { return None };
        let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => authority.split_once(':').map_or(authority.as_str(), |(host, _)| host),
        };
        Some(host)
    }
}

impl Endpoint {
    /// Whether bytes pass through the IP stack rather than a Unix socket.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Endpoint::Tcp { .. })
    }

    /// Whether it takes datagrams: nothing shows the sender which of them arrived.
    pub fn is_datagram(&self) -> bool {
        matches!(self, Endpoint::Udp { .. } | Endpoint::UnixDatagram(_))
    }
}

fn read(text: &str) -> Result<Target, String> {
    if text.is_empty() {
        return Err("it is empty; write one such as http://127.0.0.1:8000/".to_owned());
    }
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Err(format!("it contains the control character {}", c.escape_default()));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        return match scheme.to_ascii_lowercase().as_str() {
            "http" => http(rest, false),
            "https" => http(rest, true),
            "tcp" => {
                port_of("tcp", rest).map(|(host, port)| Target::Raw(Endpoint::Tcp { host, port }))
            }
            "udp" => {
                port_of("udp", rest).map(|(host, port)| Target::Raw(Endpoint::Udp { host, port }))
            }
            "unix" => unix_endpoint(rest).map(Target::Raw),
            "http+unix" => Err("write the socket as http://unix:/path/to.sock:/path".to_owned()),
            _ => Err(format!("'{scheme}://' is not a supported scheme; {SCHEMES}")),
        };
    }
    if let Some((kind, path)) = text.split_once(':') {
        let endpoint = match kind {
            "unix-dgram" => Endpoint::UnixDatagram,
            "unix-seqpacket" => Endpoint::UnixSeqpacket,
            "socketpair" => Endpoint::Socketpair,
            "unix" => return unix_endpoint(path).map(Target::Raw),
            _ => return bare(text),
        };
        return Ok(Target::Raw(endpoint(socket_path(path)?)));
    }
    bare(text)
}

const SCHEMES: &str = "use http://host:port/path, http://unix:/path/to.sock:/path, \
    tcp://host:port or unix:/path/to.sock";

/// Text without a scheme is HTTP if it begins like `host:port` or `localhost`.
fn bare(text: &str) -> Result<Target, String> {
    if text.starts_with('/') || text.starts_with("./") {
        return Err(format!(
            "for a Unix socket write http://unix:{text}:/ (HTTP) or unix:{text} (raw bytes)"
        ));
    }
    if text.starts_with('@') {
        return Err(format!(
            "for an abstract Unix socket write http://unix:{text}:/ (HTTP) or unix:{text} (raw bytes)"
        ));
    }
    let authority = &text[..text.find(['/', '?', '#']).unwrap_or(text.len())];
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    if has_port || authority.eq_ignore_ascii_case("localhost") || authority.starts_with('[') {
        return http(text, false);
    }
    Err(SCHEMES.to_owned())
}

fn http(rest: &str, tls: bool) -> Result<Target, String> {
    if let Some(rest) = rest.strip_prefix("unix:") {
        let (socket, path) = match rest.find(":/") {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, "/"),
        };
        let endpoint = unix_endpoint(socket)?;
        return Ok(Target::Http {
            endpoint,
            tls,
            authority: "localhost".to_owned(),
            path: request_path(path)?,
        });
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, port) = host_and_port(&rest[..end])?;
    let default_port = if tls { 443 } else { 80 };
    let port = port.unwrap_or(default_port);
    let path = request_path(&rest[end..])?;
    let authority = authority(&host, port, Some(default_port));
    Ok(Target::Http { endpoint: Endpoint::Tcp { host, port }, tls, authority, path })
}

/// Host and port of a raw target with this scheme.
fn port_of(scheme: &str, rest: &str) -> Result<(String, u16), String> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('/') {
        return Err(format!("{scheme}:// needs a host and a port, without a path"));
    }
    match host_and_port(rest)? {
        (host, Some(port)) => Ok((host, port)),
        (host, None) => {
            Err(format!("the port is missing; write {scheme}://{}:PORT", bracketed(&host)))
        }
    }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    if let Some((_, host)) = text.rsplit_once('@') {
        return Err(format!(
            "a user name in a URL is not supported; write {host} and add -H 'Authorization: …'"
        ));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) =
                rest.split_once(']').ok_or("the bracket of the IPv6 address is not closed")?;
            host.parse::<Ipv6Addr>().map_err(|_| format!("'{host}' is not an IPv6 address"))?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err("the IPv6 address must be followed by :PORT".to_owned()),
            }
        }
        None if text.matches(':').count() > 1 => {
            return Err("an IPv6 address goes in brackets: http://[::1]:8000/".to_owned());
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            check_host(host)?;
            (host, port)
        }
    };
    Ok((host.to_owned(), port.map(read_port).transpose()?))
}

fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("the host is missing; for this machine write 127.0.0.1 or localhost".to_owned());
    }
    match host.chars().find(|c| !(c.is_ascii_alphanumeric() || "-._".contains(*c))) {
        Some(c) => Err(format!("a host name cannot contain '{c}'")),
        None => Ok(()),
    }
}

fn read_port(port: &str) -> Result<u16, String> {
    match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
        _ if port.is_empty() => Err("the port after the colon is missing".to_owned()),
        _ => Err(format!("'{port}' is not a port; ports are 1 to 65535")),
    }
}

/// The request target: begins with a slash; the fragment is removed because it is never sent.
fn request_path(text: &str) -> Result<String, String> {
    let text = text.split('#').next().unwrap_or_default();
    if let Some(c) = text.chars().find(|c| !c.is_ascii_graphic()) {
        let mut bytes = [0; 4];
        let encoded: String =
            c.encode_utf8(&mut bytes).bytes().map(|b| format!("%{b:02X}")).collect();
        return Err(format!("'{c}' in the path must be written as {encoded}"));
    }
    Ok(if text.starts_with('/') { text.to_owned() } else { format!("/{text}") })
}

fn unix_endpoint(text: &str) -> Result<Endpoint, String> {
    match text.strip_prefix('@') {
        Some("") => Err("the abstract socket's name is missing after '@'".to_owned()),
        Some(name) => {
            check_socket_name(name)?;
            Ok(Endpoint::Abstract(name.as_bytes().to_vec()))
        }
        None => socket_path(text).map(Endpoint::Unix),
    }
}

fn socket_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("the path of the socket is missing".to_owned());
    }
    // Programs that expect URLs write `unix:///run/app.sock` for `unix:/run/app.sock`.
    let text = match text.trim_start_matches('/') {
        rest if text.starts_with('/') => &text[text.len() - rest.len() - 1..],
        _ => text,
    };
    if text.starts_with('@') {
        return Err("only stream sockets may be abstract".to_owned());
    }
    check_socket_name(text)?;
    Ok(PathBuf::from(text))
}

fn check_socket_name(name: &str) -> Result<(), String> {
    if name.len() > SOCKET_PATH_BYTES_MAX {
        return Err(format!(
            "the path of a Unix socket can have at most {SOCKET_PATH_BYTES_MAX} bytes, not {}; \
             use a shorter folder such as /tmp",
            name.len()
        ));
    }
    if name.contains('\0') {
        return Err("the path of a socket cannot contain a NUL".to_owned());
    }
    if name.contains(":/") || name.ends_with(':') {
        return Err("the path of a socket cannot contain ':/' or end with ':', because the \
            request's path begins there"
            .to_owned());
    }
    Ok(())
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn authority(host: &str, port: u16, default_port: Option<u16>) -> String {
    if Some(port) == default_port { bracketed(host) } else { format!("{}:{port}", bracketed(host)) }
}

impl fmt::Display for Endpoint {
    /// The part after `http://`, or after the scheme of a raw target: `127.0.0.1:8000`,
    /// `unix:/path/to.sock`, `unix:@abstract`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Endpoint::Tcp { host, port } | Endpoint::Udp { host, port } => {
                authority(host, *port, None)
            }
            Endpoint::Unix(path) => format!("unix:{}", path.display()),
            Endpoint::Abstract(name) => format!("unix:@{}", String::from_utf8_lossy(name)),
            Endpoint::UnixDatagram(path) => format!("unix-dgram:{}", path.display()),
            Endpoint::UnixSeqpacket(path) => format!("unix-seqpacket:{}", path.display()),
            Endpoint::Socketpair(path) => format!("socketpair:{}", path.display()),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Target {
    /// The form that [`Target::parse`] reads. The Host header of a URL that was combined with
    /// `--unix-socket` is not included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Http { endpoint, tls, path, .. } => {
                let scheme = if *tls { "https" } else { "http" };
                let separator = if endpoint.is_tcp() { "" } else { ":" };
                f.pad(&format!("{scheme}://{endpoint}{separator}{path}"))
            }
            Target::Raw(endpoint) if endpoint.is_tcp() => f.pad(&format!("tcp://{endpoint}")),
            Target::Raw(endpoint @ Endpoint::Udp { .. }) => f.pad(&format!("udp://{endpoint}")),
            Target::Raw(endpoint) => endpoint.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
