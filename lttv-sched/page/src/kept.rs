//! Timelines and states that earlier runs have kept, and keeping those of this run.
//!
//! A pass over a large trace takes many seconds, and its result fits into some megabytes. It is kept where the command
//! says ([`Shown::kept`](crate::Shown)), under the content of the trace, so a trace that has changed is read anew.

use std::sync::Arc;

use lttv_engine::background::BackgroundNotify;
use lttv_engine::driver::Handle;
use lttv_engine::engine::{CommandError, Engine};
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::ids::{OwnerId, TraceId};
use lttv_engine::kept::Kept;
use lttv_engine::source::Source;
use lttv_modules::state;
use lttv_modules::timeline::{self, Timeline};

/// Under which names the parts are kept. The states are those of the command `lttv` too.
const TIMELINE: &str = "timeline";
const STATES: &str = "states";

/// With fewer events than this a pass is over before anybody has waited for it.
const EVENTS_WORTH_KEEPING: u64 = 500_000;

/// What is kept of one trace.
pub(crate) struct KeptTrace {
    folder: Arc<dyn Kept>,
    key: Vec<u8>,
}

impl KeptTrace {
    /// None: its content cannot be told from another's, or nothing is to be kept.
    pub(crate) fn new(folder: Option<&Arc<dyn Kept>>, source: &dyn Source) -> Option<KeptTrace> {
        Some(KeptTrace { folder: folder?.clone(), key: source.content_key()? })
    }

    /// The timeline of an earlier run.
    pub(crate) fn timeline(&self, source: &Arc<dyn Source>) -> Option<Timeline> {
        Timeline::from_bytes(source, &self.key, &self.folder.read(&self.key, TIMELINE)?)
    }

    /// Takes the states of an earlier run, or begins to compute them. Until they are there what is finer than the
    /// timeline keeps begins with unknown states.
    pub(crate) fn begin_states(&self, engine: &Handle, trace: TraceId, owner: OwnerId) {
        let known = self.folder.read(&self.key, STATES);
        let key = self.key.clone();
        // An engine that is gone needs no states.
        let _ = engine.send(move |engine| {
            let is_taken =
                known.is_some_and(|bytes| engine.import_states(trace, state::NAME, &key, &bytes) == Ok(true));
            if !is_taken {
                // The trace is open and the module is registered.
                let _ = engine.request(trace, state::NAME, owner);
            }
        });
    }

    /// Begins to compute the timeline. When it is whole, `done` is told.
    ///
    /// # Errors
    /// The engine refused something.
    pub(crate) fn begin_pass(
        &self,
        engine: &mut Engine,
        trace: TraceId,
        owner: OwnerId,
        mut done: impl FnMut() + Send + 'static,
    ) -> Result<(), CommandError> {
        let told = Hook::on_border(move |_| {
            done();
            Flow::Go
        });
        engine.request_and_notify(trace, BackgroundNotify::new(owner, timeline::NAME, told)).map(drop)
    }

    /// Keeps what a pass has computed, if it took long enough.
    pub(crate) fn keep(&self, engine: &Handle, trace: TraceId) {
        let found = engine.call(move |engine| engine.trace(trace)?.data().result::<Timeline>(timeline::NAME));
        let Some(timeline) = found.ok().flatten().filter(|found| found.events().0 >= EVENTS_WORTH_KEEPING)
        else {
            return;
        };
        if let Some(bytes) = timeline.to_bytes(&self.key) {
            self.folder.write(&self.key, TIMELINE, &bytes);
        }
        let key = self.key.clone();
        if let Ok(Some(bytes)) = engine.call(move |engine| engine.export_states(trace, state::NAME, &key)) {
            self.folder.write(&self.key, STATES, &bytes);
        }
    }
}
