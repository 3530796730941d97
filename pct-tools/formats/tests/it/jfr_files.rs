//! Handmade recordings of Java Flight Recorder.

use crate::foreign::{Want, check, own};
use pct_formats::import::{Wanted, parse, parse_with};
use pct_kit::flight_recorder::{FieldOf, TEXT, TRACE, chunk, chunk_of, cpu, event, file, metadata, pool};
use pct_profile::Profile;
use pct_profile::model::ObjectKind;
use proptest::prelude::*;
use std::path::Path;

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
    let mut killed = first.clone();
    killed[64] = 6;
    check("a JVM that was killed", &killed, None, Want::Sum("0.004 CPU s", 1, "was not ended"));
    // A stack that was cut and has no frame at all.
    let empty = [
        event(1, &[0, 0, 0, 1, 1, TRACE as u8, 1, 9, 1, 0]),
        cpu(6_000, 9, 1, 200_000),
        cpu(6_000, 1, 1, 200_000),
    ];
    check(
        "a cut stack without frames",
        &chunk(0, &empty),
        None,
        Want::Sum("0.004 CPU s", 2, "1 sample without a stack"),
    );
    let below = [cpu(6_000, 1, 1, -1), cpu(6_000, 1, 1, 400_000)];
    check("an amount below 0", &chunk(0, &below), None, Want::Sum("0.004 CPU s", 1, "1 event was left out"));
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
