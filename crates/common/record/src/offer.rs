//! How requests were offered.

use serde::{Deserialize, Serialize};

/// How requests were offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// A fixed number of connections, each waiting for its response.
    Closed,
    /// Arrivals at a given rate, whatever the server does.
    Open,
    /// Probes and warm-up of a block: in the ledger, never analysed.
    WarmUp,
    /// The calibration's loads: in the ledger, never analysed.
    Calibration,
}

impl Offer {
    /// The word in JSON, SQL and CSV: `closed`, `open`, `warm-up`, `calibration`.
    pub fn word(self) -> &'static str {
        match self {
            Offer::Closed => "closed",
            Offer::Open => "open",
            Offer::WarmUp => "warm-up",
            Offer::Calibration => "calibration",
        }
    }

    /// Whether its trials are analysed.
    pub fn is_measured(self) -> bool {
        matches!(self, Offer::Closed | Offer::Open)
    }
}
