//! Stacks seen otherwise: without the callers of a function, with a function merged into its caller, with a recursion
//! or an object as one frame.
//!
//! A transform changes the table of stacks, not the samples: each stack has a new one, or none if its samples are
//! left out ([`Transform::Focus`], [`Transform::Ignore`]). So a list of transforms is worked out once for a profile,
//! and then serves any window of time. Names are exact: they come from a table or a picture, not from a pattern.
//!
//! Invariant: all transforms but those two keep every sample with its thread and its weight.

use crate::model::{
    Cell, Frame, FrameId, Function, Id, IdVec, ObjectId, Profile, StackId, StackNode, ThreadId,
};
use rustc_hash::FxHashMap;

/// What is done with the stacks. Names are those of functions, and of an object the one that tables show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transform {
    /// Only samples with this function on the stack; stacks begin with its outermost call.
    Focus(String),
    /// No samples with this function on the stack.
    Ignore(String),
    /// The function's frames go; its own time is its caller's. Where it has no caller, it stays.
    Merge(String),
    /// From the outermost call of the function to its innermost one, there is one call.
    Recursion(String),
    /// Calls within the object become one frame, named after the object.
    Object(String),
}

/// A profile whose stacks are transformed.
#[derive(Debug)]
pub struct Transformed {
    /// The tables. There are no cells and no timeline in it: [`Transformed::cells`] gives cells of its stacks.
    pub profile: Profile,
    /// By stack of the original profile; none: samples there are left out.
    stack_of: Vec<Option<StackId>>,
}

impl Transformed {
    /// Applies transforms, the first one first.
    #[must_use]
    pub fn apply(original: &Profile, transforms: &[Transform]) -> Transformed {
        let mut profile = tables(original);
        let mut stack_of: Vec<Option<StackId>> = original.stacks.ids().map(Some).collect();
        for transform in transforms {
            let step = apply(&mut profile, transform);
            for stack in &mut stack_of {
                *stack = stack.and_then(|old| step[old.index()]);
            }
        }
        Transformed { profile, stack_of }
    }

    /// The stack that samples of a stack of the original profile have here. `None`: they are left out.
    #[must_use]
    pub fn stack(&self, original: StackId) -> Option<StackId> {
        self.stack_of[original.index()]
    }

    /// Cells of the original profile as cells of this one.
    #[must_use]
    pub fn cells(&self, cells: &[Cell]) -> Vec<Cell> {
        let mut places: FxHashMap<(ThreadId, StackId), usize> = FxHashMap::default();
        let mut out: Vec<Cell> = Vec::with_capacity(cells.len());
        for cell in cells {
            let Some(stack) = self.stack(cell.stack) else { continue };
            let at = *places.entry((cell.thread, stack)).or_insert(out.len());
            match out.get_mut(at) {
                Some(known) => known.weight += cell.weight,
                None => out.push(Cell { stack, ..*cell }),
            }
        }
        out
    }
}

/// A copy of all tables, without what was measured: that may be large.
fn tables(profile: &Profile) -> Profile {
    Profile {
        objects: profile.objects.clone(),
        functions: profile.functions.clone(),
        files: profile.files.clone(),
        frames: profile.frames.clone(),
        stacks: profile.stacks.clone(),
        processes: profile.processes.clone(),
        threads: profile.threads.clone(),
        start_realtime_ns: profile.start_realtime_ns,
        quantity: profile.quantity.clone(),
        ..Profile::default()
    }
}

/// A table of stacks that grows.
#[derive(Default)]
struct Stacks {
    rows: IdVec<StackId, StackNode>,
    known: FxHashMap<StackNode, StackId>,
}

impl Stacks {
    fn below(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        *self.known.entry(node).or_insert_with(|| self.rows.push(node))
    }
}

/// Applies one transform to the stacks of a profile. Gives the new stack of each old one.
fn apply(profile: &mut Profile, transform: &Transform) -> Vec<Option<StackId>> {
    let named = |name: &str| -> Vec<bool> {
        let functions: Vec<bool> = profile.functions.iter().map(|function| function.name == name).collect();
        profile.frames.iter().map(|frame| functions[frame.function.index()]).collect()
    };
    let (stacks, stack_of) = match transform {
        Transform::Focus(name) => focus(profile, &named(name)),
        Transform::Ignore(name) => ignore(profile, &named(name)),
        Transform::Merge(name) => merge(profile, &named(name)),
        Transform::Recursion(name) => recursion(profile, &named(name)),
        Transform::Object(name) => object(profile, name),
    };
    profile.stacks = stacks.rows;
    stack_of
}

type Rewritten = (Stacks, Vec<Option<StackId>>);

fn focus(profile: &Profile, hit: &[bool]) -> Rewritten {
    let (mut stacks, mut new): (Stacks, Vec<Option<StackId>>) = Default::default();
    for node in profile.stacks.iter() {
        let parent = node.parent.and_then(|parent| new[parent.index()]);
        let is_kept = parent.is_some() || hit[node.frame.index()];
        new.push(is_kept.then(|| stacks.below(parent, node.frame)));
    }
    (stacks, new)
}

fn ignore(profile: &Profile, hit: &[bool]) -> Rewritten {
    let (mut stacks, mut new): (Stacks, Vec<Option<StackId>>) = Default::default();
    for node in profile.stacks.iter() {
        let parent = node.parent.map(|parent| new[parent.index()]);
        let is_dropped = hit[node.frame.index()] || parent == Some(None);
        new.push((!is_dropped).then(|| stacks.below(parent.flatten(), node.frame)));
    }
    (stacks, new)
}

fn merge(profile: &Profile, hit: &[bool]) -> Rewritten {
    let (mut stacks, mut new): (Stacks, Vec<Option<StackId>>) = Default::default();
    for node in profile.stacks.iter() {
        let parent = node.parent.and_then(|parent| new[parent.index()]);
        new.push(match parent {
            Some(caller) if hit[node.frame.index()] => Some(caller),
            parent => Some(stacks.below(parent, node.frame)),
        });
    }
    (stacks, new)
}

fn recursion(profile: &Profile, hit: &[bool]) -> Rewritten {
    let (mut stacks, mut new): (Stacks, Vec<Option<StackId>>) = Default::default();
    // By old stack: the new stack that ends with the function's outermost call.
    let mut outermost: Vec<Option<StackId>> = Vec::with_capacity(profile.stacks.len());
    for node in profile.stacks.iter() {
        let parent = node.parent.and_then(|parent| new[parent.index()]);
        let above = node.parent.and_then(|parent| outermost[parent.index()]);
        let is_hit = hit[node.frame.index()];
        let stack = match above {
            Some(first) if is_hit => first,
            _ => stacks.below(parent, node.frame),
        };
        new.push(Some(stack));
        outermost.push(above.or(is_hit.then_some(stack)));
    }
    (stacks, new)
}

fn object(profile: &mut Profile, name: &str) -> Rewritten {
    let objects: Vec<ObjectId> =
        profile.objects.enumerate().filter(|(_, object)| object.name() == name).map(|(id, _)| id).collect();
    // One frame for each of them: two files may have one name.
    let mut collapsed: FxHashMap<ObjectId, FrameId> = FxHashMap::default();
    for object in objects {
        let name = format!("[{name}]");
        let function = profile.functions.push(Function { name, object, declared: None });
        let frame = Frame { function, file: None, line: 0, address: None, inlined: false };
        collapsed.insert(object, profile.frames.push(frame));
    }
    let collapsed_to =
        |frame: FrameId| collapsed.get(&profile.functions[profile.frames[frame].function].object).copied();
    let (mut stacks, mut new): (Stacks, Vec<Option<StackId>>) = Default::default();
    for node in profile.stacks.iter() {
        let parent = node.parent.and_then(|parent| new[parent.index()]);
        let frame = collapsed_to(node.frame);
        let is_within = frame.is_some() && parent.map(|parent: StackId| stacks.rows[parent].frame) == frame;
        new.push(match parent {
            Some(parent) if is_within => Some(parent),
            parent => Some(stacks.below(parent, frame.unwrap_or(node.frame))),
        });
    }
    (stacks, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Object;
    use crate::model::tests::folded;
    use crate::select::{Filter, Pattern};
    use crate::{By, Flat, Split, flat::Order};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Folded lines after transforms, sorted.
    fn drawn(original: &Profile, transforms: &[Transform]) -> Vec<String> {
        let made = Transformed::apply(original, transforms);
        let line = |cell: &Cell| {
            let outwards = made.profile.outwards(cell.stack);
            let mut names: Vec<&str> =
                outwards.map(|(_, frame)| &*made.profile.functions[frame.function].name).collect();
            names.reverse();
            format!("{} {}", names.join(";"), cell.weight.samples)
        };
        let mut lines: Vec<String> = made.cells(&original.cells).iter().map(line).collect();
        lines.sort();
        lines
    }

    const STACKS: &str = "main;a;b;a;c 1\nmain;a;b 2\nmain;c 4\nmain;a 8\nother 16";

    #[test]
    fn each_transform_does_what_its_name_says() {
        let p = folded(STACKS);
        let one = |transform: Transform| drawn(&p, &[transform]);
        assert_eq!(one(Transform::Focus("a".into())), ["a 8", "a;b 2", "a;b;a;c 1"]);
        assert_eq!(one(Transform::Ignore("a".into())), ["main;c 4", "other 16"]);
        assert_eq!(
            one(Transform::Merge("a".into())),
            ["main 8", "main;b 2", "main;b;c 1", "main;c 4", "other 16"]
        );
        assert_eq!(
            one(Transform::Recursion("a".into())),
            ["main;a 8", "main;a;b 2", "main;a;c 1", "main;c 4", "other 16"]
        );
        // Without a caller there is nothing to merge into.
        assert!(one(Transform::Merge("other".into())).contains(&"other 16".to_owned()));
        assert_eq!(one(Transform::Object("prog".into())), ["[prog] 31"]);
        assert_eq!(one(Transform::Merge("nobody".into())), drawn(&p, &[]));
    }

    #[test]
    fn transforms_come_one_after_the_other() {
        let p = folded(STACKS);
        let both = [Transform::Merge("b".into()), Transform::Recursion("a".into())];
        assert_eq!(drawn(&p, &both), ["main;a 10", "main;a;c 1", "main;c 4", "other 16"]);
        let none = [Transform::Ignore("main".into()), Transform::Focus("main".into())];
        assert!(drawn(&p, &none).is_empty());
    }

    #[test]
    fn objects_are_collapsed_where_they_call_themselves() {
        let mut b = crate::Builder::new(false);
        let process = b.process(crate::model::Process::default());
        let thread = b.thread(process, 1, "");
        let object = |path: &str| Object::new(path, crate::model::ObjectKind::File);
        let (program, library) = (b.object(object("/bin/p")), b.object(object("/lib/libx.so")));
        let mut at = None;
        for (object, name) in
            [(program, "main"), (library, "x"), (library, "y"), (program, "callback"), (library, "x")]
        {
            let function = b.function(object, name);
            let frame = b.plain_frame(function);
            at = Some(b.stack(at, frame));
        }
        b.add(thread, at.expect("a stack"), crate::Weight { samples: 3, user_ns: 3, system_ns: 0 });
        let p = b.finish();
        let collapse = [Transform::Object("libx.so".into())];
        assert_eq!(drawn(&p, &collapse), ["main;[libx.so];callback;[libx.so] 3"]);
    }

    fn naive(stack: &[String], transform: &Transform) -> Option<Vec<String>> {
        let place = |name: &String| stack.iter().position(|n| n == name);
        Some(match transform {
            Transform::Focus(name) => stack[place(name)?..].to_vec(),
            Transform::Ignore(name) if place(name).is_some() => return None,
            Transform::Merge(name) => {
                let kept = stack.iter().enumerate().filter(|(at, n)| *at == 0 || *n != name);
                kept.map(|(_, n)| n.clone()).collect()
            }
            Transform::Recursion(name) => match (place(name), stack.iter().rposition(|n| n == name)) {
                (Some(first), Some(last)) => [&stack[..first], &stack[last..]].concat(),
                _ => stack.to_vec(),
            },
            Transform::Object(_) => vec!["[prog]".into()],
            Transform::Ignore(_) => stack.to_vec(),
        })
    }

    fn any_transform() -> impl Strategy<Value = Transform> {
        (0_u8..5, 0_u8..4).prop_map(|(kind, name)| {
            let name = format!("f{name}");
            match kind {
                0 => Transform::Focus(name),
                1 => Transform::Ignore(name),
                2 => Transform::Merge(name),
                3 => Transform::Recursion(name),
                _ => Transform::Object("prog".into()),
            }
        })
    }

    proptest! {
        #[test]
        fn transforms_agree_with_the_naive_twin(
            stacks in proptest::collection::vec((proptest::collection::vec(0_u8..4, 1..9), 1_u64..9), 1..20),
            transforms in proptest::collection::vec(any_transform(), 0..4),
        ) {
            let names = |frames: &[u8]| -> Vec<String> { frames.iter().map(|f| format!("f{f}")).collect() };
            let text: Vec<String> =
                stacks.iter().map(|(frames, n)| format!("{} {n}", names(frames).join(";"))).collect();
            let p = folded(&text.join("\n"));
            let mut twin: BTreeMap<String, u64> = BTreeMap::new();
            for (frames, n) in &stacks {
                let done = transforms.iter().try_fold(names(frames), |stack, t| naive(&stack, t));
                if let Some(done) = done {
                    *twin.entry(done.join(";")).or_default() += n;
                }
            }
            let mut twin: Vec<String> = twin.into_iter().map(|(stack, n)| format!("{stack} {n}")).collect();
            twin.sort();
            prop_assert_eq!(drawn(&p, &transforms), twin);
        }

        #[test]
        fn focus_and_ignore_count_what_the_filters_of_the_same_name_count(
            stacks in proptest::collection::vec((proptest::collection::vec(0_u8..4, 1..9), 1_u64..9), 1..20),
        ) {
            let names = |frames: &[u8]| frames.iter().map(|f| format!("f{f}")).collect::<Vec<_>>().join(";");
            let text: Vec<String> = stacks.iter().map(|(frames, n)| format!("{} {n}", names(frames))).collect();
            let p = folded(&text.join("\n"));
            let exactly = || Some(Pattern::parse("^f1$").expect("a pattern"));
            let own = |profile: &Profile, cells: &[Cell]| -> BTreeMap<String, u64> {
                let flat = Flat::count_cells(profile, cells, Some(By::Function), Split::Merged, Order::Own);
                flat.rows.iter().filter_map(|r| Some((r.label?.name(profile), r.own.samples))).collect()
            };
            for (transform, filter) in [
                (Transform::Focus("f1".into()), Filter { focus: exactly(), ..Filter::default() }),
                (Transform::Ignore("f1".into()), Filter { ignore: exactly(), ..Filter::default() }),
            ] {
                let made = Transformed::apply(&p, &[transform]);
                prop_assert_eq!(own(&made.profile, &made.cells(&p.cells)), own(&p, &filter.cells(&p)));
            }
        }
    }
}
