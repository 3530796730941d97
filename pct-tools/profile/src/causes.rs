//! Why threads did not run: by the stacks of samples by the wall clock, and by the waits that were recorded.
//!
//! The kernel says which system call a thread waits in. The functions on its stack often say more: a futex is a mutex,
//! a condition or the lock of Python's interpreter.

use crate::ids::StackId;
use crate::language_locks::Runtimes;
use crate::lock_names::kind_in_libc;
use crate::model::{Profile, RUN_QUEUE};
use crate::waits::{Object, WaitClass, futexes};
use pct_format::WaitKind;

/// What sort of cause it is. Times of different sorts mean different things.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CauseSort {
    /// Another thread holds a lock.
    Lock,
    /// Another thread, another program or a clock has to do something first.
    Work,
    /// A file, or a page of memory that is not there.
    File,
    /// All processors were busy.
    Processor,
    /// Not known.
    Unknown,
}

/// Why a thread did not run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cause {
    /// What sort of cause it is.
    pub sort: CauseSort,
    /// What it waited for, in a word or two: `mutex`, `read pipe`.
    pub name: String,
}

/// Tells causes by stacks.
#[derive(Debug)]
pub struct Causes<'p> {
    profile: &'p Profile,
    runtimes: Runtimes<'p>,
}

/// How many frames above a system call functions of locks have at most, inlined ones counted.
pub(crate) const FRAMES_OF_LOCKS: usize = 12;

/// What the kernel waits with for files; the first word of a cause.
const FILE_CALLS: &[&str] =
    &["fsync", "fdatasync", "sync", "syncfs", "msync", "open", "openat", "unlink", "rename"];

impl<'p> Causes<'p> {
    /// For the stacks of a profile.
    #[must_use]
    pub fn from_profile(profile: &'p Profile) -> Self {
        Self { profile, runtimes: Runtimes::from_profile(profile) }
    }

    /// Why a thread with this stack did not run; `None`: it ran.
    #[must_use]
    pub fn of_stack(&self, stack: StackId) -> Option<Cause> {
        let leaf = self.profile.leaf(stack);
        if !self.profile.is_blocked(leaf) {
            return None;
        }
        let name = self.profile.functions[leaf].name.as_str();
        let told = name.strip_prefix("[waits: ").and_then(|rest| rest.strip_suffix(']'));
        let cause = |sort, name: &str| Cause { sort, name: name.to_owned() };
        Some(match told {
            None if name == RUN_QUEUE => cause(CauseSort::Processor, "a CPU"),
            None => cause(CauseSort::Unknown, name.trim_matches(['[', ']'])),
            Some("futex") => self.of_futex(stack),
            Some("page fault") => cause(CauseSort::File, "page fault"),
            Some(what @ ("system call" | "cause not known")) => cause(CauseSort::Unknown, what),
            Some(what) if is_of_file(what) => cause(CauseSort::File, what),
            Some(what) => cause(CauseSort::Work, what),
        })
    }

    /// What a futex is, by the functions that wait for it.
    fn of_futex(&self, stack: StackId) -> Cause {
        if let Some((lock, _)) = self.runtimes.lock_of(stack) {
            return Cause { sort: CauseSort::Lock, name: lock.name().to_owned() };
        }
        let frames = self.profile.outwards(stack).take(FRAMES_OF_LOCKS);
        let mut names = frames.map(|(_, frame)| self.profile.functions[frame.function].name.as_str());
        let kind = names.find_map(|name| futexes::kind_of(name).or_else(|| kind_in_libc(name)));
        cause_of_kind(kind.unwrap_or(WaitKind::Futex))
    }
}

impl Cause {
    /// Why threads wait for an object.
    #[must_use]
    pub fn of_object(object: &Object) -> Self {
        match object.of_language {
            Some(lock) => Self { sort: CauseSort::Lock, name: lock.name().to_owned() },
            None => cause_of_kind(object.kind),
        }
    }
}

fn cause_of_kind(kind: WaitKind) -> Cause {
    let sort = match WaitClass::of_kind(kind) {
        WaitClass::Lock => CauseSort::Lock,
        WaitClass::Work => CauseSort::Work,
        WaitClass::Futex => CauseSort::Unknown,
    };
    Cause { sort, name: kind.name().to_owned() }
}

/// Whether a cause is that of a call for a file: `read file`, `fsync file`.
fn is_of_file(what: &str) -> bool {
    let is_file = what.ends_with(" file") || what.ends_with(" device");
    is_file || what.split(' ').next().is_some_and(|call| FILE_CALLS.contains(&call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Language;
    use crate::model::{Builder, Frame, Object as Image, ObjectKind, Process, Weight};

    /// Why a thread of this stack did not run: functions from the outermost in, `py:` ones of Python's, `kernel:` ones
    /// of the kernel, others of the interpreter.
    fn told(stack: &str) -> Option<(CauseSort, String)> {
        let mut b = Builder::new(false);
        let process = b.process(Process { name: "python3".into(), ..Process::default() });
        let thread = b.thread(process, 1, "python3");
        let image = b.object(Image::new("/usr/bin/python3.11", ObjectKind::File));
        let kernel = b.object(Image::new("kernel", ObjectKind::Kernel));
        let module = b.object(Image::new("/srv/app.py", ObjectKind::Module(Language::Python)));
        let mut at = None;
        // The interpreter's own function makes its image one of CPython.
        for name in ["_PyEval_EvalFrameDefault"].into_iter().chain(stack.split(';')) {
            let (object, name) = match name.split_once(':') {
                Some(("py", name)) => (module, name),
                Some(("kernel", name)) => (kernel, name),
                _ => (image, name),
            };
            let function = b.function(object, name);
            let frame = b.frame(Frame { function, file: None, line: 0, address: None, inlined: false });
            at = Some(b.stack(at, frame));
        }
        let stack = at.expect("a frame");
        b.add(thread, stack, Weight { samples: 1, user_ns: 0, system_ns: 1 });
        let profile = b.finish();
        Causes::from_profile(&profile).of_stack(stack).map(|cause| (cause.sort, cause.name))
    }

    #[test]
    fn stacks_tell_why_threads_did_not_run() {
        use CauseSort::{File, Lock, Processor, Unknown, Work};
        let cases = [
            ("main;kernel:[run queue]", Some((Processor, "a CPU"))),
            ("main;kernel:[stopped]", Some((Unknown, "stopped"))),
            ("main;kernel:[waits: cause not known]", Some((Unknown, "cause not known"))),
            ("main;read;kernel:[waits: read pipe]", Some((Work, "read pipe"))),
            ("main;read;kernel:[waits: read file]", Some((File, "read file"))),
            ("main;fsync;kernel:[waits: fsync file]", Some((File, "fsync file"))),
            ("main;kernel:[waits: page fault]", Some((File, "page fault"))),
            ("main;nanosleep;kernel:[waits: sleep]", Some((Work, "sleep"))),
            ("main;syscall;kernel:[waits: futex]", Some((Unknown, "futex"))),
            ("main;__GI___pthread_mutex_lock;__lll_lock_wait;kernel:[waits: futex]", Some((Lock, "mutex"))),
            ("main;___pthread_cond_wait;kernel:[waits: futex]", Some((Work, "condition"))),
            ("main;__new_sem_wait_slow64;sem_wait@plt;kernel:[waits: futex]", Some((Work, "semaphore"))),
            (
                "main;<std::sys::sync::mutex::futex::Mutex>::lock_contended;kernel:[waits: futex]",
                Some((Lock, "mutex")),
            ),
            ("py:work;take_gil;pthread_cond_timedwait;kernel:[waits: futex]", Some((Lock, "Python's GIL"))),
            // These ran.
            ("main;read;kernel:[read]", None),
            ("main;work", None),
        ];
        for (stack, expected) in cases {
            assert_eq!(told(stack), expected.map(|(sort, name)| (sort, name.to_owned())), "{stack}");
        }
    }
}
