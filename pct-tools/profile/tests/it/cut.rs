//! Recordings cut to a range: a report of what is saved has the numbers of the range.

use pct_format::builder::Builder;
use pct_format::head::kind;
use pct_format::layout::header;
use pct_format::record::{Encoder, Frame};
use pct_format::{Anchor, State};
use pct_kit::Dice;
use pct_profile::cut::{CutRecording, Range, becomes_folder};
use pct_profile::load::{Options, load};
use std::collections::BTreeMap;
use std::path::Path;

/// First time of all recordings, ns since 1970.
const START: u64 = 1_000_000_001;

/// A recording of three threads whose samples take many segments, with marks; its clock jumps in the middle.
fn recording(seed: u64) -> Vec<u8> {
    let mut b = Builder::new();
    b.set_header_word(header::USER_NS, 77_000_000_000).set_header_word(header::STATE, State::Armed as u64);
    b.anchors(
        Anchor { raw: 1, monotonic_ns: 1, realtime_ns: START },
        Anchor { raw: 2_000_000_001, monotonic_ns: 2_000_000_001, realtime_ns: START + 2_500_000_000 },
    );
    b.region(1, 1, 0x40_0000..0x50_0000, 0, 1, b"", b"/nowhere/prog");
    let threads: Vec<u32> = (0..3).map(|n| b.thread(1, 100 + n, b"worker")).collect();
    let stacks: Vec<u32> = (1..40).map(|n| b.stack(&[Frame::Return(0x40_0000 + n * 64)])).collect();
    let mut dice = Dice::new(seed);
    for n in 1..20_000u64 {
        let (thread, stack) = (threads[dice.index(3)], stacks[dice.index(39)]);
        let pc = 0x40_0000 + dice.below(1000) * 16;
        // Some weights take a word of their own, and some stacks stand in the record.
        let weight = if dice.below(9) == 0 { 300 } else { 1 + dice.below(3) };
        b.sample(thread, n * 100_000, pc, weight, dice.below(5) == 0, stack);
        if n % 1000 == 0 {
            let mut buffer = [0; 16];
            let mark = Encoder::new(&mut buffer).raw_word(n * 100_000 + 1).number(100).text(b"mark");
            b.ring_record(threads[0], n * 100_000 + 1, mark.finish(kind::MARK, 0).expect("it fits"));
        }
    }
    b.finish()
}

fn options(window: Option<(u64, u64)>) -> Options {
    Options { symbols: false, window, timeline: true, ..Options::default() }
}

/// Samples and CPU time by thread and stack of function names, the marks, and samples with their times.
type Facts = (BTreeMap<(u32, Vec<String>), (u64, u64)>, Vec<u64>, Vec<(u64, u64)>);

fn facts(path: &Path, window: Option<(u64, u64)>) -> Facts {
    let profile = load(&[path.to_owned()], &options(window)).expect("a recording");
    let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for cell in &profile.cells {
        let frames = profile.outwards(cell.stack).map(|(_, f)| profile.functions[f.function].name.clone());
        let sum = sums.entry((profile.threads[cell.thread].tid, frames.collect())).or_default();
        *sum = (sum.0 + cell.weight.samples, sum.1 + cell.weight.cpu_ns());
    }
    let inside = |time: &u64| window.is_none_or(|(from, to)| (from..to).contains(time));
    let marks = profile.marks.iter().map(|mark| mark.time_ns).filter(inside).collect();
    let mut times: Vec<(u64, u64)> = profile.timeline.iter().map(|s| (s.time_ns, s.weight_ns)).collect();
    times.sort_unstable();
    (sums, marks, times)
}

fn saved(path: &Path, (from, to): (u64, u64)) -> Vec<u8> {
    let range = Range { from_ns: START + from, to_ns: START.saturating_add(to), start_ns: START };
    let cut = CutRecording::open(path, &[path.to_owned()], range).expect("it is a recording");
    cut.pieces().flat_map(|piece| piece.expect("it is read")).collect()
}

#[test]
fn what_is_saved_of_a_range_has_the_numbers_of_the_range() {
    let dir = tempfile::tempdir().expect("a folder");
    let (path, part) = (dir.path().join("whole.pct"), dir.path().join("part.pct"));
    let whole = recording(1);
    std::fs::write(&path, &whole).expect("written");
    assert_eq!(becomes_folder(&path, std::slice::from_ref(&path)), Some(false));
    let mut dice = Dice::new(2);
    let mut windows: Vec<(u64, u64)> = (0..12)
        .map(|_| {
            let (a, b) = (dice.below(2_600_000_000), dice.below(2_600_000_000));
            (a.min(b), a.max(b) + 1)
        })
        .collect();
    windows.extend([(0, u64::MAX), (0, 1), (1_250_000_000, 1_250_200_000)]);
    for window in windows {
        let bytes = saved(&path, window);
        std::fs::write(&part, &bytes).expect("written");
        assert_eq!(facts(&part, None), facts(&path, Some(window)), "{window:?}");
        let profile = load(std::slice::from_ref(&part), &options(None)).expect("a recording");
        assert_eq!(profile.account.used_by_files_ns, None, "the kernel's sum is of the whole run");
        assert_eq!(profile.account.running, 0, "nobody writes it any more");
    }
    // Twenty samples are not worth the segments of the others.
    assert!(saved(&path, (1_250_000_000, 1_252_500_000)).len() < whole.len() / 4);
}

#[test]
fn a_folder_becomes_a_folder_with_its_names() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run, out) = (dir.path().join("pct-prog-1"), dir.path().join("out"));
    std::fs::create_dir(&run).expect("made");
    for (name, seed) in [("1.pct", 3), ("2.pct", 4)] {
        std::fs::write(run.join(name), recording(seed)).expect("written");
    }
    std::fs::write(run.join("perf-1.map"), vec![b'x'; 1000]).expect("written");
    std::fs::write(run.join("run.json"), "{}").expect("written");
    std::fs::create_dir(&out).expect("made");
    let window = (500_000_000, 900_000_000);
    let names = untar(&saved(&run, window), &out);
    assert_eq!(names, ["pct-prog-1-part/1.pct", "pct-prog-1-part/2.pct", "pct-prog-1-part/perf-1.map"]);
    let part = out.join("pct-prog-1-part");
    assert_eq!(std::fs::read(part.join("perf-1.map")).expect("there"), vec![b'x'; 1000]);
    assert_eq!(facts(&part, None), facts(&run, Some(window)));
}

/// Unpacks an archive by the words of its heads, and checks their sums; gives the names in order.
fn untar(mut bytes: &[u8], into: &Path) -> Vec<String> {
    let text = |field: &[u8]| {
        let end = field.iter().position(|octet| *octet == 0).unwrap_or(field.len());
        String::from_utf8(field[..end].to_vec()).expect("text")
    };
    let octal = |field: &[u8]| u64::from_str_radix(text(field).trim(), 8).expect("a number");
    let mut names = Vec::new();
    loop {
        let (head, rest) = bytes.split_at(512);
        if head.iter().all(|octet| *octet == 0) {
            assert_eq!(rest, [0; 512], "two empty heads end it");
            names.sort();
            return names;
        }
        let sum: u64 = head
            .iter()
            .enumerate()
            .map(|(i, b)| u64::from(if (148..156).contains(&i) { b' ' } else { *b }))
            .sum();
        assert_eq!((octal(&head[148..155]), &head[257..265]), (sum, b"ustar\x0000".as_slice()));
        let size = usize::try_from(octal(&head[124..136])).expect("small");
        let name = Path::new(&text(&head[345..500])).join(text(&head[..100]));
        std::fs::create_dir_all(into.join(&name).parent().expect("a folder")).expect("made");
        std::fs::write(into.join(&name), &rest[..size]).expect("written");
        names.push(name.display().to_string());
        bytes = &rest[size.next_multiple_of(512)..];
    }
}

#[test]
fn what_is_no_recording_is_not_cut() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("perf.data");
    std::fs::write(&path, b"PERFILE2 and so on").expect("written");
    assert_eq!(becomes_folder(&path, std::slice::from_ref(&path)), None);
    let range = Range { from_ns: 0, to_ns: u64::MAX, start_ns: 0 };
    assert!(CutRecording::open(&path, std::slice::from_ref(&path), range).is_err());
    // Cut anywhere and with every octet that matters damaged: an error or octets, never a panic.
    let whole = recording(5);
    let mut dice = Dice::new(6);
    for round in 0..60 {
        let mut bytes = whole[..dice.index(whole.len())].to_vec();
        for _ in 0..round {
            let at = dice.index(bytes.len().max(1));
            if let Some(octet) = bytes.get_mut(at) {
                *octet = u8::try_from(dice.below(256)).expect("small");
            }
        }
        std::fs::write(&path, &bytes).expect("written");
        if let Ok(cut) = CutRecording::open(&path, std::slice::from_ref(&path), range) {
            let length: usize = cut.pieces().map(|piece| piece.map_or(0, |piece| piece.len())).sum();
            assert!(length <= bytes.len().next_multiple_of(16 << 10) + (16 << 10));
        }
    }
}
