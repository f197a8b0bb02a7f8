//! A connection after the login, which reads and writes bytes by frames.

use std::io::{self, Cursor, ErrorKind, Read, Write};

use crate::error::Fault;
use crate::frame::{self, FrameError};
use crate::mechanism::Layer;

/// Limit on the bytes of an answer.
pub(crate) const ANSWER_MAX: u64 = 256 << 20;

/// How bytes are packed.
pub(crate) enum Packing {
    /// As they are: HiveServer2's NOSASL.
    Bare,
    /// In SASL's frames.
    Frames,
    /// In SASL's frames, protected.
    Protected(Layer),
}

/// A connection. `fault` keeps the cause of the last error, because an `io::Error` that passed
/// through the Thrift library is only a text.
pub(crate) struct HiveStream<S> {
    stream: S,
    packing: Packing,
    incoming: Cursor<Vec<u8>>,
    outgoing: Vec<u8>,
    /// The bytes that the present answer may still have.
    left: u64,
    pub(crate) fault: Option<Fault>,
}

/// Bytes that are asked for at once without frames.
const CHUNK: usize = 16 << 10;

impl<S: Read + Write> HiveStream<S> {
    pub(crate) fn new(stream: S, packing: Packing) -> HiveStream<S> {
        HiveStream {
            stream,
            packing,
            incoming: Cursor::default(),
            outgoing: Vec::new(),
            left: ANSWER_MAX,
            fault: None,
        }
    }

    /// Prepares for the next call.
    pub(crate) fn begin(&mut self) {
        self.left = ANSWER_MAX;
        self.fault = None;
    }

    /// Whether an answer was longer than the limit.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    fn receive(&mut self) -> Result<Vec<u8>, Fault> {
        match &mut self.packing {
            Packing::Bare => {
                let mut bytes = vec![0; CHUNK];
                let count = self.stream.read(&mut bytes).map_err(Fault::Io)?;
                bytes.truncate(count);
                if count == 0 { Err(Fault::Frame(FrameError::Closed)) } else { Ok(bytes) }
            }
            Packing::Frames => frame::read_frame(&mut self.stream).map_err(Fault::Frame),
            Packing::Protected(layer) => {
                let token = frame::read_frame(&mut self.stream).map_err(Fault::Frame)?;
                layer.unwrap(&token)
            }
        }
    }

    fn deliver(&mut self, message: &[u8]) -> Result<(), Fault> {
        match &mut self.packing {
            Packing::Bare => self.stream.write_all(message).map_err(Fault::Io)?,
            Packing::Frames => {
                for part in message.chunks(frame::FRAME_MAX as usize) {
                    self.stream.write_all(&frame::frame(part)).map_err(Fault::Io)?;
                }
            }
            Packing::Protected(layer) => {
                for token in layer.wrap(message)? {
                    self.stream.write_all(&frame::frame(&token)).map_err(Fault::Io)?;
                }
            }
        }
        // Over HTTP, the exchange happens here, and fails for other reasons too.
        self.stream.flush().map_err(|error| error.downcast().unwrap_or_else(Fault::Io))
    }

    /// Keeps the cause of an error, and returns the error for the Thrift library.
    fn keep(&mut self, fault: Fault) -> io::Error {
        let error = io::Error::other(fault.to_string());
        self.fault = Some(fault);
        error
    }
}

impl<S: Read + Write> Read for HiveStream<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // A frame may be empty.
        while self.incoming.position() == self.incoming.get_ref().len() as u64 {
            let bytes = self.receive();
            self.incoming = Cursor::new(bytes.map_err(|fault| self.keep(fault))?);
        }
        if self.left == 0 {
            return Err(ErrorKind::InvalidData.into());
        }
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.incoming.read(&mut into[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}

impl<S: Read + Write> Write for HiveStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let message = std::mem::take(&mut self.outgoing);
        self.deliver(&message).map_err(|fault| self.keep(fault))
    }
}
