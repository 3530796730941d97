//! Writes recordings of Java Flight Recorder, for tests of what reads them.

use FieldValue::{N, T};

/// What stands in a field of an event or constant.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'t> {
    /// A number, or the key of a constant.
    N(i64),
    /// A text.
    T(&'t str),
}

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

/// An event of a type, whose size has more octets than it needs.
#[must_use]
pub fn event(class: i64, contents: &[u8]) -> Vec<u8> {
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
/// The type of text.
pub const TEXT: i64 = 13;
const THREAD: i64 = 20;
const SYMBOL: i64 = 21;
const CLASS: i64 = 22;
const METHOD: i64 = 23;
const FRAME: i64 = 24;
/// The type of stacks.
pub const TRACE: i64 = 25;
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
pub type FieldOf = (&'static str, i64, &'static str);

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

/// The description of these types: id, name, fields.
#[must_use]
pub fn metadata(types: &[(i64, &str, &[FieldOf])]) -> Vec<u8> {
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
#[must_use]
pub fn pool(class: i64, values: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    number(class, &mut out);
    number(values.len() as i64, &mut out);
    for (key, value) in values {
        number(*key, &mut out);
        out.extend(value);
    }
    out
}

/// The fields of an event or constant.
#[must_use]
pub fn value(parts: &[FieldValue<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        match part {
            N(n) => number(*n, &mut out),
            T(t) => text(t, &mut out),
        }
    }
    out
}

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
#[must_use]
pub fn chunk(start_ns: i64, events: &[Vec<u8>]) -> Vec<u8> {
    chunk_of(start_ns, &[events, &[constants(), metadata(TYPES)]].concat())
}

/// A chunk of these events alone.
#[must_use]
pub fn chunk_of(start_ns: i64, events: &[Vec<u8>]) -> Vec<u8> {
    let body = events.concat();
    let mut out = b"FLR\0\0\x02\0\x01".to_vec();
    for word in [68 + body.len() as i64, 0, 0, start_ns, 0, 5_000, 100_000_000] {
        out.extend(word.to_be_bytes());
    }
    out.extend([0, 0, 0, 1]);
    out.extend(body);
    out
}

/// A sample of CPU time; a tick has 10 ns.
#[must_use]
pub fn cpu(ticks: i64, trace: i64, thread: i64, period: i64) -> Vec<u8> {
    event(CPU_TIME, &value(&[N(ticks), N(trace), N(thread), N(period)]))
}

/// A recording of two chunks with each kind of events: 12 ms of CPU time in `Shop.main` and what it calls, and 3 lost
/// samples.
#[must_use]
pub fn file() -> Vec<u8> {
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
