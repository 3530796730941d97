//! Commands as data: what hooks ask of the engine while it is at work.
//!
//! A command can be copied, printed, kept and applied again ([`crate::engine::Engine::apply`]), on the same engine or on
//! another one with the same traces. That of a hook is applied at the next chunk border, in the order of asking.

use std::fmt;
use std::sync::Arc;

use crate::background::BackgroundNotify;
use crate::ids::{OwnerId, RequestId, TraceId, TracesetId};
use crate::request::EventsRequest;

/// Something that the engine is to do. Each variant is the method of the engine with its name.
#[derive(Clone)]
#[non_exhaustive]
#[expect(missing_docs, reason = "named as the parameters of the methods are")]
pub enum Command {
    /// [`crate::engine::Engine::events_request`], under an id that was given out before.
    EventsRequest { traceset: TracesetId, id: RequestId, request: Box<EventsRequest> },
    /// [`crate::engine::Engine::remove`].
    Remove { traceset: TracesetId, request: RequestId },
    /// [`crate::engine::Engine::remove_all`].
    RemoveAll { traceset: TracesetId, owner: OwnerId },
    /// [`crate::engine::Engine::stop`].
    Stop { traceset: TracesetId },
    /// [`crate::engine::Engine::request`].
    Request { trace: TraceId, module: Arc<str>, requester: OwnerId },
    /// [`crate::engine::Engine::request_and_notify`].
    RequestAndNotify { trace: TraceId, notify: BackgroundNotify },
    /// [`crate::engine::Engine::cancel`].
    Cancel { trace: TraceId, module: Arc<str> },
    /// [`crate::engine::Engine::notify_remove`].
    NotifyRemove { owner: OwnerId },
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::EventsRequest { traceset, id, request } => {
                write!(f, "events request {} of traceset {} by owner {}", id.0, traceset.0, request.owner.0)?;
                match (&request.start_position, request.start_time) {
                    (Some(_), _) => f.write_str(", from a position")?,
                    (None, Some(start)) => write!(f, ", from {start}")?,
                    (None, None) => f.write_str(", without a start")?,
                }
                if request.end_position.is_some() {
                    f.write_str(", up to a position")?;
                }
                request.end_time.map_or(Ok(()), |end| write!(f, ", until {end}"))?;
                request.num_events.map_or(Ok(()), |most| write!(f, ", {most} events"))?;
                request.trace.map_or(Ok(()), |index| write!(f, ", of the trace with index {index}"))
            }
            Command::Remove { traceset, request } => {
                write!(f, "remove request {} of traceset {}", request.0, traceset.0)
            }
            Command::RemoveAll { traceset, owner } => {
                write!(f, "remove all requests of owner {} from traceset {}", owner.0, traceset.0)
            }
            Command::Stop { traceset } => write!(f, "stop traceset {}", traceset.0),
            Command::Request { trace, module, requester } => {
                write!(f, "compute {module} of trace {} for owner {}", trace.0, requester.0)
            }
            Command::RequestAndNotify { trace, notify } => {
                write!(f, "compute {} of trace {}, notify owner {}", notify.module, trace.0, notify.owner.0)
            }
            Command::Cancel { trace, module } => write!(f, "cancel {module} of trace {}", trace.0),
            Command::NotifyRemove { owner } => write!(f, "drop the notifications of owner {}", owner.0),
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What hooks ask of the engine. Done in order at the next chunk border.
#[derive(Default)]
pub struct Commands {
    queue: Vec<Command>,
    next_request: u64,
}

impl Commands {
    /// Asks for a command to be done. What is refused is a diagnostic.
    pub fn push(&mut self, command: Command) {
        self.queue.push(command);
    }

    /// Submits a request. If it is refused, that is a diagnostic and none of its hooks is called.
    pub fn events_request(&mut self, traceset: TracesetId, request: EventsRequest) -> RequestId {
        let id = self.allocate();
        self.push(Command::EventsRequest { traceset, id, request: Box::new(request) });
        id
    }

    /// [`crate::engine::Engine::remove_all`].
    pub fn remove_all(&mut self, traceset: TracesetId, owner: OwnerId) {
        self.push(Command::RemoveAll { traceset, owner });
    }

    /// [`crate::engine::Engine::request`].
    pub fn request(&mut self, trace: TraceId, module: &str, requester: OwnerId) {
        self.push(Command::Request { trace, module: module.into(), requester });
    }

    pub(crate) fn allocate(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// An id that was given out elsewhere is in use here from now on.
    pub(crate) fn reserve(&mut self, id: RequestId) {
        self.next_request = self.next_request.max(id.0);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn take(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.queue)
    }
}
