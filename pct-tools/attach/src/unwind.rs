//! Stacks of a stopped thread of another process, by the sampler's own walker over the target's memory.
//!
//! The unwind data of each object is copied once from the target's mapping of it. The copies are kept for the rest of the
//! controller's life (they are leaked, and shared by all processes that map the object at the same place), since tables refer
//! to them and a stopped thread may be walked at any time; their number is that of distinct objects.

use crate::memory::{Memory, ProcessMemory};
use crate::outside::Unwind;
use crate::ptrace::sys::Regs;
use pct_format::record::{CutCause, Frame};
use pct_unwind::object::locate;
use pct_unwind::reader::Section;
use pct_unwind::set::{Entry, Set};
use pct_unwind::table::{self, FdeRef, Table};
use pct_unwind::{Budget, Cache, End, Gregs, stack, walk};
use procfs::process::{MMPermissions, MMapPath, Process};
use std::collections::HashMap;

/// More unwind data than this is not copied from one object.
const MOST: u64 = 256 << 20;
/// The stack is read in pieces of this many octets.
const PIECE: usize = 16 << 10;
/// No more of a stack than this is looked at.
const MOST_STACK: usize = 8 << 20;

/// What tells an object apart: device, inode, and where its first page is mapped.
type Key = (i32, i32, u64, u64);

/// Walks stacks of one target.
pub struct StackWalker {
    entries: Vec<Entry<'static>>,
    tables: HashMap<Key, Option<&'static Table<'static>>>,
    cache: Box<Cache>,
    generation: u64,
    out: Vec<u64>,
    stack: Vec<u8>,
}

impl StackWalker {
    /// A walker that keeps up to `depth` frames of a stack.
    pub fn new(depth: usize) -> Self {
        StackWalker {
            entries: Vec::new(),
            tables: HashMap::new(),
            cache: Box::default(),
            generation: 0,
            out: vec![0; depth],
            stack: Vec::new(),
        }
    }
}

impl Unwind for StackWalker {
    fn walk(&mut self, regs: &Regs, memory: &ProcessMemory, out: &mut Vec<Frame>) {
        let r = regs;
        let gregs = Gregs([
            r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
            r.rcx, r.rsp, r.rip,
        ]);
        let set = Set { entries: &self.entries, generation: self.generation };
        self.stack.clear();
        let mut remote = Remote { memory, lo: 0, bytes: &mut self.stack };
        // the target is stopped while we walk, but not inside its own handler: the bound is the depth
        let walked = walk(&set, &self.cache, &gregs, &mut remote, &mut self.out, Budget { units: u32::MAX });
        out.extend(self.out[..walked.frames].iter().map(|word| Frame::decode(*word)));
        let cause = match walked.end {
            End::Whole => return,
            End::Depth => CutCause::Depth,
            End::Time => CutCause::Time,
            End::BadRead | End::NoStack => CutCause::BadRead,
            End::NoData => CutCause::NoUnwindData,
            End::BadData => CutCause::Unsupported,
            End::Loop => CutCause::Loop,
            End::NotReady => CutCause::Other,
        };
        out.push(Frame::Cut(cause));
    }

    fn refresh(&mut self, pid: i32, memory: &ProcessMemory) {
        let Ok(maps) = Process::new(pid).and_then(|p| p.maps()) else { return };
        let mut entries = Vec::new();
        for map in maps.0.iter().filter(|m| m.perms.contains(MMPermissions::EXECUTE)) {
            let id = (map.dev.0, map.dev.1, map.inode);
            let base = match (&map.pathname, map.inode) {
                (MMapPath::Vdso, _) => Some(map.address.0),
                (_, 0) => None,
                _ => maps
                    .0
                    .iter()
                    .rev()
                    .find(|m| {
                        (m.dev.0, m.dev.1, m.inode) == id && m.offset == 0 && m.address.0 <= map.address.0
                    })
                    .map(|m| m.address.0),
            };
            let table = base.and_then(|b| {
                *self.tables.entry((id.0, id.1, id.2, b)).or_insert_with(|| copy_table(memory, b))
            });
            entries.push(Entry { start: map.address.0, end: map.address.1, table });
        }
        self.entries = entries;
        self.generation += 1;
    }
}

/// Copies the unwind data of the object whose first page is mapped at `base`.
fn copy_table(memory: &ProcessMemory, base: u64) -> Option<&'static Table<'static>> {
    let found = locate(base, |at, out| memory.read(at, out).is_ok())?;
    let room = found.eh_end.checked_sub(found.eh).filter(|n| *n <= MOST)?;
    let listed = found.list.and_then(|(at, n)| {
        let raw = memory.bytes(found.hdr.checked_add(at as u64)?, (n as u64).checked_mul(8)?, MOST).ok()?;
        let half = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let mut index: Vec<FdeRef> =
            raw.chunks_exact(8).map(|e| FdeRef { pc: half(&e[..4]), fde: half(&e[4..]) }).collect();
        table::adopt_list(&mut index, found.hdr, base, found.eh).then_some(())?;
        // the list says where the last FDE is: what follows it in the segment is not unwind data
        let last = u64::from(index.iter().map(|e| e.fde).max()?);
        let len = memory.half(found.eh.checked_add(last)?).ok()?;
        let eh = memory.bytes(found.eh, (last + 4).checked_add(u64::from(len))?, room).ok()?;
        Some((index, eh))
    });
    let (index, eh) = match listed {
        Some(both) => both,
        None => {
            let eh = memory.bytes(found.eh, room, MOST).ok()?;
            let mut index = vec![FdeRef::default(); eh.len() / 16];
            let n = table::index_by_scan(&Section { bytes: &eh, addr: found.eh }, base, &mut index);
            index.truncate(n);
            (index, eh)
        }
    };
    let buckets = vec![0u32; table::buckets_for(index.len())].leak();
    let section = Section { bytes: eh.leak(), addr: found.eh };
    Some(Box::leak(Box::new(Table::new(base, section, index.leak(), buckets))))
}

/// The target's memory as the walker wants it: the stack copied piece by piece, the rest word by word.
struct Remote<'a> {
    memory: &'a ProcessMemory,
    lo: u64,
    bytes: &'a mut Vec<u8>,
}

impl Remote<'_> {
    /// Reads one piece more of the current stack.
    fn more(&mut self) -> bool {
        if self.bytes.len() >= MOST_STACK {
            return false;
        }
        let from = self.bytes.len();
        self.bytes.resize(from + PIECE, 0);
        let n = self.memory.read_some(self.lo + from as u64, &mut self.bytes[from..]);
        self.bytes.truncate(from + n);
        n > 0
    }
}

impl stack::Memory for Remote<'_> {
    fn enter(&mut self, sp: u64) -> bool {
        self.lo = sp & !7;
        self.bytes.clear();
        self.more()
    }

    fn peek(&self, addr: u64) -> Option<u64> {
        let at = usize::try_from(addr.checked_sub(self.lo)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }

    fn read(&mut self, addr: u64) -> Option<u64> {
        let at = usize::try_from(addr.checked_sub(self.lo)?).ok()?;
        let end = at.checked_add(8).filter(|e| *e <= MOST_STACK)?;
        while self.bytes.len() < end {
            if !self.more() {
                return None;
            }
        }
        self.peek(addr)
    }

    fn far(&mut self, addr: u64) -> Option<u64> {
        self.memory.word(addr).ok()
    }

    fn code(&mut self, addr: u64) -> Option<[u8; 16]> {
        let mut out = [0; 16];
        self.memory.read(addr, &mut out).ok()?;
        Some(out)
    }
}
