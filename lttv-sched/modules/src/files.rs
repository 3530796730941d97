//! Which file a running system call is for, as far as the trace tells.
//!
//! A call that opens a file names its path, and its return tells the number; later calls name the number.
//! Files that were open before the trace began are known from the state dump. What was opened before a window
//! begins is not known in it.

use std::sync::Arc;

use lttv_engine::call::Event;
use rustc_hash::FxHashMap;

use crate::state::{SystemState, Thread};

/// The file that a system call is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CallFile {
    /// Its path, or what the state dump says it is.
    Path(Arc<str>),
    /// Only its number in its process is known.
    Number(i64),
}

/// Files by process and number, and the calls under way.
#[derive(Default)]
pub(crate) struct OpenFiles {
    /// What a thread's running call opens.
    opening: FxHashMap<i64, Arc<str>>,
    /// The file that a thread's running call is for.
    used: FxHashMap<i64, CallFile>,
    files: FxHashMap<(i64, i64), Arc<str>>,
}

/// The process of a thread.
pub(crate) fn process_of(thread: &Thread) -> i64 {
    thread.tgid.unwrap_or(thread.key.tid)
}

fn int(event: &Event<'_>, name: &str) -> Option<i64> {
    event.field(name)?.as_i64()
}

impl OpenFiles {
    /// A thread enters a system call. The state may know of it already.
    pub(crate) fn enter(&mut self, call: &str, event: &Event<'_>, thread: &Thread, state: &SystemState) {
        let (tid, process) = (thread.key.tid, process_of(thread));
        self.opening.remove(&tid);
        self.used.remove(&tid);
        if matches!(call, "open" | "openat" | "openat2" | "creat") {
            let path = event.field("filename").and_then(|path| path.as_str().map(Arc::<str>::from));
            self.opening.extend(path.clone().map(|path| (tid, path)));
            self.used.extend(path.map(|path| (tid, CallFile::Path(path))));
            return;
        }
        let Some(number) = int(event, "fd") else { return };
        let dumped = || {
            let main = state.threads.values().find(|other| other.key.tid == process);
            main.map_or(thread, |main| main).files.get(&u32::try_from(number).ok()?).cloned()
        };
        let path = self.files.get(&(process, number)).cloned().or_else(dumped);
        self.used.insert(tid, path.map_or(CallFile::Number(number), CallFile::Path));
        if call == "close" {
            self.files.remove(&(process, number));
        }
    }

    /// A thread returns from its system call, which was for this file.
    pub(crate) fn leave(&mut self, event: &Event<'_>, thread: &Thread) -> Option<CallFile> {
        let tid = thread.key.tid;
        if let (Some(path), Some(number)) = (self.opening.remove(&tid), int(event, "ret"))
            && number >= 0
        {
            self.files.insert((process_of(thread), number), path);
        }
        self.used.remove(&tid)
    }

    /// The file that a thread's running call is for.
    pub(crate) fn of_call(&self, tid: i64) -> Option<&CallFile> {
        self.used.get(&tid)
    }
}
