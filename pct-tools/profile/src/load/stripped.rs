//! Which objects without symbols have much of the time: their rows are places (`[git+0x143460]`), and the reader should
//! know why.

use crate::model::{Id as _, ObjectKind, Profile};
use pct_symbols::Stripped;

/// With this share of the time, one part in so many, an object's missing symbols are worth a line.
const WORTH_A_LINE: u64 = 10;

/// Notes each of these objects in whose nameless functions much of the time was spent.
pub(super) fn note(profile: &mut Profile, stripped: impl Iterator<Item = Stripped>) {
    let all = profile.sampled().cpu_ns();
    let nameless = nameless_ns(profile);
    let mut lines: Vec<(u64, String)> = Vec::new();
    for object in stripped {
        let path = object.path.to_string_lossy();
        let ids = profile.objects.ids().filter(|id| profile.objects[*id].path == path);
        let ns: u64 = ids.map(|id| nameless.get(id.index()).copied().unwrap_or(0)).sum();
        if ns > 0 && ns >= all / WORTH_A_LINE {
            let share = crate::text::numbers::share(ns, all);
            lines.push((ns, format!("{path}: {share} of the time is in functions without names: {object}")));
        }
    }
    lines.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    lines.into_iter().for_each(|(_, line)| profile.account.note_without_names(line));
}

/// The time in functions that have no name, by object.
fn nameless_ns(profile: &Profile) -> Vec<u64> {
    let mut sums = vec![0_u64; profile.objects.ids().count()];
    for cell in profile.cells.iter().filter(|cell| profile.is_sampled(cell.stack)) {
        let function = &profile.functions[profile.leaf(cell.stack)];
        let object = &profile.objects[function.object];
        let base = object.name();
        let is_place = |name: &str| {
            name.strip_prefix('[')
                .and_then(|rest| rest.strip_prefix(base))
                .is_some_and(|rest| rest.starts_with("+0x"))
        };
        if object.kind == ObjectKind::File
            && is_place(&function.name)
            && let Some(sum) = sums.get_mut(function.object.index())
        {
            *sum = sum.saturating_add(cell.weight.cpu_ns());
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Builder, Object, Weight};

    /// 6 of 10 samples in nameless functions of `git`, 1 in those of a library.
    fn profile() -> Profile {
        let mut b = Builder::new(false);
        let process = b.process(crate::model::Process::default());
        let thread = b.thread(process, 1, "git");
        for (path, name, samples) in [
            ("/usr/bin/git", "[git+0x10]", 6),
            ("/usr/bin/git", "main", 3),
            ("/lib/libz.so", "[libz.so+0x20]", 1),
        ] {
            let object = b.object(Object::new(path.to_owned(), ObjectKind::File));
            let function = b.function(object, name);
            let frame = b.plain_frame(function);
            let stack = b.stack(None, frame);
            b.add(thread, stack, Weight { samples, user_ns: samples * 1_000_000, system_ns: 0 });
        }
        b.finish()
    }

    fn stripped(path: &str) -> Stripped {
        let build_id = pct_symbols::BuildId::new(&[0xab, 0xcd]);
        Stripped { path: path.into(), build_id, debug_file: Some("cd.debug".into()) }
    }

    #[test]
    fn an_object_without_symbols_is_noted_where_it_has_much_of_the_time() {
        let mut p = profile();
        note(&mut p, ["/usr/bin/git", "/usr/bin/other"].map(stripped).into_iter());
        assert_eq!(
            p.account.notes,
            [
                "/usr/bin/git: 60.0% of the time is in functions without names: it has no symbols, and its debug file is not \
              here. What helps: the debug package that has cd.debug, or debuginfod-find debuginfo abcd; then pct report"
            ]
        );
        let mut p = profile();
        p.cells.retain(|cell| cell.weight.samples != 1);
        note(&mut p, ["/lib/libz.so"].map(stripped).into_iter());
        assert!(p.account.notes.is_empty(), "{:?}", p.account.notes);
    }

    #[test]
    fn what_helps_goes_by_what_the_file_says_of_itself() {
        let with = |has_id: bool, file: Option<&str>| {
            let build_id = pct_symbols::BuildId::new(&[0xab]).filter(|_| has_id);
            Stripped { path: "/x".into(), build_id, debug_file: file.map(Into::into) }.to_string()
        };
        assert!(with(true, None).ends_with("What helps: debuginfod-find debuginfo ab; then pct report"));
        assert!(
            with(false, Some("x.debug")).ends_with("the debug package that has x.debug; then pct report")
        );
        assert!(with(false, None).ends_with("What helps: a build that is not stripped"));
    }
}
