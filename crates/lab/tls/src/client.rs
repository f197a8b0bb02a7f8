//! The settings of a client, from the options of a load.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use spec::TlsOptions;
use trust::{TlsError, Trust};

/// Sessions that can be resumed later; a server may give several for each connection.
const SESSIONS: usize = 1024;

/// What all connections of a load share. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    /// The protocol that the server must choose, if it is not the one that a server without ALPN
    /// speaks.
    required: Option<&'static str>,
    name: ServerName<'static>,
}

impl Client {
    /// Reads the files of these options, and prepares connections to the server of this name.
    /// `protocols` are offered in this order (ALPN, RFC 7301).
    ///
    /// # Errors
    /// [`TlsError`]
    pub fn new(
        options: &TlsOptions,
        server_name: &str,
        protocols: &[&'static str],
    ) -> Result<Client, TlsError> {
        let TlsOptions { insecure, cacert, cert, key, resumption } = options.clone();
        let name = trust::server_name(server_name)?;
        let mut config = Trust { insecure, cacert, cert, key }.config()?;
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.resumption = match resumption {
            true => Resumption::in_memory_sessions(SESSIONS),
            false => Resumption::disabled(),
        };
        let required = protocols.first().copied().filter(|first| *first != "http/1.1");
        Ok(Client { config: Arc::new(config), required, name })
    }

    /// The settings, for another implementation of connections.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// The name that the server's certificate must have.
    pub fn server_name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    /// Whether the server's choice of a protocol is one that can be spoken.
    pub(crate) fn accepts(&self, protocol: Option<&[u8]>) -> bool {
        self.required.is_none_or(|required| protocol == Some(required.as_bytes()))
    }

    /// Begins a connection.
    pub(crate) fn begin(&self) -> Result<UnbufferedClientConnection, rustls::Error> {
        UnbufferedClientConnection::new(self.config.clone(), self.name.clone())
    }
}
