//! The address of a server: `hive://[user@]host[:port][/database]`.

use std::fmt;
use std::str::FromStr;

/// HiveServer2's usual port.
const PORT: u16 = 10_000;

/// Where a server listens, and which database is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The user, if the URL names one.
    pub user: Option<String>,
    /// The host: a name or an IP address, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The database; `default` if the URL names none.
    pub database: String,
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another form.
    #[error("use hive://[user@]host[:port][/database]")]
    Form,
    /// A password in the URL, where other users of the machine can see it.
    #[error(
        "a password does not belong in the URL, where other users can see it: use --password-file, \
         or TACHOGRAPH_HIVE_PASSWORD in the environment"
    )]
    Password,
    /// Options, which have flags instead.
    #[error("'{0}' is not supported in the URL; use the options of the command line")]
    Options(String),
    /// A name that no database has.
    #[error("'{0}' is not the name of a database: letters, digits and _ are allowed")]
    Database(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let rest = text.strip_prefix("hive://").ok_or(AddressError::Form)?;
        if let Some(at) = rest.find(['?', ';', '#']) {
            return Err(AddressError::Options(rest[at..].to_owned()));
        }
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => return Err(AddressError::Password),
            Some(("", _)) => return Err(AddressError::Form),
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, authority),
        };
        let (host, port) = host_and_port(place).ok_or(AddressError::Form)?;
        let database = match database.strip_suffix('/').unwrap_or(database) {
            "" => "default",
            name if crate::sql::is_name(name) => name,
            name => return Err(AddressError::Database(name.to_owned())),
        };
        Ok(Address { user, host: host.to_owned(), port, database: database.to_owned() })
    }
}

fn host_and_port(place: &str) -> Option<(&str, u16)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|port| *port > 0))?;
    (!host.is_empty()).then_some((host, port))
}

impl fmt::Display for Address {
    /// `host:port`, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = if self.host.contains(':') { ["[", "]"] } else { ["", ""] };
        f.pad(&format!("{}{}{}:{}", brackets[0], self.host, brackets[1], self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_usually_more() {
        let parse = |text: &str| text.parse::<Address>().unwrap();
        let full = parse("hive://ada@db.example:10001/metrics");
        assert_eq!(full.user.as_deref(), Some("ada"));
        assert_eq!((full.host.as_str(), full.port), ("db.example", 10_001));
        assert_eq!(full.database, "metrics");
        let short = parse("hive://db");
        assert_eq!((short.user, short.port), (None, 10_000));
        assert_eq!(short.database, "default");
        assert_eq!(parse("hive://[::1]:7/").to_string(), "[::1]:7");
        assert_eq!(parse("hive://[::1]").port, 10_000);
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<Address>().unwrap_err();
        for text in ["db:10000", "hive://", "hive://:10000", "hive://db:x", "hive://db:0"] {
            assert_eq!(refused(text), AddressError::Form, "{text}");
        }
        assert_eq!(refused("hive://[::1"), AddressError::Form);
        assert_eq!(refused("hive://@db"), AddressError::Form);
        assert_eq!(refused("hive://ada:secret@db/m"), AddressError::Password);
        let options = refused("hive://db/m;principal=hive/_HOST@R");
        assert!(options.to_string().starts_with("';principal=hive/_HOST@R' is not supported"));
        assert!(refused("hive://db/a-b").to_string().starts_with("'a-b' is not the name"));
    }
}
