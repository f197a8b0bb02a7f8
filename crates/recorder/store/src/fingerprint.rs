//! Names of writers that depend on what they write.

use sha2::{Digest as _, Sha256};

use crate::Writer;

/// A fingerprint of a stream up to some position: SHA-256 (FIPS 180-4).
#[derive(Clone, Debug)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// The start of a stream that is read with these options.
    pub fn new(options: &str) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update((options.len() as u64).to_be_bytes());
        hash.update(options);
        Fingerprint(hash)
    }

    /// Adds the next bytes of the stream.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The writer of the piece that ends here; `what` distinguishes pieces with the same end.
    pub fn writer(&self, what: &str) -> Writer {
        let mut hash = self.0.clone();
        hash.update(what);
        let digest = hash.finalize();
        let name = digest[..16].iter().fold(0_u128, |name, byte| name << 8 | u128::from(*byte));
        // Version 8 and variant 1 mark it as a custom UUID (RFC 9562).
        let name = name & !(0xf << 76) | 0x8 << 76;
        Writer(name & !(0x3 << 62) | 0x2 << 62)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_a_uuid_that_depends_on_everything_before() {
        let mut one = Fingerprint::new("graphite");
        let before = one.writer("1");
        one.add(b"a 1 2\n");
        let mut other = Fingerprint::new("graphite");
        other.add(b"a 1 ");
        other.add(b"2\n");
        assert_eq!(one.writer("1"), other.writer("1"), "however it came in parts");
        assert_ne!(one.writer("1"), one.writer("10"));
        assert_ne!(one.writer("1"), before);
        assert_ne!(before, Fingerprint::new("influx").writer("1"));
        let text = before.to_string();
        assert_eq!(&text[14..15], "8");
        assert!("89ab".contains(&text[19..20]));
    }
}
