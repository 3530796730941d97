//! Where the time of each language's threads went: in the language, in C, waiting for the lock, collecting garbage.

use super::roles::{FrameClass, Role, Roles, Walked, walk};
use crate::language::Language;
use crate::model::{Id, Profile, Spent, StackId, Weight};
use rustc_hash::FxHashMap;

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
    let mut spent: FxHashMap<Language, (Spent, bool)> = FxHashMap::default();
    let mut outside = Weight::ZERO;
    for cell in &profile.cells {
        let Some(spoken) = walked[cell.stack.index()].spoken else {
            outside += cell.weight;
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
}

/// What the frames within `spoken` of a sample that ends in `leaf` were doing.
fn activity(profile: &Profile, walked: &[Walked], leaf: StackId, spoken: StackId) -> Activity {
    let mut activity = Activity::Language;
    let mut waits = false;
    let mut at = leaf;
    while at != spoken {
        let seen = &walked[at.index()];
        match seen.kind {
            FrameClass::Interpreter(Role::Lock) => return Activity::Lock,
            // CPython waits by a condition variable for nothing else: its other locks are semaphores.
            FrameClass::Interpreter(_) if waits => return Activity::Lock,
            FrameClass::Interpreter(Role::Garbage) => return Activity::Garbage,
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
