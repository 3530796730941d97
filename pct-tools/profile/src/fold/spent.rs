//! Where the time of each language's threads went: in the language, in C, waiting for the lock, collecting garbage,
//! compiling.

use super::roles::{FrameClass, Role, Roles, Walked, images_with_v8, interpreters, walk};
use crate::language::Language;
use crate::model::{Cell, Id, Object, ObjectId, ObjectKind, Profile, Spent, StackId, ThreadId, Weight};
use rustc_hash::{FxHashMap, FxHashSet};

/// Writes down where the time of each language's threads went. For a profile whose frames are all there.
///
/// The interpreter's own functions are the language at work: its arithmetic, its dictionaries, its memory. What they
/// ask of the C library and the kernel is theirs too. C that the language called is what lies in other objects:
/// extension modules, and all that these call.
pub fn account_of_languages(profile: &mut Profile) {
    let roles = Roles::from_profile(profile);
    if !roles.any_spoken() {
        return;
    }
    let walked = walk(profile, &roles);
    let machines = Machines::from_profile(profile);
    let mut spent: FxHashMap<Language, (Spent, bool)> = FxHashMap::default();
    let mut outside = Weight::ZERO;
    for cell in &profile.cells {
        let Some(spoken) = walked[cell.stack.index()].spoken else {
            match own_work(profile, &walked, &machines, cell) {
                Some((language, OwnWork::Garbage)) => {
                    spent.entry(language).or_default().0.garbage += cell.weight
                }
                Some((language, OwnWork::Compiling)) => {
                    spent.entry(language).or_default().0.compiling += cell.weight
                }
                None => outside += cell.weight,
            }
            continue;
        };
        let (spent, nameless) = spent.entry(profile.language(profile.leaf(spoken))).or_default();
        let place = match activity(profile, &walked, cell.stack, spoken) {
            Activity::Language => &mut spent.inside,
            Activity::Nameless => {
                *nameless = true;
                &mut spent.inside
            }
            Activity::Foreign => &mut spent.native,
            Activity::Lock => &mut spent.lock,
            Activity::Garbage => &mut spent.garbage,
            Activity::Compiling => &mut spent.compiling,
        };
        *place += cell.weight;
    }
    let mut spent: Vec<(Language, (Spent, bool))> = spent.into_iter().collect();
    spent.sort_by_key(|(language, _)| *language);
    for (at, (language, (mut spent, nameless))) in spent.into_iter().enumerate() {
        // No language is nearer to it than another.
        spent.outside = if at == 0 { outside } else { Weight::ZERO };
        let row = profile.account.spoken(language);
        row.spent = spent;
        row.nameless = nameless;
    }
}

/// What a thread was doing for a function of a language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Activity {
    /// Running it.
    Language,
    /// The same, in a function of the interpreter that has no name: it could be the collector's.
    Nameless,
    /// Running C that it called.
    Foreign,
    /// Waiting for the interpreter's lock.
    Lock,
    /// Collecting garbage.
    Garbage,
    /// Compiling functions.
    Compiling,
}

fn language_of_module(object: &Object) -> Option<Language> {
    match object.kind {
        ObjectKind::Module(language) => Some(language),
        _ => None,
    }
}

/// What a runtime does for itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum OwnWork {
    Compiling,
    Garbage,
}

impl Walked {
    /// What its innermost function does for the runtime.
    pub(super) fn own_work(&self) -> Option<OwnWork> {
        match self.kind {
            FrameClass::Interpreter(Role::Garbage) => Some(OwnWork::Garbage),
            FrameClass::Interpreter(Role::Compiler) => Some(OwnWork::Compiling),
            _ => None,
        }
    }
}

/// The threads that HotSpot has for its own work, known by their names. (What its `VM Thread` does is not known by its
/// name: with the serial collector it collects.)
pub(super) struct ThreadsOfMachines {
    has_java: bool,
}

impl ThreadsOfMachines {
    pub(super) fn from_profile(profile: &Profile) -> Self {
        let java = Some(Language::Java);
        Self { has_java: profile.objects.iter().any(|object| language_of_module(object) == java) }
    }

    pub(super) fn work(&self, profile: &Profile, thread: ThreadId) -> Option<OwnWork> {
        const COMPILERS: [&str; 2] = ["C1 CompilerThre", "C2 CompilerThre"];
        const COLLECTORS: [&str; 6] =
            ["GC Thread#", "G1 ", "ZWorker", "XWorker", "Shenandoah", "ParGC Thread"];
        let name = profile.threads[thread].name.as_str();
        let begins = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
        if !self.has_java {
            None
        } else if begins(&COMPILERS) {
            Some(OwnWork::Compiling)
        } else {
            begins(&COLLECTORS).then_some(OwnWork::Garbage)
        }
    }
}

/// What a runtime does for itself by the names of its functions, and the innermost stack that ends in such a function.
pub(super) fn work_of_stack(
    profile: &Profile,
    walked: &[Walked],
    stack: StackId,
) -> Option<(StackId, OwnWork)> {
    let mut at = Some(stack);
    while let Some(stack) = at {
        match walked[stack.index()].own_work() {
            Some(work) => return Some((stack, work)),
            None => at = profile.stacks[stack].parent,
        }
    }
    None
}

/// The runtimes of a profile.
struct Machines {
    threads: ThreadsOfMachines,
    v8: FxHashSet<ObjectId>,
    cpython: FxHashSet<ObjectId>,
}

impl Machines {
    fn from_profile(profile: &Profile) -> Self {
        Self {
            threads: ThreadsOfMachines::from_profile(profile),
            v8: images_with_v8(profile),
            cpython: interpreters(profile),
        }
    }
}

/// What a runtime did for itself in a sample without a frame of its language, and for which language.
fn own_work(
    profile: &Profile,
    walked: &[Walked],
    machines: &Machines,
    cell: &Cell,
) -> Option<(Language, OwnWork)> {
    if let Some(work) = machines.threads.work(profile, cell.thread) {
        return Some((Language::Java, work));
    }
    let (stack, work) = work_of_stack(profile, walked, cell.stack)?;
    let object = profile.functions[profile.leaf(stack)].object;
    let language = if machines.v8.contains(&object) {
        Language::JavaScript
    } else if machines.cpython.contains(&object) {
        Language::Python
    } else {
        return None;
    };
    Some((language, work))
}

/// What the frames within `spoken` of a sample that ends in `leaf` were doing. Only CPython has an interpreter's lock.
fn activity(profile: &Profile, walked: &[Walked], leaf: StackId, spoken: StackId) -> Activity {
    let mut activity = Activity::Language;
    let has_lock = profile.language(profile.leaf(spoken)) == Language::Python;
    let mut waits = false;
    let mut at = leaf;
    while at != spoken {
        let seen = &walked[at.index()];
        match seen.kind {
            FrameClass::Interpreter(Role::Lock) => return Activity::Lock,
            // CPython waits by a condition variable for nothing else: its other locks are semaphores.
            FrameClass::Interpreter(_) if waits && has_lock => return Activity::Lock,
            FrameClass::Interpreter(Role::Garbage) => return Activity::Garbage,
            FrameClass::Interpreter(Role::Compiler) => return Activity::Compiling,
            FrameClass::Interpreter(Role::Nameless) if !seen.runs_it && activity == Activity::Language => {
                activity = Activity::Nameless;
            }
            FrameClass::Other => activity = Activity::Foreign,
            _ => {}
        }
        waits = match seen.kind {
            FrameClass::Servant => waits || waits_for_condition(&profile.functions[profile.leaf(at)].name),
            _ => false,
        };
        let Some(parent) = profile.stacks[at].parent else { break };
        at = parent;
    }
    activity
}

/// Whether a function of the C library waits for a condition variable: `pthread_cond_timedwait`, `__pthread_cond_wait`.
fn waits_for_condition(name: &str) -> bool {
    name.contains("pthread_cond_") && name.contains("wait")
}
