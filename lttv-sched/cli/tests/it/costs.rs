//! Memory, and what is stored between runs.

use std::process::Command;

use crate::common::{put, written};
use crate::support::*;

#[test]
fn metadata_of_many_event_classes_takes_little_memory() {
    let tmp = tempfile::tempdir().unwrap();
    let mut metadata = String::from(
        "/* CTF 1.8 */ typealias integer { size = 32; align = 8; } := u32;
        trace { major = 1; minor = 8; byte_order = le; };
        stream { event.header := struct { u32 id; }; };",
    );
    for id in 0..200_000 {
        metadata += &format!(
            "event {{ name = \"e{id}\"; id = {id}; fields := struct {{ u32 a; u32 b; string c; }}; }};\n"
        );
    }
    let bytes: Vec<u8> = [199_999u32, 1, 2].iter().flat_map(|n| n.to_le_bytes()).chain([0]).collect();
    put(tmp.path(), metadata.as_bytes(), &[("s", &bytes)]);
    let t = tmp.path().to_str().unwrap();
    assert!(out(&["events", t]).contains("e199999"));
    let peak = peak_kib(&["events", t]);
    assert!(peak < 100_000, "{peak} KiB for 200,000 event classes");
}

#[test]
fn what_is_kept_of_a_trace_without_an_index_changes_no_answer() {
    use std::os::unix::fs::MetadataExt;
    let tmp = tempfile::tempdir().unwrap();
    let w = written(21, 1200, 3);
    let dir = tmp.path().join("trace");
    put(&dir, w.tsdl.as_bytes(), &[("chan_2", &w.stream)]);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    std::fs::File::options().write(true).open(dir.join("chan_2")).unwrap().set_modified(old).unwrap();
    let before: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    let run = |extra: &[&str]| {
        let args = [&["events", dir.to_str().unwrap(), "--from", "40%", "--to", "60%"][..], extra].concat();
        let o = Command::new(env!("CARGO_BIN_EXE_lttv"))
            .args(&args)
            .env("XDG_CACHE_HOME", tmp.path().join("cache"))
            .output();
        let o = o.unwrap();
        assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
        o.stdout
    };
    let plain = run(&["--no-index"]);
    assert!(!tmp.path().join("cache").exists(), "nothing is kept when nothing is to be used");
    let first = run(&[]);
    let kept = tmp.path().join("cache/pct/ctf");
    let file = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    assert_eq!(
        (kept.metadata().unwrap().mode() & 0o777, file.metadata().unwrap().mode() & 0o777),
        (0o700, 0o600)
    );
    let again = run(&[]);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let damaged = run(&[]);
    bytes[middle] ^= 1;
    assert!(std::fs::read(&file).unwrap() == bytes, "written anew");
    assert!(plain == first && first == again && again == damaged && !plain.is_empty());
    let after: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(before, after, "nothing is written beside the trace");
}

#[test]
fn states_that_an_earlier_run_kept_give_the_same_answers_without_reading_the_trace() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("trace");
    let packets: Vec<Packet> = (0..110)
        .map(|packet| {
            let first = packet * 1000;
            let switches = (first..first + 1000).map(|n| (n * 10, n % 90, (n + 1) % 90)).collect();
            (first * 10, first * 10 + 9999, 0, switches)
        })
        .collect();
    switching(&dir, &packets);
    let settle = |seconds| {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        let file = std::fs::File::options().write(true).open(dir.join("kernel_0")).unwrap();
        file.set_modified(old).unwrap();
    };
    settle(100);
    let cache = tmp.path().join("cache");
    let run = |extra: &[&str]| {
        let args =
            [&["states", dir.to_str().unwrap(), "--at", "70%", "--format", "json", "-v"], extra].concat();
        let o = Command::new(env!("CARGO_BIN_EXE_lttv"))
            .args(args)
            .env("XDG_CACHE_HOME", &cache)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&o.stderr).into_owned();
        assert!(o.status.success(), "{told}");
        let whole = told.contains("110001 events read") || told.contains("110000 events read");
        (o.stdout, whole, told)
    };
    let plain = run(&["--no-index"]);
    assert!(plain.1 && !cache.exists(), "{}", plain.2);
    let first = run(&[]);
    assert!(first.1, "{}", first.2);
    let kept = || {
        let all = std::fs::read_dir(cache.join("pct/ctf")).unwrap().map(|e| e.unwrap().path());
        all.filter(|path| path.extension().is_some_and(|e| e == "states")).collect::<Vec<_>>()
    };
    assert_eq!(kept().len(), 1);
    let again = run(&[]);
    assert!(!again.1, "{}", again.2);
    let mut bytes = std::fs::read(&kept()[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&kept()[0], &bytes).unwrap();
    let damaged = run(&[]);
    assert!(damaged.1 && damaged.2.contains("damaged"), "{}", damaged.2);
    assert!(!run(&[]).1, "written anew");
    settle(50);
    assert!(run(&[]).1, "the stream file is another one now");
    assert!(plain.0 == first.0 && first.0 == again.0 && again.0 == damaged.0 && !plain.0.is_empty());
}

#[test]
fn statistics_of_many_short_processes_take_little_memory_and_name_each() {
    let tmp = tempfile::tempdir().unwrap();
    let (few, many) = (tmp.path().join("few"), tmp.path().join("many"));
    short_processes(&few, 1_000);
    short_processes(&many, 21_000);
    let [few, many] = [&few, &many].map(|dir| peak_kib(&["stats", dir.to_str().unwrap(), "--no-index"]));
    assert!(many - few <= 2 * 20_000, "{many} KiB for 21,000 processes, {few} KiB for 1,000");
    let rows = rows(&["stats", tmp.path().join("few").to_str().unwrap(), "--format", "json"]);
    let threads = rows.iter().filter(|row| row["kind"] == "thread");
    let names: Vec<&str> = threads.map(|row| row["name"].as_str().unwrap()).collect();
    let of = |name: &str| names.iter().filter(|other| **other == name).count();
    assert_eq!((of("cc1"), of("sh"), names.len()), (1000, 1, 1001));
}
