//! Files as other tools write them: with their right sums, or refused in words that say what they are.

use pct_formats::import::{Wanted, parse, parse_with};
use pct_formats::protobuf::Message;
use pct_formats::{Format, export};
use pct_profile::model::{Profile, Weight};
use std::path::Path;

/// What an input must give: the total and a note's part (empty: any), or a part of the refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// `Profile::amount_in_words` of the total, number of samples, a part of a note.
    Sum(&'static str, u64, &'static str),
    Refused(&'static str),
}

pub(crate) fn check(name: &str, bytes: &[u8], sample_type: Option<&str>, want: Want) {
    let read = parse_with(bytes, Path::new(name), Wanted { timeline: false, sample_type });
    match (read, want) {
        (Ok(profile), Want::Sum(sum, samples, note)) => {
            let total = profile.total();
            assert_eq!(profile.amount_in_words(total.cpu_ns()), sum, "{name}");
            assert_eq!(total.samples, samples, "{name}");
            let notes = profile.account.notes.join("\n");
            assert!(notes.contains(note), "{name}: {notes:?}");
            for &(_, format) in Format::ALL {
                assert!(!export(&profile, &profile.cells, format).is_empty(), "{name}: {format:?}");
            }
        }
        (Err(why), Want::Refused(words)) => assert!(why.to_string().contains(words), "{name}: {why}"),
        (Ok(profile), want) => {
            let sum = profile.amount_in_words(profile.total().cpu_ns());
            panic!("{name}: {sum}, wanted {want:?}")
        }
        (Err(why), want) => panic!("{name}: {why}, wanted {want:?}"),
    }
}

/// Functions with their own weights, by name.
pub(crate) fn own(profile: &Profile) -> Vec<(String, Weight)> {
    let mut rows: Vec<(String, Weight)> = Vec::new();
    for cell in &profile.cells {
        let name = profile.functions[profile.leaf(cell.stack)].name.clone();
        match rows.iter_mut().find(|(known, _)| *known == name) {
            Some((_, weight)) => *weight += cell.weight,
            None => rows.push((name, cell.weight)),
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

/// A pprof file.
#[derive(Clone, Default)]
struct Pprof<'a> {
    types: &'a [(&'a str, &'a str)],
    default: &'a str,
    drop_frames: &'a str,
    period: Option<((&'a str, &'a str), u64)>,
    /// Functions, innermost first, and values.
    samples: &'a [(&'a [&'a str], &'a [i64])],
}

impl Pprof<'_> {
    fn octets(&self) -> Vec<u8> {
        let mut strings: Vec<String> = vec![String::new()];
        let mut id = |text: &str| {
            let known = strings.iter().position(|known| known == text);
            known.unwrap_or_else(|| {
                strings.push(text.to_owned());
                strings.len() - 1
            }) as u64
        };
        let mut out = Message::default();
        let mut pair = |(name, unit): (&str, &str)| {
            let mut m = Message::default();
            m.number(1, id(name));
            m.number(2, id(unit));
            m.0
        };
        for kind in self.types {
            out.bytes(1, &pair(*kind));
        }
        if let Some((kind, period)) = self.period {
            out.bytes(11, &pair(kind));
            out.number(12, period);
        }
        let mut next = 0;
        for (functions, values) in self.samples {
            let mut locations = Vec::new();
            for function in *functions {
                next += 1;
                locations.push(next);
                let mut m = Message::default();
                m.number(1, next);
                m.number(2, id(function));
                out.bytes(5, &m.0);
                let (mut m, mut line) = (Message::default(), Message::default());
                line.number(1, next);
                m.number(1, next);
                m.bytes(4, &line.0);
                out.bytes(4, &m.0);
            }
            let values: Vec<u64> = values.iter().map(|value| value.cast_unsigned()).collect();
            let mut m = Message::default();
            m.packed(1, &locations);
            m.packed(2, &values);
            out.bytes(2, &m.0);
        }
        out.number(14, id(self.default));
        out.number(7, id(self.drop_frames));
        for text in &strings {
            out.bytes(6, text.as_bytes());
        }
        out.0
    }
}

const A: &[&str] = &["a", "main"];
const B: &[&str] = &["b", "main"];

#[test]
fn values_of_pprof_keep_the_unit_of_their_file() {
    for (unit, values, want) in [
        ("nanoseconds", [30_000_000, 10_000_000], "0.040 CPU s"),
        ("ns", [30_000_000, 10_000_000], "0.040 CPU s"),
        ("microseconds", [30_000, 10_000], "0.040 CPU s"),
        ("us", [30_000, 10_000], "0.040 CPU s"),
        ("milliseconds", [30, 10], "0.040 CPU s"),
        ("seconds", [3, 1], "4.00 CPU s"),
        ("s", [3, 1], "4.00 CPU s"),
        ("bytes", [12_288, 4_096], "16,384 bytes of cpu"),
        ("kilobytes", [12, 4], "16,384 bytes of cpu"),
        ("count", [3, 1], "4 of cpu (count)"),
        ("furlongs", [3, 1], "4 furlongs of cpu"),
        ("", [3, 1], "4 of cpu (no unit given)"),
    ] {
        let samples: &[(&[&str], &[i64])] = &[(A, &[3, values[0]]), (B, &[1, values[1]])];
        let types: &[(&str, &str)] = &[("samples", "count"), ("cpu", unit)];
        let file = Pprof { types, samples, ..Pprof::default() }.octets();
        check(&format!("cpu/{unit}"), &file, None, Want::Sum(want, 4, ""));
        check(
            &format!("samples beside cpu/{unit}"),
            &file,
            Some("samples"),
            Want::Sum("4 samples", 4, "cpu"),
        );
    }
}

#[test]
fn a_pprof_file_names_the_type_that_is_shown_and_the_others() {
    let heap: &[(&str, &str)] = &[
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    let samples: &[(&[&str], &[i64])] = &[(A, &[10, 1000, 0, 0]), (B, &[1, 50, 1, 50])];
    let last = Pprof { types: heap, samples, ..Pprof::default() }.octets();
    let default = Pprof { types: heap, samples, default: "alloc_space", ..Pprof::default() }.octets();
    check("the last", &last, None, Want::Sum("50 bytes of inuse_space", 0, "alloc_objects (count)"));
    check("the default", &default, None, Want::Sum("1,050 bytes of alloc_space", 0, "inuse_space (bytes)"));
    check("chosen", &default, Some("alloc_objects"), Want::Sum("11 alloc_objects", 0, "alloc_space (bytes)"));
    check("unknown", &default, Some("wall"), Want::Refused("it has alloc_objects (count)"));
    let wall: &[(&str, &str)] = &[("samples", "count"), ("cpu", "nanoseconds"), ("wall", "nanoseconds")];
    let samples: &[(&[&str], &[i64])] =
        &[(A, &[1, 10_000_000, 1_000_000_000]), (B, &[1, 10_000_000, 5_000_000_000])];
    let file = Pprof { types: wall, samples, default: "wall", ..Pprof::default() }.octets();
    check("wall", &file, None, Want::Sum("6.00 s of wall", 2, "cpu (nanoseconds)"));
    check("cpu", &file, Some("cpu"), Want::Sum("0.020 CPU s", 2, "wall (nanoseconds)"));
}

#[test]
fn differences_and_sums_beyond_64_bits_are_no_cpu_time() {
    let types: &[(&str, &str)] = &[("samples", "count"), ("cpu", "nanoseconds")];
    let of = |samples| Pprof { types, samples, ..Pprof::default() }.octets();
    let negative = of(&[(A, &[3, 30_000_000]), (B, &[-1, -10_000_000])]);
    check("differences", &negative, None, Want::Refused("pct diff"));
    let huge = of(&[(A, &[1, i64::MAX]), (B, &[1, i64::MAX]), (B, &[1, i64::MAX])]);
    check("a huge sum", &huge, None, Want::Refused("64 bits"));
    let seconds: &[(&str, &str)] = &[("cpu", "seconds")];
    let file = Pprof { types: seconds, samples: &[(A, &[i64::MAX])], ..Pprof::default() }.octets();
    check("huge seconds", &file, None, Want::Refused("64 bits"));
}

#[test]
fn frames_are_dropped_where_the_file_asks_for_it() {
    let types: &[(&str, &str)] = &[("cpu", "nanoseconds")];
    let samples: &[(&[&str], &[i64])] = &[
        (&["sigreturn", "prof_handler(int)", "a", "main"], &[30]),
        (&["b", "main"], &[10]),
        (&["prof_handler(int)"], &[5]),
    ];
    let file = Pprof { types, samples, drop_frames: "prof_handler|sigreturn", ..Pprof::default() };
    let rows = |file: &Pprof<'_>| -> Vec<(String, u64)> {
        let profile = parse(&file.octets(), Path::new("x")).unwrap();
        own(&profile).into_iter().map(|(name, weight)| (name, weight.cpu_ns())).collect()
    };
    let row = |name: &str, ns| (name.to_owned(), ns);
    assert_eq!(rows(&file), [row("a", 30), row("b", 10), row("prof_handler(int)", 5)]);
    let whole = Pprof { drop_frames: "", ..file };
    assert_eq!(rows(&whole), [row("b", 10), row("prof_handler(int)", 5), row("sigreturn", 30)]);
}

#[test]
fn samples_of_pprof_are_counted_and_what_is_missing_is_said() {
    let types: &[(&str, &str)] = &[("samples", "count"), ("cpu", "nanoseconds")];
    let samples: &[(&[&str], &[i64])] = &[(A, &[3, 30]), (&[], &[1, 10]), (B, &[7])];
    let file = Pprof { types, samples, ..Pprof::default() }.octets();
    let profile = parse(&file, Path::new("x")).unwrap();
    assert_eq!((profile.total().samples, profile.total().cpu_ns()), (4, 40));
    assert_eq!(profile.account.losses.len(), 1);
    assert!(profile.account.notes.iter().any(|note| note.contains("1 sample without a stack")));
    let types: &[(&str, &str)] = &[("cpu", "nanoseconds")];
    let period = Some((("cpu", "nanoseconds"), 10_000_000));
    let samples: &[(&[&str], &[i64])] = &[(A, &[30_000_000]), (B, &[10_000_000])];
    let file = Pprof { types, samples, period, ..Pprof::default() }.octets();
    check("by the period", &file, None, Want::Sum("0.040 CPU s", 4, ""));
    let types: &[(&str, &str)] = &[("contentions", "count"), ("delay", "nanoseconds")];
    let period = Some((("contentions", "count"), 1));
    let samples: &[(&[&str], &[i64])] = &[(A, &[59, 300_000_000])];
    let file = Pprof { types, samples, period, ..Pprof::default() }.octets();
    check("scaled counts", &file, Some("contentions"), Want::Sum("59 contentions", 0, "delay (nanoseconds)"));
    check("a delay", &file, None, Want::Sum("0.30 s of delay", 0, "contentions (count)"));
}

#[test]
fn packed_files_are_unpacked_or_named() {
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut out, bytes).unwrap();
        out.finish().unwrap()
    };
    let text = b"main;a 3\nmain;b 4\n";
    let sum = |note| Want::Sum("7 samples", 7, note);
    let members = [gzip(&text[..9]), gzip(&text[9..])].concat();
    check("members", &members, None, sum(""));
    check("twice", &gzip(&gzip(text)), None, sum(""));
    check("zeros behind", &[gzip(text), vec![0; 512]].concat(), None, sum(""));
    check("octets behind", &[gzip(text), b"xyz".to_vec()].concat(), None, sum("3 octets behind"));
    check("cut", &gzip(text)[..20], None, Want::Refused("damaged gzip"));
    for (name, bytes, words) in [
        ("xz", &b"\xfd7zXZ\0\0\x04\xe6"[..], "xz -d first"),
        ("bzip2", b"BZh91AY&SY\x01\x02\x03", "bzip2 -d first"),
        ("zstd", b"\x28\xb5\x2f\xfd\x24\x10\x81\0", "zstd -d first"),
        ("UTF-16", b"\xff\xfem\0;\0a\0 \x003\0\n\0", "UTF-16"),
        ("UTF-16 without a mark", b"m\0;\0a\0 \x003\0\n\0", "UTF-16"),
        ("perf.data 1", b"PERFFILE\x68\0\0\0\0\0\0\0", "version 1"),
        ("nothing", b"", "empty"),
        ("protobuf", b"\x0a\x03abc\x10\x05\x1a\0", "not pprof"),
        ("other octets", b"\xff\x07\0\x01\x02\x03", "octet"),
    ] {
        check(name, bytes, None, Want::Refused(words));
    }
}

#[test]
fn austin_says_what_its_numbers_are() {
    let samples = "P1;T1;a.py:main:3;<frozen zipimport>:find:7 1000\nP1;T0:2;a.py:main:4 500\n\nP1;T0:2 7\n";
    for (mode, words) in
        [("wall", "0.002 s of wall"), ("cpu", "0.002 CPU s"), ("memory", "1,507 of memory (no unit given)")]
    {
        let text = format!("# austin: 3.4.1\n# interval: 1000\n# mode: {mode}\n\n{samples}# duration: 9\n");
        check(mode, text.as_bytes(), None, Want::Sum(words, 3, "1 sample without a stack"));
        let p = parse(text.as_bytes(), Path::new("x")).unwrap();
        let own: Vec<String> = own(&p).into_iter().map(|(name, _)| name).collect();
        assert_eq!(own, ["[no stack]", "find", "main"]);
        assert_eq!(p.threads.iter().map(|thread| thread.tid).collect::<Vec<_>>(), [1, 2]);
        assert!(p.objects.iter().any(|object| object.path == "a.py"), "{:?}", p.objects);
        let lines: Vec<u32> = p.frames.iter().map(|frame| frame.line).collect();
        assert!([3, 4, 7].iter().all(|line| lines.contains(line)), "{lines:?}");
    }
    for (line, words) in [
        ("main;a 3", "line 2: expected `P1;T1;"),
        ("P1;T1;a 3x", "line 2"),
        ("P1 3", "line 2"),
        ("P1;T1;a -3", "-3"),
    ] {
        check(line, format!("# austin: 3\n{line}\n").as_bytes(), None, Want::Refused(words));
    }
}

#[test]
fn a_text_is_known_by_its_form_as_a_whole() {
    for (name, text, words) in [
        (
            "legacy pprof",
            "heap profile: 1: 10 [ 2: 20] @ heap/1024\n 1: 10 [1: 10] @ 0x1 0x2\n",
            "go tool pprof",
        ),
        ("GHC", "\tTime and Allocation Profiling Report  (Final)\n\n\tx +RTS\n main 12 3\n", "GHC"),
        (
            "DTrace",
            "CPU     ID      FUNCTION:NAME\n  0  64091      :tick-60s\n\n  libc.so.1`a+0x1\n  3\n",
            "DTrace",
        ),
        ("macOS", "Analysis of sampling a (pid 1) every 1 millisecond\nProcess:  a [1]\n", "macOS sample"),
        ("VTune", "Function / Call Stack,CPU Time,Module\nmain,3.371,a\n", "VTune"),
        ("Instruments", "Running Time\tSelf (ms)\t\tSymbol Name\n42.0ms  9.9%\t0\t \tstart\n", "Instruments"),
        ("xperf", "BeginHeader\n  SampledProfile,  TimeStamp\nEndHeader\n", "xperf"),
        ("hprof", "JAVA PROFILE 1.0.1, created\n\nCPU SAMPLES BEGIN (total = 126)\n", "hprof"),
        ("strace", "% time     seconds  usecs/call     calls    errors syscall\n", "strace"),
        (
            "V8's log",
            "shared-library,/bin/node,0x1,0x2,0\ncode-creation,LazyCompile,10,1\n",
            "--prof-process",
        ),
        ("a letter", "Dear Bob,\nplease send me 12\nYours, Ann\n", "line 1"),
        ("one line", "main;a 3\nmain;b 4\nand so on\n", "line 3"),
        ("a number", "main;a 3\n4\n", "line 2"),
        ("a column of numbers", "   3\n  14\n 159\n", "line 1"),
        ("differences", "main;a 3\nmain;b -4\n", "pct diff"),
        ("two columns", "main;a 3 7\nmain;b 2 2\n", "pct diff"),
        ("huge", "a;b 9223372036854775807\na;c 9223372036854775807\n", "add up"),
    ] {
        check(name, text.as_bytes(), None, Want::Refused(words));
    }
    let sum = Want::Sum("14 samples", 14, "no unit");
    for text in [
        "main;b 10\nmain;c 4\n",
        "main;b\t10\nmain;c\t4\n",
        "\u{feff}main;b 10\r\nmain;c 4\r\n",
        "# a comment 3\n#0;b 10\n\nmain;a\u{1}b 4",
        "main;b 9.6\nmain;c 4\nmain 0.4\n",
    ] {
        let want = if text.contains('.') { Want::Sum("14 samples", 14, "no whole numbers") } else { sum };
        check(text, text.as_bytes(), None, want);
    }
}
