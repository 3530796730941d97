//! `.eh_frame`: eight octets of an address to look up, then the section. Whatever it is, look-ups stay
//! inside, rows agree with the walk over all rows, and a walk over a stack of zeros ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_unwind::reader::Section;
use pct_unwind::set::{AnyTable, Entry, Set};
use pct_unwind::stack::Memory;
use pct_unwind::table::{self, FdeRef, Table};
use pct_unwind::{Budget, Cache, Gregs, walk};

const LO: u64 = 0x10_0000;
const EH: u64 = 0x18_0000;

/// A stack whose words lead back into the code.
struct Words(u64);

impl Memory for Words {
    fn enter(&mut self, _: u64) -> bool {
        true
    }
    fn peek(&self, addr: u64) -> Option<u64> {
        (addr % 16 == 0).then_some(LO + (addr ^ self.0) % 0x4000)
    }
    fn read(&mut self, addr: u64) -> Option<u64> {
        (addr % 8 == 0).then_some(LO + (addr ^ self.0) % 0x4000)
    }
    fn far(&mut self, addr: u64) -> Option<u64> {
        self.read(addr)
    }
    fn code(&mut self, _: u64) -> Option<[u8; 16]> {
        None
    }
}

fuzz_target!(|octets: &[u8]| {
    let Some((word, eh)) = octets.split_first_chunk::<8>() else { return };
    let word = u64::from_le_bytes(*word);
    let section = Section { bytes: eh, addr: EH };
    let mut index = vec![FdeRef::default(); eh.len() / 16 + 1];
    let n = table::index_by_scan(&section, LO, &mut index);
    let mut buckets = vec![0; table::buckets_for(n)];
    let table = Table::new(LO, section, &index[..n], &mut buckets);
    let asked = LO + word % 0x4000;
    let mut known = Vec::new();
    table::scan(&section, |_, fde| known.push(*fde));
    for fde in known.iter().take(50) {
        let mut last = None;
        let _ = fde.each_row(|at, row| {
            if at <= asked {
                last = Some(*row);
            }
        });
        if fde.covers(asked)
            && let (Some(row), Some(last)) = (fde.row(asked), last)
        {
            assert_eq!(row, last);
        }
    }
    let _ = table.rule(asked);
    let table = Some(AnyTable::Whole(&table));
    let entries = [Entry { start: LO, end: LO + 0x4000, table, unsure: false, of_file: true }];
    let set = Set { entries: &entries, generation: 1 };
    let mut gregs = Gregs(std::array::from_fn(|i| 0x7000_0000_0000 + 64 * i as u64));
    gregs.0[16] = asked;
    let mut out = [0; 64];
    let walked = walk(&set, &Cache::new(), &gregs, &mut Words(word), &mut out, Budget { units: 500 });
    assert!(walked.frames <= out.len());
});
