//! Whether it matters that code which was made at run time has no names: in programs whose functions are read from
//! their interpreter, only its small helpers have none.

use crate::model::{Id as _, ObjectKind, Profile};
use pct_symbols::{NAMELESS_CODE, Note, Problem};

/// With this share of the samples through such code, one part in so many, it is worth a line.
const WORTH_A_LINE: u64 = 100;
/// Fewer samples than these are not, unless they are most of all: each start of a Java virtual machine has some, in the
/// pieces of code that it makes to make itself.
const FEW: u64 = 10;

/// Whether a note says nothing but that such code has no names.
pub(super) fn is_about_it(note: &Note) -> bool {
    matches!(note.problem, Problem::NoJitMap { .. })
}

/// Adds these notes if a share of the samples that matters went through such code.
pub(super) fn note(profile: &mut Profile, notes: impl Iterator<Item = String>) {
    let (through, all) = samples(profile);
    if through > 0 && through >= all / WORTH_A_LINE && (through >= FEW || through > all / 2) {
        notes.for_each(|note| profile.account.note_without_names(note));
    }
}

/// Samples that have it on their stack, and all.
fn samples(profile: &Profile) -> (u64, u64) {
    let mut has_some: Vec<bool> = Vec::with_capacity(profile.stacks.len());
    for (_, node) in profile.stacks.enumerate() {
        let function = &profile.functions[profile.frames[node.frame].function];
        let is_nameless =
            function.name == NAMELESS_CODE && profile.objects[function.object].kind == ObjectKind::Anonymous;
        has_some.push(is_nameless || node.parent.is_some_and(|parent| has_some[parent.index()]));
    }
    let mut sums = (0_u64, 0_u64);
    for cell in &profile.cells {
        sums.1 += cell.weight.samples;
        if has_some[cell.stack.index()] {
            sums.0 += cell.weight.samples;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Builder, Object, Weight};

    #[test]
    fn a_note_is_made_where_much_went_through_such_code() {
        for (nameless, named, is_noted) in [
            (0, 980, false),
            (1, 980, false),
            (20, 980, true),
            (5, 100, false),
            (10, 100, true),
            (5, 4, true),
        ] {
            let mut b = Builder::new(false);
            let process = b.process(crate::model::Process::default());
            let thread = b.thread(process, 1, "node");
            let jit = b.object(Object::new("[jit]", ObjectKind::Anonymous));
            let libc = b.object(Object::new("/lib/libc.so.6", ObjectKind::File));
            let (code, read) = (b.function(jit, NAMELESS_CODE), b.function(libc, "read"));
            let (code, read) = (b.plain_frame(code), b.plain_frame(read));
            let caller = b.stack(None, code);
            for (parent, samples) in [(Some(caller), nameless), (None, named)] {
                let stack = b.stack(parent, read);
                b.add(thread, stack, Weight { samples, ..Weight::ZERO });
            }
            let mut profile = b.finish();
            note(&mut profile, ["no names".to_owned()].into_iter());
            assert_eq!(!profile.account.notes.is_empty(), is_noted, "{nameless} of {named}");
        }
    }
}
