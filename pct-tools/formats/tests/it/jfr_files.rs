//! Handmade recordings of Java Flight Recorder.

use crate::foreign::{Want, check, own};
use pct_formats::import::{Wanted, parse, parse_with};
use pct_profile::Profile;
use pct_profile::model::ObjectKind;
use proptest::prelude::*;
use std::path::Path;

/// A number with as many octets as it needs.
fn number(value: i64, out: &mut Vec<u8>) {
    let mut rest = value.cast_unsigned();
    for _ in 0..8 {
        if rest < 0x80 {
            return out.push(rest as u8);
        }
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn text(value: &str, out: &mut Vec<u8>) {
    out.push(3);
    number(value.len() as i64, out);
    out.extend(value.as_bytes());
}

/// Its size may have more octets than it needs.
fn event(class: i64, contents: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    number(class, &mut body);
    body.extend(contents);
    let size = body.len() + 4;
    let mut out: Vec<u8> =
        (0..4).map(|n| (size >> (7 * n)) as u8 & 0x7f | if n < 3 { 0x80 } else { 0 }).collect();
    out.extend(body);
    out
}

const LONG: i64 = 10;
const INT: i64 = 11;
const BOOLEAN: i64 = 12;
const TEXT: i64 = 13;
const THREAD: i64 = 20;
const SYMBOL: i64 = 21;
const CLASS: i64 = 22;
const METHOD: i64 = 23;
const FRAME: i64 = 24;
const TRACE: i64 = 25;
const FRAME_TYPE: i64 = 26;
const PACKAGE: i64 = 27;
const MODULE: i64 = 28;
const TIMESPAN: i64 = 30;
const DATA_AMOUNT: i64 = 31;
const EXECUTION: i64 = 100;
const CPU_TIME: i64 = 101;
const ALLOCATION: i64 = 102;
const WAIT: i64 = 103;
const JVM: i64 = 104;
const LOST: i64 = 105;
const WALL: i64 = 106;

/// Name, type, and what follows its type: `c`onstant, `a`rray, in `t`icks, in `b`ytes.
type FieldOf = (&'static str, i64, &'static str);

const TYPES: &[(i64, &str, &[FieldOf])] = &[
    (LONG, "long", &[]),
    (INT, "int", &[]),
    (BOOLEAN, "boolean", &[]),
    (TEXT, "java.lang.String", &[]),
    (TIMESPAN, "jdk.jfr.Timespan", &[("value", TEXT, "")]),
    (DATA_AMOUNT, "jdk.jfr.DataAmount", &[("value", TEXT, "")]),
    (THREAD, "java.lang.Thread", &[("osName", TEXT, ""), ("osThreadId", LONG, ""), ("javaName", TEXT, "")]),
    (SYMBOL, "jdk.types.Symbol", &[("string", TEXT, "")]),
    (MODULE, "jdk.types.Module", &[("name", SYMBOL, "c")]),
    (PACKAGE, "jdk.types.Package", &[("name", SYMBOL, "c"), ("module", MODULE, "c")]),
    (CLASS, "java.lang.Class", &[("name", SYMBOL, "c"), ("package", PACKAGE, "c")]),
    (METHOD, "jdk.types.Method", &[("type", CLASS, "c"), ("name", SYMBOL, "c")]),
    (FRAME_TYPE, "jdk.types.FrameType", &[("description", TEXT, "")]),
    (
        FRAME,
        "jdk.types.StackFrame",
        &[("method", METHOD, "c"), ("lineNumber", INT, ""), ("type", FRAME_TYPE, "c")],
    ),
    (TRACE, "jdk.types.StackTrace", &[("truncated", BOOLEAN, ""), ("frames", FRAME, "a")]),
    (
        EXECUTION,
        "jdk.ExecutionSample",
        &[("startTime", LONG, "t"), ("sampledThread", THREAD, "c"), ("stackTrace", TRACE, "c")],
    ),
    (
        CPU_TIME,
        "jdk.CPUTimeSample",
        &[
            ("startTime", LONG, "t"),
            ("stackTrace", TRACE, "c"),
            ("eventThread", THREAD, "c"),
            ("samplingPeriod", LONG, "t"),
        ],
    ),
    (
        ALLOCATION,
        "jdk.ObjectAllocationSample",
        &[
            ("startTime", LONG, "t"),
            ("eventThread", THREAD, "c"),
            ("stackTrace", TRACE, "c"),
            ("weight", LONG, "b"),
        ],
    ),
    (
        WAIT,
        "jdk.JavaMonitorWait",
        &[
            ("startTime", LONG, "t"),
            ("duration", LONG, "t"),
            ("eventThread", THREAD, "c"),
            ("stackTrace", TRACE, "c"),
        ],
    ),
    (JVM, "jdk.JVMInformation", &[("startTime", LONG, "t"), ("javaArguments", TEXT, ""), ("pid", LONG, "")]),
    (LOST, "jdk.CPUTimeSamplesLost", &[("startTime", LONG, "t"), ("lostSamples", INT, "")]),
    (
        WALL,
        "profiler.WallClockSample",
        &[
            ("startTime", LONG, "t"),
            ("sampledThread", THREAD, "c"),
            ("stackTrace", TRACE, "c"),
            ("samples", INT, ""),
        ],
    ),
];

/// An element of the tree that the metadata is, with the texts that it names.
fn element(
    name: &str,
    attributes: &[(&str, &str)],
    children: &[Vec<u8>],
    texts: &mut Vec<String>,
) -> Vec<u8> {
    let mut index = |text: &str| {
        let at = texts.iter().position(|known| known == text).unwrap_or_else(|| {
            texts.push(text.to_owned());
            texts.len() - 1
        });
        at as i64
    };
    let mut out = Vec::new();
    number(index(name), &mut out);
    number(attributes.len() as i64, &mut out);
    for (key, value) in attributes {
        number(index(key), &mut out);
        number(index(value), &mut out);
    }
    number(children.len() as i64, &mut out);
    out.extend(children.concat());
    out
}

fn metadata(types: &[(i64, &str, &[FieldOf])]) -> Vec<u8> {
    let mut texts = Vec::new();
    let classes: Vec<Vec<u8>> = types
        .iter()
        .map(|(id, name, fields)| {
            let fields: Vec<Vec<u8>> = fields
                .iter()
                .map(|(name, class, kind)| {
                    let annotation = match *kind {
                        "t" => Some((TIMESPAN, "TICKS")),
                        "b" => Some((DATA_AMOUNT, "BYTES")),
                        _ => None,
                    };
                    let annotation = annotation.map(|(class, value)| {
                        let class = class.to_string();
                        element("annotation", &[("class", class.as_str()), ("value", value)], &[], &mut texts)
                    });
                    let class = class.to_string();
                    let mut attributes = vec![("name", *name), ("class", class.as_str())];
                    attributes.extend((*kind == "c").then_some(("constantPool", "true")));
                    attributes.extend((*kind == "a").then_some(("dimension", "1")));
                    element("field", &attributes, annotation.as_slice(), &mut texts)
                })
                .collect();
            let id = id.to_string();
            element("class", &[("id", id.as_str()), ("name", name)], &fields, &mut texts)
        })
        .collect();
    let tree = element("metadata", &[], &classes, &mut texts);
    let root = element("root", &[], &[tree], &mut texts);
    let mut contents = vec![0, 0, 0];
    number(texts.len() as i64, &mut contents);
    texts.iter().for_each(|known| text(known, &mut contents));
    contents.extend(root);
    event(0, &contents)
}

/// Constants of a type, by their keys.
fn pool(class: i64, values: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    number(class, &mut out);
    number(values.len() as i64, &mut out);
    for (key, value) in values {
        number(*key, &mut out);
        out.extend(value);
    }
    out
}

fn value(parts: &[Part<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        match part {
            Part::N(n) => number(*n, &mut out),
            Part::T(t) => text(t, &mut out),
        }
    }
    out
}

enum Part<'t> {
    N(i64),
    T(&'t str),
}
use Part::{N, T};

const SYMBOLS: &[&str] = &[
    "",
    "com/shop/Cart",
    "total",
    "Shop",
    "main",
    "java/lang/Thread",
    "run",
    "java.base",
    "java/lang",
    "memset",
    "com/shop",
    "Shop$$Lambda/0x00007f3a",
    "apply",
];

fn constants() -> Vec<u8> {
    let symbols = SYMBOLS.iter().enumerate().map(|(n, text)| (n as i64, value(&[T(text)])));
    let classes = [(1, 1, 1), (2, 3, 0), (3, 5, 2), (4, 11, 0), (5, 0, 0)];
    let methods = [(1, 1, 2), (2, 2, 4), (3, 3, 6), (4, 5, 9), (5, 4, 12)];
    // Innermost first: `memset` in `Cart.total`, below `main` or `run`, which a lambda is in between.
    let trace = |cut: i64, methods: &[(i64, i64)]| {
        let mut parts = vec![N(cut), N(methods.len() as i64)];
        methods.iter().for_each(|(method, kind)| parts.extend([N(*method), N(7), N(*kind)]));
        value(&parts)
    };
    let pools = [
        pool(SYMBOL, &symbols.collect::<Vec<_>>()),
        pool(MODULE, &[(1, value(&[N(7)]))]),
        pool(PACKAGE, &[(1, value(&[N(10), N(0)])), (2, value(&[N(8), N(1)]))]),
        pool(CLASS, &classes.map(|(key, name, package)| (key, value(&[N(name), N(package)])))),
        pool(METHOD, &methods.map(|(key, class, name)| (key, value(&[N(class), N(name)])))),
        pool(
            FRAME_TYPE,
            &[(1, value(&[T("JIT compiled")])), (2, value(&[T("Native")])), (3, value(&[T("Kernel")]))],
        ),
        pool(
            TRACE,
            &[
                (1, trace(0, &[(1, 1), (2, 1)])),
                (2, trace(0, &[(4, 2), (1, 1), (5, 1), (3, 1)])),
                (3, trace(1, &[(1, 1)])),
                (4, trace(0, &[(4, 3), (2, 1)])),
            ],
        ),
        pool(
            THREAD,
            &[(1, value(&[T("java"), N(71), T("main")])), (2, value(&[T("C2 CompilerThre"), N(72), T("")]))],
        ),
    ];
    let mut contents = vec![0, 0, 0, 1];
    number(pools.len() as i64, &mut contents);
    contents.extend(pools.concat());
    event(1, &contents)
}

/// A chunk that begins at this time in ns since 1970; a tick has 10 ns.
fn chunk(start_ns: i64, events: &[Vec<u8>]) -> Vec<u8> {
    chunk_of(start_ns, &[events, &[constants(), metadata(TYPES)]].concat())
}

fn chunk_of(start_ns: i64, events: &[Vec<u8>]) -> Vec<u8> {
    let body = events.concat();
    let mut out = b"FLR\0\0\x02\0\x01".to_vec();
    for word in [68 + body.len() as i64, 0, 0, start_ns, 0, 5_000, 100_000_000] {
        out.extend(word.to_be_bytes());
    }
    out.extend([0, 0, 0, 1]);
    out.extend(body);
    out
}

fn cpu(ticks: i64, trace: i64, thread: i64, period: i64) -> Vec<u8> {
    event(CPU_TIME, &value(&[N(ticks), N(trace), N(thread), N(period)]))
}

fn file() -> Vec<u8> {
    let first = [
        event(JVM, &value(&[N(5_000), T("shop.jar --port 80"), N(4711)])),
        cpu(6_000, 1, 1, 400_000),
        cpu(7_000, 2, 1, 400_000),
        cpu(8_000, 0, 2, 200_000),
        event(EXECUTION, &value(&[N(6_000), N(1), N(2)])),
        event(ALLOCATION, &value(&[N(6_000), N(1), N(1), N(1_050)])),
        event(ALLOCATION, &value(&[N(6_500), N(1), N(2), N(1 << 40)])),
        event(LOST, &value(&[N(9_000), N(3)])),
    ];
    let second = [
        cpu(5_100, 3, 1, 100_000),
        cpu(5_200, 4, 1, 100_000),
        event(WAIT, &value(&[N(5_000), N(30_000_000), N(1), N(2)])),
        event(WALL, &value(&[N(5_000), N(1), N(2), N(5)])),
        // Of a type that the metadata does not know.
        event(999, &[1, 2, 3]),
    ];
    [chunk(1_000_000_000, &first), chunk(1_000_100_000, &second)].concat()
}

fn read(bytes: &[u8]) -> Profile {
    parse_with(bytes, Path::new("x"), Wanted { timeline: true, sample_type: None }).unwrap()
}

#[test]
fn each_type_of_events_is_a_kind_of_samples_with_its_unit() {
    let file = file();
    for (kind, sum, samples) in [
        (None, "0.012 CPU s", 5),
        (Some("jdk.CPUTimeSample"), "0.012 CPU s", 5),
        (Some("jdk.ExecutionSample"), "1 sample of jdk.ExecutionSample", 1),
        (Some("jdk.ObjectAllocationSample"), "1,099,511,628,826 bytes of jdk.ObjectAllocationSample", 2),
        (Some("jdk.JavaMonitorWait"), "0.30 s of jdk.JavaMonitorWait", 1),
        (Some("profiler.WallClockSample"), "5 samples of profiler.WallClockSample", 5),
    ] {
        check("x", &file, kind, Want::Sum(sum, samples, "also in the file: "));
    }
    check("x", &file, Some("jdk.GC"), Want::Refused("no sample type \"jdk.GC\" in it; it has "));
    let losses = &read(&file).account.losses;
    assert!(losses.len() == 1 && losses[0].samples == 3, "{losses:?}");
}

#[test]
fn stacks_have_classes_modules_and_what_is_native() {
    let p = read(&file());
    let samples: Vec<(String, u64)> =
        own(&p).into_iter().map(|(name, weight)| (name, weight.cpu_ns())).collect();
    let wanted = [("[no stack]", 2_000_000), ("com.shop.Cart.total", 5_000_000), ("memset", 5_000_000)];
    assert_eq!(samples, wanted.map(|(name, ns)| (name.to_owned(), ns)));
    // Time in the kernel is system time.
    assert_eq!((p.total().user_ns, p.total().system_ns), (11_000_000, 1_000_000));
    let folded = pct_formats::export(&p, &p.cells, pct_formats::Format::Folded);
    let folded = String::from_utf8(folded).unwrap();
    assert!(
        folded.contains("java.lang.Thread.run;Shop$$Lambda.apply;com.shop.Cart.total;memset"),
        "{folded}"
    );
    let objects: Vec<(&str, bool)> = p
        .functions
        .iter()
        .map(|f| {
            (p.objects[f.object].path.as_str(), matches!(p.objects[f.object].kind, ObjectKind::Module(_)))
        })
        .collect();
    for object in
        [("java.base", true), ("com.shop", true), ("Shop", true), ("[native]", false), ("[kernel]", false)]
    {
        assert!(objects.contains(&object), "{object:?} {objects:?}");
    }
    assert_eq!(p.account.whole_stacks, 3);
    assert_eq!(p.account.cut_stacks.iter().map(|loss| loss.samples).sum::<u64>(), 1);
}

#[test]
fn chunks_are_one_profile_with_one_time_and_their_threads() {
    let p = read(&file());
    assert_eq!(
        (p.processes.len(), p.processes.iter().next().map(|p| (p.pid, p.name.clone()))),
        (1, Some((4711, "shop.jar".to_owned())))
    );
    let times: Vec<u64> = p.timeline.iter().map(|sample| sample.time_ns).collect();
    assert_eq!(times, [0, 10_000, 20_000, 91_000, 92_000]);
    let mut threads: Vec<(u32, &str)> =
        p.threads.iter().map(|thread| (thread.tid, thread.name.as_str())).collect();
    threads.retain(|thread| *thread != (0, ""));
    assert_eq!(threads, [(71, "main"), (72, "C2 CompilerThre")]);
}

#[test]
fn what_is_damaged_is_said_and_the_rest_is_read() {
    let whole = file();
    let first = chunk(1_000_000_000, &[cpu(6_000, 1, 1, 400_000)]);
    let with = |rest: &[u8]| [&first[..], rest].concat();
    for (name, bytes, want) in [
        ("other octets", with(b"rubbish"), Want::Sum("0.004 CPU s", 1, "7 octets that are no chunk")),
        (
            "a cut head",
            with(&whole[..40]),
            Want::Sum("0.004 CPU s", 1, "a head is cut short; what is before it"),
        ),
        (
            "a cut chunk",
            with(&first[..first.len() - 9]),
            Want::Sum("0.004 CPU s", 1, "what is before it was read"),
        ),
        ("no metadata", chunk_of(0, &[cpu(6_000, 1, 1, 4)]), Want::Refused("without a readable description")),
        ("no event", chunk(0, &[]), Want::Refused("no event with a stack among its 2 events")),
        ("version 0", b"FLR\0\0\x00\0\x01".repeat(20), Want::Refused("version 0 of Flight Recorder's files")),
        ("only a magic", b"FLR\0".to_vec(), Want::Refused("a head is cut short")),
    ] {
        check(name, &bytes, None, want);
    }
    // An event of no octets would be read for ever.
    check(
        "an empty event",
        &chunk(0, &[cpu(1, 1, 1, 9), vec![0; 8]]),
        None,
        Want::Refused("readable description"),
    );
}

#[test]
fn types_that_contain_themselves_are_not_read() {
    let endless: &[(i64, &str, &[FieldOf])] = &[
        (TEXT, "java.lang.String", &[]),
        (40, "a", &[("b", 41, ""), ("c", 41, "")]),
        (41, "b", &[("a", 40, "")]),
        (42, "wide", &[("x", 43, "a"), ("stackTrace", 43, "")]),
        (43, "empty", &[]),
    ];
    let mut contents = vec![0, 0, 0, 1, 3];
    for class in [40, 42, 43] {
        contents.extend(pool(class, &[(1, vec![0x7f; 40])]));
    }
    let bytes = chunk_of(0, &[event(42, &[0x7f; 200]), event(1, &contents), metadata(endless)]);
    assert!(parse(&bytes, Path::new("x")).is_err());
}

proptest! {
    #[test]
    fn damage_is_an_error_or_a_part(
        at in 0usize..4_000,
        octets in prop::collection::vec(any::<u8>(), 0..6),
        cut in any::<bool>(),
    ) {
        let mut bytes = file();
        let at = at % bytes.len();
        let end = (at + octets.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&octets[..end - at]);
        if cut {
            bytes.truncate(end);
        }
        let _ = parse(&bytes, Path::new("x"));
    }
}
