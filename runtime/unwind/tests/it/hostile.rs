//! Damaged unwind data may give wrong answers, but no panics, endless work or reads outside.
//!
//! Real unwind data (this program's own, libgcc's) is damaged at random: bytes changed, numbers made huge, tails cut
//! off. Each piece is indexed in both ways and asked for many addresses, and stacks of random words are walked with it.
//! The seed is fixed; `PCT_HOSTILE_ROUNDS` makes it run longer.

use object::{Object, ObjectSection, ObjectSegment};
use pct_elf::BytesAt;
use pct_kit::Dice;
use pct_unwind::locate::{Effort, locate};
use pct_unwind::reader::Section;
use pct_unwind::set::{AnyTable, Entry, Set};
use pct_unwind::stack::Memory;
use pct_unwind::table::{FdeRef, Header, Table, adopt_list, buckets_for, index_by_scan};
use pct_unwind::{Budget, Cache, Gregs, WalkEnd, walk};

/// A stack of random words: code addresses, stack addresses, anything. It counts its reads.
struct RandomStack {
    words: Vec<u64>,
    base: u64,
    asked: u64,
}

impl Memory for RandomStack {
    fn enter(&mut self, _: u64) -> bool {
        self.asked += 1;
        true
    }
    fn peek(&self, addr: u64) -> Option<u64> {
        // Half of it is unknown until it is read.
        let word = (addr.checked_sub(self.base)? / 8) as usize;
        self.words.get(..self.words.len() / 2)?.get(word).copied()
    }
    fn read(&mut self, addr: u64) -> Option<u64> {
        self.asked += 1;
        self.words.get((addr.checked_sub(self.base)? / 8) as usize).copied()
    }
    fn far(&mut self, addr: u64) -> Option<u64> {
        self.asked += 1;
        (addr & 1 == 0).then_some(addr.rotate_left(7))
    }
    fn code_bytes(&mut self, addr: u64, into: &mut [u8]) -> bool {
        self.asked += 1;
        // Any bytes, and instructions that lead on: push, pop, ret, jumps, calls; the same ones at an address each
        // time.
        const USUAL: [u8; 12] = [0x53, 0x5b, 0xc3, 0xeb, 0x74, 0xe8, 0x48, 0x83, 0xc4, 0x08, 0x90, 0xc9];
        for (at, byte) in (addr..).zip(into) {
            let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            *byte =
                if mixed % 4 == 0 { (mixed >> 8) as u8 } else { USUAL[(mixed >> 8) as usize % USUAL.len()] };
        }
        !addr.is_multiple_of(7)
    }
}

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..1 + dice.index(24) {
        let at = dice.index(bytes.len());
        match dice.index(6) {
            0 => bytes[at] = dice.roll() as u8,
            1 => bytes[at] ^= 1 << dice.index(8),
            2 => bytes[at] = 0xff,
            3 => bytes.iter_mut().skip(at).take(4).for_each(|b| *b = 0xff),
            4 => bytes.iter_mut().skip(at).take(8).for_each(|b| *b = dice.roll() as u8),
            _ => bytes[at] = [0x0f, 0x16, 0x10, 0x0a, 0x0b, 0x2f, 0x01, 0x80][dice.index(8)],
        }
    }
    if dice.index(4) == 0 {
        let len = dice.index(bytes.len());
        bytes.truncate(len);
    }
}

fn attack(path: &str, rounds: usize) {
    let Ok(bytes) = std::fs::read(path) else {
        pct_kit::skip(&format!("{path} is not here"));
        return;
    };
    let file = object::File::parse(&*bytes).expect("an object");
    let section = |name: &str| {
        let s = file.section_by_name(name).expect("section");
        // 16 KiB are enough to damage, and fast.
        (s.address(), s.data().expect("data").iter().copied().take(16 << 10).collect::<Vec<u8>>())
    };
    let (eh_addr, eh) = section(".eh_frame");
    let (hdr_addr, hdr) = section(".eh_frame_hdr");
    let lo = file.segments().map(|s| s.address()).min().expect("segments");
    let text = file.section_by_name(".text").expect("text");
    let (text, text_len) = (text.address(), text.size());
    let mut dice = Dice::new(1);
    let cache = Box::new(Cache::new());
    let mut out = vec![0; 256];
    let mut ends = std::collections::BTreeMap::<String, usize>::new();
    for round in 0..rounds {
        let (mut eh, mut hdr) = (eh.clone(), hdr.clone());
        damage(&mut eh, &mut dice);
        damage(&mut hdr, &mut dice);
        let eh_section = Section { bytes: &eh, addr: eh_addr };
        let mut index = Vec::new();
        if round % 2 == 0
            && let Some(Header { list: Some((at, _)), .. }) =
                Header::parse(&Section { bytes: &hdr, addr: hdr_addr })
        {
            let word = |c: &[u8]| u32::from_le_bytes(c.try_into().expect("four"));
            let rest = hdr.get(at..).unwrap_or_default();
            index = rest.chunks_exact(8).map(|c| FdeRef { pc: word(&c[..4]), fde: word(&c[4..]) }).collect();
            // It is used whether it is sorted or not, because a caller that does not check must be safe too.
            let _ = adopt_list(&mut index, hdr_addr, lo, eh_addr);
        }
        if index.is_empty() {
            index = vec![FdeRef::default(); eh.len() / 16 + 1];
            let n = index_by_scan(&eh_section, lo, &mut index);
            index.truncate(n);
        }
        let mut buckets = vec![0; buckets_for(index.len())];
        let table = Table::new(lo, eh_section, &index, &mut buckets);
        // Mostly addresses that an FDE may cover.
        let code = |dice: &mut Dice| match index.get(dice.index(index.len() + 1)) {
            Some(e) => lo.wrapping_add(u64::from(e.pc)).wrapping_add(dice.roll() % 80),
            None => text.wrapping_add(dice.roll() % (text_len + 64)),
        };
        for _ in 0..40 {
            let _ = table.rule(code(&mut dice));
        }
        let _ = table.rule(dice.roll());
        let entries = [Entry {
            start: text,
            end: text + text_len,
            table: Some(AnyTable::Whole(&table)),
            unsure: false,
            of_file: true,
        }];
        let set = Set { entries: &entries, generation: round as u64 };
        for _ in 0..4 {
            let base = 0x7000_0000_0000;
            let words = (0..512)
                .map(|i| match dice.index(4) {
                    0 => dice.roll(),
                    1 => base + dice.roll() % 8192,
                    2 => base + 8 * i + 64,
                    _ => code(&mut dice),
                })
                .collect();
            let mut gregs = Gregs(std::array::from_fn(|_| dice.roll() >> dice.index(40)));
            gregs.0[15] = base + dice.roll() % 2048;
            gregs.0[10] = base + dice.roll() % 4096;
            gregs.0[16] = code(&mut dice);
            let mut memory = RandomStack { words, base, asked: 0 };
            let budget = Budget { units: 2000 };
            let walked = walk(&set, &cache, &gregs, &mut memory, &mut out, budget);
            assert!(walked.frames <= out.len());
            // Whatever the data, a unit of twelve buys at most an expression of 256 steps for each of 19 columns; and
            // of code without data each instruction may be elsewhere.
            let most = 2000 * 19 * 256 / 12 + u64::from(pct_unwind::emulate::MOST) + 1000;
            assert!(memory.asked < most, "{} reads", memory.asked);
            *ends.entry(format!("{:?}", walked.end)).or_default() += 1;
        }
    }
    eprintln!("{path}: {ends:?}");
    assert!(ends.len() >= 4, "the walks come to different ends: {ends:?}");
    assert!(ends.contains_key(&format!("{:?}", WalkEnd::BadRead)));
}

#[test]
fn damaged_unwind_data_never_panics_nor_works_without_end() {
    let rounds = pct_kit::asked("PCT_HOSTILE_ROUNDS", 1500);
    attack(std::env::current_exe().expect("path").to_str().expect("utf-8"), rounds);
    attack("/lib/x86_64-linux-gnu/libgcc_s.so.1", rounds);
}

#[test]
fn damaged_elf_headers_are_refused_or_located_within_bounds() {
    let mut image = std::fs::read(std::env::current_exe().expect("path")).expect("own file");
    let head: Vec<u8> = image.iter().copied().take(4096).collect();
    let mut dice = Dice::new(7);
    let mut located = 0;
    for _ in 0..20_000 {
        let mut page = head.clone();
        damage(&mut page, &mut dice);
        let base = 0x5555_0000_0000u64;
        // The damaged page replaces the first one of the object.
        image[..head.len()].copy_from_slice(&head);
        image[..page.len()].copy_from_slice(&page);
        if let Some(found) = locate(&BytesAt { at: base, bytes: &image }, base, Effort::Shape) {
            located += 1;
            assert!(found.hdr < found.hdr_end && found.eh < found.eh_end);
            if let Some((at, n)) = found.list {
                assert!((at + 8 * n) as u64 <= found.hdr_end - found.hdr);
            }
        }
    }
    assert!(located > 0);
}
