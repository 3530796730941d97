//! Events requests: the viewer's part ([`EventsRequest`], with the calls of its hooks in [`crate::call`]), and what
//! the engine knows about one that it has accepted.

use crate::call::EndReason;
use crate::ids::{OwnerId, RequestId, TraceId};
use crate::position::Position;
use crate::time::Time;

pub use crate::call::EventsRequest;
pub use crate::flags::{Class, Gate, StopFlag};

/// Where the service of a request begins or continues.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    Time(Time),
    Position(Position),
}

/// An accepted request with what the engine knows about its service.
pub(crate) struct Accepted {
    pub(crate) id: RequestId,
    pub(crate) spec: EventsRequest,
    pub(crate) start: Start,
    /// Whether `start` is where the service was interrupted, and not the viewer's own start.
    pub(crate) resumed: bool,
    pub(crate) remaining: Option<u64>,
    pub(crate) trace: Option<TraceId>,
    pub(crate) servicing: bool,
    pub(crate) delivered: u64,
    pub(crate) last_delivered: Option<Time>,
    pub(crate) first: Option<Position>,
    /// Whether its hooks are in the context.
    pub(crate) entered: bool,
    pub(crate) failed: Option<String>,
}

impl Accepted {
    /// Whether its gate lets it be served.
    pub(crate) fn is_open(&self) -> bool {
        !self.spec.gate.as_ref().is_some_and(Gate::is_closed)
    }
}

/// A request that has ended, for callers that ask the engine instead of using a hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The request.
    pub id: RequestId,
    /// Owner of the request.
    pub owner: OwnerId,
    /// Why it ended.
    pub reason: EndReason,
    /// Events that it was given.
    pub delivered: u64,
}
