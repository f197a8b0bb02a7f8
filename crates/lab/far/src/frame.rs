//! Frames: a length of four bytes, big-endian, and as many bytes of JSON.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Limit on a frame. A longer one is not ours.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// How many bytes of what is not a frame are shown.
const SHOWN_BYTES: usize = 60;

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream has ended between two frames.
    #[error("the connection was closed")]
    Closed,
    /// The stream has ended within a frame.
    #[error("the connection was closed in the middle of a message")]
    Truncated,
    /// The length is beyond [`FRAME_BYTES_MAX`]: most likely the bytes are a text of another
    /// program, such as a login script.
    #[error("what arrived is not tachograph's: \"{0}\"")]
    Foreign(String),
    /// The bytes are no message of this version.
    #[error("a message cannot be read: {0}")]
    Malformed(String),
    /// The stream failed.
    #[error("{0}")]
    Io(io::Error),
}

/// Writes a message as one frame.
///
/// # Errors
/// Those of the stream, and a message longer than [`FRAME_BYTES_MAX`].
pub fn write_frame(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other(format!(
            "a message of {length} bytes is longer than {FRAME_BYTES_MAX}"
        )));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_be_bytes());
    to.write_all(&bytes)?;
    to.flush()
}

/// A stream that notes when something has last arrived: on a slow way, a long message is a sign of life
/// all the while.
pub(crate) struct HeardStream<R> {
    stream: R,
    heard: Arc<Mutex<Instant>>,
}

impl<R> HeardStream<R> {
    pub(crate) fn new(stream: R, heard: Arc<Mutex<Instant>>) -> HeardStream<R> {
        HeardStream { stream, heard }
    }
}

impl<R: Read> Read for HeardStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(read)
    }
}

/// Reads the next frame.
///
/// # Errors
/// See [`FrameError`]. No more memory is used than has arrived, whatever the length says.
pub fn read_frame<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, FrameError> {
    let mut head = [0; 4];
    let read = fill(from, &mut head)?;
    if read == 0 {
        return Err(FrameError::Closed);
    }
    let length = u32::from_be_bytes(head) as usize;
    if read < head.len() || length > FRAME_BYTES_MAX {
        return Err(foreign(&head[..read], from));
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes).map_err(FrameError::Io)?;
    if bytes.len() < length {
        return Err(FrameError::Truncated);
    }
    serde_json::from_slice(&bytes).map_err(|error| FrameError::Malformed(error.to_string()))
}

/// Reads until the buffer is full or the stream ends; returns the number of bytes.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> Result<usize, FrameError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
    Ok(filled)
}

/// The error for bytes that are not ours, with what has arrived of their first line.
fn foreign(head: &[u8], from: &mut impl Read) -> FrameError {
    let mut bytes = head.to_vec();
    let mut rest = [0; SHOWN_BYTES];
    // One read: more may never come.
    if let Ok(count) = from.read(&mut rest) {
        bytes.extend_from_slice(&rest[..count]);
    }
    let text = String::from_utf8_lossy(&bytes);
    let line: String = text.lines().next().unwrap_or_default().chars().take(SHOWN_BYTES).collect();
    FrameError::Foreign(line.chars().filter(|c| !c.is_control()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &text).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<String, String> {
        read_frame::<String>(&mut &bytes[..]).map_err(|error| error.to_string())
    }

    #[test]
    fn frames_follow_one_another() {
        let mut bytes = framed("a");
        bytes.extend(framed("é\n"));
        let mut from = &bytes[..];
        assert_eq!(read_frame::<String>(&mut from).unwrap(), "a");
        assert_eq!(read_frame::<String>(&mut from).unwrap(), "é\n");
        assert!(matches!(read_frame::<String>(&mut from), Err(FrameError::Closed)));
    }

    /// A stream of which one byte arrives at a time.
    struct SlowStream<'a>(&'a [u8]);

    impl Read for SlowStream<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn a_message_on_a_slow_way_is_heard_while_it_arrives() {
        let bytes = framed("hello");
        let long_ago = Instant::now().checked_sub(std::time::Duration::from_secs(60)).unwrap();
        let heard = Arc::new(Mutex::new(long_ago));
        let mut stream = HeardStream::new(SlowStream(&bytes[..5]), Arc::clone(&heard));
        stream.read_exact(&mut [0; 1]).unwrap();
        assert!(*heard.lock().unwrap() > long_ago, "long before the message is whole");
        let mut whole = HeardStream::new(SlowStream(&bytes), heard);
        assert_eq!(read_frame::<String>(&mut whole).unwrap(), "hello");
    }

    #[test]
    fn half_a_frame_is_told_from_the_end() {
        let bytes = framed("hello");
        assert_eq!(read(&bytes[..6]), Err(FrameError::Truncated.to_string()));
        assert_eq!(read(&bytes[..4]), Err(FrameError::Truncated.to_string()));
        assert_eq!(read(&[]), Err(FrameError::Closed.to_string()));
    }

    #[test]
    fn the_greeting_of_a_login_script_is_quoted() {
        let error = read(b"Welcome to example\nmore").unwrap_err();
        assert_eq!(error, "what arrived is not tachograph's: \"Welcome to example\"");
        assert_eq!(read(b"hi").unwrap_err(), "what arrived is not tachograph's: \"hi\"");
    }

    #[test]
    fn an_oversized_frame_is_neither_written_nor_read() {
        let long = "x".repeat(FRAME_BYTES_MAX);
        assert!(write_frame(&mut Vec::new(), &long).is_err());
        let mut bytes = (FRAME_BYTES_MAX as u32 + 1).to_be_bytes().to_vec();
        bytes.extend([b'x'; 10]);
        assert!(read(&bytes).unwrap_err().starts_with("what arrived is not tachograph's"));
    }

    #[test]
    fn a_length_without_its_bytes_takes_no_memory() {
        let bytes = (FRAME_BYTES_MAX as u32).to_be_bytes();
        assert_eq!(read(&bytes), Err(FrameError::Truncated.to_string()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }

        #[test]
        fn any_text_survives(text in any::<String>()) {
            prop_assert_eq!(read(&framed(&text)), Ok(text));
        }
    }
}
