//! Traces written by the naive writer are read back, from both metadata languages; damaged ones end in a diagnostic.

use crate::common::{Bits, drain, put, scope, written};
use lttv_ctf::model::Scope;
use lttv_ctf::{EventTime, Options, open};
use pct_kit::Dice;

fn cases(default: u64) -> u64 {
    pct_kit::asked("PCT_FUZZ_CASES", default)
}

#[test]
fn written_events_are_read_back_from_both_languages() {
    let tmp = tempfile::tempdir().unwrap();
    for seed in 1..cases(150) {
        let w = written(seed, 3, 6);
        for (language, metadata) in [("tsdl", &w.tsdl), ("json", &w.json)] {
            let dir = tmp.path().join(language);
            put(&dir, metadata.as_bytes(), &[("s", &w.stream)]);
            let t =
                open(&dir, &Options::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{metadata}"));
            let mut r = t.reader(0);
            let mut next = r.rewind();
            for (i, (clock, payload)) in w.events.iter().enumerate() {
                let h = next.unwrap_or_else(|e| panic!("seed {seed} {language} event {i}: {e}\n{metadata}"));
                let h = h.unwrap_or_else(|| panic!("seed {seed} {language}: only {i} events\n{metadata}"));
                assert_eq!(
                    h.time,
                    EventTime::Ns(*clock as i64),
                    "seed {seed} {language} event {i}\n{metadata}"
                );
                assert_eq!(
                    &scope(&r, Scope::Payload),
                    payload,
                    "seed {seed} {language} event {i}\n{metadata}"
                );
                next = r.advance();
            }
            assert_eq!(next.unwrap(), None, "seed {seed} {language}");
            // A seek finds the first event of its time.
            for (i, (clock, _)) in w.events.iter().enumerate().step_by(5) {
                let t = *clock as i64;
                assert_eq!(
                    r.seek_time(t).unwrap().map(|h| h.time),
                    Some(EventTime::Ns(t)),
                    "seed {seed} event {i}"
                );
                let before = w.events.iter().filter(|e| e.0 < *clock).count();
                assert_eq!(&scope(&r, Scope::Payload), &w.events[before].1);
            }
        }
    }
}

/// Changes a few bytes: flips bits, cuts the end, copies or removes a piece, or inserts a large number.
fn damage(r: &mut Dice, b: &mut Vec<u8>) {
    for _ in 0..1 + r.below(3) {
        if b.is_empty() {
            return;
        }
        let at = r.below(b.len() as u64) as usize;
        match r.below(6) {
            0 => b.truncate(at),
            1 | 2 => b[at] ^= 1 << r.below(8),
            3 => {
                let n = r.below(20).min((b.len() - at) as u64) as usize;
                let piece = b[at..at + n].to_vec();
                let to = r.below(b.len() as u64) as usize;
                b.splice(to..to, piece);
            }
            4 => {
                let n = r.below(20).min((b.len() - at) as u64) as usize;
                b.drain(at..at + n);
            }
            _ => {
                let n = (b.len() - at).min(8);
                b[at..at + n].fill(if r.below(2) == 0 { 0xFF } else { 0x7F });
            }
        }
    }
}

#[test]
fn damaged_streams_and_metadata_end_in_a_diagnostic_or_in_events() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("t");
    let (mut with_errors, mut with_events) = (0, 0);
    let n = cases(if pct_kit::long() { 1500 } else { 500 });
    for seed in 1..n {
        let w = written(seed % 97 + 1, 2, 4);
        let mut r = Dice::new(seed);
        let mut metadata = if seed % 2 == 0 { w.tsdl } else { w.json }.into_bytes();
        let mut stream = w.stream;
        if r.below(2) == 0 {
            damage(&mut r, &mut metadata)
        } else {
            damage(&mut r, &mut stream)
        }
        put(&dir, &metadata, &[("s", &stream)]);
        let (events, errors) = drain(&dir, 100_000);
        with_errors += u64::from(!errors.is_empty());
        with_events += u64::from(events > 0);
    }
    // The mutations must have an effect, but must not destroy everything.
    assert!(
        with_errors > n / 10 && with_events > n / 10,
        "{with_errors} with errors, {with_events} with events"
    );
}

#[test]
fn damaged_real_traces_end_in_a_diagnostic_or_in_events() {
    let Some(data) = pct_kit::real("ctf") else { return };
    let tmp = tempfile::tempdir().unwrap();
    for name in [
        "bt/succeed__2packets",
        "ctf2/features",
        "bt/succeed__multi-domains/ust",
        "tc/ctf-sequence-empty",
        "ctf2/vl-ints",
        "bt/succeed__lttng-crash",
    ] {
        let metadata = std::fs::read(data.join(name).join("metadata")).unwrap();
        let mut streams: Vec<(String, Vec<u8>)> = Vec::new();
        for e in std::fs::read_dir(data.join(name)).unwrap() {
            let e = e.unwrap();
            let file = e.file_name().into_string().unwrap();
            if file != "metadata" && e.path().is_file() && streams.len() < 2 {
                let index = data.join(name).join("index").join(format!("{file}.idx"));
                streams.push((file.clone(), std::fs::read(e.path()).unwrap()));
                if let Ok(b) = std::fs::read(index) {
                    streams.push((format!("index/{file}.idx"), b));
                }
            }
        }
        let dir = tmp.path().join(name.replace('/', "_"));
        std::fs::create_dir_all(dir.join("index")).unwrap();
        for seed in 1..cases(60) {
            let mut r = Dice::new(seed);
            let (mut m, mut s) = (metadata.clone(), streams.clone());
            match r.below(3) {
                0 => damage(&mut r, &mut m),
                _ => {
                    let i = r.below(s.len() as u64) as usize;
                    damage(&mut r, &mut s[i].1);
                }
            }
            let files: Vec<(&str, &[u8])> = s.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect();
            put(&dir, &m, &files);
            drain(&dir, 20_000);
        }
    }
}

#[test]
fn events_before_a_cut_are_delivered() {
    let tmp = tempfile::tempdir().unwrap();
    let w = written(5, 1, 50);
    put(tmp.path(), w.tsdl.as_bytes(), &[("s", &w.stream)]);
    let whole = drain(tmp.path(), 1000).0;
    assert_eq!(whole, 50);
    let mut most = 0;
    for len in (0..w.stream.len()).step_by(7) {
        std::fs::write(tmp.path().join("s"), &w.stream[..len]).unwrap();
        let (n, errors) = drain(tmp.path(), 1000);
        assert!(n >= most, "{len} bytes: {n} events, {most} before");
        assert!(len == 0 || !errors.is_empty(), "{len} bytes: no diagnostic");
        most = n;
    }
    assert!(most > 40);
}

#[test]
fn long_packets_are_read_through_a_window() {
    // One packet without sizes, several windows long, with an event longer than a window in the middle.
    let tmp = tempfile::tempdir().unwrap();
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\n\
        stream { event.header := struct { integer { size = 8; } id; }; };\n\
        event { name = a; id = 0; fields := struct { integer { size = 64; align = 64; } n; string s; }; };";
    let mut w = Bits::default();
    let long = 3_000_000;
    for i in 0..200_000u64 {
        w.int(0, 8, false);
        w.align(64);
        w.int(i, 64, false);
        if i == 100_000 {
            w.bytes(&vec![b'x'; long]);
        }
        w.bytes(&[b'y', 0]);
    }
    put(tmp.path(), metadata.as_bytes(), &[("s", &w.bytes)]);
    let t = open(tmp.path(), &Options::default()).unwrap();
    let mut r = t.reader(0);
    let mut next = r.rewind().unwrap();
    let (mut n, mut middle) = (0u64, None);
    while next.is_some() {
        if n % 9973 == 0 || n == 100_000 {
            let v = scope(&r, Scope::Payload);
            assert_eq!(v["n"].as_u64(), Some(n));
            assert_eq!(v["s"].as_str().unwrap().len(), if n == 100_000 { long + 1 } else { 1 });
        }
        if n == 150_000 {
            middle = Some(r.position());
        }
        n += 1;
        next = r.advance().unwrap();
    }
    assert_eq!(n, 200_000);
    r.seek(middle.unwrap()).unwrap();
    assert_eq!(scope(&r, Scope::Payload)["n"].as_u64(), Some(150_000));
}

#[test]
fn hostile_numbers_are_refused_before_anything_is_allocated() {
    let tmp = tempfile::tempdir().unwrap();
    let head = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\ntypealias integer { size = 64; } := u64;\ntypealias integer { size = 8; } := u8;\n";
    for (i, (fields, stream, what)) in [
        ("u64 n; u8 a[n];", vec![0xFFu8; 16], "18446744073709551615 elements"),
        ("u64 n; struct { } a[n];", vec![0xFF; 16], "fields in one event"),
        ("u8 a[9223372036854775807];", vec![0; 16], "elements"),
        ("u8 a[9223372036854775807][9223372036854775807];", vec![0; 16], "elements"),
        ("struct { } a[1048577];", vec![0; 16], "fields in one event"),
        ("struct { struct { struct { } a[1048576]; } b[2]; } c[2];", vec![0; 16], "fields in one event"),
        ("struct { } a;", vec![0; 16], "no bits"),
        ("integer { size = 8; align = 2147483648; } a;", vec![0; 16], "content"),
        ("string s;", vec![1; 16], "content"),
        ("integer { size = 3; byte_order = le; align = 1; } a; integer { size = 5; byte_order = be; align = 1; } b;", vec![0; 16], "byte order"),
        ("integer { size = 3; byte_order = le; align = 1; } a; u8 n[0]; integer { size = 5; byte_order = be; align = 1; } b[40];", vec![0; 4], "content|elements"),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = tmp.path().join(i.to_string());
        put(&dir, format!("{head}event {{ name = e; fields := struct {{ {fields} }}; }};").as_bytes(), &[("s", &stream)]);
        let (_, errors) = drain(&dir, 1000);
        assert!(errors.iter().any(|e| what.split('|').any(|w| e.contains(w))), "{fields}: {errors:?}");
        assert!(errors.iter().all(|e| e.contains("/s: packet 0")), "{fields}: {errors:?}");
    }
}

#[test]
fn babeltrace2_shows_written_traces_with_the_same_text() {
    let mut version = std::process::Command::new("babeltrace2");
    if version.arg("--version").output().is_err() {
        pct_kit::skip("babeltrace2 is not installed");
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let (mut read, n) = (0, cases(25));
    for seed in 1..n {
        let w = written(seed, 2, 4);
        let dir = tmp.path().join(seed.to_string());
        put(&dir, w.tsdl.as_bytes(), &[("s", &w.stream)]);
        let peer = std::process::Command::new("babeltrace2")
            .args(["--clock-seconds", "--no-delta"])
            .arg(&dir)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        if !peer.status.success() {
            // The peer refuses some valid metadata. That it reads most is checked below.
            continue;
        }
        read += 1;
        let t = open(&dir, &Options::default()).unwrap();
        let mut r = t.reader(0);
        let mut next = r.rewind().unwrap();
        let mut ours = String::new();
        while next.is_some() {
            lttv_ctf::text::line(&mut ours, t.class(), &r);
            ours.push('\n');
            next = r.advance().unwrap();
        }
        assert_eq!(ours, String::from_utf8(peer.stdout).unwrap(), "seed {seed}\n{}", w.tsdl);
    }
    eprintln!("babeltrace2 read {read} of {} written traces", n - 1);
    assert!(read > n / 2, "babeltrace2 read only {read} of {}", n - 1);
}
