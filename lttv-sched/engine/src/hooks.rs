//! Lists of hooks: which are called, in which order, and how often each is registered.
//!
//! A hook is a closure with a key (function, data), chosen by the caller, and a priority. Only keys are compared
//! for equality. If the same key is added n times to one list, it is called once and stays until it was removed n
//! times, so that two requests may share a hook without doing its work twice. Lists are plain values: contexts have one
//! for each tracefile, and requests have the hooks that they want to add there.
//!
//! Invariant: entries are sorted by priority, equal priorities by insertion; each key occurs once; each count is >= 1.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::source::EventId;

/// Order of a hook among those of one event: 0 first, 99 last.
pub type Priority = u8;

/// Viewers' hooks, and the default.
pub const PRIORITY_DEFAULT: Priority = 50;
/// Statistics of the state that ends with this event.
pub const PRIORITY_STATS_BEFORE: Priority = 20;
/// State models process the event.
pub const PRIORITY_STATE: Priority = 25;
/// Statistics of the state that begins with this event.
pub const PRIORITY_STATS_AFTER: Priority = 30;
/// The greatest priority number.
pub const PRIORITY_LAST: Priority = 99;

/// Identity of a hook: two hooks with equal keys are one hook.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HookKey {
    /// What the hook does.
    pub function: u64,
    /// For whom it does it.
    pub data: u64,
}

impl HookKey {
    /// A new key at each call, for hooks that nobody shares.
    pub fn unique() -> HookKey {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only the uniqueness of the number matters.
        HookKey { function: u64::MAX, data: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

/// A hook's answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Flow {
    /// Go on.
    #[default]
    Go,
    /// End the chunk after this event. All hooks of the event are still called, and this alone ends no request.
    Stop,
    /// The hook cannot do its work. Its request ends as failed; others go on.
    Fail(Box<str>),
}

/// A function with its key and priority. Clones share the function.
pub struct Hook<F: ?Sized> {
    key: HookKey,
    priority: Priority,
    function: Arc<Mutex<F>>,
}

impl<F: ?Sized> Clone for Hook<F> {
    fn clone(&self) -> Self {
        Hook { key: self.key, priority: self.priority, function: self.function.clone() }
    }
}

impl<F: ?Sized> Hook<F> {
    /// A hook around a function that is shared already. `priority` above 99 counts as 99.
    pub fn from_shared(key: HookKey, priority: Priority, function: Arc<Mutex<F>>) -> Self {
        Hook { key, priority: priority.min(PRIORITY_LAST), function }
    }

    /// Its identity.
    pub fn key(&self) -> HookKey {
        self.key
    }

    /// Its priority.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// The function, locked until the guard is dropped. A panic in an earlier call does not lock it for ever.
    pub(crate) fn lock(&self) -> MutexGuard<'_, F> {
        self.function.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of the function: equal if two hooks share it.
    pub(crate) fn address(&self) -> *const () {
        Arc::as_ptr(&self.function).cast()
    }
}

struct Entry<F: ?Sized> {
    hook: Hook<F>,
    ref_count: usize,
}

impl<F: ?Sized> Clone for Entry<F> {
    fn clone(&self) -> Self {
        Entry { hook: self.hook.clone(), ref_count: self.ref_count }
    }
}

/// The same key was added with two priorities.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("hook {key:?} is registered with priority {registered}, asked for with {asked}")]
pub struct PriorityMismatch {
    /// The hook.
    pub key: HookKey,
    /// The priority it has.
    pub registered: Priority,
    /// The priority that was asked for.
    pub asked: Priority,
}

/// The result of calling a list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Called {
    /// A hook asked to end the chunk.
    pub stop: bool,
    /// Hooks that failed, with their reasons; a panic counts as failure.
    pub failures: Vec<(HookKey, Box<str>)>,
}

/// An ordered list of hooks.
pub struct Hooks<F: ?Sized> {
    entries: Vec<Entry<F>>,
}

impl<F: ?Sized> Default for Hooks<F> {
    fn default() -> Self {
        Hooks { entries: Vec::new() }
    }
}

impl<F: ?Sized> Clone for Hooks<F> {
    fn clone(&self) -> Self {
        Hooks { entries: self.entries.clone() }
    }
}

impl<F: ?Sized> Hooks<F> {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no hook is registered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of different hooks.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The hooks in the order of their calls, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&Hook<F>, usize)> {
        self.entries.iter().map(|entry| (&entry.hook, entry.ref_count))
    }

    /// Whether the hook is registered.
    pub fn contains(&self, key: HookKey) -> bool {
        self.place(key).is_some()
    }

    fn place(&self, key: HookKey) -> Option<usize> {
        self.entries.iter().position(|entry| entry.hook.key == key)
    }

    fn check(&self, hook: &Hook<F>) -> Result<Option<usize>, PriorityMismatch> {
        let Some(at) = self.place(hook.key) else { return Ok(None) };
        let registered = self.entries[at].hook.priority;
        if registered == hook.priority {
            Ok(Some(at))
        } else {
            Err(PriorityMismatch { key: hook.key, registered, asked: hook.priority })
        }
    }

    /// Registers a hook once more. The first registration decides which function is called.
    ///
    /// # Errors
    /// The key is registered with another priority; nothing was changed.
    pub fn add(&mut self, hook: Hook<F>) -> Result<(), PriorityMismatch> {
        match self.check(&hook)? {
            Some(at) => self.entries[at].ref_count += 1,
            None => {
                let at = self.entries.partition_point(|entry| entry.hook.priority <= hook.priority);
                self.entries.insert(at, Entry { hook, ref_count: 1 });
            }
        }
        Ok(())
    }

    /// Whether `add_list` would succeed.
    ///
    /// # Errors
    /// One of the keys is registered with another priority.
    pub fn accepts(&self, list: &Hooks<F>) -> Result<(), PriorityMismatch> {
        list.entries.iter().try_for_each(|entry| self.check(&entry.hook).map(drop))
    }

    /// Registers each hook of `list` once more, whatever its count in `list`.
    ///
    /// # Errors
    /// One of the keys is registered with another priority; nothing was changed.
    pub fn add_list(&mut self, list: &Hooks<F>) -> Result<(), PriorityMismatch> {
        self.accepts(list)?;
        for entry in &list.entries {
            self.add(entry.hook.clone())?;
        }
        Ok(())
    }

    fn release(&mut self, at: usize) -> Option<Hook<F>> {
        let entry = &mut self.entries[at];
        entry.ref_count -= 1;
        (entry.ref_count == 0).then(|| self.entries.remove(at).hook)
    }

    /// Removes one registration of the first hook with this function. Returns its data if that was the last one.
    pub fn remove(&mut self, function: u64) -> Option<u64> {
        let at = self.entries.iter().position(|entry| entry.hook.key.function == function)?;
        self.release(at).map(|hook| hook.key.data)
    }

    /// Removes one registration of this hook, if there is one.
    pub fn remove_data(&mut self, key: HookKey) {
        if let Some(at) = self.place(key) {
            self.release(at);
        }
    }

    /// Removes one registration of each hook of `list`.
    pub fn remove_list(&mut self, list: &Hooks<F>) {
        list.entries.iter().for_each(|entry| self.remove_data(entry.hook.key));
    }

    /// Calls every hook in order. If one asks to stop, the later ones are still called.
    pub fn call(&self, mut apply: impl FnMut(&mut F) -> Flow) -> Called {
        let mut called = Called::default();
        for entry in &self.entries {
            called.note(entry.hook.key, call_one(&entry.hook, &mut apply));
        }
        called
    }

    /// Calls hooks in order until one asks to stop.
    pub fn call_check(&self, mut apply: impl FnMut(&mut F) -> Flow) -> Called {
        let mut called = Called::default();
        for entry in &self.entries {
            called.note(entry.hook.key, call_one(&entry.hook, &mut apply));
            if called.stop {
                break;
            }
        }
        called
    }

    /// The hooks of both lists, ordered by priority; at equal priority those of `self` first. A key in both lists
    /// comes twice, because the two registrations are of different kinds.
    pub fn merged<'a>(&'a self, other: &'a Hooks<F>) -> impl Iterator<Item = &'a Hook<F>> {
        let (mut a, mut b) = (self.entries.iter().peekable(), other.entries.iter().peekable());
        std::iter::from_fn(move || {
            let first = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) => x.hook.priority <= y.hook.priority,
                (x, _) => x.is_some(),
            };
            if first { a.next() } else { b.next() }.map(|entry| &entry.hook)
        })
    }

    /// Calls the hooks of both lists in the order of [`Hooks::merged`].
    pub fn call_merge(&self, other: &Hooks<F>, mut apply: impl FnMut(&mut F) -> Flow) -> Called {
        let mut called = Called::default();
        for hook in self.merged(other) {
            called.note(hook.key, call_one(hook, &mut apply));
        }
        called
    }
}

impl Called {
    fn note(&mut self, key: HookKey, flow: Flow) {
        match flow {
            Flow::Go => {}
            Flow::Stop => self.stop = true,
            Flow::Fail(why) => self.failures.push((key, why)),
        }
    }
}

fn call_one<F: ?Sized>(hook: &Hook<F>, apply: &mut impl FnMut(&mut F) -> Flow) -> Flow {
    let mut function = hook.lock();
    // This engine does not call a failed hook's closure again, so nobody sees what the panic left unfinished.
    catch_unwind(AssertUnwindSafe(|| apply(&mut function)))
        .unwrap_or_else(|panic| Flow::Fail(panic_text(panic.as_ref())))
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> Box<str> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("no message")).into()
}

/// Hook lists for chosen events: one for each (channel, event id).
pub struct HooksById<F: ?Sized> {
    lists: BTreeMap<Arc<str>, BTreeMap<EventId, Hooks<F>>>,
}

impl<F: ?Sized> Default for HooksById<F> {
    fn default() -> Self {
        HooksById { lists: BTreeMap::new() }
    }
}

impl<F: ?Sized> Clone for HooksById<F> {
    fn clone(&self) -> Self {
        HooksById { lists: self.lists.clone() }
    }
}

impl<F: ?Sized> HooksById<F> {
    /// No lists.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is no list.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// The list of an event of a channel, created if it does not exist.
    pub fn find(&mut self, channel: &str, id: EventId) -> &mut Hooks<F> {
        let ids = match self.lists.entry(channel.into()) {
            MapEntry::Occupied(ids) => ids.into_mut(),
            MapEntry::Vacant(ids) => ids.insert(BTreeMap::new()),
        };
        ids.entry(id).or_default()
    }

    /// The list of an event of a channel.
    pub fn get(&self, channel: &str, id: EventId) -> Option<&Hooks<F>> {
        self.lists.get(channel)?.get(&id)
    }

    /// The lists of one channel by event id.
    pub fn of_channel(&self, channel: &str) -> Option<&BTreeMap<EventId, Hooks<F>>> {
        self.lists.get(channel)
    }

    /// All lists with their channel and id.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, EventId, &Hooks<F>)> {
        self.lists.iter().flat_map(|(channel, ids)| ids.iter().map(move |(id, list)| (channel, *id, list)))
    }

    /// Calls `add_list` for each list.
    ///
    /// # Errors
    /// As [`Hooks::add_list`]; lists before the bad one were added.
    pub fn add_all(&mut self, other: &HooksById<F>) -> Result<(), PriorityMismatch> {
        other.iter().try_for_each(|(channel, id, list)| self.find(channel, id).add_list(list))
    }
}

/// Map event name -> list. Applies to all events of that name, whatever their channels, ids and traces.
pub struct HooksByName<F: ?Sized> {
    lists: BTreeMap<Arc<str>, Hooks<F>>,
}

impl<F: ?Sized> Default for HooksByName<F> {
    fn default() -> Self {
        HooksByName { lists: BTreeMap::new() }
    }
}

impl<F: ?Sized> Clone for HooksByName<F> {
    fn clone(&self) -> Self {
        HooksByName { lists: self.lists.clone() }
    }
}

impl<F: ?Sized> HooksByName<F> {
    /// No lists.
    pub fn new() -> Self {
        Self::default()
    }

    /// The list of the events of a name, created if it does not exist.
    pub fn find(&mut self, name: &str) -> &mut Hooks<F> {
        self.lists.entry(name.into()).or_default()
    }

    /// The list of the events of a name.
    pub fn get(&self, name: &str) -> Option<&Hooks<F>> {
        self.lists.get(name)
    }

    /// All lists with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Hooks<F>)> {
        self.lists.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type F = dyn FnMut(&mut Vec<u64>) -> Flow + Send;

    fn hook(function: u64, data: u64, priority: Priority) -> Hook<F> {
        let shared: Arc<Mutex<F>> = Arc::new(Mutex::new(move |seen: &mut Vec<u64>| {
            seen.push(function * 10 + data);
            Flow::Go
        }));
        Hook::from_shared(HookKey { function, data }, priority, shared)
    }

    fn answering(function: u64, flow: Flow) -> Hook<F> {
        let shared: Arc<Mutex<F>> = Arc::new(Mutex::new(move |seen: &mut Vec<u64>| {
            seen.push(function);
            flow.clone()
        }));
        Hook::from_shared(HookKey { function, data: 0 }, 50, shared)
    }

    fn calls(list: &Hooks<F>) -> Vec<u64> {
        let mut seen = Vec::new();
        list.call(|f| f(&mut seen));
        seen
    }

    fn shape(list: &Hooks<F>) -> Vec<(HookKey, Priority, usize)> {
        list.iter().map(|(hook, count)| (hook.key(), hook.priority(), count)).collect()
    }

    #[test]
    fn r_h1_a_hook_added_n_times_is_called_once_and_stays_until_n_removes() {
        let mut list = Hooks::new();
        for _ in 0..3 {
            list.add(hook(1, 1, 50)).unwrap();
        }
        for left in [2, 1] {
            assert_eq!(calls(&list), [11]);
            list.remove_data(HookKey { function: 1, data: 1 });
            assert_eq!(list.iter().next().unwrap().1, left);
        }
        assert_eq!(list.remove(1), Some(1));
        assert!(list.is_empty());
        assert_eq!(list.remove(1), None);
        list.remove_data(HookKey { function: 1, data: 1 });
    }

    #[test]
    fn order_is_priority_then_insertion_and_a_second_priority_is_refused() {
        let mut list = Hooks::new();
        for (function, priority) in [(1, 50), (2, 25), (3, 50), (4, 0), (5, 99), (6, 25)] {
            list.add(hook(function, 0, priority)).unwrap();
        }
        assert_eq!(calls(&list), [40, 20, 60, 10, 30, 50]);
        let mismatch = list.add(hook(3, 0, 51)).unwrap_err();
        assert_eq!((mismatch.registered, mismatch.asked), (50, 51));
        let mut more = Hooks::new();
        more.add(hook(7, 0, 1)).unwrap();
        more.add(hook(3, 0, 2)).unwrap();
        let before = shape(&list);
        assert!(list.add_list(&more).is_err());
        assert_eq!(shape(&list), before, "a refused list changes nothing");
    }

    #[test]
    fn call_calls_all_call_check_stops_and_a_panic_is_a_failure() {
        let mut list = Hooks::new();
        list.add(answering(1, Flow::Go)).unwrap();
        list.add(answering(2, Flow::Stop)).unwrap();
        list.add(answering(3, Flow::Fail("no".into()))).unwrap();
        let mut seen = Vec::new();
        let called = list.call(|f| f(&mut seen));
        assert_eq!(seen, [1, 2, 3]);
        assert!(called.stop);
        assert_eq!(called.failures, [(HookKey { function: 3, data: 0 }, "no".into())]);
        seen.clear();
        list.call_check(|f| f(&mut seen));
        assert_eq!(seen, [1, 2]);
        let called = list.call(|_| -> Flow { std::panic::resume_unwind(Box::new("ouch")) });
        assert_eq!(called.failures.len(), 3);
        assert_eq!(&*called.failures[0].1, "panic: ouch");
    }

    #[test]
    fn call_merge_keeps_one_order_first_list_first_at_equal_priority() {
        let (mut a, mut b) = (Hooks::new(), Hooks::new());
        for (function, priority) in [(1, 10), (2, 50), (3, 90)] {
            a.add(hook(function, 0, priority)).unwrap();
        }
        for (function, priority) in [(4, 10), (2, 50), (5, 20)] {
            b.add(hook(function, 1, priority)).unwrap();
        }
        let mut seen = Vec::new();
        a.call_merge(&b, |f| f(&mut seen));
        assert_eq!(seen, [10, 41, 51, 20, 21, 30]);
    }

    #[test]
    fn find_creates_get_does_not_and_channels_are_apart() {
        let mut map: HooksById<F> = HooksById::new();
        assert!(map.get("a", EventId(1)).is_none());
        map.find("a", EventId(1)).add(hook(1, 0, 50)).unwrap();
        assert!(map.get("b", EventId(1)).is_none());
        let mut other = HooksById::new();
        other.add_all(&map).unwrap();
        other.add_all(&map).unwrap();
        assert_eq!(other.get("a", EventId(1)).unwrap().iter().next().unwrap().1, 2);
    }

    proptest! {
        #[test]
        fn r_h2_adding_a_list_and_removing_it_restores_everything(
            a in proptest::collection::vec((0u64..6, 0u64..3, 1usize..4), 0..12),
            b in proptest::collection::vec((0u64..6, 0u64..3, 1usize..4), 0..12),
        ) {
            let build = |spec: &[(u64, u64, usize)]| {
                let mut list = Hooks::new();
                for &(function, data, count) in spec {
                    for _ in 0..count {
                        list.add(hook(function, data, (function * 7 % 4) as Priority)).unwrap();
                    }
                }
                list
            };
            let (mut a, b) = (build(&a), build(&b));
            let before = shape(&a);
            a.add_list(&b).unwrap();
            // I-6: each count is adds - removes, at least 1.
            for (key, _, count) in shape(&a) {
                let was = before.iter().find(|entry| entry.0 == key).map_or(0, |entry| entry.2);
                prop_assert_eq!(count, was + usize::from(b.contains(key)));
            }
            a.remove_list(&b);
            prop_assert_eq!(shape(&a), before);
        }
    }
}
