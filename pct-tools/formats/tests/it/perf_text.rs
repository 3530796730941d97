//! The forms of `perf script`'s text.

use crate::foreign::{Want, check, own};
use pct_formats::import::parse;
use pct_profile::model::ObjectKind;
use proptest::prelude::*;
use std::path::Path;

/// Lines that perf script prints, and others.
const LINES: &[&str] = &[
    "prog 5 100.000001:    1000000 cpu-clock:u: ",
    "tmux: server 5/6 [001] U 100.000002: 18446744073709551615 cycles: ",
    "java 19983 cycles: ",
    "   dd 5 cpu-clock:  ffffffff81000010 a+0x1 ([ext4])",
    "prog 5 99999999999999.000001: PERF_RECORD_MMAP2 5/5: [0x1(0x2)]",
    "\t  1155 f(int)+0x14 (/tmp/my prog (v2)/bin)",
    "\t  1155 mid (inlined)",
    "\t  1155",
    "  w.c:12",
    "bash    1001001 ",
    "\t    55d0c0de1230 a+0x0 (/bin/prog)",
    "            bash      55d0c0de1230 a",
    "# a comment",
    "a;b 3",
    ") (",
    "\u{fffd}: +0x (",
    "",
];

#[test]
fn headers_have_the_parts_that_were_printed() {
    let frames = "\t  1 a+0x1 (/bin/prog)\n\t  2 main+0x1 (/bin/prog)\n\n";
    for (header, want, samples) in [
        ("prog 5 100.000001: 1000000 cpu-clock:u: ", "0.002 CPU s", 2),
        ("tmux: server 5 100.000001: 1000000 cpu-clock:u: ", "0.002 CPU s", 2),
        ("prog 5 [000] U     100.000001: 1000000 cpu-clock:u: ", "0.002 CPU s", 2),
        ("prog\t5 [007] 100.000001:\t\t1000000 task-clock:u:", "0.002 CPU s", 2),
        ("java 19983 cycles: ", "2 samples of cycles", 2),
        ("java 19983 cycles:", "2 samples of cycles", 2),
        ("func_ab 15294 cpu-clock: ", "2 samples of cpu-clock", 2),
        ("java 19983/19984 [001] 250 cycles: ", "500 cycles", 2),
        ("prog 5 100.000001: 1000000 cycles: ", "2,000,000 cycles", 2),
        ("prog 5 100.000001: ", "2 samples", 2),
        ("100.000001: 1000000 cpu-clock: ", "0.002 CPU s", 2),
    ] {
        for between in ["\n", "\r\n"] {
            let text = format!("{header}\n{frames}{header}\n{frames}").replace('\n', between);
            check(header, text.as_bytes(), None, Want::Sum(want, samples, ""));
        }
        let profile = parse(format!("{header}\n{frames}").as_bytes(), Path::new("x")).unwrap();
        assert_eq!(own(&profile)[0].0, "a", "{header}");
    }
}

/// Some tools strip the blanks before frames.
#[test]
fn frames_need_not_be_indented() {
    let sample =
        "java 19983 cycles:\nffffffff8103d0ca write_msr ([kernel.kallsyms])\n7f72 start (/lib/a.so)\n\n";
    let profile = parse(sample.repeat(2).as_bytes(), Path::new("x")).unwrap();
    assert_eq!(
        own(&profile).into_iter().map(|(name, w)| (name, w.samples)).collect::<Vec<_>>(),
        [("write_msr".to_owned(), 2)]
    );
    assert_eq!((profile.stacks.len(), profile.account.notes.len()), (2, 0));
}

#[test]
fn samples_without_a_chain_are_all_read() {
    let line = |name: &str, at: &str| {
        format!("prog 5 100.00000{at}:    1000000 cpu-clock:u:      55d0 {name}+0x14 (/bin/prog)\n")
    };
    let text = [line("a", "1"), line("b", "2"), line("a", "3")].concat();
    let profile = parse(text.as_bytes(), Path::new("x")).unwrap();
    let rows: Vec<_> = own(&profile).into_iter().map(|(name, weight)| (name, weight.samples)).collect();
    assert_eq!(rows, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
}

#[test]
fn frames_have_the_parts_that_were_printed() {
    let one = |text: &str| {
        let profile = parse(text.as_bytes(), Path::new("x")).unwrap();
        let frame = profile.stacks[profile.cells[0].stack].frame;
        let place = profile.place_of(&profile.frames[frame]).unwrap_or_default();
        (own(&profile)[0].0.clone(), place, profile.total().samples)
    };
    let with = |function: &str, place: &str, samples| (function.to_owned(), place.to_owned(), samples);
    let sources =
        "p 5 1.000001: 7 cpu-clock: \n\t  1 a+0x1 (/bin/p)\n  a.c:3\n\t  2 main+0x1 (/bin/p)\n  :0\n\n";
    assert_eq!(one(&sources.repeat(3)), with("a", "a.c:3", 3));
    assert_eq!(one("p 5 7 cpu-clock: \n\t    1155\n\t    118a\n\n"), with("1155", "", 1));
    assert_eq!(one(&"   dd (v2) 5 cpu-clock:  ffff0 a\n".repeat(2)), with("a", "", 2));
    assert_eq!(one(&"   dd 5 cpu-clock:  ffff0 a\n".repeat(2)), with("a", "", 2));
}

#[test]
fn events_are_kinds_of_samples_and_no_sum() {
    let sample =
        |event: &str, name: &str| format!("prog 5 1.000001: {event}: \n\t1 {name}+0x1 (/bin/prog)\n\n");
    let text = [
        sample("1 page-faults:u", "b"),
        sample("1000000 cpu-clock:u", "a"),
        sample("1 page-faults:u", "b"),
        "prog 5 1.000002: PERF_RECORD_MMAP2 5/5: [0x1(0x2) @ 0 08:01 1 1]: r-xp /bin/prog\n".to_owned(),
    ]
    .concat();
    let text = text.as_bytes();
    check(
        "the clock",
        text,
        None,
        Want::Sum("0.001 CPU s", 1, "also in the file: page-faults:u (2 samples)"),
    );
    for name in ["page-faults:u", "page-faults"] {
        check(name, text, Some(name), Want::Sum("2 page-faults:u", 2, "cpu-clock:u (1 sample)"));
    }
    check("another", text, Some("cycles"), Want::Refused("it has page-faults:u (2 samples)"));
    let huge = sample("18446744073709551615 cpu-clock", "a").repeat(2);
    check("a huge sum", huge.as_bytes(), None, Want::Refused("64 bits"));
    let stray =
        [&sample("7 cpu-clock", "a"), "\t 1 stray+0x1 (/bin/prog)\n\n", &sample("7 cpu-clock", "a")].concat();
    check(
        "a stray frame",
        stray.as_bytes(),
        None,
        Want::Sum("0.000 CPU s", 2, "line 4: neither sample nor frame"),
    );
    let tracepoint =
        "x 28142 [004] 42460.080000: sched:sched_switch: prev_comm=x prev_pid=5 ==> next_pid=0\n";
    check(
        "a tracepoint",
        tracepoint.repeat(3).as_bytes(),
        None,
        Want::Sum("3 samples of sched:sched_switch", 3, ""),
    );
}

#[test]
fn threads_and_objects_have_their_names() {
    let text = "swapper 0 1.000001: 1 cpu-clock: \n\t1 a+0x1 (/tmp/prog (deleted))\n\n\
                :-1 -1 1.000001: 1 cpu-clock: \n\t1 b (inlined)\n\t1 f(int) const+0x1 (/tmp/my prog (v2)/bin)\n\n\
                worker 7 7 1.000001: 1 cpu-clock: \n\tffffffff81000010 c+0x1 ([ext4])\n\n";
    let profile = parse(text.as_bytes(), Path::new("x")).unwrap();
    let names: Vec<&str> = profile.processes.iter().map(|process| process.name.as_str()).collect();
    assert_eq!(names, ["swapper", ":-1", "worker 7"]);
    let paths: Vec<(&str, ObjectKind)> =
        profile.objects.iter().map(|object| (object.path.as_str(), object.kind)).collect();
    assert_eq!(
        paths,
        [
            ("/tmp/prog (deleted)", ObjectKind::File),
            ("/tmp/my prog (v2)/bin", ObjectKind::File),
            ("[ext4]", ObjectKind::Kernel),
        ]
    );
    assert_eq!((profile.total().user_ns, profile.total().system_ns), (2, 1));
    assert!(profile.frames.iter().any(|frame| frame.inlined));
}

proptest! {
    #[test]
    fn lines_in_any_order_are_read_or_refused(
        lines in proptest::collection::vec(proptest::sample::select(LINES), 0..40),
        cut in 0usize..20,
    ) {
        let mut text = lines.join("\n").into_bytes();
        text.truncate(text.len().saturating_sub(cut));
        if let Ok(profile) = parse(&text, Path::new("x")) {
            let is_perf = profile.processes.iter().all(|process| process.clock == "perf");
            prop_assert!(!is_perf || profile.total().samples <= lines.len() as u64);
        }
    }
}
