//! Rows for a table, in the binary format of COPY.

use std::io::Write as _;

use super::link::{OpenTransaction, TransactionFailure};
use super::types;

/// Start of a binary COPY: signature, no flags, no extension.
const BEGIN: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// End of a binary COPY.
const END: [u8; 2] = (-1_i16).to_be_bytes();

/// Bytes to send at once.
const SENT_AT_ONCE: usize = 1 << 20;

/// Rows that are not sent yet.
#[derive(Debug, Default)]
pub(super) struct CopyRows {
    bytes: Vec<u8>,
}

impl CopyRows {
    /// Starts a row; its columns must be put next.
    pub(super) fn row(&mut self, columns: usize) {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(BEGIN);
        }
        // A table has at most 1,600 columns.
        self.bytes.extend_from_slice(&(columns as u16).to_be_bytes());
    }

    pub(super) fn put(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn put_null(&mut self) {
        self.bytes.extend_from_slice(&(-1_i32).to_be_bytes());
    }

    /// Puts a value, or NULL.
    pub(super) fn put_some<const N: usize>(&mut self, value: Option<[u8; N]>) {
        match value {
            Some(value) => self.put(&value),
            None => self.put_null(),
        }
    }

    /// Puts microseconds since 1970 as a `timestamptz`.
    pub(super) fn put_time(&mut self, us: i64) {
        self.put(&types::since_2000(us).to_be_bytes());
    }

    /// Whether there are enough rows to send.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= SENT_AT_ONCE
    }

    /// Sends the rows to the columns of a table, given as `table (column, …)`.
    pub(super) fn send(
        &mut self,
        session: &mut OpenTransaction<'_>,
        to: &str,
    ) -> Result<(), TransactionFailure> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.bytes.extend_from_slice(&END);
        let statement = session.prepared(&format!("COPY {to} FROM STDIN (FORMAT binary)"))?;
        let mut writer = session.transaction.copy_in(&statement)?;
        let sent = writer.write_all(&self.bytes);
        // A server error, which is more specific than that of the socket, is reported on finish.
        writer.finish()?;
        sent.map_err(|error| TransactionFailure::Value(error.to_string()))?;
        self.bytes.clear();
        Ok(())
    }
}
