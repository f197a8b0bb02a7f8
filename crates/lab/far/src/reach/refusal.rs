//! What ssh means by its messages.
//!
//! ssh reports all its own failures by the status 255; only its messages on standard error say why.
//! They are not translated (ssh sets `LC_CTYPE` only), and have been the same for many years.

use crate::reach::Cause;

/// The cause in ssh's messages; `None` if there is none that is known.
///
/// With a jump host, the messages of the ssh that reaches it come first, so the first line that is
/// known is the cause, and it names the host that it is about.
pub(crate) fn cause(said: &str) -> Option<Cause> {
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    lines.iter().find_map(|line| of_line(line, &lines))
}

fn of_line(line: &str, lines: &[&str]) -> Option<Cause> {
    let has = |part: &str| line.contains(part);
    let said = line.to_owned();
    // In ssh's box of @ signs.
    if has("REMOTE HOST IDENTIFICATION HAS CHANGED") || has("REVOKED HOST KEY DETECTED") {
        return Some(Cause::HostKeyChanged { recorded: recorded(lines) });
    }
    if has("key is known for") && has("requested strict checking") {
        return Some(Cause::HostKeyUnknown { said });
    }
    if line == "Host key verification failed." {
        return Some(Cause::HostKeyUnknown { said });
    }
    if has("Permission denied (") {
        return Some(Cause::KeyRefused { said: refused_with(line, lines) });
    }
    if has("Too many authentication failures") {
        return Some(Cause::KeyRefused { said });
    }
    if has("Could not resolve hostname") {
        return Some(Cause::NameUnknown { said });
    }
    if has("Connection refused") {
        return Some(Cause::Refused { said });
    }
    if has("No route to host") || has("Network is unreachable") {
        return Some(Cause::NoRoute { said });
    }
    if has("timed out") || (line.starts_with("Timeout, server") && has("not responding")) {
        return Some(Cause::TimedOut { said });
    }
    let closed = ["Connection reset by", "Connection closed by", "closed by remote host"];
    if closed.iter().any(|part| has(part)) {
        return Some(Cause::Closed { said });
    }
    let config = ["Bad configuration option", "bad configuration option", "terminating, "];
    if config.iter().any(|part| has(part)) || has("Can't open user config file") {
        return Some(Cause::Config { said });
    }
    None
}

/// Where the key was recorded that is no longer the host's: `FILE:LINE`.
fn recorded(lines: &[&str]) -> String {
    let offending = lines.iter().find_map(|line| {
        let rest = line.strip_prefix("Offending ")?;
        rest.split_once(" in ").map(|(_, place)| place.to_owned())
    });
    offending.unwrap_or_else(|| "known_hosts".to_owned())
}

/// ssh says before a refusal why it could not use a key.
fn refused_with(line: &str, lines: &[&str]) -> String {
    let about_key = |line: &&&str| {
        line.starts_with("Load key ")
            || line.starts_with("sign_and_send_pubkey")
            || line.contains("UNPROTECTED PRIVATE KEY FILE")
    };
    match lines.iter().find(about_key) {
        Some(why) => format!("{}; {line}", why.trim_matches(['@', ' '])),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGED: &str = "\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r
Add correct host key in /home/ann/.ssh/known_hosts to get rid of this message.\r
Offending ED25519 key in /home/ann/.ssh/known_hosts:3\r
Host key for db1 has changed and you have requested strict checking.\r
Host key verification failed.\r
";

    #[test]
    fn messages_have_causes() {
        let said = |text: &str| text.to_owned();
        let unknown =
            "No ED25519 host key is known for db1 and you have requested strict checking.";
        let refused = "root@db1: Permission denied (publickey).";
        let dns = "ssh: Could not resolve hostname nope: Name or service not known";
        let cases = [
            (CHANGED, Cause::HostKeyChanged { recorded: said("/home/ann/.ssh/known_hosts:3") }),
            (
                &format!(
                    "Pseudo-terminal will not\r\n{unknown}\r\nHost key verification failed.\r\n"
                ),
                Cause::HostKeyUnknown { said: said(unknown) },
            ),
            (refused, Cause::KeyRefused { said: said(refused) }),
            (
                "Load key \"/k\": bad permissions\r\nroot@db1: Permission denied (publickey).\r\n",
                Cause::KeyRefused { said: format!("Load key \"/k\": bad permissions; {refused}") },
            ),
            (dns, Cause::NameUnknown { said: said(dns) }),
            (
                "ssh: connect to host db1 port 22: Connection refused",
                Cause::Refused {
                    said: said("ssh: connect to host db1 port 22: Connection refused"),
                },
            ),
            (
                "ssh: connect to host db1 port 22: No route to host",
                Cause::NoRoute { said: said("ssh: connect to host db1 port 22: No route to host") },
            ),
            (
                "Connection timed out during banner exchange\r\nConnection to db1 port 22 timed out",
                Cause::TimedOut { said: said("Connection timed out during banner exchange") },
            ),
            (
                "Timeout, server db1 not responding.\r\n",
                Cause::TimedOut { said: said("Timeout, server db1 not responding.") },
            ),
            (
                "kex_exchange_identification: Connection closed by remote host\r\n",
                Cause::Closed {
                    said: said("kex_exchange_identification: Connection closed by remote host"),
                },
            ),
            (
                "/c: line 1: Bad configuration option: wonder\r\n/c: terminating, 1 bad",
                Cause::Config { said: said("/c: line 1: Bad configuration option: wonder") },
            ),
            // A jump host that refuses the key.
            (
                "root@db1: Permission denied (publickey).\r\nkex_exchange_identification: Connection \
                 closed by remote host\r\nConnection closed by UNKNOWN port 65535\r\n",
                Cause::KeyRefused { said: said(refused) },
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(cause(text), Some(expected), "{text}");
        }
        assert_eq!(cause("Welcome to db1!\n"), None);
    }
}
