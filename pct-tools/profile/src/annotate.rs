//! A function from near: its source lines and its instructions with their weights.
//!
//! A line's own weight is what was measured in it; its total adds what was called from it (a function that is on a
//! stack more than once counts once, at its outermost call). Instructions have own weight only. Inlined code belongs to
//! the function that it was written in when lines are asked for, and to the function that it was inlined into when
//! instructions are.

use crate::model::{Cell, FileId, FrameId, FunctionId, Id, ObjectId, ObjectKind, Profile, StackId, Weight};
use std::collections::BTreeMap;

/// Weights of a function's lines, per source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// By file and line: own, total. Line 0: unknown.
    pub lines: BTreeMap<(FileId, u32), (Weight, Weight)>,
    /// Where no file is known: own, total.
    pub nowhere: (Weight, Weight),
    /// Own and total of the function.
    pub sum: (Weight, Weight),
}

/// The lines of these functions.
#[must_use]
pub fn lines(profile: &Profile, cells: &[Cell], of: impl Fn(FunctionId) -> bool) -> Lines {
    let wanted: Vec<bool> = profile.functions.ids().map(of).collect();
    let hit = |stack: StackId| {
        let frame = profile.stacks[stack].frame;
        wanted[profile.frames[frame].function.index()].then_some(frame)
    };
    // Of each wanted function on a stack, the outermost frame.
    let is_outermost: Vec<bool> =
        profile.stacks.ids().map(|id| hit(id).is_some() && !recurs(profile, id)).collect();
    let mut found = Lines::default();
    for cell in cells {
        // Time in the kernel is the entering line's own.
        let mut leaf = cell.stack;
        while profile.object_of(profile.stacks[leaf].frame).kind == ObjectKind::Kernel
            && let Some(parent) = profile.stacks[leaf].parent
        {
            leaf = parent;
        }
        if let Some(frame) = hit(leaf) {
            found.at(profile, frame).0 += cell.weight;
            found.sum.0 += cell.weight;
        }
        let mut is_in_total = false;
        let mut at = Some(cell.stack);
        while let Some(stack) = at {
            let node = profile.stacks[stack];
            if is_outermost[stack.index()] {
                found.at(profile, node.frame).1 += cell.weight;
                is_in_total = true;
            }
            at = node.parent;
        }
        if is_in_total {
            found.sum.1 += cell.weight;
        }
    }
    found
}

/// Whether the function of a stack's innermost frame is further out on it too.
fn recurs(profile: &Profile, stack: StackId) -> bool {
    let node = profile.stacks[stack];
    let function = profile.frames[node.frame].function;
    let mut at = node.parent;
    while let Some(stack) = at {
        let node = profile.stacks[stack];
        if profile.frames[node.frame].function == function {
            return true;
        }
        at = node.parent;
    }
    false
}

impl Lines {
    /// Own and total of a frame's line.
    fn at(&mut self, profile: &Profile, frame: FrameId) -> &mut (Weight, Weight) {
        let frame = &profile.frames[frame];
        match frame.file {
            Some(file) => self.lines.entry((file, frame.line)).or_default(),
            None => &mut self.nowhere,
        }
    }
}

/// Own weights of the instructions of a function in one object, by file offset.
#[must_use]
pub fn instructions(
    profile: &Profile,
    cells: &[Cell],
    of: impl Fn(FunctionId) -> bool,
) -> BTreeMap<(ObjectId, u64), Weight> {
    let wanted: Vec<bool> = profile.functions.ids().map(of).collect();
    let mut found: BTreeMap<(ObjectId, u64), Weight> = BTreeMap::new();
    for cell in cells {
        let mut at = Some(cell.stack);
        while let Some(stack) = at {
            let node = profile.stacks[stack];
            let frame = &profile.frames[node.frame];
            let object = profile.functions[frame.function].object;
            // Through the kernel's frame and inlined ones to the function that the instruction belongs to.
            if frame.inlined || profile.objects[object].kind == ObjectKind::Kernel {
                at = node.parent;
                continue;
            }
            if let Some(address) = frame.address.filter(|_| wanted[frame.function.index()]) {
                *found.entry((object, address)).or_default() += cell.weight;
            }
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Builder, Frame, Object, Process};

    #[test]
    fn lines_have_own_and_total_and_inlined_code_keeps_its_function() {
        let mut b = Builder::new(false);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "");
        let object = b.object(Object::new("/p", ObjectKind::File));
        let file = b.file("a.c");
        let frame = |b: &mut Builder, name: &str, line, address, inlined| {
            let function = b.function(object, name);
            b.frame(Frame { function, file: Some(file), line, address: Some(address), inlined })
        };
        let outer = frame(&mut b, "outer", 3, 0x10, false);
        let inner = frame(&mut b, "inner", 30, 0x10, true);
        let outer5 = frame(&mut b, "outer", 5, 0x20, false);
        let system = b.system_frame();
        let at = b.stack(None, outer);
        let inlined = b.stack(Some(at), inner);
        let calling = b.stack(None, outer5);
        let entered = b.stack(Some(calling), system);
        let w = |samples| Weight { samples, user_ns: samples, system_ns: 0 };
        b.add(thread, inlined, w(2));
        b.add(thread, entered, w(3));
        let p = b.finish();
        let is_outer = |id: FunctionId| p.functions[id].name == "outer";
        let found = lines(&p, &p.cells, is_outer);
        assert_eq!(found.lines[&(file, 3)], (w(0), w(2)));
        assert_eq!(found.lines[&(file, 5)], (w(3), w(3)));
        assert_eq!(found.sum, (w(3), w(5)));
        let found = instructions(&p, &p.cells, is_outer);
        assert_eq!(found[&(object, 0x10)], w(2));
        assert_eq!(found[&(object, 0x20)], w(3));
        let is_inner = |id: FunctionId| p.functions[id].name == "inner";
        assert!(instructions(&p, &p.cells, is_inner).is_empty());
        assert_eq!(lines(&p, &p.cells, is_inner).lines[&(file, 30)], (w(2), w(2)));
        // Of several functions each line has what was called from it, and the sum counts each sample once.
        let both = lines(&p, &p.cells, |_| true);
        assert_eq!(both.lines[&(file, 3)], (w(0), w(2)));
        assert_eq!(both.lines[&(file, 30)], (w(2), w(2)));
        assert_eq!(both.sum.1, w(5));
    }

    #[test]
    fn a_recursion_counts_once_at_its_outermost_call() {
        let mut b = Builder::new(false);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "");
        let object = b.object(Object::new("/p", ObjectKind::File));
        let file = b.file("a.c");
        let mut frame = |name: &str, line| {
            let function = b.function(object, name);
            b.frame(Frame { function, file: Some(file), line, address: None, inlined: false })
        };
        let (down, up, deeper) = (frame("down", 3), frame("up", 7), frame("down", 4));
        let mut stack = None;
        for frame in [down, up, deeper] {
            stack = Some(b.stack(stack, frame));
        }
        let weight = Weight { samples: 2, user_ns: 2, system_ns: 0 };
        b.add(thread, stack.expect("three frames"), weight);
        let p = b.finish();
        let found = lines(&p, &p.cells, |_| true);
        let at = |line| found.lines[&(file, line)];
        assert_eq!(
            [at(3), at(7), at(4)],
            [(Weight::ZERO, weight), (Weight::ZERO, weight), (weight, Weight::ZERO)]
        );
        assert_eq!(found.sum, (weight, weight));
    }
}
