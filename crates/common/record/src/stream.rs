//! Responses that arrive in parts.

use serde::{Deserialize, Serialize};
use stats::Estimate;

use crate::{Distribution, Offer};

/// Server-sent events, and when the parts of responses arrived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamTimes {
    /// Events of all responses.
    pub events: u64,
    /// Those that arrived in the windows of the slices kept.
    pub events_in_window: u64,
    /// From sending a request to the first byte of its response.
    pub first_byte: Distribution,
    /// The same to the first event.
    pub first_event: Distribution,
    /// From one event to the next of the same response; zero for events that arrived together.
    pub gaps: Distribution,
}

impl StreamTimes {
    /// The times of a part.
    pub fn times(&self, part: StreamPart) -> &Distribution {
        match part {
            StreamPart::FirstByte => &self.first_byte,
            StreamPart::FirstEvent => &self.first_event,
            StreamPart::Gap => &self.gaps,
        }
    }
}

/// A part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamPart {
    /// Until its first byte.
    FirstByte,
    /// Until its first event.
    FirstEvent,
    /// From one event to the next.
    Gap,
}

impl StreamPart {
    /// All of them, in order.
    pub const ALL: [StreamPart; 3] =
        [StreamPart::FirstByte, StreamPart::FirstEvent, StreamPart::Gap];
}

/// The mean time of a part of responses, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamComparison {
    /// Index of the baseline.
    pub baseline: u32,
    /// Index of the variant.
    pub variant: u32,
    /// The offer whose trials are compared.
    pub offer: Offer,
    /// The part.
    pub part: StreamPart,
    /// Variant ÷ baseline. The intervals of all parts hold together with the confidence of one.
    pub ratio: Estimate,
}
