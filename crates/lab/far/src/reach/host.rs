//! The name of a far machine, as people write it.

use std::fmt;
use std::str::FromStr;

/// A machine to reach: an alias of ~/.ssh/config or a host name, perhaps with a user and a port.
///
/// Written as for ssh(1): `HOST`, `USER@HOST` or `ssh://USER@HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    user: Option<String>,
    name: String,
    port: Option<u16>,
}

/// A name that is not passed to ssh.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a host: {why}; write HOST, USER@HOST or ssh://USER@HOST:PORT")]
pub struct HostError {
    text: String,
    why: &'static str,
}

/// Characters that mean something to a shell. ssh passes names to the user's ProxyCommand and
/// `Match exec`, and refuses these itself since OpenSSH 9.6 (CVE-2023-51385).
const OF_SHELLS: &str = "'`\"$\\;&<>|(){}*?[]!#~";

impl Host {
    /// The host's name or alias.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// ssh's arguments for this host, the last of which is the name.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(user) = &self.user {
            words.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(port) = self.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
        // What follows is no option, whatever it begins with.
        words.extend(["--".to_owned(), self.name.clone()]);
        words
    }

    /// The command with which a person logs in there, with this ssh and its first arguments.
    pub(crate) fn by_hand(&self, ssh: &[String]) -> String {
        let port = self.port.map(|port| format!("-p {port} ")).unwrap_or_default();
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        format!("{} {port}{user}{}", shell_words::join(ssh), self.name)
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Host, HostError> {
        let error = |why| HostError { text: text.escape_debug().to_string(), why };
        let (rest, port) = match text.strip_prefix("ssh://") {
            Some(rest) => port_of(rest.strip_suffix('/').unwrap_or(rest)).map_err(error)?,
            None => (text, None),
        };
        // A user name may contain an @, a host name may not.
        let (user, name) = match rest.rsplit_once('@') {
            Some((user, name)) => (Some(user), name),
            None => (None, rest),
        };
        let name = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(address) => address,
            None => name,
        };
        check(name).map_err(error)?;
        if let Some(user) = user {
            // A domain user of Windows is DOMAIN\user.
            check(&user.replacen('\\', "", 1)).map_err(error)?;
        }
        Ok(Host { user: user.map(str::to_owned), name: name.to_owned(), port })
    }
}

/// Splits `HOST:PORT` of a URL.
fn port_of(rest: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (name, port) = match rest.rsplit_once(':') {
        // The colons of an IPv6 address are within brackets.
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => return Ok((rest, None)),
    };
    match port.parse() {
        Ok(0) | Err(_) => Err("its port is not a number from 1 to 65535"),
        Ok(port) => Ok((name, Some(port))),
    }
}

fn check(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("a part of it is empty");
    }
    if name.starts_with('-') {
        return Err("it begins with '-'");
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("it contains spaces or control characters");
    }
    if name.contains(|c| OF_SHELLS.contains(c)) {
        return Err("it contains characters of shells");
    }
    if name.contains('/') {
        return Err("it contains '/'");
    }
    Ok(())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        match self.port {
            Some(port) if self.name.contains(':') => {
                f.pad(&format!("ssh://{user}[{}]:{port}", self.name))
            }
            Some(port) => f.pad(&format!("ssh://{user}{}:{port}", self.name)),
            None => f.pad(&format!("{user}{}", self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_written_as_for_ssh() {
        let cases: &[(&str, &[&str])] = &[
            ("db1", &["--", "db1"]),
            ("root@db1", &["-l", "root", "--", "db1"]),
            ("a@b@db1", &["-l", "a@b", "--", "db1"]),
            (r"CORP\ann@db1", &["-l", r"CORP\ann", "--", "db1"]),
            ("fe80::1%eth0", &["--", "fe80::1%eth0"]),
            ("[::1]", &["--", "::1"]),
            ("ssh://db1", &["--", "db1"]),
            ("ssh://db1:2222/", &["-p", "2222", "--", "db1"]),
            ("ssh://ann@[::1]:2222", &["-l", "ann", "-p", "2222", "--", "::1"]),
            ("ssh://[::1]", &["--", "::1"]),
        ];
        for (text, words) in cases {
            let host: Host = text.parse().unwrap();
            assert_eq!(host.arguments(), *words, "{text}");
            assert_eq!(host.to_string().parse(), Ok(host), "{text}");
        }
        let host: Host = "ssh://ann@db1:2222".parse().unwrap();
        let by_hand =
            |ssh: &[&str]| host.by_hand(&ssh.iter().map(|&w| w.to_owned()).collect::<Vec<_>>());
        assert_eq!(by_hand(&["ssh"]), "ssh -p 2222 ann@db1");
        assert_eq!(by_hand(&["ssh", "-F", "my lab"]), "ssh -F 'my lab' -p 2222 ann@db1");
    }

    #[test]
    fn what_ssh_or_a_shell_could_misread_is_refused() {
        let cases = [
            ("", "a part of it is empty"),
            ("root@", "a part of it is empty"),
            ("@db1", "a part of it is empty"),
            ("-oProxyCommand=x", "it begins with '-'"),
            ("root@-oProxyCommand=x", "it begins with '-'"),
            ("-l@db1", "it begins with '-'"),
            ("a b", "it contains spaces or control characters"),
            ("a\nb", "it contains spaces or control characters"),
            ("db1;reboot", "it contains characters of shells"),
            ("$(reboot)", "it contains characters of shells"),
            ("`x`@db1", "it contains characters of shells"),
            (r"db\1", "it contains characters of shells"),
            ("ssh://db1:0", "its port is not a number from 1 to 65535"),
            ("ssh://db1:70000", "its port is not a number from 1 to 65535"),
            ("ssh://db1:22/path", "its port is not a number from 1 to 65535"),
            ("http://db1", "it contains '/'"),
        ];
        for (text, why) in cases {
            let error = text.parse::<Host>().unwrap_err();
            assert_eq!(error.why, why, "{text}");
        }
        assert_eq!(
            "a\u{1b}b".parse::<Host>().unwrap_err().to_string(),
            "'a\\u{1b}b' is not a host: it contains spaces or control characters; write HOST, \
             USER@HOST or ssh://USER@HOST:PORT"
        );
    }
}
