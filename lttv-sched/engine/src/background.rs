//! The background scheduler: computes data that depends on a whole trace, once, for all viewers.
//!
//! There is one for each trace, with a private context, so that its cursor and state belong to no viewer. A pass
//! serves all modules that were requested before it began: it reads the trace once for all of them, from its start to
//! its end, one chunk per turn. Requests that arrive while it runs wait for the next pass.
//!
//! Invariants between turns: a module has at most one request, waiting or in the pass; a module is in progress
//! exactly while the pass has a request for it; a notification waits in one list only, and only while there is a pass
//! that it waits for.

use std::sync::Arc;

pub use crate::call::BackgroundNotify;
use crate::context::TracesetContext;
use crate::ids::OwnerId;
use crate::module::ModuleHooks;
use crate::registered::Registered;

/// A module that waits for the next pass.
pub struct BackgroundRequest {
    pub(crate) module: Arc<str>,
    pub(crate) requester: OwnerId,
    pub(crate) hooks: ModuleHooks,
}

/// A module in a running pass.
pub(crate) struct Member {
    pub(crate) module: Arc<str>,
    /// Owner of the request for it. None if it is here because others need it.
    pub(crate) requester: Option<OwnerId>,
    /// The pass computes it anew: its flags change and its states are saved. False if an earlier pass has computed it.
    pub(crate) computed: bool,
    /// Somebody requested it by name. The others leave when no module needs them any more.
    pub(crate) wanted: bool,
    pub(crate) hooks: ModuleHooks,
    /// All modules that it needs, directly or not.
    pub(crate) needs: Vec<Arc<str>>,
    pub(crate) entered: bool,
    pub(crate) failed: Option<String>,
}

/// A running pass.
pub struct Pass {
    pub(crate) context: TracesetContext,
    pub(crate) registered: Registered,
    pub(crate) members: Vec<Member>,
    pub(crate) notify: Vec<BackgroundNotify>,
    /// Number of events delivered so far, which is also the number of the next event.
    pub(crate) events: u64,
}

/// Background work of one trace.
#[derive(Default)]
pub struct Background {
    pub(crate) queue: Vec<BackgroundRequest>,
    pub(crate) notify_queue: Vec<BackgroundNotify>,
    pub(crate) pass: Option<Box<Pass>>,
    /// Passes begun.
    pub passes: u64,
    /// Events read by all passes.
    pub events_read: u64,
}

impl Background {
    /// Whether a turn would do something.
    pub fn has_work(&self) -> bool {
        self.pass.is_some() || !self.queue.is_empty()
    }

    /// Modules that wait for the next pass.
    pub fn queued(&self) -> impl Iterator<Item = &Arc<str>> {
        self.queue.iter().map(|request| &request.module)
    }

    /// Modules that the running pass computes.
    pub fn current(&self) -> impl Iterator<Item = &Arc<str>> {
        let members = self.pass.iter().flat_map(|pass| &pass.members);
        members.filter(|member| member.computed).map(|member| &member.module)
    }

    /// Notifications that wait for the next pass, and for the running one.
    pub fn notifications(&self) -> (usize, usize) {
        (self.notify_queue.len(), self.pass.as_ref().map_or(0, |pass| pass.notify.len()))
    }

    /// The context of the running pass.
    pub fn context(&self) -> Option<&TracesetContext> {
        self.pass.as_ref().map(|pass| &pass.context)
    }

    /// Somebody requests a module of the running pass by name: it is computed to the end, whoever leaves.
    pub(crate) fn claim(&mut self, module: &str) {
        let members = self.pass.iter_mut().flat_map(|pass| &mut pass.members);
        members.filter(|member| *member.module == *module).for_each(|member| member.wanted = true);
    }

    pub(crate) fn notify_current(&mut self, notify: BackgroundNotify) {
        if let Some(pass) = &mut self.pass {
            pass.notify.push(notify);
        }
    }

    pub(crate) fn remove_notifications(&mut self, owner: OwnerId) -> usize {
        let before = self.notifications();
        self.notify_queue.retain(|notify| notify.owner != owner);
        if let Some(pass) = &mut self.pass {
            pass.notify.retain(|notify| notify.owner != owner);
        }
        let after = self.notifications();
        before.0 + before.1 - after.0 - after.1
    }
}
