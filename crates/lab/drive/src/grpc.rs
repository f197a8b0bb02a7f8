//! The response to a unary call by gRPC: one message, and a status at the end ("gRPC over HTTP2",
//! Responses).

use netio::GrpcFields;

use crate::fault::{Fault, GrpcFault};

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// What has arrived of a response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnaryReader {
    fields: GrpcFields,
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix so far.
    prefix_bytes: usize,
    /// Bytes of the message that are still to come.
    left: u64,
    messages: u64,
    is_compressed: bool,
}

impl UnaryReader {
    /// Headers or trailers say something.
    pub(crate) fn note(&mut self, fields: GrpcFields) {
        self.fields.is_grpc |= fields.is_grpc;
        self.fields.status = self.fields.status.or(fields.status);
    }

    /// Reads the next bytes, and gives those of the first message to `message`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut message: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let length = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                let (content, rest) = bytes.split_at(length);
                if self.messages == 1 {
                    message(content);
                }
                self.left -= length as u64;
                bytes = rest;
                continue;
            }
            let missing = PREFIX_BYTES - self.prefix_bytes;
            let (part, rest) = bytes.split_at(missing.min(bytes.len()));
            self.prefix[self.prefix_bytes..][..part.len()].copy_from_slice(part);
            self.prefix_bytes += part.len();
            bytes = rest;
            if self.prefix_bytes == PREFIX_BYTES {
                let [flag, length @ ..] = self.prefix;
                self.is_compressed |= flag != 0;
                self.left = u32::from_be_bytes(length).into();
                self.prefix_bytes = 0;
                self.messages += 1;
            }
        }
    }

    /// What is wrong with a response that has ended, whose status in HTTP is `http_status`.
    pub(crate) fn verdict(&self, http_status: u16) -> Result<(), Fault> {
        let fault = match self.fields {
            _ if http_status != 200 => return Err(Fault::Status(http_status)),
            GrpcFields { is_grpc: false, .. } => GrpcFault::NotGrpc,
            GrpcFields { status: None, .. } => GrpcFault::NoStatus,
            GrpcFields { status: Some(status @ 1..), .. } => GrpcFault::Status(status),
            _ if self.left > 0 || self.prefix_bytes > 0 => GrpcFault::CutOff,
            _ if self.messages == 0 => GrpcFault::NoMessage,
            _ if self.messages > 1 => GrpcFault::SeveralMessages,
            _ if self.is_compressed => GrpcFault::Compressed,
            _ => return Ok(()),
        };
        Err(Fault::Grpc(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: GrpcFields = GrpcFields { is_grpc: true, status: Some(0) };

    /// What is wrong, and the bytes of the message, however the bytes are cut.
    fn read(fields: GrpcFields, bytes: &[u8]) -> (String, Vec<u8>) {
        let results: Vec<_> = (1..=bytes.len().max(1))
            .map(|size| {
                let (mut reader, mut message) = (UnaryReader::default(), Vec::new());
                bytes.chunks(size).for_each(|piece| {
                    reader.push(piece, |part| message.extend_from_slice(part));
                });
                reader.note(fields);
                let fault = reader.verdict(200).err();
                (fault.map_or(String::new(), Fault::kind), message)
            })
            .collect();
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{results:?}");
        results[0].clone()
    }

    #[test]
    fn one_message_and_a_status_of_zero_are_right_and_nothing_else_is() {
        let status = |status| GrpcFields { status, ..OK };
        let other = GrpcFields { is_grpc: false, ..OK };
        for (fields, bytes, fault, message) in [
            (OK, &b"\0\0\0\0\x03abc"[..], "", &b"abc"[..]),
            (OK, b"\0\0\0\0\0", "", b""),
            (OK, b"", "no message", b""),
            (OK, b"\0\0\0\0\x01a\0\0\0\0\x01b", "more than one message", b"a"),
            (OK, b"\0\0\0\0\0\0\0\0\0\0", "more than one message", b""),
            (OK, b"\x01\0\0\0\x01a", "compressed message", b"a"),
            (OK, b"\0\0\0\0\x03ab", "incomplete message", b"ab"),
            (OK, b"\0\0\0\0", "incomplete message", b""),
            (OK, b"\0\0\0\0\x01abc", "incomplete message", b"a"),
            (status(None), b"\0\0\0\0\x01a", "no grpc-status", b"a"),
            (status(Some(14)), b"", "UNAVAILABLE (14)", b""),
            (status(Some(5)), b"\0\0\0\0\x01a", "NOT_FOUND (5)", b"a"),
            (status(Some(99)), b"", "grpc-status 99", b""),
            (other, b"\0\0\0\0\x01a", "not gRPC", b"a"),
        ] {
            let wanted = (fault.to_owned(), message.to_vec());
            assert_eq!(read(fields, bytes), wanted, "{fields:?} {bytes:?}");
        }
    }

    #[test]
    fn the_status_of_http_comes_first_and_the_first_of_the_call_counts() {
        let mut reader = UnaryReader::default();
        reader.note(GrpcFields { is_grpc: true, status: Some(13) });
        reader.note(GrpcFields { is_grpc: false, status: Some(0) });
        assert_eq!(reader.verdict(503), Err(Fault::Status(503)));
        assert_eq!(reader.verdict(200), Err(Fault::Grpc(GrpcFault::Status(13))));
    }
}
