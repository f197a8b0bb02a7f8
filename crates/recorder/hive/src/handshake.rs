//! The login: SASL's messages in the order of Thrift's `TSaslTransport`.

use std::io::{Read, Write};

use crate::error::{Fault, first_line};
use crate::frame::{FrameError, Message, Status};
use crate::mechanism::{Client, Layer};

/// Limit on the messages of the server; Kerberos needs three.
const MESSAGES_MAX: u32 = 16;

/// Logs in, and returns what protects the frames from then on.
///
/// The client names its mechanism and sends its first message; each side then answers with OK, or
/// with COMPLETE once its mechanism needs no more. The login ends when both have said COMPLETE.
pub(crate) fn log_in(
    stream: &mut (impl Read + Write),
    mut client: Box<dyn Client>,
) -> Result<Option<Layer>, Fault> {
    let first = client.first()?;
    let start = Message { status: Status::Start, payload: client.name().as_bytes().to_vec() };
    let mut bytes = start.to_bytes();
    bytes.extend(answer(&*client, first));
    send(stream, &bytes)?;
    for _ in 0..MESSAGES_MAX {
        let message = Message::read(stream).map_err(Fault::Login)?;
        match message.status {
            Status::Bad | Status::Error => {
                let text = String::from_utf8_lossy(&message.payload);
                return Err(Fault::Refused(first_line(&text)));
            }
            Status::Start => return Err(Fault::Late("it sent START, as a client does")),
            Status::Complete if client.is_complete() => return Ok(client.layer()),
            Status::Complete => return Err(Fault::Early),
            Status::Ok if client.is_complete() => {
                return Err(Fault::Late("it answered OK instead of COMPLETE"));
            }
            Status::Ok => {
                let payload = client.answer(&message.payload)?;
                send(stream, &answer(&*client, payload))?;
            }
        }
    }
    Err(Fault::Late("it did not end"))
}

fn answer(client: &dyn Client, payload: Vec<u8>) -> Vec<u8> {
    let status = if client.is_complete() { Status::Complete } else { Status::Ok };
    Message { status, payload }.to_bytes()
}

fn send(stream: &mut impl Write, bytes: &[u8]) -> Result<(), Fault> {
    let sent = stream.write_all(bytes).and_then(|()| stream.flush());
    sent.map_err(|error| Fault::Login(FrameError::Io(error)))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io;

    use super::*;
    use crate::mechanism::PlainMechanism;
    use crate::mechanism::tests::pretended;
    use crate::qop::Qop;

    /// A server whose messages are known beforehand.
    pub(crate) struct Script {
        answers: io::Cursor<Vec<u8>>,
        pub(crate) sent: Vec<u8>,
    }

    impl Script {
        pub(crate) fn new(answers: Vec<u8>) -> Script {
            Script { answers: io::Cursor::new(answers), sent: Vec::new() }
        }
    }

    impl Read for Script {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.answers.read(into)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.sent.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn script(answers: &[(Status, &[u8])]) -> Script {
        let bytes = answers
            .iter()
            .flat_map(|(status, payload)| {
                Message { status: *status, payload: payload.to_vec() }.to_bytes()
            })
            .collect();
        Script::new(bytes)
    }

    fn plain() -> Box<dyn Client> {
        Box::new(PlainMechanism { user: "a".to_owned(), password: "b".to_owned(), is_sent: false })
    }

    #[track_caller]
    fn fails(client: Box<dyn Client>, answers: &[(Status, &[u8])], text: &str) {
        let error = log_in(&mut script(answers), client).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn plain_is_complete_after_its_first_message() {
        let mut server = script(&[(Status::Complete, b"")]);
        assert!(log_in(&mut server, plain()).unwrap().is_none());
        assert_eq!(server.sent, b"\x01\0\0\0\x05PLAIN\x05\0\0\0\x04\0a\0b");
    }

    #[test]
    fn kerberos_goes_on_until_the_layer_is_chosen() {
        let mut server = script(&[
            (Status::Ok, b"server"),
            (Status::Ok, b"i\x07\xff\xff\xff"),
            (Status::Complete, b""),
        ]);
        assert!(log_in(&mut server, Box::new(pretended(Qop::Conf))).unwrap().is_some());
        let sent =
            b"\x01\0\0\0\x06GSSAPI\x02\0\0\0\x05hello\x02\0\0\0\0\x05\0\0\0\x05i\x04\xff\xff\xff";
        assert_eq!(server.sent, sent);
    }

    #[test]
    fn each_wrong_message_has_its_sentence() {
        let early = "the server ended the login early, before it had proved its identity; it may \
                     not be the server that you mean";
        let kerberos = || Box::new(pretended(Qop::Auth)) as Box<dyn Client>;
        fails(kerberos(), &[(Status::Complete, b"")], early);
        fails(kerberos(), &[(Status::Ok, b"server"), (Status::Complete, b"")], early);
        let refused = "the server refused the login: no such user";
        fails(plain(), &[(Status::Bad, b"no such user\n\tat java.lang")], refused);
        fails(plain(), &[(Status::Error, b"no such user")], refused);
        fails(plain(), &[(Status::Error, b"")], "the server refused the login: no reason");
        let more = "the server wants more after the last message of the login";
        fails(
            plain(),
            &[(Status::Ok, b"")],
            &format!("{more} (it answered OK instead of COMPLETE)"),
        );
        fails(
            plain(),
            &[(Status::Start, b"")],
            &format!("{more} (it sent START, as a client does)"),
        );
        let check = "while logging in; check that the port is that of the binary protocol, that \
                     --auth is the server's (hive.server2.authentication), and whether it speaks \
                     TLS (--tls)";
        fails(plain(), &[], &format!("the server closed the connection {check}"));
    }

    #[test]
    fn an_endless_login_ends() {
        struct EndlessClient;
        impl Client for EndlessClient {
            fn name(&self) -> &'static str {
                "ENDLESS"
            }
            fn first(&mut self) -> Result<Vec<u8>, Fault> {
                Ok(Vec::new())
            }
            fn answer(&mut self, _: &[u8]) -> Result<Vec<u8>, Fault> {
                Ok(Vec::new())
            }
            fn is_complete(&self) -> bool {
                false
            }
            fn layer(self: Box<Self>) -> Option<Layer> {
                None
            }
        }
        let answers = [(Status::Ok, &b"more"[..]); 100];
        let error = log_in(&mut script(&answers), Box::new(EndlessClient)).map(|_| ()).unwrap_err();
        assert!(error.to_string().ends_with("(it did not end)"), "{error}");
    }
}
