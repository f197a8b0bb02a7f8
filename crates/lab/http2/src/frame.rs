//! Frames (RFC 9113, 4 and 6).

/// The first bytes of a client (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame's header.
pub const HEADER_BYTES: usize = 9;

/// The longest payload unless it was agreed on otherwise (RFC 9113, 6.5.2).
pub const PAYLOAD_MAX: usize = 1 << 14;

/// The window of a stream and of a connection unless it was agreed on otherwise (RFC 9113, 6.9.2).
pub const WINDOW: i64 = 65_535;

/// The largest window (RFC 9113, 6.9.1).
pub const WINDOW_MAX: i64 = (1 << 31) - 1;

/// Kinds of frames.
#[allow(missing_docs, reason = "named as in RFC 9113, 6")]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
#[allow(missing_docs, reason = "named as in RFC 9113, 6")]
pub mod flag {
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// Parameters of a connection (RFC 9113, 6.5.2).
#[allow(missing_docs, reason = "named as in RFC 9113, 6.5.2")]
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
}

/// Codes of errors (RFC 9113, 7).
#[allow(missing_docs, reason = "named as in RFC 9113, 7")]
pub mod error {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INTERNAL_ERROR: u32 = 2;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const CANCEL: u32 = 8;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes after the header.
    pub length: usize,
    /// One of [`kind`], or unknown.
    pub kind: u8,
    /// Some of [`flag`].
    pub flags: u8,
    /// The stream; 0 for the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads a header; `None` if it is incomplete.
    pub fn parse(bytes: &[u8]) -> Option<FrameHeader> {
        let header = bytes.first_chunk::<HEADER_BYTES>()?;
        let [a, b, c, kind, flags, w, x, y, z] = *header;
        Some(FrameHeader {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([w, x, y, z]) & 0x7fff_ffff,
        })
    }

    /// Whether it has this flag.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether its length and its stream are right for its kind; if not, the connection has failed
    /// (RFC 9113, 6).
    pub fn is_sound(&self) -> bool {
        let (of_connection, length) = (self.stream == 0, self.length);
        match self.kind {
            kind::DATA | kind::HEADERS | kind::PRIORITY => !of_connection,
            kind::PUSH_PROMISE | kind::CONTINUATION => !of_connection,
            kind::RST_STREAM => !of_connection && length == 4,
            kind::SETTINGS if self.has(flag::ACK) => of_connection && length == 0,
            kind::SETTINGS => of_connection && length.is_multiple_of(6),
            kind::PING => of_connection && length == 8,
            kind::GOAWAY => of_connection && length >= 8,
            kind::WINDOW_UPDATE => length == 4,
            _ => true,
        }
    }

    /// The payload without padding and priority; `None` if they are longer than the payload
    /// (RFC 9113, 6.1 and 6.2).
    pub fn content<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        let mut content = payload;
        if self.has(flag::PADDED) {
            let (padding, rest) = content.split_first()?;
            content = rest.get(..rest.len().checked_sub(usize::from(*padding))?)?;
        }
        if self.kind == kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..)?;
        }
        Some(content)
    }
}

/// Adds a frame.
pub fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    write_header(out, FrameHeader { length: payload.len(), kind, flags, stream });
    out.extend_from_slice(payload);
}

/// Adds the header of a frame.
pub fn write_header(out: &mut Vec<u8>, header: FrameHeader) {
    out.extend_from_slice(&(header.length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[header.kind, header.flags]);
    out.extend_from_slice(&header.stream.to_be_bytes());
}

/// Adds a block of headers, in as many frames as it needs.
pub fn write_headers(out: &mut Vec<u8>, stream: u32, block: &[u8], ends_stream: bool) {
    let mut pieces = block.chunks(PAYLOAD_MAX).peekable();
    let mut kind = kind::HEADERS;
    let mut flags = if ends_stream { flag::END_STREAM } else { 0 };
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            flags |= flag::END_HEADERS;
        }
        write(out, kind, flags, stream, piece);
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}

/// Adds parameters.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let mut payload = Vec::with_capacity(6 * settings.len());
    for (name, value) in settings {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    write(out, kind::SETTINGS, 0, 0, &payload);
}

/// The parameters in a payload; `None` if its length is wrong.
pub fn settings(payload: &[u8]) -> Option<impl Iterator<Item = (u16, u32)> + '_> {
    let (all, rest) = payload.as_chunks::<6>();
    rest.is_empty().then(|| {
        all.iter().map(|[a, b, w, x, y, z]| {
            (u16::from_be_bytes([*a, *b]), u32::from_be_bytes([*w, *x, *y, *z]))
        })
    })
}

/// Adds room for more bytes.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, more: u32) {
    write(out, kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes());
}

/// Adds the end of a stream with this error.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, error: u32) {
    write(out, kind::RST_STREAM, 0, stream, &error.to_be_bytes());
}

/// Adds the end of a connection: streams up to `last` are processed.
pub fn write_goaway(out: &mut Vec<u8>, last: u32, error: u32) {
    let payload = [last.to_be_bytes(), error.to_be_bytes()].concat();
    write(out, kind::GOAWAY, 0, 0, &payload);
}

/// The first 32-bit number of a payload.
pub fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_are_written() {
        let mut out = Vec::new();
        write(&mut out, kind::DATA, flag::END_STREAM, 7, b"abc");
        let header = FrameHeader::parse(&out).unwrap();
        let expected = FrameHeader { length: 3, kind: 0, flags: 1, stream: 7 };
        assert_eq!(header, expected);
        assert_eq!(&out[HEADER_BYTES..], b"abc");
        assert_eq!(FrameHeader::parse(&out[..8]), None);
        let mut out = Vec::new();
        write_settings(&mut out, &[(3, 100), (4, 1 << 20)]);
        let read: Vec<_> = settings(&out[HEADER_BYTES..]).unwrap().collect();
        assert_eq!(read, [(3, 100), (4, 1 << 20)]);
        assert!(settings(&out[HEADER_BYTES + 1..]).is_none());
    }

    #[test]
    fn padding_and_priority_are_no_content() {
        let header = |flags| FrameHeader { length: 0, kind: kind::HEADERS, flags, stream: 1 };
        let both = header(flag::PADDED | flag::PRIORITY);
        assert_eq!(both.content(&[2, 0, 0, 0, 0, 0, b'x', 0, 0]), Some(&b"x"[..]));
        assert_eq!(header(flag::PADDED).content(&[2, b'x']), None);
        assert_eq!(header(flag::PADDED).content(&[]), None);
        assert_eq!(header(flag::PRIORITY).content(&[0; 4]), None);
        assert_eq!(header(0).content(b"x"), Some(&b"x"[..]));
    }

    #[test]
    fn lengths_and_streams_depend_on_the_kind() {
        let is_sound =
            |kind, flags, stream, length| FrameHeader { length, kind, flags, stream }.is_sound();
        for kind in [kind::DATA, kind::HEADERS, kind::PRIORITY, kind::CONTINUATION] {
            assert!(is_sound(kind, 0, 1, 5) && !is_sound(kind, 0, 0, 5), "{kind}");
        }
        for (kind, flags, stream, length) in [
            (kind::RST_STREAM, 0, 1, 4),
            (kind::SETTINGS, 0, 0, 6),
            (kind::SETTINGS, flag::ACK, 0, 0),
            (kind::PING, 0, 0, 8),
            (kind::GOAWAY, 0, 0, 8),
        ] {
            assert!(is_sound(kind, flags, stream, length), "{kind}");
            assert!(!is_sound(kind, flags, 1 - stream, length), "{kind}");
            assert!(!is_sound(kind, flags, stream, length + 1) || kind == kind::GOAWAY, "{kind}");
            assert!(length == 0 || !is_sound(kind, flags, stream, length - 1), "{kind}");
        }
        assert!(is_sound(kind::WINDOW_UPDATE, 0, 0, 4) && is_sound(kind::WINDOW_UPDATE, 0, 1, 4));
        assert!(!is_sound(kind::WINDOW_UPDATE, 0, 0, 5) && is_sound(0xbb, 0, 0, 3));
    }

    #[test]
    fn a_long_block_is_continued() {
        let mut out = Vec::new();
        write_headers(&mut out, 1, &vec![0; PAYLOAD_MAX + 1], true);
        let first = FrameHeader::parse(&out).unwrap();
        assert_eq!((first.kind, first.flags), (kind::HEADERS, flag::END_STREAM));
        let second = FrameHeader::parse(&out[HEADER_BYTES + PAYLOAD_MAX..]).unwrap();
        let expected = FrameHeader { length: 1, kind: 9, flags: flag::END_HEADERS, stream: 1 };
        assert_eq!(second, expected);
    }
}
