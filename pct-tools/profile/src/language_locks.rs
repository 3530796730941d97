//! Locks of languages: Java's monitors and the locks of `java.util.concurrent`, Python's locks and its interpreter's.
//!
//! Runtimes make them of conditions and semaphores, which threads otherwise wait for work with, and Java has one for
//! each thread, not for each lock. So the functions that wait tell what it is for, and which lock it is stays unknown:
//! waits for such a lock in one function of a program are for one object. Who ended a wait is who released the lock.

use crate::fold::{interpreters, is_spoken};
use crate::ids::{FunctionId, ObjectId, ProcessId, StackId};
use crate::model::Profile;
use crate::waits::{LanguageLock, Object, WaitClass, WaitRow, Waits};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Parts the waits for locks of languages from those for work, and adds their time to that of locks.
pub(crate) fn part(profile: &mut Profile) {
    let mut waits = std::mem::take(&mut profile.waits);
    let mut objects: FxHashMap<(ProcessId, LanguageLock, Option<FunctionId>), usize> = FxHashMap::default();
    let mut moved: FxHashMap<_, (u64, u64)> = FxHashMap::default();
    // One stack tells what an object is, also where another one has no names.
    let runtimes = Runtimes::from_profile(profile);
    let lock_of = |stack: StackId| runtimes.lock_of(stack);
    let is_gil = |row: &&WaitRow| lock_of(row.stack).is_some_and(|(lock, _)| lock == LanguageLock::Gil);
    let gils: FxHashSet<usize> = waits.rows.iter().filter(is_gil).map(|row| row.object).collect();
    let told = |(object, class): (usize, WaitClass), stack: StackId| {
        let lock = if gils.contains(&object) { Some((LanguageLock::Gil, None)) } else { lock_of(stack) };
        // The mutex beside the condition of Python's interpreter is a part of its lock.
        lock.filter(|(lock, _)| class != WaitClass::Lock || *lock == LanguageLock::Gil)
    };
    for row in &mut waits.rows {
        let object = waits.objects[row.object];
        let class = object.class();
        let Some((lock, function)) = told((row.object, class), row.stack) else { continue };
        let (work, futexes) = moved.entry(row.thread).or_default();
        match class {
            WaitClass::Lock => {}
            WaitClass::Work => *work += row.figures.ns,
            WaitClass::Futex => *futexes += row.figures.ns,
        }
        let new = waits.objects.len();
        row.object = *objects.entry((object.process, lock, function)).or_insert(new);
        if row.object == new {
            let of_language = Some(lock);
            waits.objects.push(Object { address: 0, first_stack: row.stack, of_language, ..object });
        }
    }
    // The same for each wait by itself, where those were kept.
    for wait in waits.chains.iter_mut().flat_map(|chain| &mut chain.threads).flat_map(|life| &mut life.waits)
    {
        let object = waits.objects[wait.object];
        let known = told((wait.object, object.class()), wait.stack)
            .and_then(|(lock, function)| objects.get(&(object.process, lock, function)));
        wait.object = known.copied().unwrap_or(wait.object);
    }
    for time in &mut waits.threads {
        let (work, futexes) = moved.get(&time.thread).copied().unwrap_or_default();
        time.work_ns = time.work_ns.saturating_sub(work);
        time.futexes_ns = time.futexes_ns.saturating_sub(futexes);
        time.locks_ns = time.locks_ns.saturating_add(work).saturating_add(futexes);
    }
    if !objects.is_empty() {
        sort_rows(&mut waits);
    }
    profile.waits = waits;
}

/// Rows of the objects that were waited for longest come first.
fn sort_rows(waits: &mut Waits) {
    let mut sums = vec![0_u64; waits.objects.len()];
    for row in &waits.rows {
        sums[row.object] = sums[row.object].saturating_add(row.figures.ns);
    }
    waits.rows.sort_by_key(|row| {
        let (object, ns) = (Reverse(sums[row.object]), Reverse(row.figures.ns));
        (object, row.object, ns, row.thread, row.stack)
    });
}

/// A function on a stack.
struct Call<'p> {
    id: FunctionId,
    /// Without what it is given.
    name: &'p str,
    object: &'p str,
    is_spoken: bool,
}

impl Call<'_> {
    /// Whether it is a function of the module in which Python's locks are.
    fn is_of_threading(&self) -> bool {
        self.object.rsplit('/').next() == Some("threading.py")
    }
}

/// What functions of a runtime say of a wait in them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InRuntime {
    Gil,
    Monitor,
    /// A thread of Java's sleeps until another one wakes it: its caller knows why.
    Parked,
    /// A lock of Python's, or what is made of one: its caller knows which.
    PythonLock,
    Work,
}

impl InRuntime {
    /// By a function of CPython.
    fn in_python(name: &str) -> Option<Self> {
        match name {
            // The last two wait for nothing else, and have names in a stripped interpreter too.
            "take_gil" | "drop_gil" | "PyEval_RestoreThread" | "PyEval_AcquireThread" => Some(Self::Gil),
            "PyThread_acquire_lock_timed" => Some(Self::PythonLock),
            _ => None,
        }
    }

    /// By a function of HotSpot.
    fn in_java(name: &str) -> Option<Self> {
        match name {
            "ObjectMonitor::wait" | "JavaThread::sleep" => Some(Self::Work),
            "ObjectMonitor::EnterI" | "ObjectMonitor::ReenterI" => Some(Self::Monitor),
            "Parker::park" | "Unsafe_Park" => Some(Self::Parked),
            _ if name.starts_with("ObjectMonitor::enter") => Some(Self::Monitor),
            _ => None,
        }
    }
}

/// What is known of the runtimes of a profile. A program may have functions of such names too.
#[derive(Debug)]
pub(crate) struct Runtimes<'p> {
    profile: &'p Profile,
    /// The images of CPython.
    pythons: FxHashSet<ObjectId>,
}

impl<'p> Runtimes<'p> {
    pub(crate) fn from_profile(profile: &'p Profile) -> Self {
        Self { profile, pythons: interpreters(profile) }
    }

    fn of_call(&self, call: &Call<'_>) -> Option<InRuntime> {
        if call.object.starts_with("libjvm") {
            return InRuntime::in_java(call.name);
        }
        let object = self.profile.functions[call.id].object;
        if self.pythons.contains(&object) { InRuntime::in_python(call.name) } else { None }
    }

    /// The lock of a language that a wait in this stack is for, and the function of the program that takes it (`None`:
    /// it is one lock for all). `None`: the wait is for something else.
    pub(crate) fn lock_of(&self, stack: StackId) -> Option<(LanguageLock, Option<FunctionId>)> {
        let profile = self.profile;
        let mut calls = profile.outwards(stack).map(|(_, frame)| {
            let function = &profile.functions[frame.function];
            Call {
                id: frame.function,
                name: function.name.split('(').next().unwrap_or_default(),
                object: profile.objects[function.object].name(),
                is_spoken: is_spoken(profile, function.object),
            }
        });
        let (mut in_runtime, mut first) = (None, None);
        for call in calls.by_ref() {
            if call.is_spoken {
                first = Some(call);
                break;
            }
            in_runtime = in_runtime.or_else(|| self.of_call(&call));
        }
        let mut spoken = first.into_iter().chain(calls.filter(|call| call.is_spoken)).peekable();
        match in_runtime? {
            InRuntime::Work => None,
            InRuntime::Gil => Some((LanguageLock::Gil, None)),
            InRuntime::Monitor => Some((LanguageLock::JavaMonitor, taker(spoken))),
            InRuntime::Parked => waits_in_queue(&mut spoken).then(|| (LanguageLock::JavaLock, taker(spoken))),
            InRuntime::PythonLock => {
                let first = spoken.peek()?;
                let method = first.name.rsplit('.').next().unwrap_or_default();
                let is_work = ["wait", "_wait_for_tstate_lock", "join"].contains(&method);
                let is_lock = !(is_work && first.is_of_threading());
                is_lock.then(|| (LanguageLock::PythonLock, taker(spoken)))
            }
        }
    }
}

/// Whether a thread that is parked stands in the queue of a lock: the class that queues are made of says that it stands
/// in one, and what called that class is a lock.
fn waits_in_queue<'p>(spoken: &mut impl Iterator<Item = Call<'p>>) -> bool {
    let mut is_queued = false;
    for call in spoken {
        if call.name.ends_with("Unsafe.park") {
            continue;
        }
        let Some(name) = call.name.strip_prefix("java.util.concurrent.locks.") else { return false };
        if name.starts_with("LockSupport.park") {
            continue;
        }
        if name.starts_with("StampedLock.acquire") {
            return true;
        }
        // A condition's methods take the lock again after a wait: `AbstractQueuedSynchronizer$ConditionObject.await`.
        if name.starts_with("AbstractQueued") && !name.contains("$ConditionObject.") {
            is_queued = true;
            continue;
        }
        return is_queued && (name.starts_with("Reentrant") || name.contains("$ConditionObject."));
    }
    false
}

/// The function that takes the lock: the innermost one that is not the language's own for locks.
fn taker<'p>(mut spoken: impl Iterator<Item = Call<'p>>) -> Option<FunctionId> {
    let is_of_locks =
        |call: &Call<'_>| call.name.starts_with("java.util.concurrent.locks.") || call.is_of_threading();
    spoken.find(|call| !is_of_locks(call)).map(|call| call.id)
}
