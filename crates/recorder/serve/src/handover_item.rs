//! What a daemon leaves to its successor, or systemd to the daemon: sockets and connections.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::service::Service;

/// Something that is handed over.
#[derive(Debug)]
pub(crate) struct HandoverItem {
    pub(crate) fd: OwnedFd,
    pub(crate) what: ItemKind,
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ItemKind {
    /// A bound socket, by the address in the options.
    Socket {
        service: Service,
        wanted: String,
        /// An earlier version does not tell.
        #[serde(default)]
        given: Activation,
    },
    /// A connection that sends lines, with the beginning of one.
    Lines {
        service: Service,
        sender: String,
        #[serde(skip)]
        half: Vec<u8>,
        skipping: bool,
    },
    /// An HTTP connection between two requests, with the beginning of the next.
    Http {
        sender: String,
        #[serde(skip)]
        ahead: Vec<u8>,
    },
}

impl ItemKind {
    /// What was read of a connection and is still to be handled. It is sent beside the description.
    pub(crate) fn ahead(&self) -> &[u8] {
        match self {
            ItemKind::Lines { half: ahead, .. } | ItemKind::Http { ahead, .. } => ahead,
            ItemKind::Socket { .. } => &[],
        }
    }

    pub(crate) fn set_ahead(&mut self, bytes: Vec<u8>) {
        match self {
            ItemKind::Lines { half: ahead, .. } | ItemKind::Http { ahead, .. } => *ahead = bytes,
            ItemKind::Socket { .. } => {}
        }
    }

    /// The address of the sender of a connection; Unix sockets have none.
    pub(crate) fn sender(&self) -> Option<IpAddr> {
        match self {
            ItemKind::Socket { .. } => None,
            ItemKind::Lines { sender, .. } | ItemKind::Http { sender, .. } => sender.parse().ok(),
        }
    }
}

/// Whether a socket was opened by systemd, and how its service is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Activation {
    /// The daemon has bound it itself.
    #[default]
    No,
    /// Its address is in the options.
    ByAddress,
    /// It has the name of a service, and replaces the service's addresses in the options.
    ByName,
}
