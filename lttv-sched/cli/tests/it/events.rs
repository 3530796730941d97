//! The command `events`: order, windows, filters, forms.

use serde_json::Value;

use crate::common::put;
use crate::support::*;

#[test]
fn events_come_with_their_times_whatever_the_chunk() {
    let tmp = tempfile::tempdir().unwrap();
    let (t, w) = trace(tmp.path(), 11);
    let all = rows(&["events", &t, "--format", "json", "--columns", "ns,cpu,channel,name,fields"]);
    assert_eq!(all.len(), w.events.len());
    for (row, (clock, payload)) in all.iter().zip(&w.events) {
        assert_eq!(row["ns"].as_u64(), Some(*clock));
        assert_eq!(
            (&row["cpu"], &row["channel"], &row["name"]),
            (&Value::from(2), &Value::from("chan"), &Value::from("e"))
        );
        for (name, v) in payload.as_object().unwrap().iter().filter(|(_, v)| v.is_number() || v.is_string()) {
            assert_eq!(&row["fields"][name], v);
        }
    }
    let text = out(&["events", &t]);
    for chunk in ["1", "7"] {
        assert_eq!(out(&["events", &t, "--chunk", chunk]), text);
    }
}

#[test]
fn windows_filters_and_counts_choose_the_same_events_as_looking_at_all() {
    let tmp = tempfile::tempdir().unwrap();
    let (t, w) = trace(tmp.path(), 12);
    let (from, to) = (w.events[40].0, w.events[77].0);
    let ns = |args: &[&str]| {
        let rows = rows(&[&["events", &t, "--format", "json", "--columns", "ns"], args].concat());
        rows.iter().map(|r| r["ns"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let window: Vec<u64> = w.events.iter().map(|e| e.0).filter(|c| *c >= from && *c < to).collect();
    let (a, b) = (format!("{from}"), format!("{}.{:09}", to / 1_000_000_000, to % 1_000_000_000));
    assert_eq!(ns(&["--from", &a, "--to", &b]), window);
    let filter = format!("ns >= {from} && !(ns >= {to}) && name == e* && cpu == 2 && !vpid || name == nope");
    assert_eq!(ns(&["--filter", &filter]), window);
    // A field that no event has is an error, not an empty answer.
    let o = lttv(&["events", &t, "--filter", &filter.replace("!vpid", "vpid != 3")]);
    assert_eq!(o.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&o.stderr).contains("no event here has a field `vpid`"), "{o:?}");
    assert_eq!(ns(&["--from", &a, "-n", "5"]), window[..5]);
    assert_eq!(ns(&["--filter", &format!("ns >= {from}"), "-n", "5"]), window[..5]);
    assert_eq!(ns(&["-n", "0"]), Vec::<u64>::new());
    let hist = rows(&["histogram", &t, "--from", &a, "--to", &b, "--buckets", "7", "--format", "json"]);
    assert_eq!(hist.iter().map(|r| r["events"].as_u64().unwrap()).sum::<u64>(), window.len() as u64);
    for args in [vec!["stats", &t], vec!["stats", &t, "--from", "0ns"]] {
        let stats = rows(&[&args[..], &["--format", "json"]].concat());
        assert_eq!(stats[0]["events"].as_u64(), Some(w.events.len() as u64), "{args:?}");
        assert_eq!(stats[0]["first_ns"].as_u64(), Some(w.events[0].0));
        let of = |kind: &str| -> u64 {
            stats.iter().filter(|r| r["kind"] == kind).map(|r| r["events"].as_u64().unwrap()).sum()
        };
        assert_eq!(
            (of("event"), of("cpu"), of("channel")),
            (of("total"), of("total"), of("total")),
            "{args:?}"
        );
    }
}

#[test]
fn samples_and_events_are_looked_at_together() {
    let tmp = tempfile::tempdir().unwrap();
    let mut b = pct_format::builder::Builder::new();
    let thread = b.thread(5, 77, b"main");
    b.sample(thread, 100, 0x4000, 1, false, 0);
    let log = tmp.path().join("run.pct");
    std::fs::write(&log, b.finish()).unwrap();
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        clock { name = monotonic; offset_s = 1; };
        stream { event.header := struct { integer { size = 64; map = clock.monotonic.value; } t; }; };
        event { name = tick; fields := struct { integer { size = 8; } n; }; };";
    let stream: Vec<u8> =
        [(50u64, 1u8), (150, 2)].iter().flat_map(|(t, n)| t.to_le_bytes().into_iter().chain([*n])).collect();
    let dir = tmp.path().join("ctf");
    put(&dir, metadata.as_bytes(), &[("s", &stream)]);
    let (log, dir) = (log.to_str().unwrap(), dir.to_str().unwrap());
    let all = rows(&["events", log, dir, "--format", "json"]);
    let seen: Vec<(u64, &str)> = all
        .iter()
        .map(|r| (r["ns"].as_u64().unwrap() - 1_000_000_000, r["name"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [(5, "thread_begin"), (50, "tick"), (100, "sample"), (150, "tick")]);
    // A clock of unknown origin is not merged without the option.
    let odd = tmp.path().join("odd");
    put(&odd, metadata.replace("monotonic", "mine").as_bytes(), &[("s", &stream)]);
    let odd = odd.to_str().unwrap();
    assert_eq!(lttv(&["events", dir, odd]).status.code(), Some(1));
    let o = lttv(&["events", dir, odd, "--any-clock"]);
    assert!(o.status.success() && String::from_utf8_lossy(&o.stderr).contains("different instants"));
}

/// Number bases, labels of enumerations, texts and arrays as babeltrace2 shows them.
#[test]
fn fields_as_text_are_those_of_babeltrace2() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let manifest: Value = serde_json::from_slice(&std::fs::read(dir.join("MANIFEST.json")).unwrap()).unwrap();
    let mut compared = 0;
    for entry in manifest["traces"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        if entry["expected_text"] != "full" || entry["reader"]["exit"] != 0 {
            continue;
        }
        let want =
            std::fs::read_to_string(dir.join("expected").join(format!("{}.txt", name.replace('/', "__"))))
                .unwrap();
        let trace = dir.join(name);
        let got = out(&["events", trace.to_str().unwrap(), "--columns", "name,context,fields", "-q"]);
        // There is a space between the two columns.
        let mut got: Vec<String> = got.lines().map(|line| line.replacen("} {", "}, {", 1)).collect();
        let names: std::collections::BTreeSet<&str> =
            got.iter().map(|line| line.split_once(" {").map_or(line.as_str(), |(name, _)| name)).collect();
        // From each expected line, the part that begins with the event's name, without the packet's context; tied
        // events in any order.
        let shown = |line: &str| {
            let of = |before: &str| {
                let fits = names.iter().filter(|name| before.ends_with(**name));
                (*fits.max_by_key(|name| name.len()).unwrap_or_else(|| panic!("{line}"))).to_string()
            };
            let Some((before, fields)) = line.split_once(": {") else {
                return of(line.trim_end_matches(": "));
            };
            let fields = match fields.split_once(" }, {") {
                Some((packet, rest)) if packet.starts_with(" cpu_id = ") => rest,
                _ => fields,
            };
            format!("{} {{{fields}", of(before))
        };
        let mut want: Vec<String> = want.lines().map(shown).collect();
        assert_eq!(got.len(), want.len(), "{name}");
        want.sort();
        got.sort();
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got, want, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared} events compared");
}

#[test]
fn perf_says_the_cpu_in_its_events() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let trace = dir.join("tc/perf-taskset2");
    let trace = trace.to_str().unwrap();
    let all = rows(&["events", trace, "--columns", "ns,cpu,fields", "--format", "json"]);
    assert_eq!(all.len(), 1500);
    assert!(all.iter().all(|row| row["cpu"] == row["fields"]["perf_cpu"] && row["cpu"].is_u64()));
    let stats = rows(&["stats", trace, "--format", "json"]);
    let cpus = stats.iter().filter(|row| row["kind"] == "cpu").count();
    assert!(cpus > 1, "{cpus} CPUs");
    let snapshot = rows(&["states", trace, "--at", "100%", "--format", "json"]);
    assert_eq!(snapshot.iter().filter(|row| row["kind"] == "cpu").count(), cpus);
}

#[test]
fn times_are_typed_and_shown_as_people_write_them() {
    let tmp = tempfile::tempdir().unwrap();
    let second = 1_000_000_000;
    let start = 1_457_113_582 * second;
    let switches = (0..10).map(|n| (start + n * second, n % 2, (n + 1) % 2)).collect();
    switching(tmp.path(), &[(start, start + 10 * second, 0, switches)]);
    let t = tmp.path().to_str().unwrap();
    let count = |args: &[&str]| out(&[&["events", t][..], args].concat()).lines().count();
    assert_eq!(count(&["--from", "1457113585", "--to", "1457113588"]), 3);
    assert_eq!(count(&["--from", "17:46:25", "--to", "17:46:28", "--utc"]), 3);
    assert_eq!(count(&["--from", "2016-03-04 17:46:25Z", "--to", "2016-03-04T17:46:28Z"]), 3);
    let packets = rows(&["events", t, "--columns", "packet", "--format", "json", "-n", "1"]);
    assert_eq!(
        (&packets[0]["packet"]["cpu_id"], &packets[0]["packet"]["timestamp_begin"]),
        (&0.into(), &start.into())
    );
    let shown = out(&["events", t, "--utc", "-n", "1"]);
    assert!(shown.starts_with("2016-03-04 17:46:22.000000000 0 kernel sched_switch"), "{shown}");
}

/// Names in traces control no terminal, whatever the command and the form.
#[test]
fn hostile_names_are_shown_as_escapes() {
    let tmp = tempfile::tempdir().unwrap();
    let (plain, kernel) = (tmp.path().join("plain"), tmp.path().join("kernel\u{202e}\u{1b}[2J"));
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        env { hostname = \"evil\x1b[2J\u{202e}\"; };
        event { name = \"evil\x1b[2J\u{202e}\"; fields := struct { integer { size = 8; } n; }; };";
    put(&plain, metadata.as_bytes(), &[("s", &[1])]);
    crate::threads::reading_by(&kernel, "evil\x1b[2J\nINJECTED\u{202e}", "/evil\u{9b}2J\nINJECTED\u{2066}");
    let commands: [&[&str]; 14] = [
        &["events"],
        &["stats"],
        &["stats", "--by", "syscall"],
        &["stats", "--by", "process"],
        &["stats", "--by", "irq"],
        &["stats", "--by", "file"],
        &["stats", "--by", "device"],
        &["states"],
        &["states", "--at", "60%"],
        &["threads"],
        &["threads", "--thread", "5"],
        &["info"],
        &["info", "--packets"],
        &["histogram"],
    ];
    let mut named = 0;
    for trace in [&plain, &kernel] {
        for command in commands {
            for form in ["text", "json", "csv"] {
                let args = [command, &["--format", form, trace.to_str().unwrap()]].concat();
                let shown = lttv(&args);
                for octets in [&shown.stdout, &shown.stderr] {
                    let text = std::str::from_utf8(octets).unwrap();
                    assert_eq!(
                        text.find(|c| pct_text::is_hidden(c) && c != '\n'),
                        None,
                        "{args:?}: {text:?}"
                    );
                    assert!(!text.lines().any(|line| line.starts_with("INJECTED")), "{args:?}: {text}");
                    named += usize::from(text.contains("evil"));
                }
            }
        }
    }
    assert!(named >= 24, "{named} outputs with a hostile name");
    // Programs get the name unchanged.
    let events = rows(&["events", plain.to_str().unwrap(), "--format", "json"]);
    assert_eq!(events[0]["name"], "evil\u{1b}[2J\u{202e}");
}

#[test]
fn a_histogram_without_events_says_so_and_draws_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let (timed, untimed, silent) =
        (tmp.path().join("timed"), tmp.path().join("untimed"), tmp.path().join("silent"));
    switching(&timed, &[(0, 1000, 0, vec![(100, 0, 5), (300, 5, 0)])]);
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        event { name = tick; fields := struct { integer { size = 8; } n; }; };";
    put(&untimed, metadata.as_bytes(), &[("s", &[1, 2, 3])]);
    put(&silent, metadata.as_bytes(), &[]);
    let shown = |args: &[&str]| {
        let ran = lttv(&[&["histogram"], args].concat());
        assert!(ran.status.success(), "{args:?}: {ran:?}");
        let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
        (text(ran.stdout), text(ran.stderr))
    };
    let [timed, untimed, silent] = [&timed, &untimed, &silent].map(|dir| dir.to_str().unwrap());
    for (args, why) in [
        (&[silent][..], "the trace has no event"),
        (&[timed, "--filter", "next_tid == 77"], "the trace has no event that passes the filter"),
        (&[timed, "--from", "150ns", "--to", "250ns"], "the window has no event"),
    ] {
        let (drawn, told) = shown(args);
        assert!(
            drawn.is_empty() && told.contains(&format!("nothing to show: {why}")),
            "{args:?}: {drawn}{told}"
        );
    }
    assert_eq!(shown(&[untimed]), ("3 events without a time\n".into(), String::new()));
    let (drawn, told) = shown(&[timed, "--buckets", "2"]);
    let lines: Vec<&str> = drawn.lines().collect();
    assert!(
        lines.len() == 4 && lines[0].starts_with("2 events, buckets of ") && told.is_empty(),
        "{drawn}{told}"
    );
    assert!(lines[1].starts_with("from") && lines[1].ends_with("events"), "{drawn}");
}

/// What is told of a trace that cannot be read is what is wrong with it.
#[test]
fn each_damage_has_its_own_words() {
    let tmp = tempfile::tempdir().unwrap();
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; packet.header := struct {
        integer { size = 32; align = 8; } magic; }; };
        event { name = tick; fields := struct { integer { size = 8; } n; }; };";
    let whole = [&0xC1FC_1FC1u32.to_le_bytes()[..], &[1, 2]].concat();
    let swapped = [&0xC1FC_1FC1u32.to_be_bytes()[..], &[1, 2]].concat();
    for (name, metadata, stream, words) in [
        (
            "order",
            metadata.as_bytes(),
            &swapped[..],
            "the other byte order than the metadata says (its magic is",
        ),
        ("zeros", metadata.as_bytes(), &[0; 64], "packet magic is 0x0, expected"),
        ("empty", b"", &whole, "metadata: line 1: the file is empty"),
        ("packed", b"\x1f\x8b\x08\0\0\0", &whole, "metadata: line 1: packed with gzip"),
        ("json", b"[{\"type\": \"preamble\"}]", &whole, "metadata: line 1: JSON that is no text sequence"),
    ] {
        let dir = tmp.path().join(name);
        put(&dir, metadata, &[("s", stream)]);
        let ran = lttv(&["events", dir.to_str().unwrap()]);
        let told = String::from_utf8(ran.stderr).unwrap();
        assert!(told.contains(words) && !ran.status.success(), "{name}: {told}");
        // It is not known that there was no event.
        assert!(!told.contains("no event\n"), "{name}: {told}");
        let stream = dir.join("s");
        let told = String::from_utf8(lttv(&["events", stream.to_str().unwrap()]).stderr).unwrap();
        assert_eq!(
            told.contains("a stream of a CTF trace; name the folder"),
            name != "zeros",
            "{name}: {told}"
        );
    }
}
