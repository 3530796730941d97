//! The traces of the shared test data give the results of its manifest, with and without index files.

use std::collections::BTreeMap;
use std::path::Path;

use lttv_ctf::model::Scope;
use lttv_ctf::{
    EventTime, FieldValue, Options, Reader, Trace, View, float, integer, open_all, open_each, text,
};
use lttv_engine::source::LossKind;
use serde_json::Value;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        .unwrap()
}

/// Time, trace, stream, line, name, CPU.
type Row = (Option<i64>, usize, usize, String, String, Option<u32>);

/// The result of reading a set of traces.
#[derive(Default)]
struct Read {
    events: Vec<Row>,
    errors: Vec<String>,
    discarded: u64,
    reports: u64,
    unknown: u64,
    packets: u64,
}

fn read(traces: &[Trace]) -> Read {
    let mut out = Read::default();
    for (i, t) in traces.iter().enumerate() {
        out.errors.extend(t.lost_files.iter().map(ToString::to_string));
        for s in 0..t.stream_count() {
            for l in t.stream(s).losses {
                match (l.kind, l.count) {
                    (LossKind::Packets, n) => out.packets += n.unwrap(),
                    (LossKind::Events, n) => {
                        out.reports += 1;
                        out.discarded += n.unwrap_or(0);
                        out.unknown += u64::from(n.is_none());
                    }
                }
            }
            let mut r = t.reader(s);
            let mut next = r.rewind();
            loop {
                match next {
                    Ok(None) => break,
                    Err(e) => {
                        out.errors.push(e.to_string());
                        break;
                    }
                    Ok(Some(h)) => {
                        let ns = match h.time {
                            EventTime::Ns(t) => Some(t),
                            EventTime::Untimed => None,
                            EventTime::Overflow => panic!("overflow"),
                        };
                        let mut line = String::new();
                        text::line(&mut line, t.class(), &r);
                        out.events.push((ns, i, s, line, r.class().unwrap().name.clone(), r.cpu()));
                    }
                }
                next = r.advance();
            }
        }
    }
    out.events.sort_by_key(|e| e.0);
    out
}

/// SHA-256 in hexadecimal, by the system's tool; none if there is no such tool.
fn sha256(text: &str) -> Option<String> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.take()?.write_all(text.as_bytes()).ok()?;
    let out = child.wait_with_output().ok()?;
    Some(String::from_utf8(out.stdout).ok()?.split_whitespace().next()?.to_string())
}

/// Hash of the sorted lines `NS NAME`.
fn sorted_hash(events: &[Row]) -> Option<String> {
    let mut lines: Vec<String> = events.iter().filter_map(|e| Some(format!("{} {}", e.0?, e.4))).collect();
    lines.sort();
    sha256(&lines.join("\n"))
}

fn opened(dir: &Path, no_index: bool) -> Result<Vec<Trace>, String> {
    open_all(dir, &Options { no_index, ..Options::default() }).map_err(|e| e.to_string())
}

/// Lines in an order that does not depend on the order of ties.
fn tied(lines: &[String]) -> Vec<String> {
    let mut v = lines.to_vec();
    v.sort();
    v
}

fn check_entry(dir: &Path, e: &Value, no_index: bool) -> Result<(), String> {
    let name = e["name"].as_str().unwrap();
    let want = &e["reader"];
    let fails = want["exit"].as_i64() == Some(1);
    let traces = match opened(&dir.join(name), no_index) {
        Ok(t) => t,
        Err(m) if fails && want["events"] == 0 => {
            eprintln!("{name}: {m}");
            return Ok(());
        }
        Err(m) => return Err(m),
    };
    let got = read(&traces);
    if fails {
        eprintln!("{name}: {} events, then {:?}", got.events.len(), got.errors);
        if got.errors.is_empty() {
            return Err("no diagnostic".into());
        }
        if want["events"].as_u64().unwrap() > got.events.len() as u64 {
            return Err(format!("{} events before the error, expected {}", got.events.len(), want["events"]));
        }
        return Ok(());
    }
    let mut wrong = Vec::new();
    let mut same = |what: &str, got: String, want: String| {
        if got != want {
            wrong.push(format!("{what}: {got}, expected {want}"));
        }
    };
    same("errors", format!("{:?}", got.errors), "[]".into());
    same("events", got.events.len().to_string(), want["events"].to_string());
    let ns = |v: Option<i64>| v.map_or("null".into(), |v| v.to_string());
    same("min_ns", ns(got.events.first().and_then(|e| e.0)), want["min_ns"].to_string());
    same("max_ns", ns(got.events.last().and_then(|e| e.0)), want["max_ns"].to_string());
    same("lost packets", got.packets.to_string(), want["discarded_packets"].to_string());
    same("discarded event reports", got.reports.to_string(), want["discarded_event_reports"].to_string());
    if want["discarded_events"].is_number() {
        same("discarded events", got.discarded.to_string(), want["discarded_events"].to_string());
    }
    if let Some(file) = e["expected_text"].as_str() {
        let lines: Vec<String> = got.events.iter().map(|e| e.3.clone()).collect();
        let path = dir.join("expected").join(format!("{}.txt", name.replace('/', "__")));
        let expected: Vec<String> =
            std::fs::read_to_string(path).unwrap().lines().map(String::from).collect();
        if file == "full" {
            let (a, b) = (tied(&lines), tied(&expected));
            if let Some(i) = (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i)) {
                same("line", format!("{:?}", a.get(i)), format!("{:?}", b.get(i)));
            }
        } else {
            let cut = expected.iter().position(|l| l == "...").unwrap();
            let tail = expected.len() - cut - 1;
            for (i, w) in expected[..cut].iter().enumerate() {
                same("line", lines[i].clone(), w.clone());
            }
            for (i, w) in expected[cut + 1..].iter().enumerate() {
                same("line", lines[lines.len() - tail + i].clone(), w.clone());
            }
        }
    }
    if let Some(file) = e["expected_stats"].as_str() {
        let s = json(&dir.join(file));
        let mut names: BTreeMap<String, u64> = BTreeMap::new();
        let mut cpus: BTreeMap<String, u64> = BTreeMap::new();
        for e in &got.events {
            *names.entry(e.4.clone()).or_default() += 1;
            if let Some(c) = e.5 {
                *cpus.entry(c.to_string()).or_default() += 1;
            }
        }
        let map = |v: &Value| {
            v.as_object()
                .unwrap()
                .iter()
                .map(|(k, v)| (k.clone(), v.as_u64().unwrap()))
                .collect::<BTreeMap<_, _>>()
        };
        same("by name", format!("{names:?}"), format!("{:?}", map(&s["by_name"])));
        if s["by_cpu"].is_object() && !s["by_cpu"].as_object().unwrap().is_empty() {
            same("by cpu", format!("{cpus:?}"), format!("{:?}", map(&s["by_cpu"])));
        }
        if let (Some(w), Some(h)) = (s["sorted_ts_name_sha256"].as_str(), sorted_hash(&got.events)) {
            same("hash of times and names", h, w.into());
        }
        // Without ties there is only one order, so the whole text must be the same as the reader's.
        if s["largest_group_with_same_timestamp"] == 1 {
            let all: String = got.events.iter().flat_map(|e| [e.3.as_str(), "\n"]).collect();
            if let Some(h) = sha256(&all) {
                same("hash of the text", h, want["sha256"].as_str().unwrap().into());
            }
        }
        // A seek to a window's start finds the same events as a scan of all of them.
        for w in s["windows_half_open"].as_array().into_iter().flatten() {
            let (from, to) = (w["start_ns"].as_i64().unwrap(), w["end_ns"].as_i64().unwrap());
            let mut n = 0;
            for t in &traces {
                for i in 0..t.stream_count() {
                    let mut r = t.reader(i);
                    let mut next = r.seek_time(from).unwrap();
                    while let Some(h) = next {
                        let EventTime::Ns(t) = h.time else { panic!() };
                        assert!(t >= from);
                        if t >= to {
                            break;
                        }
                        n += 1;
                        next = r.advance().unwrap();
                    }
                }
            }
            same(&format!("events of [{from}, {to})"), n.to_string(), w["events"].to_string());
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong
            .into_iter()
            .take(4)
            .map(|w| w.chars().take(1500).collect::<String>())
            .collect::<Vec<_>>()
            .join("\n    "))
    }
}

#[test]
fn every_trace_of_the_manifest_gives_its_result_with_and_without_index() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let manifest = json(&dir.join("MANIFEST.json"));
    let mut bad = Vec::new();
    for e in manifest["traces"].as_array().unwrap() {
        for no_index in [false, true] {
            if e["reader"].is_null() {
                continue;
            }
            if let Err(m) = check_entry(&dir, e, no_index) {
                bad.push(format!("{} (index: {}): {m}", e["name"], !no_index));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn tracesets_have_their_count_and_span() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    for s in json(&dir.join("MANIFEST.json"))["tracesets"].as_array().unwrap() {
        let traces: Vec<Trace> = s["traces"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|t| opened(&dir.join(t.as_str().unwrap()), false).unwrap())
            .collect();
        let got = read(&traces);
        assert_eq!(got.events.len() as u64, s["events"].as_u64().unwrap(), "{}", s["name"]);
        assert_eq!(got.events[0].0, s["first_ns"].as_i64(), "{}", s["name"]);
        assert_eq!(got.events.last().unwrap().0, s["last_ns"].as_i64(), "{}", s["name"]);
        if let Some(h) = sorted_hash(&got.events) {
            assert_eq!(h, s["sorted_ts_name_sha256"].as_str().unwrap(), "{}", s["name"]);
        }
        let span = traces
            .iter()
            .flat_map(|t| (0..t.stream_count()).filter_map(|i| t.stream_span(i)))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        assert_eq!(span, s["first_ns"].as_i64().zip(s["last_ns"].as_i64()), "{}", s["name"]);
    }
}

#[test]
fn archived_chunks_of_a_session_are_one_trace_for_each_process() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let traces = opened(&dir.join("bt/succeed__session-rotation"), false).unwrap();
    assert_eq!(traces.len(), 2);
    assert!(
        traces.iter().all(|t| t.dirs().len() == 3),
        "{:?}",
        traces.iter().map(|t| t.dirs().len()).collect::<Vec<_>>()
    );
}

#[test]
fn a_counter_that_was_reset_is_reported_as_unknown() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let got = read(&opened(&dir.join("ust/ust-lossy"), false).unwrap());
    assert_eq!(got.unknown, 2);
    // By the largest counter of each stream.
    assert_eq!(got.discarded, 21253 + 805);
}

/// A field in the form of the generated JSON.
fn shown(v: View<'_, '_>) -> Value {
    match v.seen() {
        FieldValue::Bits(b, raw) => match b.kind {
            lttv_ctf::model::BitsKind::Float => {
                if b.len == 32 {
                    serde_json::json!(format!("{}", float(b, raw) as f32).parse::<f64>().unwrap())
                } else {
                    serde_json::json!(float(b, raw))
                }
            }
            lttv_ctf::model::BitsKind::Bool => Value::Bool(raw != 0),
            _ => number(integer(b.signed(), raw)),
        },
        FieldValue::VarInt(i, raw) => number(integer(i.signed, raw)),
        FieldValue::Text(t) => Value::String(t.into_owned()),
        FieldValue::Blob(b) => Value::String(b.iter().map(|b| format!("{b:02x}")).collect()),
        FieldValue::Struct => Value::Object(v.parts().map(|(n, p)| (n.to_string(), shown(p))).collect()),
        FieldValue::Array(_) => Value::Array(v.parts().map(|(_, p)| shown(p)).collect()),
        FieldValue::Variant(_, v) | FieldValue::Optional(Some(v)) => shown(v),
        FieldValue::Optional(None) => Value::Null,
    }
}

fn number(n: i128) -> Value {
    i64::try_from(n).map(Value::from).or_else(|_| u64::try_from(n).map(Value::from)).unwrap()
}

fn scope(r: &Reader, s: Scope) -> Value {
    r.with(s, shown).unwrap_or_else(|| Value::Object(serde_json::Map::new()))
}

#[test]
fn ctf2_events_have_the_values_of_the_generator() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    for name in ["features", "vl-ints"] {
        let traces = opened(&dir.join("ctf2").join(name), false).unwrap();
        let want = json(&dir.join(format!("expected/ctf2__{name}.json")));
        let mut r = traces[0].reader(0);
        let mut next = r.rewind().unwrap();
        for w in want.as_array().unwrap() {
            let h = next.unwrap_or_else(|| panic!("{name}: fewer events than expected"));
            assert_eq!(r.class().unwrap().name, w["name"].as_str().unwrap());
            if let Some(t) = w["ts_ns"].as_i64() {
                assert_eq!(h.time, EventTime::Ns(t));
                assert_eq!(scope(&r, Scope::CommonContext), w["common_context"]);
                assert_eq!(scope(&r, Scope::SpecificContext), w["specific_context"]);
            }
            assert_eq!(scope(&r, Scope::Payload), w["payload"], "{name} {}", w["name"]);
            next = r.advance().unwrap();
        }
        assert_eq!(next, None, "{name}");
        if name == "features" {
            let l: Vec<_> = traces[0].stream(0).losses.iter().map(|l| (l.kind, l.count)).collect();
            assert_eq!(l, [(LossKind::Packets, Some(2)), (LossKind::Events, Some(12))]);
        }
    }
}

#[test]
fn positions_lead_back_to_the_same_event_on_any_reader() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    for name in ["ust/ust-small", "ctf2/features", "bt/succeed__lttng-tracefile-rotation__kernel"] {
        for t in opened(&dir.join(name), false).unwrap() {
            for s in 0..t.stream_count() {
                let (mut r, mut other) = (t.reader(s), t.reader(s));
                let mut next = r.rewind().unwrap();
                let (mut n, mut before) = (0, None);
                while let Some(h) = next {
                    let p = r.position();
                    assert!(before < Some(p), "positions grow");
                    before = Some(p);
                    if n % 37 == 0 {
                        let mut line = [String::new(), String::new()];
                        assert_eq!(other.seek(p).unwrap(), Some(h));
                        assert_eq!(other.position(), p);
                        text::line(&mut line[0], t.class(), &r);
                        text::line(&mut line[1], t.class(), &other);
                        assert_eq!(line[0], line[1]);
                    }
                    n += 1;
                    next = r.advance().unwrap();
                }
            }
        }
    }
}

#[test]
fn one_bad_trace_of_several_does_not_hide_the_others() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let all = open_each(&dir.join("bt"), &Options::default()).unwrap();
    assert!(all.iter().any(Result::is_err) && all.iter().filter(|t| t.is_ok()).count() > 20);
}
