//! An engine whose slots are streams, on top of one whose slots are connections.

use std::io;

use base::Nanos;
use netio::{Engine, EngineLayer, Handler, Wire};

use crate::connection::Connection;
use crate::relay::FrameRelay;
use crate::request::RequestSet;
use crate::streams::{CONNECTIONS_EACH, Layer, StreamSlot, StreamWire};

/// An engine whose connections speak HTTP/2.
pub struct Http2<E> {
    below: E,
    layer: Layer,
}

impl<E: Engine> Http2<E> {
    /// The number of slots that the engine below needs for so many slots in groups of `streams`.
    pub fn slots_below(slots: usize, streams: usize) -> usize {
        slots.div_ceil(streams.max(1)) * CONNECTIONS_EACH
    }

    /// HTTP/2 over the engine `below`, with `slots` slots, of which `streams` share a connection. With
    /// `one_request` a connection that has failed its only request is not used again.
    pub fn new(
        below: E,
        requests: RequestSet,
        slots: usize,
        streams: usize,
        one_request: bool,
    ) -> Http2<E> {
        let connections = Http2::<E>::slots_below(slots, streams);
        let layer = Layer {
            requests,
            streams: streams.max(1),
            one_request,
            slots: (0..slots).map(|_| StreamSlot::default()).collect(),
            connections: (0..connections).map(|_| Connection::default()).collect(),
            broken: Vec::new(),
            freed: Vec::new(),
        };
        Http2 { below, layer }
    }

    /// The engine below.
    pub fn into_below(self) -> E {
        self.below
    }
}

impl<E: Engine> EngineLayer for Http2<E> {
    fn over(&mut self) -> impl Wire {
        StreamWire { below: self.below.wire(), layer: &mut self.layer }
    }
}

impl<E: Engine> Engine for Http2<E> {
    fn wire(&mut self) -> &mut dyn Wire {
        self
    }

    fn turn(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> io::Result<()> {
        let is_settled = self.layer.broken.is_empty() && self.layer.freed.is_empty();
        let timeout = if is_settled { timeout } else { Nanos::ZERO };
        let mut relay = FrameRelay { layer: &mut self.layer, above: handler };
        relay.settle(self.below.wire());
        self.below.turn(timeout, &mut relay)?;
        relay.settle(self.below.wire());
        Ok(())
    }
}
