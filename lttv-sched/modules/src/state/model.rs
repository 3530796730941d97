//! The state as the engine handles it: applied event by event, copied, restored, written to cache files.

use std::any::Any;
use std::sync::Arc;

use lttv_engine::call::Event;
use lttv_engine::source::{EventClass, TracefileInfo};
use lttv_engine::state::{Snapshot, StateModel};

use super::kind::{KernelEvent, kind_of};
use super::losses::Losses;
use super::system::SystemState;

/// First byte of an encoded state: raised whenever its layout changes.
const VERSION: u8 = 4;

/// A [`SystemState`] that follows a trace.
#[derive(Default)]
pub struct SystemModel {
    state: SystemState,
    kinds: Vec<(KernelEvent, Arc<str>)>,
    losses: Losses,
}

impl SystemModel {
    /// A model of a trace that has lost something.
    pub fn new(losses: Losses) -> SystemModel {
        let state = SystemState { losses: losses.clone(), ..SystemState::default() };
        SystemModel { state, kinds: Vec::new(), losses }
    }

    /// The state at this point.
    pub fn state(&self) -> &SystemState {
        &self.state
    }
}

impl StateModel for SystemModel {
    fn classify(&mut self, _tracefile: &TracefileInfo, class: &EventClass) -> Option<u32> {
        let (kind, detail) = kind_of(&class.name)?;
        let known = self.kinds.iter().position(|(other, name)| *other == kind && **name == *detail);
        let index = known.unwrap_or_else(|| {
            self.kinds.push((kind, detail.into()));
            self.kinds.len() - 1
        });
        u32::try_from(index).ok()
    }

    fn apply(&mut self, code: u32, event: &Event<'_>) {
        if let Some((kind, detail)) = self.kinds.get(code as usize) {
            self.state.apply(*kind, detail, event);
        }
    }

    fn reset(&mut self) {
        self.state = SystemState { losses: self.losses.clone(), ..SystemState::default() };
    }

    fn snapshot(&self) -> Snapshot {
        Arc::new(self.state.clone())
    }

    fn restore(&mut self, saved: &Snapshot) {
        if let Some(state) = saved.downcast_ref::<SystemState>() {
            self.state = SystemState { losses: self.losses.clone(), ..state.clone() };
        }
    }

    fn as_any(&self) -> &dyn Any {
        &self.state
    }

    fn encode(&self, saved: &Snapshot) -> Option<Vec<u8>> {
        let state = saved.downcast_ref::<SystemState>()?;
        let mut bytes = vec![VERSION];
        serde_json::to_writer(&mut bytes, state).ok()?;
        Some(bytes)
    }

    fn decode(&self, bytes: &[u8]) -> Option<Snapshot> {
        let (&version, json) = bytes.split_first()?;
        if version != VERSION {
            return None;
        }
        let state: SystemState = serde_json::from_slice(json).ok()?;
        // What the rest of this crate relies on.
        let sound = state.threads.iter().all(|(key, thread)| thread.key == *key && !thread.stack.is_empty())
            && state.cpus.values().all(|cpu| !cpu.modes.is_empty());
        sound.then(|| Arc::new(state) as Snapshot)
    }
}
