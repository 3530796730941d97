//! Walks stacks of a stopped thread of another process, with the sampler's own walker over the target's memory.
//!
//! The unwind data of each object is copied from the target's mapping of it, once for all processes
//! ([`crate::objects`]). The rules found in it are also remembered once for all processes.

use crate::headers::Headers;
use crate::memory::{Memory, ProcessMemory};
use crate::objects::{self, Objects};
use crate::ptrace::sys::Regs;
use crate::tasks;
use pct_format::record::CutCause;
use pct_languages::hotspot::NativeWalks;
use pct_languages::v8::find::part_with_frame_pointers;
use pct_unwind::set::{AnyTable, Entry, Set};
use pct_unwind::{Budget, Cache, Gregs, Met, Placed, Start, Walked, stack, walk, walk_to};
use procfs::process::{MMPermissions, MemoryMap};
use self_cell::self_cell;
use std::collections::HashMap;
use std::rc::Rc;

/// Octets of a stack that are read in one piece.
const PIECE: usize = 16 << 10;
/// Octets below rsp that belong to the function (System V ABI, AMD64 supplement).
const RED_ZONE: u64 = 128;
/// Most octets of a stack that are read.
const MOST_STACK: usize = 8 << 20;

/// Walks a stopped thread's stack.
pub trait Unwind {
    /// Adds the return addresses to `out`, the innermost first. Returns why the stack is cut, if it is. The thread is
    /// stopped meanwhile.
    fn walk(&mut self, regs: &Regs, memory: &ProcessMemory, out: &mut Vec<Placed>) -> Option<CutCause>;
}

/// What all walkers share: copies of unwind data, and rules found in them.
#[derive(Default)]
pub struct Shared {
    /// The copies.
    pub objects: Objects,
    rules: Box<Cache>,
}

/// An executable region.
struct Region {
    start: u64,
    end: u64,
    /// The unwind data of its object.
    data: Option<Rc<objects::Placed>>,
    /// They may be looked for once more.
    unsure: bool,
    of_file: bool,
}
type Entries<'a> = Vec<Entry<'a>>;

self_cell!(
    /// The regions of a process in the form that the walk needs.
    struct Known {
        owner: Vec<Region>,
        #[covariant]
        dependent: Entries,
    }
);

impl Known {
    fn from_regions(regions: Vec<Region>) -> Known {
        Known::new(regions, |regions| regions.iter().map(entry).collect())
    }
}

fn entry(region: &Region) -> Entry<'_> {
    let Region { start, end, ref data, unsure, of_file } = *region;
    let table = data.as_deref().map(|data| AnyTable::Whole(data.table()));
    Entry { start, end, table, unsure, of_file }
}

/// Walks stacks of one target.
pub struct StackWalker {
    shared: Rc<Shared>,
    known: Known,
    generation: u64,
    wants_data: bool,
    met_unknown: bool,
    out: Vec<Placed>,
    stack: Vec<u8>,
}

impl StackWalker {
    /// A walker that keeps up to `depth` frames of a stack.
    pub fn new(depth: usize, shared: Rc<Shared>) -> Self {
        let known = Known::from_regions(Vec::new());
        let out = vec![Placed::default(); depth];
        StackWalker {
            shared,
            known,
            generation: 0,
            wants_data: false,
            met_unknown: false,
            out,
            stack: Vec::new(),
        }
    }

    /// Reads the regions of the target, process `pid`, again, because they have changed.
    pub fn refresh(&mut self, pid: i32, memory: &ProcessMemory) {
        let Ok(maps) = tasks::maps(pid) else { return };
        self.learn(pid, &maps.0, memory, &[]);
    }

    /// Whether it should learn the regions anew, although they may not have changed: a walk needed unwind data that
    /// were not there when they were looked for, perhaps because the target's loader was still mapping their object.
    pub fn wants_data(&self) -> bool {
        self.wants_data
    }

    /// Whether a walk since the last call of this met an address in no region that it knows: there may be code that was
    /// not there when it learned the regions.
    pub fn take_unknown(&mut self) -> bool {
        std::mem::take(&mut self.met_unknown)
    }

    /// Whether the code at `pc` has no unwind data, though its object has some for other code.
    pub fn is_without_data(&self, pc: u64) -> bool {
        let set = Set { entries: self.known.borrow_dependent(), generation: self.generation };
        set.gap(pc, || false).is_ok()
    }

    /// Whether the code at `address` was made at run time: it is in a region without a file and without unwind data.
    pub fn is_made_code(&self, address: u64) -> bool {
        let set = Set { entries: self.known.borrow_dependent(), generation: self.generation };
        set.region(address).is_some_and(|region| !region.of_file && region.table.is_none())
    }

    /// Walks of native frames in a stack that has others too, of a thread with this base of thread-local data (0: it is
    /// not known).
    pub fn natives<'a>(&'a mut self, memory: &'a ProcessMemory, thread_base: u64) -> TargetWalks<'a> {
        self.stack.clear();
        TargetWalks {
            set: Set { entries: self.known.borrow_dependent(), generation: self.generation },
            rules: &self.shared.rules,
            target: TargetStack { memory, lo: 0, bytes: &mut self.stack, thread_base },
            wants_data: &mut self.wants_data,
            met_unknown: &mut self.met_unknown,
        }
    }

    /// Stores the executable regions of `maps` as those of the target, process `pid`. The code in `keeping` (first
    /// addresses, and those behind the last) keeps frame pointers, whatever unwind data its objects have.
    pub fn learn(&mut self, pid: i32, maps: &[MemoryMap], memory: &ProcessMemory, keeping: &[(u64, u64)]) {
        // an object may have several executable regions
        let mut placed: HashMap<u64, Option<Rc<objects::Placed>>> = HashMap::new();
        let mut regions = Vec::new();
        let wanted = std::mem::take(&mut self.wants_data);
        for map in maps.iter().filter(|m| m.perms.contains(MMPermissions::EXECUTE)) {
            let file = (map.dev.0, map.dev.1, map.inode);
            let data = Headers::of_mapping(map, maps, pid, memory).and_then(|headers| {
                let find = || self.shared.objects.at(file, memory, &headers, wanted).map(Rc::new);
                placed.entry(headers.lowest).or_insert_with(find).clone()
            });
            let unsure = data.is_none() && self.shared.objects.is_unsure(file);
            let (start, end) = map.address;
            let (from, to) = part_with_frame_pointers((start, end), keeping.iter().copied());
            let of_file = map.inode != 0;
            let parts = [
                Region { start, end: from, data: data.clone(), unsure, of_file },
                Region { start: from, end: to, data: None, unsure: false, of_file },
                Region { start: to, end, data, unsure, of_file },
            ];
            regions.extend(parts.into_iter().filter(|region| region.start < region.end));
        }
        self.known = Known::from_regions(regions);
        self.generation = self.shared.objects.next_generation();
        self.shared.objects.tidy();
    }
}

/// Walks of native frames between others.
pub struct TargetWalks<'a> {
    set: Set<'a>,
    rules: &'a Cache,
    target: TargetStack<'a>,
    wants_data: &'a mut bool,
    met_unknown: &'a mut bool,
}

impl NativeWalks for TargetWalks<'_> {
    fn walk_to(&mut self, start: Start<'_>, out: &mut [u64], foreign: (u64, u64)) -> (Walked, Option<Met>) {
        let budget = Budget { units: u32::MAX };
        let (walked, met) = walk_to((&self.set, self.rules), start, &mut self.target, out, budget, foreign);
        *self.wants_data |= walked.unsure;
        *self.met_unknown |= walked.unknown;
        (walked, met)
    }
}

/// Registers in the order of the walker.
pub fn gregs(regs: &Regs) -> Gregs {
    let r = regs;
    Gregs([
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
        r.rcx, r.rsp, r.rip,
    ])
}

impl Unwind for StackWalker {
    fn walk(&mut self, regs: &Regs, memory: &ProcessMemory, out: &mut Vec<Placed>) -> Option<CutCause> {
        let set = Set { entries: self.known.borrow_dependent(), generation: self.generation };
        self.stack.clear();
        let mut target = TargetStack { memory, lo: 0, bytes: &mut self.stack, thread_base: regs.fs_base };
        // the target is stopped while pct walks, but not inside its own handler: the bound is the depth
        let walked = walk(
            &set,
            &self.shared.rules,
            &gregs(regs),
            &mut target,
            &mut self.out,
            Budget { units: u32::MAX },
        );
        out.extend(&self.out[..walked.frames]);
        self.wants_data |= walked.unsure;
        self.met_unknown |= walked.unknown;
        walked.end.cut_cause()
    }
}

/// The target's memory for the walker: the stack is copied piece by piece, the rest is read word by word.
struct TargetStack<'a> {
    memory: &'a ProcessMemory,
    lo: u64,
    bytes: &'a mut Vec<u8>,
    thread_base: u64,
}

impl TargetStack<'_> {
    /// Reads one more piece of the current stack.
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

impl stack::Memory for TargetStack<'_> {
    fn enter(&mut self, sp: u64) -> bool {
        // Functions that call none keep values below rsp as well, and epilogues refer to what they have popped.
        [RED_ZONE, 0].into_iter().any(|below| {
            self.lo = sp.saturating_sub(below) & !7;
            self.bytes.clear();
            self.more() && self.peek(sp & !7).is_some()
        })
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
        self.memory.read_word(addr).ok()
    }

    fn line(&mut self, addr: u64) -> Option<[u64; 8]> {
        let mut bytes = [0; 64];
        self.memory.read(addr, &mut bytes).ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        Some(std::array::from_fn(|i| u64::from_ne_bytes(words[i])))
    }

    fn thread_base(&self) -> Option<u64> {
        Some(self.thread_base)
    }

    fn code_bytes(&mut self, addr: u64, into: &mut [u8]) -> bool {
        self.memory.read(addr, into).is_ok()
    }
}
