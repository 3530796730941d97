//! Handmade perf.data: its contents are read, damage is reported, nothing panics.

use pct_formats::import::{Wanted, parse, parse_with};
use pct_formats::{Format, export, import};
use pct_kit::perf_data::{
    FORMAT, KERNEL, USER, attr, comm, data, file, file_of, mmap2, pair, record, sample, words,
};
use pct_profile::model::Profile;
use pct_profile::{By, CallTree, Split};
use proptest::prelude::*;
use std::path::Path;

const TIMELINE: Wanted<'_> = Wanted { timeline: true, sample_type: None };
/// A file of two events, a dummy without samples and cycles, whose samples have the event's number in front.
fn two_events(first: u64) -> Vec<u8> {
    const IDENTIFIER: u64 = 1 << 16;
    let attr = |kind: u64, config: u64| {
        words(&[kind | 64 << 32, config, 1000, FORMAT | IDENTIFIER, 0, 1 << 10, 0, 0])
    };
    let (ids_at, attrs_at) = (104u64, 104 + 3 * 8);
    let data_at = attrs_at + 3 * 80;
    let mut data = Vec::new();
    for (id, samples) in [(1u64, first), (2, 3), (3, 1)] {
        for time in 0..samples {
            let body = words(&[id, 0x10010, pair(5, 5), time, 7, 2, USER, 0x10010]);
            data.extend(record(9, 2, &body));
        }
    }
    let mut out = b"PERFILE2".to_vec();
    out.extend(words(&[104, 80, attrs_at, 3 * 80, data_at, data.len() as u64, 0, 0, 0, 0, 0, 0]));
    out.extend(words(&[1, 2, 3]));
    for (at, (kind, config)) in [(1, 9), (0, 0xa_0000_0000), (0, 1)].into_iter().enumerate() {
        out.extend(attr(kind, config));
        out.extend(words(&[ids_at + 8 * at as u64, 8]));
    }
    out.extend(data);
    out
}

#[test]
fn a_sum_beyond_64_bits_is_an_error() {
    let samples = [1, 2].map(|time| sample(5, time, false, u64::MAX, &[USER, 0x10010])).concat();
    let why = parse(&file(&samples), Path::new("x")).unwrap_err().to_string();
    assert!(why.contains("64 bits"), "{why}");
}

#[test]
fn events_without_samples_are_passed_over_and_others_are_named() {
    let path = Path::new("x");
    let chosen = |name| parse_with(&two_events(0), path, Wanted { timeline: false, sample_type: name });
    let profile = chosen(None).unwrap();
    assert_eq!(profile.total().samples, 3);
    let notes = profile.account.notes.join("\n");
    assert!(
        notes.contains("pmu10/cycles/ (3 samples) is shown; also in the file: instructions (1 sample)"),
        "{notes}"
    );
    let instructions = chosen(Some("instructions")).unwrap();
    let sum = instructions.amount_in_words(instructions.total().cpu_ns());
    assert_eq!((instructions.total().samples, sum.as_str()), (1, "7 instructions"));
    let why = chosen(Some("dummy")).unwrap_err().to_string();
    assert!(why.contains("it has pmu10/cycles/ (3 samples), instructions (1 sample)"), "{why}");
}

/// What was recorded at a frequency is weighed by the periods, whatever the event is.
#[test]
fn cycles_are_cycles() {
    let mut cycles = attr(FORMAT);
    // A hardware event, the first.
    cycles[0] = 0;
    for (attr, words) in [(cycles, "1,000,007 cycles"), (attr(FORMAT), "0.001 CPU s")] {
        let records =
            [sample(5, 30, false, 7, &[USER, 0x10010]), sample(5, 31, false, 1_000_000, &[USER, 0x10020])];
        let p = read(&file_of(&attr, &records.concat()));
        assert_eq!((p.amount_in_words(p.total().cpu_ns()).as_str(), p.total().samples), (words, 2));
        // 1,000 Hz were asked for.
        assert_eq!(p.processes.iter().map(|p| p.hz).collect::<Vec<_>>(), [1_000]);
    }
}

#[test]
fn processes_without_a_number_have_perfs_names() {
    let records = [0, u32::MAX, 7].map(|pid| sample(pid, 30, true, 7, &[KERNEL, 0xffff_ffff_8100_0000]));
    let p = read(&file(&records.concat()));
    let named: Vec<(u32, &str)> =
        p.processes.iter().map(|process| (process.pid, process.name.as_str())).collect();
    assert_eq!(named, [(0, "swapper"), (0, ":-1"), (7, "")]);
    let named: Vec<(u32, &str)> = p.threads.iter().map(|thread| (thread.tid, thread.name.as_str())).collect();
    assert_eq!(named, [(0, "swapper"), (0, ":-1"), (7, "")]);
}

/// Descriptions of tracepoints follow their record in a stream and are no records.
#[test]
fn what_follows_a_record_is_passed_over() {
    let plain = read(&stream(&data()));
    for length in [0u32, 13, 16] {
        let size = [length.to_le_bytes(), [0; 4]].concat();
        let described =
            [record(66, 0, &size[..4]), vec![0xff; length.next_multiple_of(8) as usize], data()].concat();
        let p = read(&stream(&described));
        assert_eq!((p.total(), &p.account.notes), (plain.total(), &plain.account.notes), "{length}");
    }
}

fn stream(data: &[u8]) -> Vec<u8> {
    let mut out = b"PERFILE2".to_vec();
    out.extend(words(&[16]));
    out.extend(record(64, 0, &attr(FORMAT)));
    out.extend(data);
    out
}

fn read(bytes: &[u8]) -> Profile {
    parse(bytes, Path::new("perf.data")).unwrap()
}

#[test]
fn files_and_streams_give_stacks_by_the_mappings_of_their_time() {
    for bytes in [file(&data()), stream(&data())] {
        let p = read(&bytes);
        let total = p.total();
        assert_eq!((total.samples, total.user_ns, total.system_ns), (2, 1_000_000, 2_000_000));
        assert_eq!(p.processes.len(), 1);
        let process = p.processes.iter().next().unwrap();
        assert_eq!((process.pid, process.name.as_str(), process.hz), (5, "worker", 1000));
        assert_eq!(p.account.losses[0].samples, 7);
        let mut paths: Vec<_> = p.cells.iter().map(|c| p.outwards(c.stack).count()).collect();
        paths.sort_unstable();
        assert_eq!(paths, [2, 3], "two frames, and two below [system]");
        let objects: Vec<_> = p.objects.iter().map(|o| o.path.as_str()).collect();
        for wanted in ["/no/such/program", "/no/such/other", "kernel"] {
            assert!(objects.contains(&wanted), "{objects:?}");
        }
        // Offsets in the file. A caller's is that of its call instruction.
        let addresses: Vec<_> = p.frames.iter().filter_map(|f| f.address).collect();
        for wanted in [0x10, 0x100] {
            assert!(addresses.contains(&wanted), "{addresses:x?}");
        }
        assert!(p.account.notes.iter().any(|n| n.contains("/no/such/program")), "{:?}", p.account.notes);
        assert_eq!(CallTree::top_down(&p, &p.cells, By::Function, Split::Merged).roots.len(), 2);
    }
}

#[test]
fn the_order_of_time_is_kept_where_it_is_asked_for() {
    let p = parse_with(&file(&data()), Path::new("x"), TIMELINE).unwrap();
    let times: Vec<_> = p.timeline.iter().map(|s| (s.time_ns, s.weight_ns)).collect();
    assert_eq!(times, [(0, 1_000_000), (30, 2_000_000)]);
}

#[test]
fn what_is_cut_off_is_said_with_its_place_and_the_rest_is_there() {
    let whole = file(&data());
    let cut = &whole[..whole.len() - 20];
    let p = read(cut);
    assert_eq!(p.total().samples, 2);
    let place = format!("octet {}", cut.len());
    assert!(p.account.notes.iter().any(|n| n.contains(&place)), "{:?}", p.account.notes);
    // A recorder that was killed has not written the size of its data.
    let mut killed = whole.clone();
    killed[48..56].fill(0);
    assert_eq!(read(&killed).total().samples, 2);
    for (bytes, word) in
        [(&whole[..60], "octet"), (&b"2ELIFREP........"[..], "big-endian"), (&file(&[])[..], "no sample")]
    {
        let e = parse(bytes, Path::new("perf.data")).unwrap_err().to_string();
        assert!(e.contains("perf.data") && e.contains(word), "{e}");
    }
}

#[test]
fn damaged_compressed_records_are_said() {
    let mut records = data();
    records.extend(record(81, 0, &[0; 16]));
    let p = read(&file(&records));
    assert!(
        p.account.notes.iter().any(|n| n.contains("compressed records: damaged")),
        "{:?}",
        p.account.notes
    );
    assert_eq!(p.total().samples, 2);
}

/// A zstd frame of one raw block that lacks its end, as a recorder leaves it.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    out.extend(&((bytes.len() as u32) << 3).to_le_bytes()[..3]);
    out.extend(bytes);
    out
}

#[test]
fn compressed_records_are_read_as_if_they_were_not() {
    let plain = read(&file(&data()));
    let packed = zstd(&data());
    // A record may begin in one piece and end in the next.
    let (first, second) = packed.split_at(packed.len() / 2 + 3);
    let sized = |piece: &[u8]| [&words(&[piece.len() as u64])[..], piece, &[0; 5]].concat();
    for pieces in [
        [record(81, 0, first), record(81, 0, second)].concat(),
        [record(83, 0, &sized(first)), record(83, 0, &sized(second))].concat(),
    ] {
        let p = read(&file(&pieces));
        assert_eq!(p.total(), plain.total());
        assert_eq!(p.cells.len(), plain.cells.len());
        assert_eq!(p.account.losses, plain.account.losses);
        assert!(!p.account.notes.iter().any(|n| n.contains("compressed")), "{:?}", p.account.notes);
    }
}

/// What `perf record --threads` writes, of records in turn.
fn folder(records: &[Vec<u8>], packed: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, octets: Vec<u8>| std::fs::write(folder.path().join(name), octets).unwrap();
    put("data", file(&records[0]));
    put("data.0", Vec::new());
    put("data.old", b"not of this recording".to_vec());
    for (n, name) in ["data.2", "data.10"].into_iter().enumerate() {
        let part = records[1..].iter().skip(n).step_by(2).flatten().copied().collect::<Vec<u8>>();
        put(name, if packed { record(81, 0, &zstd(&part)) } else { part });
    }
    folder
}

#[test]
fn folders_are_read_as_one_file() {
    let whole = data();
    let mut records = Vec::new();
    let mut rest = &whole[..];
    while !rest.is_empty() {
        let (record, behind) = rest.split_at(usize::from(u16::from_le_bytes([rest[6], rest[7]])));
        records.push(record.to_vec());
        rest = behind;
    }
    let wanted = read(&file(&whole));
    let stacks = |p: &Profile| export(p, &p.cells, Format::Folded);
    for packed in [false, true] {
        let folder = folder(&records, packed);
        let p = import(folder.path()).unwrap();
        assert_eq!(stacks(&p), stacks(&wanted));
        assert_eq!((p.total(), &p.account.losses), (wanted.total(), &wanted.account.losses));
        assert_eq!(p.account.notes, wanted.account.notes);
    }
    // A file that is cut short is named, and the others are whole.
    let folder = folder(&records, false);
    let cut = std::fs::read(folder.path().join("data.2")).unwrap();
    std::fs::write(folder.path().join("data.2"), &cut[..cut.len() - 3]).unwrap();
    let p = import(folder.path()).unwrap();
    assert!(p.account.notes.iter().any(|note| note.starts_with("data.2: octet ")), "{:?}", p.account.notes);
    std::fs::remove_file(folder.path().join("data.10")).unwrap();
    std::fs::create_dir(folder.path().join("data.10")).unwrap();
    let error = import(folder.path()).unwrap_err().to_string();
    assert!(error.contains("data.10: is a directory"), "{error}");
}

/// A file of one process that runs a small program that every machine has, with a sample of these copies.
fn copied(registers: &[u64], stack: &[u8], used: u64) -> Vec<u8> {
    let mut attr = words(&[pair(1, 112), 0, 1000, FORMAT | 1 << 12 | 1 << 13, 0, 1 << 10 | 1 << 18, 0, 0, 0]);
    // branches, registers (all but those of segments), size of the stack and clock, two more
    attr.extend(words(&[0, 0xff_0fff, stack.len() as u64, 0, 0]));
    let mut body = words(&[registers[8], pair(5, 5), 60, 1_000_000, 0, 2]);
    body.extend(words(registers));
    body.extend(words(&[stack.len() as u64]));
    body.extend(stack);
    body.extend(words(&[used]));
    let data =
        [comm(5, "worker", true, 50), mmap2(5, 0x40_0000, 0x4000_0000, "/bin/sh", 51), record(9, 2, &body)];
    file_of(&attr, &data.concat())
}

/// ax, bx, cx, dx, si, di, bp, sp, ip, flags, two segments, r8 to r15.
fn registers(pc: u64) -> Vec<u64> {
    (0..20).map(|i| if i == 8 { pc } else { 0x7fff_0000 + i * 8 }).collect()
}

#[test]
fn a_stack_that_leads_nowhere_is_cut_and_says_why() {
    for (pc, cause) in [(0x10, "no unwind data"), (0x40_0001, "no unwind data")] {
        let p = read(&copied(&registers(pc), &[0; 256], 256));
        assert_eq!(p.total().samples, 1);
        let cut: Vec<_> = p.account.cut_stacks.iter().map(|l| (l.cause.as_str(), l.samples)).collect();
        assert_eq!((cut, p.account.whole_stacks), (vec![(cause, 1)], 0));
        assert!(p.functions.iter().any(|f| f.name == format!("<truncated: {cause}>")));
    }
}

/// Fewer cases than usual, unless the long form is asked for: each takes some 0.2 s in a build that is not optimised.
fn few_cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: if pct_kit::long() { usual.cases } else { usual.cases / 8 }, ..usual }
}

proptest! {
    // The machine's kernel and the programs of the file are opened in each case.
    #![proptest_config(few_cases())]

    #[test]
    fn damaged_files_are_read_or_refused(
        pipe in any::<bool>(), cut in 0usize..200, flips in proptest::collection::vec((0usize..2000, any::<u8>()), 0..10),
    ) {
        let mut bytes = if pipe { stream(&data()) } else { file(&data()) };
        let n = bytes.len();
        for (at, byte) in flips {
            bytes[at % n] = byte;
        }
        bytes.truncate(n.saturating_sub(cut));
        bytes[..8].copy_from_slice(b"PERFILE2");
        let _ = parse_with(&bytes, Path::new("x"), TIMELINE);
    }
}

proptest! {
    // Each case opens a program.
    #![proptest_config(few_cases())]

    /// For any address in this program and any stack.
    #[test]
    fn any_copy_of_a_stack_is_unwound_to_an_end(
        pc in 0u64..200_000, stack in proptest::collection::vec(any::<u8>(), 0..512),
        near in any::<bool>(), used in 0u64..600, flips in proptest::collection::vec((0usize..2000, any::<u8>()), 0..3),
    ) {
        // words that look like addresses of the program make the walk longer
        let stack: Vec<u8> = if near {
            stack.chunks(2).flat_map(|c| words(&[0x40_0000 + u64::from(c[0]) * 512 + u64::from(c[c.len() - 1])])).collect()
        } else {
            stack
        };
        let mut bytes = copied(&registers(0x40_0000 + pc), &stack, used);
        let p = parse(&bytes, Path::new("x")).unwrap();
        let cut: u64 = p.account.cut_stacks.iter().map(|l| l.samples).sum();
        prop_assert_eq!(cut + p.account.whole_stacks, 1);
        let n = bytes.len();
        for (at, byte) in flips {
            bytes[at % n] = byte;
        }
        bytes[..8].copy_from_slice(b"PERFILE2");
        let _ = parse(&bytes, Path::new("x"));
    }
}
