//! SASL over Thrift's transport, as bytes: the messages of the login, and the frames after it.
//!
//! The form is that of Thrift's `TSaslTransport`, which HiveServer2 uses: during the login, a
//! message is a status byte, the length of its payload as four bytes (big-endian) and the payload;
//! afterwards, a frame is a length of four bytes and that many bytes. Lengths are limited before
//! memory is reserved, and memory grows only with the bytes that arrive.

use std::io::{self, ErrorKind, Read};

/// Limit on the payload of a message of the login, in bytes.
pub const MESSAGE_MAX: u32 = 1 << 20;

/// Limit on a frame after the login, in bytes.
pub const FRAME_MAX: u32 = 64 << 20;

/// What a message of the login means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The client begins; the payload is the name of the mechanism.
    Start = 1,
    /// The exchange goes on.
    Ok = 2,
    /// The mechanism refuses; the payload is the reason as text.
    Bad = 3,
    /// Anything else went wrong; the payload is the reason as text.
    Error = 4,
    /// The sender's side is complete.
    Complete = 5,
}

/// A message of the login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it means.
    pub status: Status,
    /// A token of the mechanism, or text.
    pub payload: Vec<u8>,
}

/// Why there is no message or frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection was closed between two frames.
    #[error("the server closed the connection")]
    Closed,
    /// The connection was closed within a frame.
    #[error(
        "the server closed the connection in the middle of a frame, after {arrived} of {expected} bytes"
    )]
    Half {
        /// The bytes that arrived.
        arrived: u64,
        /// The bytes that were announced.
        expected: u64,
    },
    /// An announced length above the limit.
    #[error("the server announced {announced} bytes, but the limit is {limit}")]
    Long {
        /// The announced length.
        announced: u32,
        /// The limit.
        limit: u32,
    },
    /// A first byte that is no status.
    #[error("the server's answer begins with byte {0}, which is no status of SASL")]
    Status(u8),
    /// The connection failed.
    #[error("the connection failed ({0})")]
    Io(#[from] io::Error),
}

impl Message {
    /// The message as bytes.
    ///
    /// # Panics
    /// If the payload has more than [`MESSAGE_MAX`] bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.payload.len() <= MESSAGE_MAX as usize, "a message is too long");
        let mut bytes = Vec::with_capacity(self.payload.len() + 5);
        bytes.push(self.status as u8);
        bytes.extend((self.payload.len() as u32).to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn read(input: &mut impl Read) -> Result<Message, FrameError> {
        let mut head = [0; 5];
        read_head(input, &mut head)?;
        let [status, a, b, c, d] = head;
        let status = match status {
            1 => Status::Start,
            2 => Status::Ok,
            3 => Status::Bad,
            4 => Status::Error,
            5 => Status::Complete,
            other => return Err(FrameError::Status(other)),
        };
        let length = u32::from_be_bytes([a, b, c, d]);
        Ok(Message { status, payload: read_body(input, length, MESSAGE_MAX)? })
    }
}

/// A frame as bytes.
///
/// # Panics
/// If it has more than [`FRAME_MAX`] bytes.
pub fn frame(body: &[u8]) -> Vec<u8> {
    assert!(body.len() <= FRAME_MAX as usize, "a frame is too long");
    let mut bytes = Vec::with_capacity(body.len() + 4);
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// Reads a frame and returns its body.
///
/// # Errors
/// [`FrameError`].
pub fn read_frame(input: &mut impl Read) -> Result<Vec<u8>, FrameError> {
    let mut head = [0; 4];
    read_head(input, &mut head)?;
    read_body(input, u32::from_be_bytes(head), FRAME_MAX)
}

/// Fills `head`; a connection that is closed before its first byte is no half frame.
fn read_head(input: &mut impl Read, head: &mut [u8]) -> Result<(), FrameError> {
    let mut arrived = 0;
    while arrived < head.len() {
        match input.read(&mut head[arrived..]) {
            Ok(0) if arrived == 0 => return Err(FrameError::Closed),
            Ok(0) => {
                return Err(FrameError::Half {
                    arrived: arrived as u64,
                    expected: head.len() as u64,
                });
            }
            Ok(more) => arrived += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read_body(input: &mut impl Read, length: u32, limit: u32) -> Result<Vec<u8>, FrameError> {
    if length > limit {
        return Err(FrameError::Long { announced: length, limit });
    }
    let expected = u64::from(length);
    let mut body = Vec::new();
    let arrived = input.take(expected).read_to_end(&mut body)? as u64;
    if arrived < expected {
        return Err(FrameError::Half { arrived, expected });
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_frames_are_read_as_they_were_written() {
        for status in [Status::Start, Status::Ok, Status::Bad, Status::Error, Status::Complete] {
            let message = Message { status, payload: b"token".to_vec() };
            let bytes = message.to_bytes();
            assert_eq!(bytes[..5], [status as u8, 0, 0, 0, 5]);
            assert_eq!(Message::read(&mut &bytes[..]).unwrap(), message);
        }
        let bytes = frame(b"body");
        assert_eq!(bytes, b"\0\0\0\x04body");
        assert_eq!(read_frame(&mut &bytes[..]).unwrap(), b"body");
        assert_eq!(read_frame(&mut &frame(b"")[..]).unwrap(), b"");
    }

    #[test]
    fn every_cut_is_told_from_an_orderly_close() {
        let bytes = Message { status: Status::Ok, payload: vec![7; 10] }.to_bytes();
        assert!(matches!(Message::read(&mut &bytes[..0]), Err(FrameError::Closed)));
        for cut in 1..bytes.len() {
            let error = Message::read(&mut &bytes[..cut]).unwrap_err();
            let (arrived, expected) = if cut < 5 { (cut as u64, 5) } else { (cut as u64 - 5, 10) };
            let text = format!("in the middle of a frame, after {arrived} of {expected} bytes");
            assert!(error.to_string().contains(&text), "{error}");
        }
    }

    #[test]
    fn lengths_are_limited_before_anything_is_reserved() {
        let error = Message::read(&mut &b"\x02\x7f\xff\xff\xff"[..]).unwrap_err();
        let text = "the server announced 2147483647 bytes, but the limit is 1048576";
        assert_eq!(error.to_string(), text);
        let error = read_frame(&mut &b"HTTP/1.1 400"[..]).unwrap_err();
        assert!(matches!(error, FrameError::Long { announced: 0x4854_5450, limit: FRAME_MAX }));
        let error = Message::read(&mut &b"HTTP/1.1 400"[..]).unwrap_err();
        assert!(matches!(error, FrameError::Status(b'H')));
    }
}
