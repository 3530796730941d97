//! A program whose allocations are sampled by the rules of the format: it knows the truth, and writes the recording.

use pct_format::AllocServer;
use pct_format::builder::Builder;
use pct_format::header::Anchor;
use pct_format::heap::{
    ACCOUNT_WORDS, ENTRY_WORDS, EntryState, HeapEntry, SUM_WORDS, account, lifetime_count, sum,
};
use pct_format::layout::{Text, header};
use pct_format::record::{CodeFrame, Encoder, Frame};
use pct_kit::Dice;
use pct_num::{Estimate, sampling_probability};
use std::collections::BTreeMap;

/// Average interval of its samples.
pub(crate) const N: u64 = 64 << 10;
/// Its times are nanoseconds; the recording begins at this one.
const START: u64 = 1;

/// A block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) site: u32,
    pub(crate) size: u64,
    address: u64,
    allocated: u64,
    sampled: bool,
}

/// The truth of a site: octets and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Truth {
    pub(crate) allocated: (u64, u64),
    pub(crate) live: (u64, u64),
    pub(crate) peak: u64,
}

pub(crate) struct Program {
    dice: Dice,
    pub(crate) time: u64,
    next_address: u64,
    next_thread: u32,
    builder: Builder,
    sites: Vec<(String, u32)>,
    pub(crate) truth: Vec<Truth>,
    sums: BTreeMap<u32, [u64; SUM_WORDS]>,
    entries: BTreeMap<u64, [u64; ENTRY_WORDS]>,
    ghosts: Vec<[u64; ENTRY_WORDS]>,
    totals: [u64; ACCOUNT_WORDS],
    live: f64,
    peak: (f64, u64),
    true_live: u64,
    true_peak: u64,
    pub(crate) log: bool,
}

fn add(word: &mut u64, more: f64) {
    *word = (f64::from_bits(*word) + more).to_bits();
}

impl Program {
    /// Each site is a path of functions, the innermost last: `main;work;leak`.
    pub(crate) fn new(seed: u64, sites: &[&str]) -> Self {
        let mut builder = Builder::new();
        builder
            .argv(&[b"./demo"])
            .set_header_word(header::STACK_MODE, 4)
            .set_header_word(header::ALLOC_INTERVAL, N)
            .set_header_word(header::ALLOC_SEED, seed)
            .alloc_server(AllocServer::CLibrary, b"/lib/libc.so.6");
        let thread = builder.thread(1, 7, b"demo");
        let mut codes: Vec<String> = Vec::new();
        let sites = sites
            .iter()
            .map(|site| {
                let frames: Vec<Frame> = site
                    .split(';')
                    .rev()
                    .map(|name| {
                        let at = codes.iter().position(|known| known == name).unwrap_or_else(|| {
                            let (id, line) = (codes.len() as u32 + 1, codes.len() as u32 * 10 + 1);
                            builder.code(id, 1, name, "/src/demo.py", line, &[]);
                            codes.push(name.to_owned());
                            codes.len() - 1
                        });
                        Frame::Code(CodeFrame::new(at as u32 + 1, None).expect("a small id"))
                    })
                    .collect();
                ((*site).to_owned(), builder.stack(&frames))
            })
            .collect::<Vec<_>>();
        let truth = vec![Truth::default(); sites.len()];
        Self {
            dice: Dice::new(seed),
            time: START,
            next_address: 0x10_0000,
            next_thread: thread,
            builder,
            sites,
            truth,
            sums: BTreeMap::new(),
            entries: BTreeMap::new(),
            ghosts: Vec::new(),
            totals: [0; ACCOUNT_WORDS],
            live: 0.0,
            peak: (0.0, 0),
            true_live: 0,
            true_peak: 0,
            log: false,
        }
    }

    /// Samples of CPU time: they must be read as if there were no memory.
    pub(crate) fn cpu(&mut self, samples: u64) {
        for n in 0..samples {
            let (_, stack) = self.sites[n as usize % self.sites.len()];
            self.builder.sample(self.next_thread, self.time + n * 1000, 0x5000, 1, false, stack);
        }
    }

    pub(crate) fn allocate(&mut self, site: u32, size: u64) -> Block {
        self.time += 1000;
        let address = self.next_address;
        self.next_address += size.max(1).next_multiple_of(16);
        let truth = &mut self.truth[site as usize];
        truth.allocated.0 += size;
        truth.allocated.1 += 1;
        truth.live.0 += size;
        truth.live.1 += 1;
        self.true_live += size;
        let uniform = (self.dice.roll() >> 11) as f64 / (1u64 << 53) as f64;
        let sampled = uniform < sampling_probability(size, N);
        let block = Block { site, size, address, allocated: self.time, sampled };
        if sampled {
            self.sample(&block);
        }
        if self.true_live > self.true_peak {
            self.true_peak = self.true_live;
            // The estimate's peak may be elsewhere; the truth is of the instant that the recording names.
        }
        block
    }

    fn sample(&mut self, block: &Block) {
        let (bytes, blocks) = (Estimate::of_bytes(block.size, N), Estimate::of_blocks(block.size, N));
        let stack = self.sites[block.site as usize].1;
        let words = self.sums.entry(stack).or_default();
        words[sum::STACK] = u64::from(stack) + 1;
        words[sum::SAMPLES] += 1;
        words[sum::SEEN_BYTES] += block.size;
        self.totals[account::SAMPLES] += 1;
        for (at, in_account, value) in [
            (sum::BYTES, account::BYTES, bytes.amount),
            (sum::BYTES_VARIANCE, account::BYTES_VARIANCE, bytes.variance),
            (sum::BLOCKS, account::BLOCKS, blocks.amount),
            (sum::BLOCKS_VARIANCE, account::BLOCKS_VARIANCE, blocks.variance),
        ] {
            add(&mut words[at], value);
            add(&mut self.totals[in_account], value);
        }
        let head = HeapEntry::head(EntryState::Live, 0, 0, stack);
        self.entries.insert(block.address, [head, block.address, block.size, block.allocated, 0, 7]);
        if self.log {
            let mut buffer = [0; 16];
            let mut record = Encoder::new(&mut buffer).raw_word(self.time);
            for number in [7, block.address, block.size, 0, 0] {
                record = record.number(number);
            }
            let record = record.finish(pct_format::head::kind::ALLOC, stack).expect("room").to_vec();
            self.builder.ring_record(self.next_thread, self.time, &record);
        }
        self.live += bytes.amount;
        if self.live > self.peak.0 {
            self.peak = (self.live, self.time);
            for truth in &mut self.truth {
                truth.peak = truth.live.0;
            }
            self.ghosts.clear();
        }
    }

    pub(crate) fn free(&mut self, block: Block) {
        self.time += 1000;
        let truth = &mut self.truth[block.site as usize];
        truth.live.0 -= block.size;
        truth.live.1 -= 1;
        self.true_live -= block.size;
        if !block.sampled {
            return;
        }
        let (bytes, blocks) = (Estimate::of_bytes(block.size, N), Estimate::of_blocks(block.size, N));
        let stack = self.sites[block.site as usize].1;
        let words = self.sums.get_mut(&stack).expect("it was sampled");
        words[sum::FREED_SAMPLES] += 1;
        add(&mut words[sum::FREED_BYTES], bytes.amount);
        add(&mut words[sum::FREED_BLOCKS], blocks.amount);
        let count = lifetime_count(block.allocated, self.time);
        words[sum::LIFETIMES + count / 2] += 1 << (32 * (count % 2));
        self.totals[account::FREED_SAMPLES] += 1;
        add(&mut self.totals[account::FREED_BYTES], bytes.amount);
        self.live -= bytes.amount;
        let mut entry = self.entries.remove(&block.address).expect("it is live");
        if self.log {
            let mut buffer = [0; 16];
            let mut record = Encoder::new(&mut buffer).raw_word(self.time);
            for number in [7, block.address, block.size, 0, block.allocated] {
                record = record.number(number);
            }
            let record = record.finish(pct_format::head::kind::FREE, stack).expect("room").to_vec();
            self.builder.ring_record(self.next_thread, self.time, &record);
        }
        if block.allocated <= self.peak.1 {
            entry[0] = HeapEntry::head(EntryState::Ghost, 0, 0, stack);
            entry[4] = self.time;
            self.ghosts.push(entry);
        }
    }

    /// A level of resident memory.
    pub(crate) fn level(&mut self, resident_anonymous: u64, slack: u64) {
        let mut buffer = [0; 16];
        let mut record = Encoder::new(&mut buffer).raw_word(self.time);
        for number in [self.live as u64, 0, resident_anonymous, 5_000_000, 0, 132_000, slack] {
            record = record.number(number);
        }
        let record = record.finish(pct_format::head::kind::MEMORY, 0).expect("room").to_vec();
        self.builder.ring_record(0, self.time, &record);
    }

    /// Changes what was written before the recording is made.
    pub(crate) fn entries_mut(&mut self) -> &mut BTreeMap<u64, [u64; ENTRY_WORDS]> {
        &mut self.entries
    }

    /// A word of the account of memory.
    pub(crate) fn account_word(&mut self, at: usize, word: u64) {
        self.totals[at] = word;
    }

    /// A word of the header.
    /// It is the child of a fork, whose parent wrote this file.
    pub(crate) fn forked_by(&mut self, file: &[u8]) {
        self.builder.text(Text::Parent, file);
    }

    pub(crate) fn set_header_word(&mut self, at: usize, word: u64) {
        self.builder.set_header_word(at, word);
    }

    /// The recording.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let end = self.time + 1_000_000;
        self.builder.anchors(
            Anchor { raw: START, monotonic_ns: START, realtime_ns: 1_000_000_001 },
            Anchor { raw: end, monotonic_ns: end, realtime_ns: end + 1_000_000_000 },
        );
        self.totals[account::LIVE_BYTES] = self.live.to_bits();
        self.totals[account::PEAK_BYTES] = self.peak.0.to_bits();
        self.totals[account::PEAK_TIME] = self.peak.1;
        let entries: Vec<_> = self.entries.into_values().chain(self.ghosts).collect();
        let sums: Vec<_> = self.sums.into_values().collect();
        self.builder.heap(&entries, entries.len() + 100);
        self.builder.heap_sums(&sums, sums.len() + 10);
        self.builder.heap_account(&self.totals);
        self.builder.finish()
    }
}

const SITES: [&str; 4] = ["main;cache;insert", "main;serve;parse", "main;serve;parse;copy", "main;leak"];

/// A cache that is filled and half emptied, much that is temporary, and a leak.
pub(crate) fn example(seed: u64, log: bool) -> Program {
    let mut p = Program::new(seed, &SITES);
    p.log = log;
    p.cpu(300);
    let mut cache: Vec<_> = (0..4000).map(|_| p.allocate(0, 2000)).collect();
    for round in 0..20_000 {
        let parsed = p.allocate(1, 300);
        let copied = p.allocate(2, 1000);
        p.free(copied);
        p.free(parsed);
        if round % 40 == 0 {
            p.allocate(3, 1500);
        }
    }
    for block in cache.drain(2000..) {
        p.free(block);
    }
    p.level(20_000_000, 4_000_000);
    p
}
