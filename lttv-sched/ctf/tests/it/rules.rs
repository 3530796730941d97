//! The rules of the CTF specification sheet, each with its own trace. A test's name starts with its rule.

use std::path::Path;

use crate::common::{drain, put, scope};
use lttv_ctf::model::Scope;
use lttv_ctf::{EventTime, OpenError, Options, Reader, Trace, open, open_all, open_each};
use lttv_engine::source::LossKind;
use serde_json::{Value, json};

const LE: &str = "trace { major = 1; minor = 8; byte_order = le; };\n";
const U: &str = "typealias integer { size = 8; } := u8; typealias integer { size = 16; } := u16; typealias integer { size = 32; } := u32; typealias integer { size = 64; } := u64;\n";

fn tsdl(rest: &str) -> String {
    format!("/* CTF 1.8 */\n{LE}{U}{rest}")
}

fn made(dir: &Path, metadata: &str, streams: &[(&str, &[u8])]) -> Trace {
    put(dir, metadata.as_bytes(), streams);
    open(dir, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{metadata}"))
}

fn refused(metadata: &str) -> String {
    let tmp = tempfile::tempdir().unwrap();
    put(tmp.path(), metadata.as_bytes(), &[]);
    match open(tmp.path(), &Options::default()) {
        Err(e @ OpenError::Metadata { .. }) => e.to_string(),
        other => panic!("{other:?}\n{metadata}"),
    }
}

/// Payloads of all events of a stream, and the error that ended it.
fn payloads(r: &mut Reader) -> (Vec<Value>, Option<String>) {
    let (mut out, mut next) = (Vec::new(), r.rewind());
    loop {
        match next {
            Ok(Some(_)) => out.push(scope(r, Scope::Payload)),
            Ok(None) => return (out, None),
            Err(e) => return (out, Some(e.to_string())),
        }
        next = r.advance();
    }
}

fn times(r: &mut Reader) -> Vec<EventTime> {
    let (mut out, mut next) = (Vec::new(), r.rewind().unwrap());
    while let Some(h) = next {
        out.push(h.time);
        next = r.advance().unwrap();
    }
    out
}

/// One event `e` with these fields over these bytes.
fn one(fields: &str, bytes: &[u8]) -> (Vec<Value>, Option<String>) {
    let tmp = tempfile::tempdir().unwrap();
    let t = made(
        tmp.path(),
        &tsdl(&format!("event {{ name = e; fields := struct {{ {fields} }}; }};")),
        &[("s", bytes)],
    );
    payloads(&mut t.reader(0))
}

/// A packet of a stream with the context `ctx` below.
struct P {
    begin: u64,
    end: u64,
    seq: u64,
    lost: u64,
    instance: u64,
    events: Vec<(u64, u8)>,
}

const STREAM: &str = "trace { major = 1; minor = 8; byte_order = le; uuid = \"00010203-0405-0607-0809-0a0b0c0d0e0f\";\n\
    packet.header := struct { u32 magic; u8 uuid[16]; u64 stream_instance_id; }; };\n\
    clock { name = monotonic; };\n\
    typealias integer { size = 64; map = clock.monotonic.value; } := t64;\n\
    stream { packet.context := struct { u32 packet_size; u32 content_size; t64 timestamp_begin; t64 timestamp_end; u64 packet_seq_num; u64 events_discarded; };\n\
    event.header := struct { t64 timestamp; }; };\n\
    event { name = e; fields := struct { u8 n; }; };\n";

fn stream_metadata() -> String {
    format!("/* CTF 1.8 */ {U}{STREAM}")
}

fn packets(all: &[P]) -> Vec<u8> {
    let mut out = Vec::new();
    for p in all {
        let size = (4 + 16 + 8 + 4 + 4 + 32 + p.events.len() * 9) as u32;
        out.extend(0xC1FC_1FC1u32.to_le_bytes());
        out.extend(0..16u8);
        out.extend(p.instance.to_le_bytes());
        out.extend((size * 8 + 64).to_le_bytes());
        out.extend((size * 8).to_le_bytes());
        [p.begin, p.end, p.seq, p.lost].iter().for_each(|v| out.extend(v.to_le_bytes()));
        for (t, n) in &p.events {
            out.extend(t.to_le_bytes());
            out.push(*n);
        }
        out.extend([0xEE; 8]);
    }
    out
}

fn p(seq: u64, begin: u64, events: &[(u64, u8)]) -> P {
    P { begin, end: events.last().map_or(begin, |e| e.0), seq, lost: 0, instance: 3, events: events.to_vec() }
}

fn ns(t: &Trace) -> Vec<i64> {
    times(&mut t.reader(0))
        .into_iter()
        .map(|t| if let EventTime::Ns(t) = t { t } else { panic!("{t:?}") })
        .collect()
}

#[test]
fn a_text_of_no_bytes_is_empty_and_takes_nothing_from_the_next() {
    let fields = "string a; integer { size = 8; encoding = UTF8; } b[0]; string c;";
    assert_eq!(one(fields, b"x\0y\0"), (vec![json!({ "a": "x", "b": "", "c": "y" })], None));
}

#[test]
fn c_d1_traces_below_a_directory_are_found() {
    let tmp = tempfile::tempdir().unwrap();
    let m = tsdl("event { name = e; fields := struct { u8 n; }; };");
    for d in ["kernel", "ust/uid/0/64-bit", "archives/1/kernel"] {
        put(&tmp.path().join(d), m.as_bytes(), &[("s", &[1, 2])]);
    }
    std::fs::create_dir_all(tmp.path().join("kernel/index")).unwrap();
    assert_eq!(open_all(tmp.path(), &Options::default()).unwrap().len(), 3);
    assert!(matches!(
        open_each(&tmp.path().join("kernel/index"), &Options::default()),
        Err(OpenError::NoTrace { .. })
    ));
}

#[test]
fn c_d2_hidden_empty_and_index_files_are_no_streams_and_none_is_no_error() {
    let tmp = tempfile::tempdir().unwrap();
    let m = tsdl("event { name = e; fields := struct { u8 n; }; };");
    std::fs::create_dir_all(tmp.path().join("index")).unwrap();
    let t = made(tmp.path(), &m, &[(".hidden", &[1]), ("empty", &[]), ("index/s.idx", &[1, 2])]);
    assert_eq!(t.stream_count(), 0);
    let t = made(tmp.path(), &m, &[("s", &[5])]);
    assert_eq!(payloads(&mut t.reader(0)).0, [json!({"n": 5})]);
}

#[test]
fn c_d3_files_of_one_instance_are_one_stream_in_order_of_begin() {
    let tmp = tempfile::tempdir().unwrap();
    let (a, b) = (
        packets(&[p(0, 10, &[(11, 0)]), p(3, 40, &[(41, 3)])]),
        packets(&[p(1, 20, &[(21, 1)]), p(2, 30, &[(31, 2)])]),
    );
    let other = packets(&[P { instance: 4, ..p(0, 1, &[(2, 9)]) }]);
    let t = made(tmp.path(), &stream_metadata(), &[("x_0", &a), ("x_1", &b), ("y", &other)]);
    assert_eq!(t.stream_count(), 2);
    assert_eq!(ns(&t), [11, 21, 31, 41]);
}

#[test]
fn c_d4_chunks_with_one_uuid_are_one_trace_and_a_packet_twice_counts_once() {
    let tmp = tempfile::tempdir().unwrap();
    let m = stream_metadata();
    let (first, second) = (p(0, 10, &[(11, 0)]), p(1, 20, &[(21, 1)]));
    put(&tmp.path().join("1"), m.as_bytes(), &[("s", &packets(&[first]))]);
    put(&tmp.path().join("2"), m.as_bytes(), &[("s", &packets(&[p(0, 10, &[(11, 0)]), second]))]);
    let all = open_all(tmp.path(), &Options::default()).unwrap();
    assert_eq!((all.len(), all[0].dirs().len()), (1, 2));
    assert_eq!(ns(&all[0]), [11, 21]);
}

#[test]
fn c_t1_unknown_attributes_are_skipped_with_a_warning() {
    let tmp = tempfile::tempdir().unwrap();
    let t = made(
        tmp.path(),
        &tsdl("event { name = e; shade = dark; fields := struct { integer { size = 8; hue = 3; } n; }; };"),
        &[("s", &[7])],
    );
    assert_eq!(t.diagnostics.len(), 2);
    assert_eq!(payloads(&mut t.reader(0)).0, [json!({"n": 7})]);
}

#[test]
fn c_t3_types_must_be_defined_before_in_their_own_or_an_enclosing_scope() {
    assert!(
        refused(&tsdl("event { name = e; fields := struct { late n; }; }; typealias u8 := late;"))
            .contains("late")
    );
    assert!(refused(&tsdl("event { name = e; context := struct { typealias u8 := inner; inner n; }; fields := struct { inner n; }; };")).contains("inner"));
    let (v, e) = one("typealias u16 := w; struct { w a; } s;", &[1, 2]);
    assert_eq!((v, e), (vec![json!({"s": {"a": 0x201}})], None));
}

#[test]
fn c_t4_text_ends_at_its_first_zero_or_its_length() {
    let text = "integer { size = 8; encoding = UTF8; }";
    let (v, e) = one(&format!("u8 n; {text} a[4]; {text} b[n]; {text} c[0];"), b"\x03ab\0Xabc");
    assert_eq!((v, e), (vec![json!({"n": 3, "a": "ab", "b": "abc", "c": ""})], None));
}

#[test]
fn c_t5_lengths_are_found_in_outer_structures_earlier_scopes_and_by_path() {
    let tmp = tempfile::tempdir().unwrap();
    let m = tsdl(
        "stream { packet.context := struct { u8 k; }; event.header := struct { u8 h; }; event.context := struct { u8 c; }; };
         event { name = e; context := struct { u8 x; }; fields := struct { u8 f;
           struct { u8 a[f]; u8 b[k]; u8 c2[stream.event.header.h]; u8 d[event.context.x]; u8 e[stream.event.context.c]; u8 g[event.fields.f]; } s; }; };",
    );
    let t = made(tmp.path(), &m, &[("s", &[1, 2, 1, 1, 2, 10, 11, 20, 30, 31, 40, 50, 60, 61])]);
    let (v, e) = payloads(&mut t.reader(0));
    assert_eq!(e, None);
    assert_eq!(
        v,
        [
            json!({"f": 2, "s": {"a": [10, 11], "b": [20], "c2": [30, 31], "d": [40], "e": [50], "g": [60, 61]}})
        ]
    );
}

#[test]
fn c_t6_one_underscore_is_stripped_and_labels_keep_their_text() {
    let (v, e) =
        one("enum : u8 { _P = 0, __P = 1 } ___tag; variant <___tag> { u8 _P; u16 __P; } __v;", &[1, 5, 6]);
    assert_eq!(e, None);
    // The naive comparison leaves tags out by name: `__tag` ends in `_tag`.
    assert_eq!(v, [json!({"_v": 0x605})]);
}

#[test]
fn c_p1_a_bad_packet_ends_the_stream_after_the_events_before_it() {
    for (at, v, what) in [(0, 0u8, "magic"), (28, 1, "packet size"), (32, 0xFF, "content")] {
        let tmp = tempfile::tempdir().unwrap();
        let mut b = packets(&[p(0, 10, &[(11, 0), (12, 1)]), p(1, 20, &[(21, 2)])]);
        let second = 4 + 16 + 8 + 8 + 32 + 2 * 9 + 8;
        b[second + at] = v;
        if at == 32 {
            b[second + at + 3] = v;
        }
        let t = made(tmp.path(), &stream_metadata(), &[("s", &b)]);
        let (v, e) = payloads(&mut t.reader(0));
        let e = e.unwrap();
        assert_eq!(v.len(), 2, "{what}");
        assert!(e.contains(what) && e.contains(&format!("packet 1 at byte {second}")), "{what}: {e}");
        // In strict mode the trace does not open.
        let strict = open(tmp.path(), &Options { strict: true, ..Options::default() });
        assert!(matches!(strict, Err(OpenError::Stream(_))), "{what}");
    }
}

#[test]
fn packets_of_another_uuid_are_read_with_a_word_and_refused_in_strict_mode() {
    let tmp = tempfile::tempdir().unwrap();
    let mut b = packets(&[p(0, 10, &[(11, 0), (12, 1)]), p(1, 20, &[(21, 2)])]);
    b[4 + 16 + 8 + 8 + 32 + 2 * 9 + 8 + 4] = 9;
    let t = made(tmp.path(), &stream_metadata(), &[("s", &b)]);
    let (v, e) = payloads(&mut t.reader(0));
    assert_eq!((v.len(), e), (3, None));
    let told: Vec<&str> = t.diagnostics.iter().map(|d| d.what.as_str()).collect();
    assert!(matches!(told[..], [told] if told.starts_with("packet 1 belongs to trace 0901")), "{told:?}");
    let strict = open(tmp.path(), &Options { strict: true, ..Options::default() });
    assert!(matches!(strict, Err(OpenError::Stream(_))));
}

#[test]
fn c_p2_one_size_stands_for_both_and_none_for_the_file() {
    let tmp = tempfile::tempdir().unwrap();
    let m = |name: &str| {
        tsdl(&format!(
            "stream {{ packet.context := struct {{ u16 {name}; }}; }}; event {{ name = e; fields := struct {{ u8 n; }}; }};"
        ))
    };
    for name in ["packet_size", "content_size"] {
        let t = made(&tmp.path().join(name), &m(name), &[("s", &[32, 0, 1, 2, 24, 0, 3])]);
        assert_eq!(t.stream(0).packets, 2);
        assert_eq!(payloads(&mut t.reader(0)).0.len(), 3);
    }
    let t = made(&tmp.path().join("none"), &m("x"), &[("s", &[32, 0, 1, 2, 24, 0, 3])]);
    assert_eq!((t.stream(0).packets, payloads(&mut t.reader(0)).0.len()), (1, 5));
}

#[test]
fn c_p3_of_a_packet_longer_than_its_file_the_whole_events_are_delivered() {
    let tmp = tempfile::tempdir().unwrap();
    let b = packets(&[p(0, 10, &[(11, 0), (12, 1), (13, 2)])]);
    let t = made(tmp.path(), &stream_metadata(), &[("s", &b[..b.len() - 8 - 12])]);
    let (v, e) = payloads(&mut t.reader(0));
    assert_eq!(v, [json!({"n": 0})]);
    assert!(e.unwrap().contains("truncated"));
}

#[test]
fn c_p4_a_field_never_reads_padding_or_the_next_packet() {
    let tmp = tempfile::tempdir().unwrap();
    let m = tsdl(
        "stream { packet.context := struct { u16 packet_size; u16 content_size; }; }; event { name = e; fields := struct { u32 n; }; };",
    );
    let t = made(tmp.path(), &m, &[("s", &[96, 0, 80, 0, 1, 0, 0, 0, 2, 0, 0, 0])]);
    let (v, e) = payloads(&mut t.reader(0));
    assert_eq!(v, [json!({"n": 1})]);
    assert!(e.unwrap().contains("end of the packet's content"));
}

#[test]
fn c_e1_compact_and_extended_headers() {
    let tmp = tempfile::tempdir().unwrap();
    let m = tsdl(
        "clock { name = monotonic; };
         stream { event.header := struct { enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
           variant <id> { struct { integer { size = 27; align = 1; map = clock.monotonic.value; } timestamp; } compact;
             struct { u32 id; integer { size = 64; map = clock.monotonic.value; } timestamp; } extended; } v; } align(8); };
         event { name = a; id = 3; fields := struct { u8 n; }; };
         event { name = b; id = 1000; fields := struct { u16 n; }; };",
    );
    let compact = |id: u32, t: u32| (id | t << 5).to_le_bytes();
    let mut b = Vec::new();
    b.extend(compact(3, 100));
    b.push(1);
    // Extended: the rest of the first byte is padding before the byte-aligned structure.
    b.push(31);
    b.extend(1000u32.to_le_bytes());
    b.extend((1u64 << 40 | 200).to_le_bytes());
    b.extend([2, 0]);
    b.extend(compact(3, 300));
    b.push(3);
    b.extend(compact(3, 5));
    b.push(4);
    let t = made(tmp.path(), &m, &[("s", &b)]);
    assert_eq!(
        payloads(&mut t.reader(0)),
        (vec![json!({"n": 1}), json!({"n": 2}), json!({"n": 3}), json!({"n": 4})], None)
    );
    let base = 1i64 << 40;
    // C-K2: the last one is lower than the one before, so the 27 bits have wrapped once.
    assert_eq!(ns(&t), [100, base | 200, base | 300, base + (1 << 27) + 5]);
}

#[test]
fn c_k1_a_time_that_does_not_fit_is_an_error_value_of_that_event() {
    let tmp = tempfile::tempdir().unwrap();
    let m = tsdl(
        "clock { name = c; freq = 1000; offset_s = 1; offset = 2500; };
         stream { event.header := struct { integer { size = 64; map = clock.c.value; } timestamp; }; };
         event { name = e; fields := struct { u8 n; }; };",
    );
    let mut b = Vec::new();
    for v in [7u64, u64::MAX / 2] {
        b.extend(v.to_le_bytes());
        b.push(0);
    }
    let t = made(tmp.path(), &m, &[("s", &b)]);
    assert_eq!(times(&mut t.reader(0)), [EventTime::Ns(3_507_000_000), EventTime::Overflow]);
}

#[test]
fn c_k3_an_integer_mapped_in_the_payload_moves_the_clock_and_two_clocks_are_refused() {
    let tmp = tempfile::tempdir().unwrap();
    let m = "clock { name = c; }; event { name = e; fields := struct { u8 n; integer { size = 16; map = clock.c.value; } t; }; };";
    let t = made(tmp.path(), &tsdl(m), &[("s", &[1, 10, 0, 2, 20, 0])]);
    assert_eq!(ns(&t), [10, 20]);
    let two = m
        .replace("clock { name = c; };", "clock { name = c; }; clock { name = d; };")
        .replace("u8 n;", "integer { size = 8; map = clock.d.value; } n;");
    assert!(refused(&tsdl(&two)).contains("different clocks"));
}

#[test]
fn c_k4_without_a_clock_events_have_no_time() {
    let tmp = tempfile::tempdir().unwrap();
    let t = made(tmp.path(), &tsdl("event { name = e; fields := struct { u8 n; }; };"), &[("s", &[1])]);
    let mut r = t.reader(0);
    assert_eq!(times(&mut r), [EventTime::Untimed]);
    assert_eq!(r.seek_time(0).unwrap(), None);
    assert_eq!(t.stream_span(0), None);
}

/// Two events `e` of these headers, 9 bytes each: what they are and when.
fn two_events(metadata: &str) -> (Vec<i64>, Vec<String>) {
    let tmp = tempfile::tempdir().unwrap();
    let events = "event { name = e; id = 1; }; event { name = f; id = 2; };";
    let mut bytes = Vec::new();
    for (id, time) in [(1u8, 1000u64), (2, 2000)] {
        bytes.push(id);
        bytes.extend(time.to_le_bytes());
    }
    let t = made(tmp.path(), &tsdl(&format!("{metadata}{events}")), &[("s", &bytes)]);
    let mut r = t.reader(0);
    let (mut times, mut names, mut next) = (Vec::new(), Vec::new(), r.rewind().unwrap());
    while let Some(head) = next {
        times.extend(if let EventTime::Ns(ns) = head.time { Some(ns) } else { None });
        names.push(r.class().expect("a class").name.clone());
        next = r.advance().unwrap();
    }
    (times, names)
}

#[test]
fn c_k4_fields_called_timestamp_are_times_where_one_clock_or_none_is_told() {
    let header = |fields: &str| format!("stream {{ event.header := struct {{ {fields} }}; }};");
    let plain = header("u8 id; u64 timestamp;");
    let variant = header(
        "enum : integer { size = 8; } { a = 1, b = 2 } id; variant <id> { struct { u64 timestamp; } a; struct { u64 timestamp; } b; } w;",
    );
    let milli = "clock { name = c; freq = 1000; };";
    for (metadata, times) in [
        (plain.clone(), vec![1000, 2000]),
        (format!("{milli}{plain}"), vec![1_000_000_000, 2_000_000_000]),
        (format!("{milli}{variant}"), vec![1_000_000_000, 2_000_000_000]),
        (variant, vec![1000, 2000]),
        (header("struct { u8 id; u64 timestamp; } h;"), vec![1000, 2000]),
        // What has a sign is no count of a clock, and of two clocks it could be either's.
        (header("u8 id; integer { size = 64; signed = true; } timestamp;"), vec![]),
        (format!("{milli}clock {{ name = d; }};{plain}"), vec![]),
    ] {
        let names = ["e", "f"].map(str::to_owned).to_vec();
        assert_eq!(two_events(&metadata), (times, names), "{metadata}");
    }
}

#[test]
fn c_e1_an_id_stands_in_any_variant_of_the_header() {
    let header =
        "stream { event.header := struct { enum : integer { size = 8; } { none = 0, extended = 31 } id;
        variant <id> { struct { u8 x; } none; struct { u32 id; u32 rest; } extended; } w; }; };";
    let tmp = tempfile::tempdir().unwrap();
    let m = tsdl(&format!("{header} event {{ name = e; id = 0; }}; event {{ name = f; id = 1000; }};"));
    let t = made(tmp.path(), &m, &[("s", &[0, 7, 31, 0xe8, 3, 0, 0, 0, 0, 0, 0])]);
    let mut r = t.reader(0);
    r.rewind().unwrap().expect("an event");
    assert_eq!(r.class().expect("a class").name, "e");
    r.advance().unwrap().expect("an event");
    assert_eq!(r.class().expect("a class").name, "f");
}

#[test]
fn c_k2_events_of_packets_that_tell_one_bound_are_at_it_or_in_the_cycles_before_their_end() {
    let clock = "clock { name = c; }; typealias integer { size = 64; map = clock.c.value; } := t64;";
    let low = "integer { size = 8; map = clock.c.value; }";
    for (bound, header, events, expected) in [
        // Whole packets at their end, at their begin, and at their begin without a mapping.
        ("t64 timestamp_end;", "", [[1, 2], [3, 4]], [0x1234, 0x1234, 0x2345, 0x2345]),
        ("t64 timestamp_begin;", "", [[1, 2], [3, 4]], [0x1234, 0x1234, 0x2345, 0x2345]),
        ("u64 timestamp_begin;", "", [[1, 2], [3, 4]], [0x1234, 0x1234, 0x2345, 0x2345]),
        // The low octet of a time: not later than the end, and less than 256 before it.
        ("t64 timestamp_end;", low, [[0xf0, 0x20], [0x46, 0x45]], [0x11f0, 0x1220, 0x2246, 0x2345]),
    ] {
        let header = if header.is_empty() {
            String::new()
        } else {
            format!("event.header := struct {{ {header} timestamp; }};")
        };
        let m = tsdl(&format!(
            "{clock} stream {{ packet.context := struct {{ u32 packet_size; u32 content_size; {bound} }}; {header} }};
             event {{ name = e; {} }};",
            if header.is_empty() { "fields := struct { u8 n; };" } else { "" }
        ));
        let mut bytes = Vec::new();
        for (end, octets) in [(0x1234u64, events[0]), (0x2345, events[1])] {
            let bits = (4 + 4 + 8 + 2) * 8u32;
            bytes.extend(bits.to_le_bytes());
            bytes.extend(bits.to_le_bytes());
            bytes.extend(end.to_le_bytes());
            bytes.extend(octets);
        }
        let tmp = tempfile::tempdir().unwrap();
        let t = made(tmp.path(), &m, &[("s", &bytes)]);
        assert_eq!(ns(&t), expected, "{m}");
    }
}

#[test]
fn c_l1_and_l2_lost_events_are_differences_and_a_counter_that_goes_back_is_unknown() {
    let tmp = tempfile::tempdir().unwrap();
    let with = |seq, lost| P { lost, ..p(seq, 10 * (seq + 1), &[(10 * (seq + 1) + 1, 0)]) };
    let of = |all: &[P]| {
        let t = made(tmp.path(), &stream_metadata(), &[("s", &packets(all))]);
        t.stream(0).losses.iter().map(|l| (l.kind, l.count, l.from, l.to)).collect::<Vec<_>>()
    };
    use LossKind::{Events, Packets};
    let got = of(&[with(0, 5), with(1, 5), with(2, 9), with(3, 2), with(4, 3)]);
    assert_eq!(
        got,
        [
            (Events, None, Some(10), Some(11)),
            (Events, Some(4), Some(21), Some(31)),
            (Events, None, Some(31), Some(41)),
            (Events, Some(1), Some(41), Some(51))
        ]
    );
    // A single 0 is no reset if the count then continues.
    let counts = |all: &[P]| of(all).iter().map(|l| l.1).collect::<Vec<_>>();
    assert_eq!(counts(&[with(0, 0), with(1, 9), with(2, 0), with(3, 12)]), [Some(9), None, Some(3)]);
    // Packets 2 and 3 are missing. A first number other than 0 is no loss.
    let got = of(&[with(1, 0), with(4, 0)]);
    assert_eq!(got, [(Packets, Some(2), Some(21), Some(50))]);
}

#[test]
fn c_l2_a_narrow_counter_wraps() {
    let tmp = tempfile::tempdir().unwrap();
    let m = tsdl(
        "stream { packet.context := struct { u8 packet_size; u8 events_discarded; }; }; event { name = e; fields := struct { u8 n; }; };",
    );
    let t = made(tmp.path(), &m, &[("s", &[24, 0, 1, 24, 250, 1, 24, 4, 1])]);
    assert_eq!(t.stream(0).losses.iter().map(|l| l.count).collect::<Vec<_>>(), [Some(250), Some(10)]);
}

#[test]
fn quirks_an_end_of_zero_or_before_the_last_event_does_not_hide_events_from_seeks() {
    let tmp = tempfile::tempdir().unwrap();
    let all = [
        P { end: 0, ..p(0, 10, &[(11, 0), (19, 1)]) },
        // Events after the end, and one before the begin of its packet.
        P { end: 25, ..p(1, 20, &[(21, 2), (29, 3)]) },
        P { begin: 31, end: 0, ..p(2, 31, &[(30, 4), (39, 5)]) },
    ];
    let t = made(tmp.path(), &stream_metadata(), &[("s", &packets(&all))]);
    let every = ns(&t);
    let mut r = t.reader(0);
    for from in 0..42 {
        let want = every.iter().copied().find(|t| *t >= from);
        let got = r.seek_time(from).unwrap().map(|h| h.time);
        assert_eq!(got, want.map(EventTime::Ns), "from {from}");
    }
    assert_eq!(t.stream_span(0), Some((11, 39)));
    // The last packet does not give its end, so the bounds are those of the events.
    assert_eq!(t.stream_bounds(0), Some((11, 39)));
    let t = made(
        &tmp.path().join("b"),
        &stream_metadata(),
        &[("s", &packets(&[P { end: 50, ..p(0, 10, &[(11, 0)]) }]))],
    );
    assert_eq!((t.stream_span(0), t.stream_bounds(0)), (Some((11, 11)), Some((11, 50))));
}

fn index(entries: &[(u64, &P)]) -> Vec<u8> {
    let mut b: Vec<u8> = [0xC1F1_DCC1u32, 1, 1, 72].iter().flat_map(|w| w.to_be_bytes()).collect();
    for (at, p) in entries {
        let content = (4 + 16 + 8 + 8 + 32 + p.events.len() as u64 * 9) * 8;
        let words = [*at, content + 64, content, p.begin, p.end, p.lost, 0, p.instance, p.seq];
        b.extend(words.iter().flat_map(|w| w.to_be_bytes()));
    }
    b
}

#[test]
fn c_i1_and_i2_a_damaged_index_is_ignored_with_a_diagnostic_and_changes_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let all = [p(0, 10, &[(11, 0), (12, 1)]), p(1, 20, &[(21, 2)]), p(4, 30, &[(31, 3)])];
    let b = packets(&all);
    let size = |p: &P| 4 + 16 + 8 + 8 + 32 + p.events.len() as u64 * 9 + 8;
    let good = index(&[(0, &all[0]), (size(&all[0]), &all[1]), (size(&all[0]) + size(&all[1]), &all[2])]);
    std::fs::create_dir_all(tmp.path().join("index")).unwrap();
    let show = |t: &Trace| format!("{:?} {:?} {:?}", payloads(&mut t.reader(0)), ns(t), t.stream(0).losses);
    let with = made(tmp.path(), &stream_metadata(), &[("s", &b), ("index/s.idx", &good)]);
    assert!(with.diagnostics.is_empty(), "{:?}", with.diagnostics);
    let without = open(tmp.path(), &Options { no_index: true, ..Options::default() }).unwrap();
    assert_eq!(show(&with), show(&without));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0xFF;
        std::fs::write(tmp.path().join("index/s.idx"), &bad).unwrap();
        let t = open(tmp.path(), &Options::default()).unwrap();
        // Times, losses and ids are hints that no check can refuse. The events that are read must not change.
        assert_eq!(payloads(&mut t.reader(0)), payloads(&mut without.reader(0)), "byte {at}");
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error_of_that_stream() {
    let tmp = tempfile::tempdir().unwrap();
    let b = packets(&[p(0, 10, &[(11, 0)]), p(1, 20, &[(21, 1)])]);
    let t = made(tmp.path(), &stream_metadata(), &[("s", &b)]);
    let mut r = t.reader(0);
    assert!(r.rewind().unwrap().is_some());
    std::fs::OpenOptions::new().write(true).open(tmp.path().join("s")).unwrap().set_len(100).unwrap();
    let e = r.advance().unwrap_err();
    assert!(e.to_string().contains("bytes long when the trace was opened"), "{e}");
    assert_eq!(r.head(), None);
}

#[test]
fn bad_metadata_packets_do_not_open() {
    let tmp = tempfile::tempdir().unwrap();
    let mut b = 0x75D1_1D57u32.to_le_bytes().to_vec();
    b.extend([0; 40]);
    put(tmp.path(), &b, &[]);
    let e = open(tmp.path(), &Options::default()).unwrap_err();
    assert!(matches!(e, OpenError::Container { packet: 0, at: 0, .. }), "{e}");
    assert_eq!(drain(tmp.path(), 10).1.len(), 1);
}

#[test]
fn selectors_whose_field_was_not_decoded_are_an_error() {
    let tmp = tempfile::tempdir().unwrap();
    let u8f = json!({"type": "fixed-length-unsigned-integer", "length": 8, "alignment": 8, "byte-order": "little-endian"});
    let fields = json!({"type": "structure", "member-classes": [
        {"name": "has", "field-class": {"type": "fixed-length-boolean", "length": 8, "alignment": 8, "byte-order": "little-endian"}},
        {"name": "n", "field-class": {"type": "optional", "selector-field-location": {"path": ["has"]}, "field-class": u8f}},
        {"name": "a", "field-class": {"type": "dynamic-length-array", "length-field-location": {"path": ["n"]}, "element-field-class": u8f}}]});
    let all = [
        json!({"type": "preamble", "version": 2}),
        json!({"type": "data-stream-class"}),
        json!({"type": "event-record-class", "name": "e", "payload-field-class": fields}),
    ];
    let m: String = all.iter().map(|f| format!("\x1e{f}\n")).collect();
    // The second event's optional is off. The first one's length must not be used for it.
    let t = made(tmp.path(), &m, &[("s", &[1, 2, 10, 11, 0, 9, 9])]);
    let (v, e) = payloads(&mut t.reader(0));
    assert_eq!(v, [json!({"has": true, "n": 2, "a": [10, 11]})]);
    assert!(e.unwrap().contains("not decoded"));
}

#[test]
fn a_cpu_that_events_say_themselves_is_theirs_also_after_a_seek() {
    let tmp = tempfile::tempdir().unwrap();
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; };
        stream { event.header := struct { integer { size = 8; } id; integer { size = 8; map = clock.c.value; } t; }; };
        event { name = a; id = 0; fields := struct { integer { size = 8; } perf_cpu; integer { size = 8; } cpu_id; }; };
        event { name = b; id = 1; fields := struct { integer { size = 8; } n; }; };
        event { name = c; id = 2; context := struct { integer { size = 8; } _cpu_id; }; };";
    let stream = [0, 1, 3, 99, 1, 2, 7, 0, 3, 0, 99, 2, 4, 5];
    put(tmp.path(), metadata.as_bytes(), &[("s", &stream)]);
    let trace = open(tmp.path(), &Options::default()).unwrap();
    let mut reader = trace.reader(0);
    let (mut cpus, mut places) = (Vec::new(), Vec::new());
    let mut head = reader.rewind().unwrap();
    while head.is_some() {
        cpus.push(reader.event_cpu());
        places.push(reader.position());
        head = reader.advance().unwrap();
    }
    assert_eq!(cpus, [Some(3), None, Some(0), Some(5)]);
    for (place, cpu) in places.into_iter().zip(cpus).rev() {
        reader.seek(place).unwrap();
        assert_eq!(reader.event_cpu(), cpu);
    }
    assert_eq!(trace.stream(0).cpu, None);
}
