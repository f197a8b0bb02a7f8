//! The mechanisms PLAIN (RFC 4616) and GSSAPI (RFC 4752): what the client answers to each message.

use crate::error::Fault;
use crate::kerberos::Context;
use crate::qop::Qop;

/// The client's side of a mechanism.
pub(crate) trait Client {
    /// The name of the mechanism.
    fn name(&self) -> &'static str;

    /// The first message.
    fn first(&mut self) -> Result<Vec<u8>, Fault>;

    /// The answer to a message of the server.
    fn answer(&mut self, challenge: &[u8]) -> Result<Vec<u8>, Fault>;

    /// Whether the last message has been made.
    fn is_complete(&self) -> bool;

    /// What protects the messages after the login.
    fn layer(self: Box<Self>) -> Option<Layer>;
}

/// A user with a password.
pub(crate) struct PlainMechanism {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) is_sent: bool,
}

impl Client for PlainMechanism {
    fn name(&self) -> &'static str {
        "PLAIN"
    }

    fn first(&mut self) -> Result<Vec<u8>, Fault> {
        self.is_sent = true;
        // No identity to act as, then the user and the password.
        Ok(format!("\0{}\0{}", self.user, self.password).into_bytes())
    }

    fn answer(&mut self, _: &[u8]) -> Result<Vec<u8>, Fault> {
        Err(Fault::Late("PLAIN has one message"))
    }

    fn is_complete(&self) -> bool {
        self.is_sent
    }

    fn layer(self: Box<Self>) -> Option<Layer> {
        None
    }
}

/// What GSSAPI needs of a security context, so that tests can do without a KDC.
pub(crate) trait Security {
    fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, Fault>;
    fn is_established(&self) -> bool;
    fn wrap(&mut self, message: &[u8], encrypt: bool) -> Result<Vec<u8>, Fault>;
    fn unwrap(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), Fault>;
    fn wrap_limit(&self, bytes_max: u32, encrypt: bool) -> Result<u32, Fault>;
}

impl Security for Context {
    fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, Fault> {
        Ok(Context::step(self, token)?)
    }

    fn is_established(&self) -> bool {
        Context::is_established(self)
    }

    fn wrap(&mut self, message: &[u8], encrypt: bool) -> Result<Vec<u8>, Fault> {
        Ok(Context::wrap(self, message, encrypt)?)
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), Fault> {
        Ok(Context::unwrap(self, token)?)
    }

    fn wrap_limit(&self, bytes_max: u32, encrypt: bool) -> Result<u32, Fault> {
        Ok(Context::wrap_limit(self, bytes_max, encrypt)?)
    }
}

/// Where a login by Kerberos is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Tokens are exchanged until both sides have proved their identity.
    Tokens,
    /// The server offers layers of protection, and the client chooses one.
    Offer,
    /// The choice has been made.
    Chosen {
        /// The longest message that the server takes, in bytes.
        bytes_max: u32,
    },
}

/// Kerberos 5.
pub(crate) struct Gssapi<S> {
    security: S,
    qop: Qop,
    stage: Stage,
}

/// The longest protected message that we take, in bytes: the largest number of three bytes.
const RECEIVE_MAX: u32 = 0x00ff_ffff;

impl<S: Security> Gssapi<S> {
    pub(crate) fn new(security: S, qop: Qop) -> Gssapi<S> {
        Gssapi { security, qop, stage: Stage::Tokens }
    }

    fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, Fault> {
        let answer = self.security.step(token)?;
        if self.security.is_established() {
            self.stage = Stage::Offer;
        }
        Ok(answer)
    }

    /// Takes the offer, which is protected against changes, and chooses: RFC 4752, section 3.1.
    fn choose(&mut self, offer: &[u8]) -> Result<Vec<u8>, Fault> {
        let (offer, _) = self.security.unwrap(offer)?;
        let &[layers, a, b, c] = offer.as_slice() else {
            return Err(Fault::Offer(offer.len()));
        };
        if layers & self.qop.bit() == 0 {
            let offered = Qop::ALL.into_iter().filter(|qop| layers & qop.bit() != 0).collect();
            return Err(Fault::Qop { wanted: self.qop, offered });
        }
        self.stage = Stage::Chosen { bytes_max: u32::from_be_bytes([0, a, b, c]) };
        // Without a layer, the size must be zero. No identity to act as follows.
        let size = if self.qop == Qop::Auth { 0 } else { RECEIVE_MAX };
        let [_, a, b, c] = size.to_be_bytes();
        self.security.wrap(&[self.qop.bit(), a, b, c], false)
    }
}

impl<S: Security + 'static> Client for Gssapi<S> {
    fn name(&self) -> &'static str {
        "GSSAPI"
    }

    fn first(&mut self) -> Result<Vec<u8>, Fault> {
        self.step(&[])
    }

    fn answer(&mut self, challenge: &[u8]) -> Result<Vec<u8>, Fault> {
        match self.stage {
            Stage::Tokens => self.step(challenge),
            Stage::Offer => self.choose(challenge),
            Stage::Chosen { .. } => Err(Fault::Late("the security layer has been chosen")),
        }
    }

    fn is_complete(&self) -> bool {
        matches!(self.stage, Stage::Chosen { .. })
    }

    fn layer(self: Box<Self>) -> Option<Layer> {
        let Stage::Chosen { bytes_max } = self.stage else { return None };
        let encrypt = match self.qop {
            Qop::Auth => return None,
            Qop::Int => false,
            Qop::Conf => true,
        };
        Some(Layer { security: Box::new(self.security), encrypt, bytes_max })
    }
}

/// Protects the messages after a login.
pub(crate) struct Layer {
    security: Box<dyn Security>,
    encrypt: bool,
    bytes_max: u32,
}

impl Layer {
    /// The protected forms of a message: several if one would be too long for the server.
    pub(crate) fn wrap(&mut self, message: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
        // Servers that state no size take any.
        let size = match self.bytes_max {
            0 => message.len(),
            limit => self.security.wrap_limit(limit, self.encrypt)? as usize,
        };
        let parts = message.chunks(size.max(1));
        parts.map(|part| self.security.wrap(part, self.encrypt)).collect()
    }

    /// The content of a protected message.
    pub(crate) fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, Fault> {
        let (message, encrypted) = self.security.unwrap(token)?;
        if self.encrypt && !encrypted { Err(Fault::Bare) } else { Ok(message) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A context that is established by its second token and "protects" by a letter.
    #[derive(Default)]
    pub(crate) struct PretendSecurity {
        steps: u32,
    }

    impl Security for PretendSecurity {
        fn step(&mut self, _: &[u8]) -> Result<Vec<u8>, Fault> {
            self.steps += 1;
            Ok(if self.steps == 1 { b"hello".to_vec() } else { Vec::new() })
        }

        fn is_established(&self) -> bool {
            self.steps == 2
        }

        fn wrap(&mut self, message: &[u8], encrypt: bool) -> Result<Vec<u8>, Fault> {
            Ok([if encrypt { b"c" } else { b"i" }, message].concat())
        }

        fn unwrap(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), Fault> {
            Ok((token[1..].to_vec(), token[0] == b'c'))
        }

        fn wrap_limit(&self, bytes_max: u32, _: bool) -> Result<u32, Fault> {
            Ok(bytes_max - 1)
        }
    }

    pub(crate) fn pretended(qop: Qop) -> Gssapi<PretendSecurity> {
        Gssapi::new(PretendSecurity::default(), qop)
    }

    fn choose(qop: Qop, offer: &[u8]) -> Result<(Gssapi<PretendSecurity>, Vec<u8>), Fault> {
        let mut client = pretended(qop);
        assert_eq!(client.first().unwrap(), b"hello");
        assert_eq!(client.answer(b"server").unwrap(), b"");
        let choice = client.answer(offer)?;
        assert!(client.is_complete());
        Ok((client, choice))
    }

    #[test]
    fn plain_is_one_message() {
        let mut plain = PlainMechanism {
            user: "ada".to_owned(),
            password: "secret".to_owned(),
            is_sent: false,
        };
        assert!(!plain.is_complete());
        assert_eq!(plain.first().unwrap(), b"\0ada\0secret");
        assert!(plain.is_complete());
        assert!(plain.answer(b"").is_err());
    }

    #[test]
    fn a_layer_is_chosen_among_those_offered() {
        let (_, choice) = choose(Qop::Auth, b"i\x07\x01\0\0").unwrap();
        assert_eq!(choice, b"i\x01\0\0\0");
        let (_, choice) = choose(Qop::Int, b"i\x06\x01\0\0").unwrap();
        assert_eq!(choice, b"i\x02\xff\xff\xff");
        let (_, choice) = choose(Qop::Conf, b"i\x04\x01\0\0").unwrap();
        assert_eq!(choice, b"i\x04\xff\xff\xff");
    }

    #[test]
    fn a_layer_that_is_not_offered_is_named() {
        let refused = |qop, offer: &[u8]| choose(qop, offer).map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            refused(Qop::Auth, b"i\x04\x01\0\0"),
            "the server refuses --qop auth: it offers only auth-conf; use --qop auth-conf"
        );
        assert_eq!(
            refused(Qop::Conf, b"i\x03\x01\0\0"),
            "the server refuses --qop auth-conf: it offers auth and auth-int; use one of these"
        );
        assert_eq!(
            refused(Qop::Conf, b"i\0\x01\0\0"),
            "the server refuses --qop auth-conf: it offers nothing that tachograph supports"
        );
        assert_eq!(
            refused(Qop::Conf, b"i\0"),
            "the server's offer of security layers has 1 bytes instead of 4"
        );
    }

    #[test]
    fn long_messages_are_protected_in_parts_and_bare_ones_refused() {
        let (client, _) = choose(Qop::Conf, b"i\x04\0\0\x05").unwrap();
        let mut layer = (Box::new(client) as Box<dyn Client>).layer().unwrap();
        assert_eq!(layer.wrap(b"123456").unwrap(), [b"c1234".to_vec(), b"c56".to_vec()]);
        assert_eq!(layer.unwrap(b"canswer").unwrap(), b"answer");
        assert!(matches!(layer.unwrap(b"ianswer"), Err(Fault::Bare)));
        let (client, _) = choose(Qop::Auth, b"i\x01\0\0\0").unwrap();
        assert!((Box::new(client) as Box<dyn Client>).layer().is_none());
    }
}
