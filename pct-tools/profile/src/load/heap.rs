//! What a file says of memory: sums by stack, sampled blocks, the account, and from the log what is asked for.
//!
//! Everything in these areas may be damaged or half written. What cannot be is left out and counted, and the
//! rest is used.

use super::memory::{RawBlock, RawMemory, RawProcess};
use super::options::WantedMemory;
use super::raw::{MemoryReader, ROOT, RawFrame, Reading};
use super::tally::NodeIndex;
use crate::memory::{Level, Lifetimes, MemoryAmount, MemoryLosses, MemoryMark, ProcessMemory, Server};
use pct_format::heap::{BadEntry, HeapAccount, INTERVALS, MAX_SHIFT, account, entry_flag};
use pct_format::record::Record;
use pct_format::{AllocServer, EntryState, HeapEntry, HeapSum, SegmentKind, layout};
use pct_num::{Estimate, float, rounded};
use rustc_hash::FxHashMap;
use std::path::Path;

/// What was wrong with a file's tables.
#[derive(Default)]
struct Damage {
    entries: u64,
    first: Option<BadEntry>,
    sums: u64,
    unknown_stacks: u64,
    twice: u64,
    below_live: u64,
}

/// What reads as much as is wanted.
pub(super) fn reader(wanted: WantedMemory) -> Option<MemoryReader> {
    match wanted {
        WantedMemory::Nothing => None,
        WantedMemory::Tables => {
            Some(|reading, process, path| read(reading, process, path, WantedMemory::Tables))
        }
        WantedMemory::Log => Some(|reading, process, path| read(reading, process, path, WantedMemory::Log)),
    }
}

/// Reads what the file says of memory, if its allocations were sampled.
fn read(reading: &mut Reading<'_, '_>, process: usize, path: &Path, wanted: WantedMemory) {
    let file = *reading.index.file();
    let header = file.header();
    let areas = file.segments().any(|segment| {
        matches!(segment.kind(), SegmentKind::Heap | SegmentKind::HeapSum | SegmentKind::HeapAccount)
    });
    let note = |reading: &mut Reading<'_, '_>, text: String| {
        reading.account.note(format!("{}: {text}", path.display()));
    };
    let interval = match header.alloc_interval() {
        Some(interval) if INTERVALS.contains(&interval) => interval,
        Some(interval) => {
            note(
                reading,
                format!("allocations: an interval of {interval} bytes cannot be; they are left out"),
            );
            return;
        }
        None if areas => {
            note(reading, "allocations: no interval says what a sample stands for; they are left out".into());
            return;
        }
        None => return,
    };
    let account = file.heap_account();
    let mut heap = Heap {
        process,
        interval,
        peak: account.map_or(0, |account| account.count(account::PEAK_TIME)),
        damage: Damage::default(),
        losses: MemoryLosses::default(),
        most_shift: account.map_or(0, |account| {
            shift_of(account.count(account::MOST_SHIFT)).max(shift_of(account.count(account::SHIFT)))
        }),
        has_account: account.is_some(),
        live: FxHashMap::default(),
        memory: RawMemory::default(),
    };
    for sum in file.heap_sums().flat_map(|area| area.sums()) {
        match sum {
            Ok(sum) => heap.sum(reading, &sum),
            Err(_) => heap.damage.sums += 1,
        }
    }
    let entries: Vec<_> = file.heap_tables().flat_map(|area| area.entries()).collect();
    heap.entries(reading, &entries);
    let (levels, marks, log_from) = heap.log(reading, wanted);
    heap.check_sums();
    heap.close(reading, account, (levels, marks, log_from), path);
}

/// One file's memory being read.
struct Heap {
    process: usize,
    interval: u64,
    /// Raw time of the peak, 0 = none.
    peak: u64,
    damage: Damage,
    losses: MemoryLosses,
    /// How often the interval was doubled at most, for all sites.
    most_shift: u32,
    has_account: bool,
    /// Live octets by node, without what was inherited: to compare with the sums.
    live: FxHashMap<NodeIndex, Estimate>,
    memory: RawMemory,
}

/// How often the interval is doubled, by what the account says.
fn shift_of(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(MAX_SHIFT).min(MAX_SHIFT)
}

impl Heap {
    /// What a small block's sample stood for at most, in bytes: the interval was doubled where samples came too often.
    fn largest_weight(&self) -> f64 {
        float(self.interval.saturating_mul(1 << self.most_shift))
    }

    /// The node of a stack of the file.
    fn node(&mut self, reading: &mut Reading<'_, '_>, stack: u32, time: u64) -> NodeIndex {
        if stack == 0 {
            return reading.raw.node(ROOT, RawFrame::NoStack);
        }
        let epoch = reading.epoch(time);
        match reading.stack(stack, epoch, time) {
            (ROOT, _) => {
                self.damage.unknown_stacks += 1;
                reading.raw.node(ROOT, RawFrame::NoStack)
            }
            (node, _) => node,
        }
    }

    fn sum(&mut self, reading: &mut Reading<'_, '_>, sum: &HeapSum) {
        // Sums have no time. Code that was replaced meanwhile is found by the time at which the file was written last.
        let node = self.node(reading, sum.stack, end_of(reading));
        let ns_a_unit = ns_a_unit(reading);
        // What one more sample would stand for: of a busy site more than of others.
        let typical = if sum.bytes.0 > 0.0 { sum.bytes.1 / sum.bytes.0 } else { 0.0 };
        let unseen = self.largest_weight().max(typical);
        let bytes = Estimate {
            samples: sum.samples,
            amount: sum.bytes.0,
            variance: sum.bytes.1,
            unseen,
            certain: float(sum.seen_bytes),
        };
        let samples = float(sum.samples.max(1));
        // Blocks of the mean size that were requested while the interval was largest.
        let mean = if sum.blocks.0 > 0.0 { rounded(sum.bytes.0 / sum.blocks.0) } else { 1 };
        let missed = Estimate::of_blocks(mean, rounded(unseen)).unseen;
        let blocks = Estimate {
            samples: sum.samples,
            amount: sum.blocks.0,
            variance: sum.blocks.1,
            // Of samples of one size the weight of each; of mixed ones their root mean square.
            unseen: (sum.blocks.1 / samples).sqrt().max(missed),
            certain: float(sum.samples),
        };
        let row = self.memory.sums.entry((self.process, node)).or_default();
        row.allocated += MemoryAmount { bytes, blocks };
        row.freed.0 = row.freed.0.saturating_add(sum.freed.0);
        row.freed.1 += sum.freed.1;
        row.freed.2 += sum.freed.2;
        row.lifetimes += Lifetimes::from_units(sum.lifetimes, ns_a_unit);
    }

    /// Of two live entries of one address the later one is the block that is there: the other one's free was
    /// not seen, or it is in realloc.
    fn entries(&mut self, reading: &mut Reading<'_, '_>, entries: &[Result<HeapEntry, BadEntry>]) {
        let mut latest: FxHashMap<u64, u64> = FxHashMap::default();
        for entry in entries.iter().flatten().filter(|entry| entry.state != EntryState::Ghost) {
            let time = latest.entry(entry.address).or_insert(entry.allocated);
            *time = entry.allocated.max(*time);
        }
        for entry in entries {
            match entry {
                Ok(entry) if entry.state == EntryState::Ghost && entry.freed.is_none() => {
                    self.damage.entries += 1;
                }
                Ok(entry)
                    if entry.state != EntryState::Ghost
                        && latest.get(&entry.address) != Some(&entry.allocated) =>
                {
                    self.damage.twice += u64::from(entry.state != EntryState::Moving);
                }
                Ok(entry) => {
                    // The last one of several that agree in address and time.
                    if entry.state != EntryState::Ghost {
                        latest.remove(&entry.address);
                    }
                    self.entry(reading, entry);
                }
                Err(BadEntry::Busy) => self.losses.half_written += 1,
                Err(why) => {
                    self.damage.entries += 1;
                    self.damage.first.get_or_insert(*why);
                }
            }
        }
    }

    fn entry(&mut self, reading: &mut Reading<'_, '_>, entry: &HeapEntry) {
        let inherited = entry.flags & entry_flag::INHERITED != 0;
        let freed = entry.freed.filter(|_| entry.state == EntryState::Ghost);
        let node = if inherited {
            reading.raw.node(ROOT, RawFrame::Inherited)
        } else {
            self.node(reading, entry.stack, entry.allocated)
        };
        let at_peak =
            self.peak != 0 && entry.allocated <= self.peak && freed.is_none_or(|freed| self.peak < freed);
        let interval = self.interval_of(entry.shift);
        if freed.is_none() && !inherited {
            *self.live.entry(node).or_default() += Estimate::of_bytes(entry.size, interval);
        }
        self.memory.blocks.push(RawBlock {
            process: self.process,
            node,
            size: entry.size,
            interval,
            allocated_realtime_ns: reading.index.timeline.realtime_ns(entry.allocated),
            freed_realtime_ns: freed.map(|freed| reading.index.timeline.realtime_ns(freed)),
            inherited,
            at_peak,
            identity: (entry.address, entry.allocated),
        });
    }

    fn interval_of(&mut self, shift: u32) -> u64 {
        // Blocks of busy sites may have more. Without an account that is not told apart.
        if !self.has_account {
            self.most_shift = self.most_shift.max(shift);
        }
        self.interval.saturating_mul(1 << shift.min(MAX_SHIFT))
    }

    /// Levels and marks in order of time; from the log of allocations the blocks that were freed, and from
    /// when on it is complete.
    fn log(
        &mut self,
        reading: &mut Reading<'_, '_>,
        wanted: WantedMemory,
    ) -> (Vec<Level>, Vec<MemoryMark>, Option<u64>) {
        let file = *reading.index.file();
        let (mut levels, mut marks) = (Vec::new(), Vec::new());
        let mut logged = false;
        let mut from = file.header().first_anchor().raw;
        let mut freed = Vec::new();
        for segment in file.segments().filter(|segment| segment.kind() == SegmentKind::Ring) {
            // What was overwritten before a segment had times before its begin.
            if segment.overwritten().0 > 0 && segment.thread() != 0 {
                from = from.max(self.first_after_wrap(&file, &segment));
            }
            for record in segment.records() {
                match record {
                    Record::Memory(level) => levels.push(level_of(reading, &level)),
                    Record::HeapMark { time, live, name, .. } => marks.push(MemoryMark {
                        time_ns: reading.index.timeline.realtime_ns(time),
                        live,
                        name: name.to_text(),
                    }),
                    Record::Alloc { .. } => logged = true,
                    Record::Free { stack, time, address, size, shift, allocated, .. } => {
                        logged = true;
                        if wanted == WantedMemory::Log && size <= pct_format::heap::MAX_SIZE {
                            freed.push((stack, time, address, size, shift, allocated));
                        }
                    }
                    _ => {}
                }
            }
        }
        self.freed_blocks(reading, freed);
        levels.sort_by_key(|level: &Level| level.time_ns);
        marks.sort_by_key(|mark: &MemoryMark| mark.time_ns);
        (levels, marks, logged.then(|| reading.index.timeline.realtime_ns(from)))
    }

    /// Raw time from which on a thread whose log has wrapped is complete: the begin of its oldest segment.
    fn first_after_wrap(&self, file: &pct_format::File<'_>, of: &pct_format::Segment<'_>) -> u64 {
        let rings = file.segments().filter(|segment| segment.kind() == SegmentKind::Ring);
        rings
            .filter(|segment| segment.thread() == of.thread())
            .map(|segment| segment.time())
            .min()
            .unwrap_or(0)
    }

    fn freed_blocks(&mut self, reading: &mut Reading<'_, '_>, freed: Vec<(u32, u64, u64, u64, u64, u64)>) {
        // Blocks that were live at the peak are in the table already.
        let file = *reading.index.file();
        let ghosts: rustc_hash::FxHashSet<(u64, u64)> = file
            .heap_tables()
            .flat_map(|area| area.entries())
            .flatten()
            .filter(|entry| entry.state == EntryState::Ghost)
            .map(|entry| (entry.address, entry.allocated))
            .collect();
        for (stack, time, address, size, shift, allocated) in freed {
            if ghosts.contains(&(address, allocated)) {
                continue;
            }
            let node = self.node(reading, stack, allocated);
            let interval = self.interval_of(u32::try_from(shift).unwrap_or(MAX_SHIFT).min(MAX_SHIFT));
            self.memory.blocks.push(RawBlock {
                process: self.process,
                node,
                size,
                interval,
                allocated_realtime_ns: reading.index.timeline.realtime_ns(allocated),
                freed_realtime_ns: Some(reading.index.timeline.realtime_ns(time)),
                inherited: false,
                at_peak: false,
                identity: (address, allocated),
            });
        }
    }

    /// What is live was allocated: sums that are clearly below it are damaged or were without room.
    fn check_sums(&mut self) {
        for (node, live) in &self.live {
            let allocated =
                self.memory.sums.get(&(self.process, *node)).map_or(0.0, |sum| sum.allocated.bytes.amount);
            // Thinning changes the weights of what is live, so the estimates need not agree: only what was
            // seen is sure.
            let sure = live.certain.min(live.interval().low);
            self.damage.below_live += u64::from(allocated < sure * 0.999);
        }
    }

    fn close(
        mut self,
        reading: &mut Reading<'_, '_>,
        account: Option<HeapAccount<'_>>,
        (levels, marks, log_from_ns): (Vec<Level>, Vec<MemoryMark>, Option<u64>),
        path: &Path,
    ) {
        let file = *reading.index.file();
        let header = file.header();
        let count = |at: usize| account.map_or(0, |account| account.count(at));
        let mut bad_estimates = 0;
        let mut estimate = |at: usize| match account.map(|account| account.estimate(at)) {
            Some(None) => {
                bad_estimates += 1;
                0.0
            }
            Some(Some(value)) => value,
            None => 0.0,
        };
        let samples = count(account::SAMPLES);
        let blocks_variance = estimate(account::BLOCKS_VARIANCE);
        let of_account = MemoryAmount {
            bytes: Estimate {
                samples,
                amount: estimate(account::BYTES),
                variance: estimate(account::BYTES_VARIANCE),
                unseen: self.largest_weight(),
                certain: 0.0,
            },
            blocks: Estimate {
                samples,
                amount: estimate(account::BLOCKS),
                variance: blocks_variance,
                unseen: (blocks_variance / float(samples.max(1))).sqrt(),
                certain: float(samples),
            },
        };
        // A file that was cut has no account: the sums are all there is.
        let mut of_sums = MemoryAmount::default();
        for sum in self.memory.sums.values() {
            of_sums += sum.allocated;
        }
        let untracked = (count(account::UNTRACKED), estimate(account::UNTRACKED_BYTES));
        let inherited = (count(account::INHERITED), estimate(account::INHERITED_BYTES));
        let losses = MemoryLosses {
            untracked,
            missed_frees: count(account::MISSED_FREES).saturating_add(self.damage.twice),
            without_stack: count(account::WITHOUT_STACK),
            without_sum: count(account::WITHOUT_SUM),
            nested: count(account::NESTED),
            early_calls: count(account::EARLY_CALLS),
            shared: count(account::SHARED),
            damaged: self.damage.entries.saturating_add(self.damage.sums).saturating_add(bad_estimates),
            half_written: self.losses.half_written,
        };
        let realtime = |raw: u64| reading.index.timeline.realtime_ns(raw);
        let memory = ProcessMemory {
            process: crate::model::Id::from_index(0),
            interval: self.interval,
            most_shift: self.most_shift,
            rate_rises: count(account::RATE_RISES),
            left_out: count(account::LEFT_OUT),
            thinnings: count(account::THINNINGS),
            seed: header.header_word(layout::header::ALLOC_SEED),
            program: String::from_utf8_lossy(header.text(pct_format::layout::Text::Exe)).into_owned(),
            server: server(&header),
            allocated: if samples > 0 { of_account } else { of_sums },
            peak_ns: (self.peak != 0).then(|| realtime(self.peak)),
            // The sampler notes its parent's file in a child of fork alone: an executed program starts anew.
            is_forked: !header.text(pct_format::layout::Text::Parent).is_empty(),
            inherited,
            own_bytes: count(account::OWN_BYTES),
            losses,
            levels,
            marks,
            log_from_ns,
            end_ns: realtime(end_of(reading)),
        };
        self.notes(reading, account.is_some(), bad_estimates, path);
        self.memory.processes.push(RawProcess { process: self.process, memory });
        reading.raw.memory.add(self.memory);
    }

    fn notes(&self, reading: &mut Reading<'_, '_>, account: bool, bad_estimates: u64, path: &Path) {
        let damage = &self.damage;
        let mut note = |n: u64, text: String| {
            if n > 0 {
                reading.account.note(format!("{}: allocations: {text}", path.display()));
            }
        };
        let first = damage.first.map(|why| format!(" (first: {})", in_words(why))).unwrap_or_default();
        note(damage.entries, format!("{} live blocks are damaged and left out{first}", damage.entries));
        note(damage.sums, format!("{} sums of stacks are damaged and left out", damage.sums));
        note(bad_estimates, format!("{bad_estimates} numbers of the account are damaged; they count as 0"));
        note(
            damage.unknown_stacks,
            format!("{} rows name stacks that are not in the file", damage.unknown_stacks),
        );
        note(
            damage.twice,
            format!(
                "{} addresses are live twice: the later block is taken, the earlier one's free was not seen",
                damage.twice
            ),
        );
        note(
            damage.below_live,
            format!(
                "{} stacks have more live than was ever allocated there: their sums are damaged or cut",
                damage.below_live
            ),
        );
        note(
            u64::from(!account && !self.memory.sums.is_empty()),
            "the account is missing (a file that was cut): the peak is not known".into(),
        );
    }
}

fn in_words(why: BadEntry) -> String {
    match why {
        BadEntry::State(state) => format!("state {state}"),
        BadEntry::Shift(shift) => format!("an interval doubled {shift} times"),
        BadEntry::Size(size) => format!("a size of {size} bytes"),
        BadEntry::NoAddress => "a block without an address".into(),
        other => format!("{other:?}"),
    }
}

fn server(header: &pct_format::Header<'_>) -> Server {
    let server = header.alloc_server();
    Server {
        kind: if server == AllocServer::NotKnown { String::new() } else { server.name().to_owned() },
        path: String::from_utf8_lossy(header.alloc_server_path()).into_owned(),
        unseen: matches!(server, AllocServer::Program | AllocServer::Before),
        inside: None,
    }
}

fn level_of(reading: &Reading<'_, '_>, level: &pct_format::record::MemoryLevel) -> Level {
    let known = |octets: u64| Some(octets).filter(|&octets| octets != 0);
    Level {
        time_ns: reading.index.timeline.realtime_ns(level.time),
        live: level.live,
        allocated: level.allocated,
        resident_anonymous: known(level.resident_anonymous),
        resident_files: known(level.resident_files),
        resident_shared: known(level.resident_shared),
        stacks: known(level.stacks),
        slack: known(level.slack),
    }
}

/// Raw time at which the file was written last, as far as it says.
fn end_of(reading: &Reading<'_, '_>) -> u64 {
    let header = reading.index.file().header();
    header.latest_anchor().map_or(header.first_anchor().raw, |anchor| anchor.raw)
}

/// Nanoseconds of a unit of raw time.
fn ns_a_unit(reading: &Reading<'_, '_>) -> f64 {
    let anchors = reading.index.timeline.anchors();
    let (Some(first), Some(last)) = (anchors.first(), anchors.last()) else { return 1.0 };
    let (units, ns) =
        (last.raw.saturating_sub(first.raw), last.monotonic_ns.saturating_sub(first.monotonic_ns));
    if units == 0 || ns == 0 { 1.0 } else { float(ns) / float(units) }
}
