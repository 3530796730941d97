//! The event hooks that requests and modules have added to a context for a chunk, by tracefile.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::call::EventHooks;
use crate::source::{EventId, TracefileInfo};

/// The hooks of one tracefile.
#[derive(Default)]
pub(crate) struct SlotHooks {
    pub(crate) event: EventHooks,
    pub(crate) event_by_id: BTreeMap<EventId, EventHooks>,
    /// The ids of names that were looked up.
    ids_of_names: BTreeMap<Arc<str>, Arc<[EventId]>>,
}

impl SlotHooks {
    /// The ids that the events of a name have in a tracefile. The classes are searched only the first time.
    pub(crate) fn ids_of(&mut self, name: &Arc<str>, info: &TracefileInfo) -> Arc<[EventId]> {
        if let Some(known) = self.ids_of_names.get(name) {
            return known.clone();
        }
        let classes = (0..).zip(info.classes.iter());
        let ids: Arc<[EventId]> =
            classes.filter(|(_, class)| class.name == *name).map(|(id, _)| EventId(id)).collect();
        self.ids_of_names.insert(name.clone(), ids.clone());
        ids
    }
}

/// The hooks of all tracefiles of a context. It belongs to one list of traces: another list needs a new one.
#[derive(Default)]
pub(crate) struct Registered {
    slots: Vec<SlotHooks>,
}

impl Registered {
    /// The hooks of a tracefile, by its index in the context.
    pub(crate) fn slot_mut(&mut self, slot: usize) -> &mut SlotHooks {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, SlotHooks::default);
        }
        &mut self.slots[slot]
    }

    /// The hooks of a tracefile, if it ever had one.
    pub(crate) fn slot(&self, slot: usize) -> Option<&SlotHooks> {
        self.slots.get(slot)
    }

    /// Number of hooks of all tracefiles.
    pub(crate) fn hook_count(&self) -> usize {
        let count = |slot: &SlotHooks| {
            slot.event.len() + slot.event_by_id.values().map(EventHooks::len).sum::<usize>()
        };
        self.slots.iter().map(count).sum()
    }
}
