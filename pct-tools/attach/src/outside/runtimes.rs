//! The interpreters and virtual machines of one process: what its objects have of them, and which of them has a say in
//! a stack.

use super::java::{Java, JavaThread, JavaWalks};
use super::javascript::JavaScript;
use super::pages::Pages;
use super::python::Python;
use super::still::{NewObject, Object, Still};
use crate::memory::ProcessMemory;
use crate::recording::Recording;
use crate::subject::Manner;
use crate::unwind::StackWalker;
use pct_elf::Image;
use pct_format::record::Frame;
use procfs::process::{MMPermissions, MMapPath, MemoryMap};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;

/// What one process has of them.
pub(super) struct Runtimes {
    /// The objects that were looked at.
    known: HashSet<Object>,
    python: Python,
    java: Java,
    javascript: JavaScript,
    /// Memory that may be a thread's stack: first addresses, and those behind the last.
    writable: Vec<(u64, u64)>,
}

impl Runtimes {
    /// None is found yet.
    pub(super) fn new(manner: &Manner) -> Runtimes {
        Runtimes {
            known: HashSet::new(),
            python: Python::new(manner.depth, manner.python),
            java: Java::new(manner.depth, manner.java),
            javascript: JavaScript::new(manner.depth, manner.javascript),
            writable: Vec::new(),
        }
    }

    /// Looks at the objects that are new in `maps`.
    pub(super) fn refresh(&mut self, maps: &[MemoryMap], memory: &ProcessMemory, recording: &mut Recording) {
        let object = |map: &MemoryMap| (map.address.0, map.dev.0, map.dev.1, map.inode);
        let firsts = || maps.iter().filter(|map| map.offset == 0 && map.inode != 0);
        let now: HashSet<Object> = firsts().map(object).collect();
        self.known.retain(|object| now.contains(object));
        self.python.retain(maps, &now);
        self.java.retain(&now);
        self.javascript.retain(&now);
        for map in firsts() {
            if self.known.insert(object(map)) {
                self.meet(map, object(map), memory, recording);
            }
        }
        self.javascript.note_copies(maps);
        let is_writable = |map: &&MemoryMap| map.perms.contains(MMPermissions::WRITE);
        self.writable = maps.iter().filter(is_writable).map(|map| map.address).collect();
    }

    fn meet(&mut self, map: &MemoryMap, object: Object, memory: &ProcessMemory, recording: &mut Recording) {
        let path = match &map.pathname {
            MMapPath::Path(path) => path.as_os_str().as_bytes(),
            _ => &[],
        };
        self.java.meet((object, path), memory, recording);
        let pages = &Pages::new(memory);
        let Some(image) = Image::at_base(pages, object.0) else { return };
        let Some(symbols) = image.symbols(pages) else { return };
        let new = NewObject { object, path, image: &image, symbols: &symbols };
        self.python.meet(&new, pages, recording);
        self.javascript.meet(&new, pages);
    }

    /// What could not be read of the process when it was seen first may be there now. True: the maps say more of it.
    pub(super) fn look_again(&mut self, memory: &ProcessMemory, recording: &mut Recording) -> bool {
        self.python.look_again(memory, recording);
        self.java.look_again(memory, recording);
        self.javascript.look_again(memory, recording)
    }

    /// Python has a say in stacks.
    pub(super) fn has_python(&self) -> bool {
        self.python.is_there()
    }

    /// Java frames are to be walked with the native ones.
    pub(super) fn has_java(&self) -> bool {
        self.java.is_there() && !self.has_python()
    }

    /// Code that keeps frame pointers without saying so: first addresses, and those behind the last.
    pub(super) fn code_with_frame_pointers(&self) -> Vec<(u64, u64)> {
        self.javascript.own_code()
    }

    /// Behind the last address of the stack that holds `sp`, as the maps were last.
    pub(super) fn stack_end(&self, sp: u64) -> Option<u64> {
        self.writable.iter().find(|(from, to)| (*from..*to).contains(&sp)).map(|(_, to)| *to)
    }

    /// Walks of a thread of the Java virtual machine.
    pub(super) fn java_walks<'a>(
        &'a mut self,
        natives: &'a mut StackWalker,
        thread: JavaThread,
        pages: &'a Pages<'a>,
        recording: &'a mut Recording,
    ) -> JavaWalks<'a> {
        JavaWalks { java: &mut self.java, natives, thread, pages, recording }
    }

    /// The stack of a thread with frames of its interpreter at their places; `None`: it has none, so the native frames
    /// are all.
    pub(super) fn stack(
        &mut self,
        still: &Still<'_>,
        natives: &StackWalker,
        memory: &ProcessMemory,
        recording: &mut Recording,
        out: &mut Vec<Frame>,
    ) -> Option<()> {
        if self.python.is_there() {
            return self.python.stack(still, memory, recording, out);
        }
        if self.java.is_there() || !self.javascript.is_there() {
            return None;
        }
        self.javascript.stack(still, natives, memory, recording, out)
    }
}
