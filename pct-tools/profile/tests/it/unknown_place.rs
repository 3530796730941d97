//! Time in the kernel that has no caller in the program: nobody knows where it was used, or the sampler used it.

use pct_format::builder::Builder;
use pct_format::record::Frame;
use pct_profile::load::{Options, load};

/// Functions of a stack from the outermost inwards, with system ns.
fn stacks(build: impl FnOnce(&mut Builder, u32)) -> Vec<(Vec<String>, u64)> {
    let mut b = Builder::new();
    b.region(1, 1, 0x40_0000..0x50_0000, 0, 0, b"", b"/nowhere/prog");
    b.region(2, 1, 0x70_0000..0x80_0000, 0, 0, b"", b"/nowhere/libpct-0123456789abcdef.so");
    let thread = b.thread(1, 100, b"worker");
    build(&mut b, thread);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("100.pct");
    std::fs::write(&path, b.finish()).expect("written");
    let profile = load(&[path], &Options::default()).expect("a recording");
    let sampled = profile.cells.iter().filter(|cell| cell.weight.samples > 0);
    sampled
        .map(|cell| {
            let frames =
                profile.outwards(cell.stack).map(|(_, f)| profile.functions[f.function].name.clone());
            let mut frames: Vec<String> = frames.collect();
            frames.reverse();
            (frames, cell.weight.system_ns)
        })
        .collect()
}

#[test]
fn a_system_sample_of_unknown_place_has_no_caller() {
    let seen = stacks(|b, thread| {
        b.sample(thread, 1_000, 0, 3, true, 0);
    });
    let [(frames, system_ns)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(frames, &["[system]"]);
    assert!(*system_ns > 0);
}

#[test]
fn the_samplers_own_time_in_the_kernel_is_one_row_with_its_other_work() {
    let seen = stacks(|b, thread| {
        b.sample(thread, 1_000, 0x70_1000, 3, true, 0);
    });
    let [(frames, system_ns)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(frames, &["[pct's sampler]"]);
    assert!(*system_ns > 0);
}

#[test]
fn time_in_the_kernel_stands_below_a_caller_that_is_known() {
    let seen = stacks(|b, thread| {
        let stack = b.stack(&[Frame::Return(0x40_2000)]);
        b.sample(thread, 1_000, 0x40_1000, 3, true, stack);
    });
    let [(frames, _)] = &seen[..] else { panic!("{seen:?}") };
    assert!(frames.len() == 3 && frames[2] == "[system]", "{frames:?}");
}
