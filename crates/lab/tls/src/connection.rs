//! One connection: rustls' state, and the bytes that it leaves between two reads.

use base::{Nanos, monotonic_now};
use netio::{Handshake, TlsFailure};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus,
};
use rustls::{HandshakeKind, ProtocolVersion};

use crate::client::Client;
use crate::failure::failure;

/// What a record adds to its content at most: header, nonce or content type, and tag (RFC 8446, 5.2;
/// RFC 5288, 3), with room to spare.
const RECORD_OVERHEAD: usize = 64;

/// The content of a record (RFC 8446, 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;

/// One connection of a client.
pub(crate) struct Connection {
    tls: UnbufferedClientConnection,
    /// Received bytes that are not a whole record yet.
    incoming: Vec<u8>,
    /// When the handshake began.
    begun: Nanos,
    /// Whether the keys are agreed on.
    agreed: bool,
    /// Whether the server has said that it will send no more.
    peer_closed: bool,
}

impl Connection {
    pub(crate) fn new(client: &Client) -> Result<Connection, TlsFailure> {
        Ok(Connection {
            tls: client.begin().map_err(|error| failure(&error))?,
            incoming: Vec::new(),
            begun: monotonic_now(),
            agreed: false,
            peer_closed: false,
        })
    }

    /// Whether the keys are agreed on.
    pub(crate) fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// Whether the server has said that it will send no more.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// The protocol that the server has chosen (ALPN).
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// What the handshake that has just ended was.
    pub(crate) fn handshake(&self) -> Handshake {
        Handshake {
            took: monotonic_now().saturating_sub(self.begun),
            resumed: self.tls.handshake_kind() == Some(HandshakeKind::Resumed),
            version: match self.tls.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
                _ => "TLS 1.2",
            },
            cipher: self
                .tls
                .negotiated_cipher_suite()
                .and_then(|suite| suite.suite().as_str())
                .unwrap_or("unknown"),
        }
    }

    /// Processes received bytes, none to begin. Adds what they contain to `plain`, and what to send
    /// to `outgoing`, also after an error: the server learns why.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), TlsFailure> {
        self.incoming.extend_from_slice(bytes);
        let mut used = 0;
        let outcome = loop {
            let UnbufferedStatus { mut discard, state } =
                self.tls.process_tls_records(&mut self.incoming[used..]);
            let goes_on = match state {
                Err(error) => Err(failure(&error)),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
                    match traffic.next_record() {
                        None => break Ok(true),
                        Some(Ok(record)) => {
                            discard += record.discard;
                            plain.extend_from_slice(record.payload);
                        }
                        Some(Err(error)) => break Err(failure(&error)),
                    }
                },
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, outgoing).map(|()| true),
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    Ok(true)
                }
                Ok(ConnectionState::WriteTraffic(_)) => {
                    self.agreed = true;
                    Ok(false)
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.peer_closed = true;
                    Ok(false)
                }
                Ok(_) => Ok(false),
            };
            used += discard;
            match goes_on {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.incoming.drain(..used);
        if outcome.is_err() {
            self.alert(outgoing);
        }
        outcome
    }

    /// Adds the alert that follows an error, if there is one.
    fn alert(&mut self, outgoing: &mut Vec<u8>) {
        let UnbufferedStatus { state, .. } = self.tls.process_tls_records(&mut []);
        if let Ok(ConnectionState::EncodeTlsData(data)) = state {
            // Without the alert the server sees only the close.
            let _ = encode(data, outgoing);
        }
    }

    /// Adds a message to `outgoing`, encrypted. Only once the keys are agreed on.
    pub(crate) fn send(
        &mut self,
        message: &[u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<(), TlsFailure> {
        let room = message.len() + (message.len() / RECORD_BYTES_MAX + 1) * RECORD_OVERHEAD;
        loop {
            // What has arrived and was not used is no whole record, so nothing of it is used here.
            let UnbufferedStatus { state, .. } = self.tls.process_tls_records(&mut self.incoming);
            match state.map_err(|error| failure(&error))? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    return fill(outgoing, room, |room| match traffic.encrypt(message, room) {
                        Err(EncryptError::InsufficientSize(needed)) => Err(Some(needed)),
                        other => other.map_err(|_| None),
                    });
                }
                // A key update, which goes first.
                ConnectionState::EncodeTlsData(data) => encode(data, outgoing)?,
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.peer_closed = true,
                _ => return Err(TlsFailure::Broken),
            }
        }
    }

    /// Adds the announcement that nothing more will be sent (RFC 8446, 6.1), if the server still
    /// listens.
    pub(crate) fn say_goodbye(&mut self, outgoing: &mut Vec<u8>) {
        if !self.agreed || self.peer_closed {
            return;
        }
        let UnbufferedStatus { state, .. } = self.tls.process_tls_records(&mut self.incoming);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            // Without the announcement the server sees only the close.
            let _ =
                fill(outgoing, RECORD_OVERHEAD, |room| match traffic.queue_close_notify(room) {
                    Err(EncryptError::InsufficientSize(needed)) => Err(Some(needed)),
                    other => other.map_err(|_| None),
                });
        }
    }
}

/// Adds a record of the handshake.
fn encode(
    mut data: EncodeTlsData<'_, ClientConnectionData>,
    outgoing: &mut Vec<u8>,
) -> Result<(), TlsFailure> {
    fill(outgoing, RECORD_OVERHEAD, |room| match data.encode(room) {
        Err(EncodeError::InsufficientSize(needed)) => Err(Some(needed)),
        other => other.map_err(|_| None),
    })
}

/// Adds to `outgoing` what `write` puts into so much room at its end, with more room if it needs
/// that.
fn fill(
    outgoing: &mut Vec<u8>,
    mut room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) -> Result<(), TlsFailure> {
    let before = outgoing.len();
    loop {
        outgoing.resize(before + room, 0);
        match write(&mut outgoing[before..]) {
            Ok(written) => {
                outgoing.truncate(before + written);
                return Ok(());
            }
            Err(Some(needed)) if needed.required_size > room => room = needed.required_size,
            Err(_) => {
                outgoing.truncate(before);
                return Err(TlsFailure::Broken);
            }
        }
    }
}
