//! Copies of objects' unwind data. All sampled processes share them: there is one copy for each object.
//!
//! ```text
//! Object   the data of one file, as if it were mapped at address 0
//! Placed   the same data at the address where one process has mapped the file
//! ```
//!
//! Unwind data is relative to its own address, so one copy serves all processes. There are exceptions: pointers may be
//! absolute, and a file may be rewritten under its old inode number. So before a copy is used, a few spots of it are
//! compared with the process's memory.
//!
//! A copy lives as long as a process uses it. Unused copies wait for the next short process, up to [`IDLE_OCTETS`].

use crate::go::{self, Spot};
use crate::headers::Headers;
use crate::memory::{Memory, ProcessMemory};
use pct_unwind::locate::{Effort, locate};
use pct_unwind::reader::Section;
use pct_unwind::table::{self, FdeRef, Table};
use self_cell::{MutBorrow, self_cell};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Most unwind data that is copied from one object, in octets.
const MOST: u64 = 256 << 20;
/// Total size of the copies that are kept though no process uses them, in octets.
const IDLE_OCTETS: usize = 12 << 20;
/// Number of octets that are compared in each spot.
const SPOT: usize = 64;

/// Identifies a file: device and inode. The vdso has neither.
pub(crate) type File = (i32, i32, u64);

/// The octets that a table refers to.
struct Parts {
    eh: Vec<u8>,
    index: Vec<FdeRef>,
    buckets: MutBorrow<Vec<u32>>,
}

self_cell!(
    /// A table together with what it refers to.
    struct Owned {
        owner: Parts,
        #[covariant]
        dependent: Table,
    }
);

/// The unwind data of one file.
pub(crate) struct Object {
    /// Offset of `.eh_frame` from the object's first octet.
    eh_at: u64,
    octets: usize,
    /// Spots at which a process's memory must agree with the copy: offsets from the object's first octet, and octets.
    spots: Vec<Spot>,
    data: Owned,
}

impl Object {
    /// Copies the unwind data of the object with these headers.
    fn copy(memory: &ProcessMemory, headers: &Headers, effort: Effort) -> Option<Object> {
        let base = headers.lowest;
        let (mut index, mut eh, eh_addr) =
            Self::linked(memory, headers, effort).unwrap_or_else(|| (Vec::new(), Vec::new(), base));
        let eh_at = eh_addr.checked_sub(base)?;
        let fdes = [0, index.len() / 2, index.len().saturating_sub(1)];
        let fdes = fdes.iter().filter_map(|at| index.get(*at)).map(|entry| entry.fde as usize);
        let spot = |from: usize| (eh_at + from as u64, eh.iter().skip(from).take(SPOT).copied().collect());
        let mut spots: Vec<Spot> = std::iter::once(0).chain(fdes).map(spot).collect();
        // Go's linker puts the headers first.
        if headers.at == base {
            spots.extend(go::add(memory, base, eh_addr, &mut eh, &mut index));
        }
        if index.is_empty() {
            return None;
        }
        index.shrink_to_fit();
        let buckets = vec![0u32; table::buckets_for(index.len())];
        let octets = eh.len() + index.len() * size_of::<FdeRef>() + buckets.len() * 4;
        let parts = Parts { eh, index, buckets: MutBorrow::new(buckets) };
        let data = Owned::new(parts, |parts| {
            let section = Section { bytes: &parts.eh, addr: eh_at };
            Table::new(0, section, &parts.index, parts.buckets.borrow_mut())
        });
        Some(Object { eh_at, octets, spots, data })
    }

    /// The `.eh_frame` that the linker wrote, with its index, and its address.
    fn linked(
        memory: &ProcessMemory,
        headers: &Headers,
        effort: Effort,
    ) -> Option<(Vec<FdeRef>, Vec<u8>, u64)> {
        let base = headers.lowest;
        let found = locate(&headers.with(memory), headers.at, effort)?;
        let room = found.eh_end.checked_sub(found.eh).filter(|n| *n <= MOST)?;
        let listed = found.list.and_then(|(at, n)| {
            let raw =
                memory.bytes(found.hdr.checked_add(at as u64)?, (n as u64).checked_mul(8)?, MOST).ok()?;
            let half = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            let mut index: Vec<FdeRef> =
                raw.chunks_exact(8).map(|e| FdeRef { pc: half(&e[..4]), fde: half(&e[4..]) }).collect();
            table::adopt_list(&mut index, found.hdr, base, found.eh).then_some(())?;
            // the list says where the last FDE is; what follows that FDE in the segment is not unwind data
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
        Some((index, eh, found.eh))
    }

    /// Whether the object whose lowest address is `base` has this unwind data. A few spots are compared.
    fn is_at(&self, memory: &ProcessMemory, base: u64) -> bool {
        self.spots.iter().all(|(at, ours)| {
            let theirs = memory.bytes(base.wrapping_add(*at), ours.len() as u64, SPOT as u64);
            theirs.is_ok_and(|theirs| theirs == *ours)
        })
    }
}

self_cell!(
    /// An object's unwind data where one process has it.
    pub(crate) struct Placed {
        owner: Rc<Object>,
        #[covariant]
        dependent: Table,
    }
);

impl Placed {
    /// The table for the addresses of that process.
    pub(crate) fn table(&self) -> &Table<'_> {
        self.borrow_dependent()
    }
}

/// All copies.
#[derive(Default)]
pub struct Objects {
    /// The copies, the last used one last.
    known: RefCell<Vec<KnownFile>>,
    generation: Cell<u64>,
}

/// What is known of a file.
struct KnownFile {
    file: File,
    /// `None`: it has no unwind data.
    object: Option<Rc<Object>>,
    /// How often they were looked for in vain.
    in_vain: u8,
}

impl KnownFile {
    /// It is to be looked for once more.
    fn is_unsure(&self) -> bool {
        self.object.is_none() && self.in_vain < MOST_LOOKS
    }
}

/// How often unwind data are looked for. The first look goes by the object's headers alone, and may come while the
/// loader of a process maps the object: then its code is there, and its unwind data are not.
const MOST_LOOKS: u8 = 2;

/// Most files that are remembered, with and without unwind data.
const MOST_KNOWN: usize = 4096;

impl Objects {
    /// The unwind data of `file`, for a process in which it has these headers.
    ///
    /// Where none were found before, they are looked for once more if they are `wanted`.
    pub(crate) fn at(
        &self,
        file: File,
        memory: &ProcessMemory,
        headers: &Headers,
        wanted: bool,
    ) -> Option<Placed> {
        let base = headers.lowest;
        let mut known = self.known.borrow_mut();
        let same = |known: &KnownFile| {
            known.file == file && known.object.as_ref().is_none_or(|object| object.is_at(memory, base))
        };
        let mut now = match known.iter().position(same) {
            Some(at) => known.remove(at),
            None => KnownFile { file, object: None, in_vain: 0 },
        };
        if now.in_vain == 0 && now.object.is_none() || wanted && now.is_unsure() {
            let effort = if now.in_vain == 0 { Effort::Header } else { Effort::Shape };
            now.object = Object::copy(memory, headers, effort).map(Rc::new);
            now.in_vain += u8::from(now.object.is_none());
        }
        let found = now.object.clone();
        known.push(now);
        Some(Placed::new(found?, |object| object.data.borrow_dependent().moved(base, base + object.eh_at)))
    }

    /// Whether this file's unwind data may be looked for once more.
    pub(crate) fn is_unsure(&self, file: File) -> bool {
        self.known.borrow().iter().any(|known| known.file == file && known.is_unsure())
    }

    /// Drops unused copies, the oldest first, beyond those that are kept for the next process.
    pub(crate) fn tidy(&self) {
        let mut known = self.known.borrow_mut();
        let idle = |object: &Option<Rc<Object>>| {
            object.as_ref().filter(|object| Rc::strong_count(object) == 1).map_or(0, |object| object.octets)
        };
        let mut over =
            known.iter().map(|known| idle(&known.object)).sum::<usize>().saturating_sub(IDLE_OCTETS);
        let mut many = known.len().saturating_sub(MOST_KNOWN);
        known.retain(|KnownFile { object, .. }| {
            let octets = idle(object);
            let used = object.is_some() && octets == 0;
            if used || over == 0 && many == 0 {
                return true;
            }
            over = over.saturating_sub(octets);
            many = many.saturating_sub(1);
            false
        });
    }

    /// A new number for a set of regions.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.set(self.generation.get() + 1);
        self.generation.get()
    }

    /// The total size of all copies in octets, and their number.
    pub fn size(&self) -> (usize, usize) {
        let known = self.known.borrow();
        let objects = known.iter().filter_map(|known| known.object.as_ref());
        objects.fold((0, 0), |(octets, number), object| (octets + object.octets, number + 1))
    }
}

#[cfg(test)]
mod live {
    use super::*;
    use crate::facts;
    use crate::unwind::{Shared, StackWalker};
    use pct_kit::started::Killed;
    use pct_kit::wait::wait_until;
    use std::process::{Command, Stdio};

    struct Sleeper(Killed);

    impl Sleeper {
        fn new() -> Sleeper {
            let child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().expect("sleep");
            let pid = child.id() as i32;
            wait_until("sleep to sleep", || {
                facts::read(pid).is_ok_and(|t| t.facts.name == "sleep" && t.facts.state == 'S')
            });
            Sleeper(Killed(child))
        }

        fn walker(&self, shared: &Rc<Shared>) -> StackWalker {
            let pid = self.0.id() as i32;
            let memory = ProcessMemory::open(pid, false).expect("ours");
            let maps = procfs::process::Process::new(pid).and_then(|p| p.maps()).expect("lives");
            let mut walker = StackWalker::new(64, Rc::clone(shared));
            walker.learn(pid, &maps.0, &memory, &[]);
            walker
        }
    }

    #[test]
    fn processes_share_one_copy_of_an_object_wherever_they_have_it_mapped() {
        let shared = Rc::<Shared>::default();
        let sleepers: Vec<Sleeper> = (0..8).map(|_| Sleeper::new()).collect();
        let first = sleepers[0].walker(&shared);
        let (octets, objects) = shared.objects.size();
        assert!(objects >= 2 && octets > 50_000, "{objects} of {octets} octets");
        let others: Vec<StackWalker> = sleepers[1..].iter().map(|s| s.walker(&shared)).collect();
        assert_eq!(shared.objects.size(), (octets, objects));
        drop((first, others));
    }

    #[test]
    fn what_nobody_uses_is_given_back_beyond_a_bound() {
        let shared = Rc::<Shared>::default();
        let sleeper = Sleeper::new();
        let pid = sleeper.0.id() as i32;
        let memory = ProcessMemory::open(pid, false).expect("ours");
        let maps = procfs::process::Process::new(pid).and_then(|p| p.maps()).expect("lives");
        let libc = maps.0.iter().find(|m| m.offset == 0 && format!("{:?}", m.pathname).contains("libc"));
        let headers =
            Headers::of_mapping(libc.expect("a C library"), &maps.0, pid, &memory).expect("it has headers");
        // the same octets under many numbers, as if there were many libraries
        let held = shared.objects.at((1, 1, 0), &memory, &headers, false).expect("it has unwind data");
        for number in 1..500 {
            shared.objects.at((1, 1, number), &memory, &headers, false).expect("it has unwind data");
            shared.objects.tidy();
        }
        let (octets, objects) = shared.objects.size();
        let one = octets / objects;
        assert!(objects > 2 && octets <= IDLE_OCTETS + 2 * one, "{objects} of {octets} octets");
        assert!(held.table().len() > 100);
        assert!(shared.objects.known.borrow().iter().any(|known| known.file == (1, 1, 0)), "it is in use");
    }
}
