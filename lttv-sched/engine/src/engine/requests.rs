//! Events requests: foreground work.

use super::{CommandError, Engine};
use crate::call::EndReason;
use crate::foreground::Interval;
use crate::ids::{OwnerId, RequestId, TracesetId};
use crate::request::{Accepted, EventsRequest, Start};
use crate::turn::Env;

impl Engine {
    /// Submits a request. Later steps serve it; its hooks may be called until it has ended.
    ///
    /// # Errors
    /// The request has no start, or names a trace that does not exist or a position of another traceset.
    pub fn events_request(
        &mut self,
        id: TracesetId,
        request: EventsRequest,
    ) -> Result<RequestId, CommandError> {
        let request_id = self.commands.allocate();
        self.submit(id, request_id, request)?;
        Ok(request_id)
    }

    pub(super) fn submit(
        &mut self,
        id: TracesetId,
        request_id: RequestId,
        spec: EventsRequest,
    ) -> Result<(), CommandError> {
        let traceset = self.tracesets.get_mut(&id).ok_or(CommandError::NoTraceset)?;
        for position in spec.start_position.iter().chain(&spec.end_position) {
            position.check(&traceset.context.fingerprint)?;
        }
        let start = match (&spec.start_position, spec.start_time) {
            (Some(position), _) => Start::Position(position.clone()),
            (None, Some(t)) => Start::Time(t),
            (None, None) => return Err(CommandError::NoStart),
        };
        let count = traceset.context.traces.len();
        let trace = match spec.trace {
            None => None,
            Some(index) => {
                let context = traceset.context.traces.get(index);
                Some(context.ok_or(CommandError::NoSuchIndex { index, count })?.id)
            }
        };
        spec.stop_flag.attach(&self.attention);
        traceset.list_out.push(Accepted {
            id: request_id,
            remaining: spec.num_events,
            spec,
            start,
            resumed: false,
            trace,
            servicing: false,
            entered: false,
            delivered: 0,
            last_delivered: None,
            first: None,
            failed: None,
        });
        self.accepted += 1;
        Ok(())
    }

    /// Removes every request of an owner from a traceset and returns their number. Their after_request hooks get
    /// `Removed`.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn remove_all(&mut self, id: TracesetId, owner: OwnerId) -> Result<usize, CommandError> {
        self.end_requests(id, |request| request.spec.owner == owner, &EndReason::Removed)
    }

    /// Removes one request. Returns false if it has ended already.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn remove(&mut self, id: TracesetId, request: RequestId) -> Result<bool, CommandError> {
        let count = self.end_requests(id, |accepted| accepted.id == request, &EndReason::Removed)?;
        Ok(count > 0)
    }

    /// Removes every request of an owner that is itself going away. Nothing is called.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn remove_all_silent(&mut self, id: TracesetId, owner: OwnerId) -> Result<usize, CommandError> {
        let traceset = self.tracesets.get_mut(&id).ok_or(CommandError::NoTraceset)?;
        let before = traceset.list_out.len();
        traceset.list_out.retain(|request| request.spec.owner != owner);
        let removed = before - traceset.list_out.len();
        traceset.completed.remove(&owner);
        self.silent += removed as u64;
        Ok(removed)
    }

    /// Ends all foreground service of a traceset. Viewers that want to go on submit their requests again.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn stop(&mut self, id: TracesetId) -> Result<usize, CommandError> {
        self.end_requests(id, |_| true, &EndReason::Stopped)
    }

    fn end_requests(
        &mut self,
        id: TracesetId,
        which: impl Fn(&Accepted) -> bool,
        reason: &EndReason,
    ) -> Result<usize, CommandError> {
        let traceset = self.tracesets.get_mut(&id).ok_or(CommandError::NoTraceset)?;
        Ok(traceset.end_where(which, reason, &mut env!(self, None)))
    }

    /// The parts of a traceset that requests of an owner were given, whatever ended the requests, oldest first.
    /// Cleared when the traces of the traceset change.
    pub fn completed(&self, id: TracesetId, owner: OwnerId) -> &[Interval] {
        self.tracesets.get(&id).and_then(|traceset| traceset.completed.get(&owner)).map_or(&[], Vec::as_slice)
    }

    /// Clears the list of [`Engine::completed`] for an owner.
    pub fn forget_completed(&mut self, id: TracesetId, owner: OwnerId) {
        if let Some(traceset) = self.tracesets.get_mut(&id) {
            traceset.completed.remove(&owner);
        }
    }
}
