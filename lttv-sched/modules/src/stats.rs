//! Counts of events and CPU time: by event, CPU, process and mode.
//!
//! While a pass runs each CPU has a current branch: what runs on it, in which mode. Events are counted in the
//! branch of their CPU as it was before them; at each change of the state the time since the last change goes
//! to the branch that ends. Totals are formed once, when the pass is over; the attribute tree only when
//! somebody asks for it ([`tree_of`]), as it is many times larger than what it is made of.

mod branches;
mod collect;
mod counts;
mod tree;
mod window;

use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::EndReason;
use lttv_engine::hooks::{
    Flow, Hook, HookKey, PRIORITY_DEFAULT, PRIORITY_STATS_AFTER, PRIORITY_STATS_BEFORE,
};
use lttv_engine::module::{Module, ModuleHooks};
use lttv_engine::source::{EventId, Source};

use crate::state::{self, SystemState, kind_of};
use collect::Collector;

/// Name of the module and of its result, a [`Stats`].
pub const NAME: &str = "stats";

/// Computes the statistics of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatsModule;

const BEFORE: HookKey = HookKey { function: 0x7374_6174, data: 0 };
const AFTER: HookKey = HookKey { function: 0x7374_6174, data: 1 };
const DONE: HookKey = HookKey { function: 0x7374_6174, data: 2 };

impl Module for StatsModule {
    fn name(&self) -> &str {
        NAME
    }

    fn prerequisites(&self) -> &[&str] {
        &[state::NAME]
    }

    fn hooks(&self, source: &Arc<dyn Source>) -> ModuleHooks {
        let collector = Arc::new(Mutex::new(Collector::new(source.tracefiles())));
        let unknown = SystemState::default();
        let mut hooks = ModuleHooks::default();
        let to = collector.clone();
        let before = Hook::event(BEFORE, PRIORITY_STATS_BEFORE, move |call| {
            let state = call.state::<SystemState>().unwrap_or(&unknown);
            to.lock().unwrap_or_else(PoisonError::into_inner).before(&call.event, state);
            Flow::Go
        });
        let to = collector.clone();
        let after = Hook::event(AFTER, PRIORITY_STATS_AFTER, move |call| {
            if let Some(state) = call.state::<SystemState>() {
                to.lock().unwrap_or_else(PoisonError::into_inner).after(&call.event, state);
            }
            Flow::Go
        });
        let done = Hook::border(DONE, PRIORITY_DEFAULT, move |call| {
            if call.reason == Some(&EndReason::Completed) {
                let state = call.context.and_then(|context| context.state::<SystemState>(0));
                let stats = collector.lock().unwrap_or_else(PoisonError::into_inner).finish(state);
                let stats = Arc::new(stats);
                if let Some(own) = call.own.as_deref_mut() {
                    own.publish(NAME, stats);
                }
            }
            Flow::Go
        });
        let mut added = hooks.event.add(before).and(hooks.hook_remover.add(done));
        for info in source.tracefiles() {
            for (id, class) in (0u32..).zip(info.classes.iter()) {
                let list = hooks.event_by_id.find(&info.channel, EventId(id));
                if kind_of(&class.name).is_some() && !list.contains(AFTER) {
                    added = added.and(list.add(after.clone()));
                }
            }
        }
        debug_assert!(added.is_ok(), "each hook has one priority");
        hooks
    }
}

pub use branches::{Branch, Branches, ThreadInfo};
pub use counts::Stats;
pub use tree::tree_of_stats as tree_of;
pub use window::WindowStats;
