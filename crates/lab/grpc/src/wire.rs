//! Protobuf's wire format ("Encoding" in the documentation of Protocol Buffers).

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WireValue<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A number of four or eight bytes, of which descriptors have none that matter.
    Fixed,
}

impl<'a> WireValue<'a> {
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            WireValue::Varint(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            WireValue::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn text(self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}

/// Gives each field of a message to `each`; `None` if the bytes are not a message, or `each` refuses one.
pub(crate) fn read<'a>(
    mut bytes: &'a [u8],
    mut each: impl FnMut(u64, WireValue<'a>) -> Option<()>,
) -> Option<()> {
    while !bytes.is_empty() {
        let key = read_varint(&mut bytes)?;
        let value = match key & 7 {
            0 => WireValue::Varint(read_varint(&mut bytes)?),
            1 => read_fixed(&mut bytes, 8)?,
            2 => {
                let length = usize::try_from(read_varint(&mut bytes)?).ok()?;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                WireValue::Bytes(content)
            }
            5 => read_fixed(&mut bytes, 4)?,
            _ => return None,
        };
        each(key >> 3, value)?;
    }
    Some(())
}

fn read_fixed<'a>(bytes: &mut &'a [u8], length: usize) -> Option<WireValue<'a>> {
    *bytes = bytes.get(length..)?;
    Some(WireValue::Fixed)
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// How a value lies in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Length = 2,
    GroupStart = 3,
    GroupEnd = 4,
    Fixed32 = 5,
}

pub(crate) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Begins a field.
pub(crate) fn write_key(out: &mut Vec<u8>, number: u32, wire: WireType) {
    write_varint(out, u64::from(number) << 3 | wire as u64);
}

/// Adds a field of bytes, a text or a message.
pub(crate) fn write_bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    write_key(out, number, WireType::Length);
    write_varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Adds a field of a number, unless that is the default.
pub(crate) fn write_number(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        write_key(out, number, WireType::Varint);
        write_varint(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_are_written_and_cut_messages_are_refused() {
        let mut message = Vec::new();
        write_number(&mut message, 1, 150);
        write_number(&mut message, 2, 0);
        write_bytes(&mut message, 3, b"hi");
        write_key(&mut message, 4, WireType::Fixed64);
        message.extend_from_slice(&[1; 8]);
        write_key(&mut message, 500, WireType::Fixed32);
        message.extend_from_slice(&[1; 4]);
        let fields = |bytes: &[u8]| {
            let mut all = Vec::new();
            read(bytes, |number, value| {
                all.push(format!("{number} {value:?}"));
                Some(())
            })
            .map(|()| all)
        };
        let wanted = ["1 Varint(150)", "3 Bytes([104, 105])", "4 Fixed", "500 Fixed"];
        assert_eq!(fields(&message).unwrap(), wanted);
        let whole = [0, 3, 7, 16];
        for cut in (0..message.len()).filter(|cut| !whole.contains(cut)) {
            assert_eq!(fields(&message[..cut]), None, "{cut}");
        }
        for wrong in [&[0x0b_u8][..], &[0x0e], &[0xff; 12], &[0x0a, 0xff, 0xff, 1]] {
            assert_eq!(fields(wrong), None, "{wrong:?}");
        }
    }
}
