//! What `pct view` shows of a recording that has waits.

use pct_deep::Compensation;
use pct_format::WaitKind;
use pct_native::{Apart, make};
use pct_profile::ids::{ProcessId, StackId};
use pct_profile::model::{Frame, Function, Id as _, Profile, StackNode};
use pct_profile::waits::{Holder, Object, WaitFigures, WaitRow, Waits};
use pct_reports::page::{self, Request};
use pct_reports::render::text::TextOptions;
use pct_reports::subject::Subject;
use pct_server::sweep::{SweepOptions, sweep};

/// A recording by folded stacks, in which `main` waited 3 s and a function without samples 1 s for two locks.
fn recording() -> Profile {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.folded");
    std::fs::write(&path, "main;load 300\nmain;render 4000\n").expect("written");
    let mut profile = pct_formats::import(&path).expect("reads");
    let main = profile.stacks.ids().find(|stack| profile.stacks[*stack].parent.is_none());
    let main = main.expect("a stack without a caller");
    let object = profile.functions[profile.leaf(main)].object;
    let function = profile.functions.push(Function { name: "sleeper".to_owned(), object, declared: None });
    let frame = profile.frames.push(Frame { function, file: None, line: 0, address: None, inlined: false });
    let sleeper = profile.stacks.push(StackNode { parent: Some(main), frame });
    let mut waits = Waits { recordings: 1, ..Waits::default() };
    let mut add = |kind, stack: StackId, seconds: u64| {
        let object = waits.objects.len();
        let address = 0x1000 + object as u64;
        let process = ProcessId::from_index(0);
        waits.objects.push(Object { process, kind, of_language: None, address, first_stack: stack });
        let ns = seconds * 1_000_000_000;
        let thread = profile.threads.ids().next().expect("a thread");
        waits.rows.push(WaitRow {
            thread,
            stack,
            object,
            kind,
            figures: WaitFigures { waits: 2, ns, longest_ns: ns, ..WaitFigures::default() },
            holders: vec![Holder { thread, stack: main, ns }],
        });
    };
    add(WaitKind::Mutex, main, 3);
    add(WaitKind::WriteLock, sleeper, 1);
    add(WaitKind::Condition, sleeper, 9);
    profile.waits = waits;
    profile
}

fn subject(profile: &Profile) -> Subject {
    let made = make(profile, &profile.cells, Apart::default(), 1000).expect("has samples");
    let recorded = made.recorded.clone();
    let profile = made.profile(Compensation::Exact).expect("is well formed");
    Subject::of_recording(profile, recorded, std::path::Path::new("a.folded"))
}

fn text(subject: &Subject, query: &str) -> String {
    let request = Request::parse(query).expect("a query");
    page::text(subject, &request, &TextOptions::default()).body
}

#[test]
fn the_overview_has_the_locks_and_their_page_the_stacks() {
    let subject = subject(&recording());
    let overview = text(&subject, "menu");
    for part in [
        "What threads waited for",
        "Waits for locks: 4.000 s in 4 waits.",
        "Waits for work (not contention): 9.00 s in 2 waits, most in sleeper.",
        "mutex 0x1000",
        "rwlock 0x1001",
    ] {
        assert!(overview.contains(part), "{part}: {overview}");
    }
    let page = text(&subject, "waits/locks");
    let stacks = page.split_once("Where threads waited for locks").unwrap_or_else(|| panic!("{page}")).1;
    assert!(stacks.contains(" 25.00%      sleeper"), "a function without samples is in the picture: {page}");
    let page = text(&subject, "waits/work");
    let (rows, stacks) = page.split_once("Where threads waited for work").unwrap_or_else(|| panic!("{page}"));
    assert!(rows.contains("condition 0x1002") && rows.contains("Woken by"), "{page}");
    assert!(!rows.contains("mutex") && stacks.contains("100.00%      sleeper"), "{page}");
}

#[test]
fn the_page_in_one_file_has_the_locks() {
    let profile = recording();
    let page = pct_formats::html::page(&profile, &profile.cells, &pct_profile::Flat::default(), &[]);
    let waits = page.split_once("What threads waited for").unwrap_or_else(|| panic!("{page}")).1;
    for part in ["waits for locks: 4.00 s in 4 waits", "rwlock 0x1001", ">sleeper<", "9.00 s in 2 waits"] {
        assert!(waits.contains(part), "{part}: {page}");
    }
    let without = Profile { waits: Waits::default(), ..profile };
    let page = pct_formats::html::page(&without, &without.cells, &pct_profile::Flat::default(), &[]);
    assert!(!page.contains("waited"), "{page}");
}

#[test]
fn every_page_of_a_recording_with_waits_is_good() {
    let subject = subject(&recording());
    let options = SweepOptions { sample: None, follow: true, only: None };
    let result = sweep(&subject, &options, &mut |_| {});
    assert_eq!(result.errors, Vec::new());
    assert!(result.pages["waits"] > 0);
}

#[test]
fn where_waits_were_not_recorded_nothing_is_said_of_them() {
    let mut profile = recording();
    profile.waits = Waits::default();
    let subject = subject(&profile);
    assert!(!text(&subject, "menu").contains("waited"));
    assert!(text(&subject, "waits/locks").contains("pct run --wait -- COMMAND"));
}
