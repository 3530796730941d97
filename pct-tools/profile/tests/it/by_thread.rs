//! Samples that are kept by thread are those that are kept in order of time, and their cells have the same sums.

use pct_format::builder::Builder;
use pct_format::layout;
use pct_format::record::Frame;
use pct_kit::Dice;
use pct_profile::Profile;
use pct_profile::load::{Options, load};
use pct_profile::model::{Id as _, StackId};
use std::collections::BTreeMap;

/// Threads in turn, some samples out of order, in the kernel, without a stack, of another weight.
fn recording(pid: u32, dice: &mut Dice) -> Vec<u8> {
    let mut b = Builder::new();
    b.set_header_word(layout::header::STACK_MODE, 4);
    b.region(1, 1, 0x1000..0x9000, 0, 1, b"", b"/no/such/program");
    let threads: Vec<u32> = (0..7).map(|n| b.thread(1, pid + n, b"worker")).collect();
    let stacks: Vec<u32> = (0..20)
        .map(|n| b.stack(&[Frame::Return(0x1000 + n % 3 * 16), Frame::Return(0x2000 + n * 16)]))
        .chain([0])
        .collect();
    for n in 1..2000 {
        let thread = threads[dice.index(threads.len())];
        let time = (n + 5) * 1_000_000 - dice.below(3) * 1_500_000;
        let (pc, stack) = (0x3000 + dice.below(30) * 8, stacks[dice.index(stacks.len())]);
        let weight = if dice.below(9) == 0 { 2 } else { 1 };
        b.sample(thread, time, pc, weight, dice.below(10) == 0, stack);
    }
    b.finish()
}

/// The stack's addresses, which are the same in both profiles whatever numbers it has.
fn addresses(profile: &Profile, stack: StackId) -> Vec<(String, Option<u64>)> {
    let frames = profile.outwards(stack);
    frames.map(|(_, f)| (profile.functions[f.function].name.clone(), f.address)).collect()
}

type Rows = Vec<(usize, u64, u64, Vec<(String, Option<u64>)>)>;

#[test]
fn samples_by_thread_are_those_in_order_of_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dice = Dice::new(19);
    // Two files: numbers of threads go on in the second one.
    for pid in [100, 200] {
        std::fs::write(folder.path().join(format!("{pid}.pct")), recording(pid, &mut dice)).expect("written");
    }
    let plain = Options { symbols: false, ..Options::default() };
    let read = |options: &Options| load(&[folder.path().to_owned()], options).expect("read");
    let in_order = read(&Options { timeline: true, ..plain.clone() });
    let by_thread = read(&Options { by_thread: true, ..plain });
    assert_eq!((in_order.by_thread.lists.len(), by_thread.timeline.len()), (0, 0));

    let mut expected: Rows = Vec::new();
    for s in &in_order.timeline {
        expected.push((s.thread.index(), s.time_ns, s.weight_ns, addresses(&in_order, s.stack)));
    }
    let mut got: Rows = Vec::new();
    for (thread, list) in &by_thread.by_thread.lists {
        for s in list.iter() {
            let time_ns = s.realtime_ns.saturating_sub(by_thread.start_realtime_ns);
            let stack = addresses(&by_thread, by_thread.by_thread.stack(s));
            got.push((thread.index(), time_ns, s.weight_ns, stack));
        }
    }
    expected.sort();
    got.sort();
    assert_eq!(got.len(), 2 * 1999);
    assert_eq!(got, expected);

    let sums = |profile: &Profile| {
        let mut sums: BTreeMap<_, (u64, u64, u64)> = BTreeMap::new();
        for cell in &profile.cells {
            let process = profile.threads[cell.thread].process;
            let sum = sums.entry((process.index(), addresses(profile, cell.stack))).or_default();
            let w = cell.weight;
            *sum = (sum.0 + w.samples, sum.1 + w.user_ns, sum.2 + w.system_ns);
        }
        sums
    };
    assert_eq!(sums(&by_thread), sums(&in_order));
    assert!(by_thread.cells.len() * 2 < in_order.cells.len(), "cells are sums of threads");
    assert_eq!(by_thread.total(), in_order.total());
}
