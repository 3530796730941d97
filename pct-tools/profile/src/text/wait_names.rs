//! Names in tables of waits: of what threads wait for, and of the functions that wait for it and release it.
//!
//! Programs get the innermost function that does not only lead to a lock. People get the *owner*, as in tables of CPU
//! time: the function of the program's own language. Functions of runtimes that only lead to a lock are left out there,
//! so a virtual machine's own thread waits in the function that says what it does.

use crate::fold::{Owners, is_spoken};
use crate::ids::{FunctionId, StackId, ThreadId};
use crate::lock_names::{only_leads, only_leads_in_runtime};
use crate::model::Profile;
use crate::tree::Label;
use crate::waits::{LanguageLock, Object};
use pct_format::WaitKind;

/// Whether the function in which a stack ends only leads to a lock, in a program or in a runtime.
fn ends_in_lock(profile: &Profile, stack: StackId) -> bool {
    let function = &profile.functions[profile.leaf(stack)];
    only_leads_in_runtime(profile.objects[function.object].name(), &function.name)
}

/// The function in which a stack waits, or releases: the innermost one that does not only lead to a lock.
pub(super) fn function(profile: &Profile, stack: StackId) -> &str {
    let mut names = profile.outwards(stack).map(|(_, frame)| profile.functions[frame.function].name.as_str());
    names.find(|name| !only_leads(name)).unwrap_or_else(|| &profile.functions[profile.leaf(stack)].name)
}

pub(super) fn thread(profile: &Profile, thread: ThreadId) -> String {
    let row = &profile.threads[thread];
    let (tid, name) = (row.tid, &row.name);
    if name.is_empty() { tid.to_string() } else { format!("{name} {tid}") }
}

/// The names for people.
#[derive(Debug)]
pub struct WaitNames<'p> {
    profile: &'p Profile,
    /// `None`: functions are the machine's.
    owners: Option<Owners>,
}

impl<'p> WaitNames<'p> {
    /// Functions are owners.
    #[must_use]
    pub fn of_owners(profile: &'p Profile) -> Self {
        Self { profile, owners: Some(Owners::from_profile(profile)) }
    }

    /// Functions are those that waited in machine code.
    pub(super) fn of_machine(profile: &'p Profile) -> Self {
        Self { profile, owners: None }
    }

    /// The stack of the function that is named for a stack; `None`: nothing but what leads to locks is on it.
    fn owner(&self, stack: StackId) -> Option<StackId> {
        let owned = self.owners.as_ref()?.of_stack(stack);
        let mut outwards = self.profile.outwards(owned.owner).map(|(stack, _)| stack);
        outwards.find(|stack| !ends_in_lock(self.profile, *stack))
    }

    /// The name of the owner alone.
    pub(super) fn plain(&self, stack: StackId) -> &'p str {
        self.owner(stack).map_or_else(
            || function(self.profile, stack),
            |owner| &self.profile.functions[self.profile.leaf(owner)].name,
        )
    }

    /// The function in which a stack waits, or releases. One of an interpreted language has its file and line with it.
    #[must_use]
    pub fn function(&self, stack: StackId) -> String {
        let name = self.plain(stack).to_owned();
        match self.spoken_owner(stack).and_then(|owner| Label::Function(owner).whereabouts(self.profile)) {
            Some(place) => format!("{name} ({place})"),
            None => name,
        }
    }

    /// The owner of time on a CPU: also one that leads to locks.
    pub(super) fn owner_name(&self, stack: StackId) -> String {
        let owner = self.owners.as_ref().map_or(stack, |owners| owners.of_stack(stack).owner);
        self.profile.functions[self.profile.leaf(owner)].name.clone()
    }

    /// The owner, if it is a function of an interpreted language.
    fn spoken_owner(&self, stack: StackId) -> Option<FunctionId> {
        let owner = self.profile.leaf(self.owner(stack)?);
        is_spoken(self.profile, self.profile.functions[owner].object).then_some(owner)
    }

    /// What threads wait for. If it was first waited for in a function of a runtime that worked for the owner, that
    /// function says what it is for.
    #[must_use]
    pub fn object(&self, object: &Object) -> String {
        if let Some(lock) = object.of_language {
            return lock.name().to_owned();
        }
        let Some(kind) = kind_with_address(object) else { return object_name(self.profile, object) };
        match self.runtimes_function(object.first_stack) {
            Some(name) => format!("{kind} ({name})"),
            None => kind,
        }
    }

    /// The same, with the function in which it was first waited for, unless that is `beside`: the row names it already.
    pub(super) fn object_beside(&self, object: &Object, beside: &str) -> String {
        let first = self.function(object.first_stack);
        let is_one = object.kind == WaitKind::Join || object.of_language == Some(LanguageLock::Gil);
        let says_more = !is_one && first != beside;
        let first = if says_more { format!(", first waited for in {first}") } else { String::new() };
        self.object(object) + &first
    }

    /// The innermost function that worked for an owner of an interpreted language and does not only lead to a lock.
    fn runtimes_function(&self, stack: StackId) -> Option<&'p str> {
        self.spoken_owner(stack)?;
        let owner = self.owner(stack)?;
        let within = self.profile.outwards(stack).map(|(stack, _)| stack).take_while(|stack| *stack != owner);
        let mut named = within.filter(|stack| !ends_in_lock(self.profile, *stack));
        named.next().map(|stack| self.profile.functions[self.profile.leaf(stack)].name.as_str())
    }
}

/// `mutex 0x7ffe1234`; `None`: it is the end of a thread.
fn kind_with_address(object: &Object) -> Option<String> {
    if let Some(lock) = object.of_language {
        return Some(lock.name().to_owned());
    }
    let kind = match object.kind {
        WaitKind::Join => return None,
        WaitKind::ReadLock | WaitKind::WriteLock => "rwlock",
        kind => kind.name(),
    };
    Some(format!("{kind} {:#x}", object.address))
}

/// What threads wait for, in words.
pub(super) fn object_name(profile: &Profile, object: &Object) -> String {
    if let Some(kind) = kind_with_address(object) {
        return format!("{kind}, first waited for in {}", function(profile, object.first_stack));
    }
    if object.address == 0 {
        return "end of a thread".to_owned();
    }
    let of_process = |row: &ThreadId| profile.threads[*row].process == object.process;
    let has_ended = |row: &ThreadId| u64::from(profile.threads[*row].tid) == object.address;
    let ended = profile.threads.ids().filter(of_process).rfind(has_ended);
    ended
        .map_or_else(|| "end of a thread".to_owned(), |row| format!("end of thread {}", thread(profile, row)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::language::Language;
    use crate::model::{Builder, Object as CodeObject, ObjectKind, Process};
    use crate::waits::{Holder, WaitFigures, WaitRow, Waits};

    /// Waits as [`waited`] reads them.
    pub(in crate::text) const WAITS: &str = "\
        mutex 1000 main;insert;std::mutex::lock 5 main;insert;std::mutex::unlock\n\
        mutex 2000 loop;py:pack;take_gil;PyCOND_TIMEDWAIT 3 loop;py:parse;drop_gil\n\
        mutex 3000 jvm:run;jvm:take_job;jvm:os::PlatformMonitor::wait(long) 1\n\
        mutex 3000 main;uv_mutex_lock 1\n\
        mutex 4000 main 1\n\
        condition 5000 jvm:run;jvm:take_job;jvm:Monitor::wait(long) 9\n\
        futex 6000 main 0.5";

    /// A profile with a wait in each line: kind, address, stack, seconds and, if anybody held the lock, his stack.
    /// Functions are those of a program; `py:`, `threading:` and `java:` ones of modules, `jvm:` and `libc:` ones of
    /// libraries.
    pub(in crate::text) fn waited(lines: &str) -> Profile {
        let mut b = Builder::new(false);
        let process = b.process(Process { pid: 1, name: "prog".into(), ..Process::default() });
        let thread = b.thread(process, 1, "prog");
        let mut waits = Waits { recordings: 1, ..Waits::default() };
        for line in lines.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let kind = match words[0] {
                "mutex" => WaitKind::Mutex,
                "condition" => WaitKind::Condition,
                _ => WaitKind::Futex,
            };
            let address = u64::from_str_radix(words[1], 16).expect("an address");
            let stack = stack(&mut b, words[2]);
            let ns = (words[3].parse::<f64>().expect("seconds") * 1e9) as u64;
            let known = waits.objects.iter().position(|object| object.address == address);
            let object = known.unwrap_or(waits.objects.len());
            if known.is_none() {
                waits.objects.push(Object { process, kind, of_language: None, address, first_stack: stack });
            }
            let figures = WaitFigures { waits: 1, ns, longest_ns: ns, ..WaitFigures::default() };
            let holder = words.get(4).map(|holder| Holder { thread, stack: self::stack(&mut b, holder), ns });
            waits.rows.push(WaitRow {
                thread,
                stack,
                object,
                kind,
                figures,
                holders: holder.into_iter().collect(),
            });
        }
        let mut profile = b.finish();
        profile.waits = waits;
        profile
    }

    fn stack(b: &mut Builder, functions: &str) -> StackId {
        let mut at = None;
        for name in functions.split(';') {
            let (path, name, kind) = match name.split_once(':') {
                Some(("py", name)) => ("/srv/app.py", name, ObjectKind::Module(Language::Python)),
                Some(("threading", name)) => {
                    ("/lib/threading.py", name, ObjectKind::Module(Language::Python))
                }
                Some(("java", name)) => ("App.java", name, ObjectKind::Module(Language::Java)),
                Some(("jvm", name)) => ("/usr/lib/libjvm.so", name, ObjectKind::File),
                Some(("libc", name)) => ("/usr/lib/libc.so.6", name, ObjectKind::File),
                _ => ("/usr/bin/prog", name, ObjectKind::File),
            };
            let name = if name == "loop" { "_PyEval_EvalFrameDefault" } else { name };
            let object = b.object(CodeObject::new(path, kind));
            let function = b.function(object, name);
            if name == "pack" {
                let file = b.file(path);
                b.declare(function, file, 7);
            }
            let frame = b.plain_frame(function);
            at = Some(b.stack(at, frame));
        }
        at.expect("a frame")
    }

    /// The names of the waiter, of the holder, and of what is waited for, by lines of waits.
    fn named(profile: &Profile, names: &WaitNames<'_>) -> Vec<[String; 3]> {
        let row = |row: &WaitRow| {
            let holder = row.holders.first().map_or_else(String::new, |holder| names.function(holder.stack));
            [names.function(row.stack), holder, names.object(&profile.waits.objects[row.object])]
        };
        profile.waits.rows.iter().map(row).collect()
    }

    #[test]
    fn people_get_the_function_of_the_program_s_own_language() {
        let profile = waited(WAITS);
        let found = named(&profile, &WaitNames::of_owners(&profile));
        let expected = [
            ["insert", "insert", "mutex 0x1000"],
            ["pack (srv/app.py:7)", "parse (srv/app.py)", "mutex 0x2000 (take_gil)"],
            ["take_job", "", "mutex 0x3000"],
            ["main", "", "mutex 0x3000"],
        ];
        assert_eq!(found[..4], expected.map(|row| row.map(str::to_owned)));
    }

    #[test]
    fn the_machine_s_view_has_the_functions_that_waited() {
        let profile = waited(WAITS);
        let found = named(&profile, &WaitNames::of_machine(&profile));
        let expected = [
            ["insert", "insert", "mutex 0x1000"],
            ["PyCOND_TIMEDWAIT", "drop_gil", "mutex 0x2000"],
            ["os::PlatformMonitor::wait(long)", "", "mutex 0x3000"],
            ["uv_mutex_lock", "", "mutex 0x3000"],
        ];
        assert_eq!(found[..4], expected.map(|row| row.map(str::to_owned)));
    }

    #[test]
    fn where_everything_leads_to_a_lock_the_innermost_function_is_named() {
        let profile = waited("mutex 1000 uv_cond_wait;uv_mutex_lock 1");
        let found = named(&profile, &WaitNames::of_owners(&profile));
        assert_eq!(found[0][0], "uv_mutex_lock");
    }

    #[test]
    fn what_a_row_says_already_is_left_out_of_the_object() {
        let profile = waited(WAITS);
        let names = WaitNames::of_owners(&profile);
        let object = &profile.waits.objects[0];
        assert_eq!(names.object_beside(object, "insert"), "mutex 0x1000");
        assert_eq!(names.object_beside(object, "main"), "mutex 0x1000, first waited for in insert");
    }

    /// The names are as GCC's library has them in its inline functions.
    #[test]
    fn functions_of_the_standard_library_only_lead_to_locks() {
        for name in [
            "std::__glibcxx_rwlock_wrlock",
            "std::__shared_mutex_pthread::lock_shared",
            "std::mutex::lock",
            "__gthread_mutex_lock",
            "std::unique_lock<std::shared_mutex>::lock",
            "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
            "<std::sync::poison::mutex::Mutex<u64>>::lock",
            "std::sys::pal::unix::futex::futex_wake",
        ] {
            assert!(only_leads(name), "{name}");
        }
        assert!(!only_leads("std::thread::spawn"));
        assert!(!only_leads("holder()") && !only_leads("my::mutex::lock"));
    }
}
