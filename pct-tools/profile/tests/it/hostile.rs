//! Damaged files never panic, never loop, and views over what is left keep their sums.
//!
//! More cases: `PCT_FUZZ_CASES=100000 cargo test -p pct-profile --test it hostile`.

use pct_format::builder::Builder;
use pct_format::record::{CutCause, Frame};
use pct_profile::flat::Order;
use pct_profile::load::{Options, load};
use pct_profile::{By, CallTree, Flat, Split};

fn example() -> Vec<u8> {
    let mut b = Builder::new();
    b.argv(&[b"./demo"]);
    b.set_header_word(pct_format::layout::header::STACK_MODE, 4);
    b.region(1, 1, 0x1000..0x9000, 0, 1, b"\x01\x02", b"/nonexistent/a");
    b.region(2, 1, 0x2000..0x3000, 0, 2, b"", b"");
    b.region_end(2, 500_000);
    let thread = b.thread(1, 7, b"t");
    let stack = b.stack(&[Frame::Return(0x2010), Frame::Exact(0x1010), Frame::Cut(CutCause::Loop)]);
    for n in 1..200 {
        b.sample(thread, n * 10_000, 0x1000 + n * 8, n % 3, n % 5 == 0, if n % 2 == 0 { stack } else { 0 });
    }
    b.counters(1, 4, &[0, 1, 2, 0, 9]);
    b.finish()
}

#[test]
fn damaged_files_are_read_as_far_as_they_go() {
    let cases: u64 = pct_kit::asked("PCT_FUZZ_CASES", 400);
    let whole = example();
    let path = std::env::temp_dir().join(format!("pct-hostile-{}.pct", std::process::id()));
    let mut dice = pct_kit::Dice::new(1);
    // Places where something stands: random ones would mostly hit empty blocks.
    let used: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] != 0).collect();
    let (mut read, mut refused) = (0, 0);
    for case in 0..cases {
        let mut bytes = whole.clone();
        for _ in 0..1 + dice.index(8) {
            let at = used[dice.index(used.len())];
            bytes[at] = match dice.index(4) {
                0 => 0,
                1 => 0xff,
                2 => bytes[at] ^ (1 << dice.index(8)),
                _ => dice.index(256) as u8,
            };
        }
        if case % 7 == 0 {
            bytes.truncate(dice.index(bytes.len()));
        }
        std::fs::write(&path, &bytes).expect("written");
        let timeline = case % 2 == 0;
        let options = Options { symbols: false, timeline, ..Options::default() };
        match load(std::slice::from_ref(&path), &options) {
            Ok(profile) => {
                read += 1;
                let total = profile.total();
                let flat = Flat::count_cells(
                    &profile,
                    &profile.cells,
                    Some(By::Function),
                    Split::Thread,
                    Order::Own,
                );
                assert_eq!(flat.total.samples, total.samples);
                let tree = CallTree::top_down(&profile, &profile.cells, By::Pc, Split::Merged);
                assert_eq!(tree.total.samples, total.samples);
                let _ = CallTree::bottom_up(&profile, &profile.cells, By::Function, Split::Process);
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("pct-hostile"), "{error}");
            }
        }
    }
    std::fs::remove_file(&path).expect("removed");
    assert!(read > refused, "{read} read, {refused} refused");
}
