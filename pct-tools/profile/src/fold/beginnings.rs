//! What threads were made for, where their names do not tell it: the functions in which they begin.

use super::owners::serving_functions;
use super::roles::{FrameClass, Roles, is_nameless, programs_in_go};
use crate::model::{Cell, FunctionId, Id, ObjectKind, Profile, Thread, ThreadId};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// For each thread but the first of its process the function in which it begins what it was made for, if its name does
/// not tell it from others of its process. The cells are by thread.
#[must_use]
pub fn beginnings(profile: &Profile, cells: &[Cell]) -> Vec<Option<FunctionId>> {
    let pid = |thread: &Thread| profile.processes[thread.process].pid;
    let mut named: FxHashMap<(u32, &str), u32> = FxHashMap::default();
    for thread in profile.threads.iter().filter(|thread| thread.tid != 0) {
        *named.entry((pid(thread), &thread.name)).or_default() += 1;
    }
    let entries = entries(profile);
    let mut spent: FxHashMap<ThreadId, FxHashMap<FunctionId, u64>> = FxHashMap::default();
    for cell in cells {
        if let Some(function) = entries.get(cell.stack.index()).copied().flatten() {
            *spent.entry(cell.thread).or_default().entry(function).or_default() += cell.weight.samples;
        }
    }
    let begins = |(id, thread): (ThreadId, &Thread)| {
        let same_name = named.get(&(pid(thread), thread.name.as_str())).copied().unwrap_or(0);
        if thread.tid == pid(thread) || thread.tid == 0 || !thread.name.is_empty() && same_name < 2 {
            return None;
        }
        let most = spent.get(&id)?.iter().max_by_key(|(function, n)| (**n, Reverse(**function)))?;
        Some(*most.0)
    };
    profile.threads.enumerate().map(begins).collect()
}

/// By stack: its outermost function that works for no other, nor is an interpreter's. There a thread begins what it was
/// made for.
fn entries(profile: &Profile) -> Vec<Option<FunctionId>> {
    let roles = Roles::from_profile(profile);
    let serves = serving_functions(profile, &roles);
    let of_go = programs_in_go(profile);
    let is_entry = |function: FunctionId| {
        let object = profile.functions[function].object;
        !serves[function.index()]
            && !matches!(roles.class(function), FrameClass::Interpreter(_))
            && profile.objects[object].kind != ObjectKind::NotSampled
            && !is_nameless(&profile.functions[function].name)
            // A goroutine begins there, not the thread that happens to run it.
            && !of_go.contains(&object)
    };
    let mut entries: Vec<Option<FunctionId>> = Vec::with_capacity(profile.stacks.len());
    for (id, node) in profile.stacks.enumerate() {
        let above = node.parent.and_then(|parent| entries[parent.index()]);
        entries.push(above.or_else(|| Some(profile.leaf(id)).filter(|function| is_entry(*function))));
    }
    entries
}
