//! A client of HiveServer2's Thrift protocol, which Apache Hive and Spark's Thrift server speak.
//!
//! From the socket upwards:
//!
//! - `frame`: the frames of SASL over Thrift's transport, as bytes.
//! - `kerberos`: Kerberos 5, by the system's GSS-API library; the only `unsafe`.
//! - `mechanism`: PLAIN and GSSAPI, as an exchange of messages.
//! - `handshake`: the login, and what protects the frames afterwards.
//! - `socket`: a connection, with TLS or without; `http`: one whose messages are requests over HTTP.
//! - `stream`: a connection that reads and writes bytes by frames.
//! - `tree`: Thrift's values as a tree, read and written.
//! - `call`: one call of a service: a Thrift message there and one back.
//! - `service`: the calls of HiveServer2 that are needed.
//! - [`Session`]: statements and their rows.
//! - [`Table`]: an external table and its partitions.
//! - [`sql`]: names and texts quoted for statements.
//!
//! This crate does not know what is in the tables.

mod address;
mod call;
mod error;
pub mod frame;
mod handshake;
mod http;
mod kerberos;
mod mechanism;
mod qop;
mod service;
mod session;
mod socket;
pub mod sql;
mod stream;
mod table;
mod tree;
mod value;

pub use address::{Address, AddressError};
pub use error::{Fault, HiveError};
pub use kerberos::KerberosError;
pub use qop::Qop;
pub use session::{Auth, Limits, ROWS_MAX, Session};
pub use socket::Transport;
pub use table::{Column, Table, TableChanges, TableError, TablePartition};
pub use value::Value;
