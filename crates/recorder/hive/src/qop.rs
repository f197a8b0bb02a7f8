//! What protects messages after a login by Kerberos.

use std::fmt;

/// Quality of protection after a login by Kerberos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qop {
    /// The login only.
    Auth,
    /// Messages cannot be changed.
    Int,
    /// Messages cannot be changed or read.
    Conf,
}

impl Qop {
    /// All of them, the weakest first.
    pub const ALL: [Qop; 3] = [Qop::Auth, Qop::Int, Qop::Conf];

    /// Its bit in an offer: RFC 4752, section 3.3.
    pub(crate) const fn bit(self) -> u8 {
        match self {
            Qop::Auth => 1,
            Qop::Int => 2,
            Qop::Conf => 4,
        }
    }
}

impl fmt::Display for Qop {
    /// The name in Hive's configuration (`hive.server2.thrift.sasl.qop`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Qop::Auth => "auth",
            Qop::Int => "auth-int",
            Qop::Conf => "auth-conf",
        })
    }
}
