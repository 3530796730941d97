//! callgrind's files: sums by function are those of the file, whatever its calls are.

use crate::foreign::Want::{Refused, Sum};
use crate::foreign::{check, own};
use crate::round::by_function;
use pct_formats::import::parse;
use pct_profile::{By, CallTree, Split};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::Path;

const VALGRIND: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 9\ncmd:  ./t 3\npart: 1\n\n\
desc: I1 cache: \npositions: instr line\nevents: Ir Dr\nsummary: 130 14\n\n\
ob=(1) /tmp/t\nfl=(1) t.c\nfn=(1) main\n0x10 5 20 2\n+4 +1 10\ncfn=(2) work\ncalls=2 0x80 9\n* * 100 12\n\n\
fn=(2)\n0x80 9 60 12\njcnd=1/3 +8 *\n+4 *\nfi=(2) inlined.h\n+4 3 40\nfe=(1)\n\ntotals: 130 14\n";

#[test]
fn costs_have_the_name_of_their_event() {
    for (sample_type, want) in [
        (None, Sum("130 of Ir (count)", 0, "also in the file: Dr (count)")),
        (Some("Dr"), Sum("14 of Dr (count)", 0, "Ir (count)")),
        (Some("Dw"), Refused("it has Ir (count), Dr (count)")),
    ] {
        check("valgrind", VALGRIND.as_bytes(), sample_type, want);
    }
    let xdebug = "version: 1\ncreator: xdebug 3.1.6\ncmd: /srv/a.php\npart: 1\npositions: line\n\n\
        events: Time_(10ns) Memory_(bytes)\n\nfl=(1) php:internal\nfn=(1) php::sleep\n3 200 0\n\n\
        fl=(2) /srv/a.php\nfn=(2) {main}\n1 50 4000\ncfl=(1)\ncfn=(1)\ncalls=1 0 0\n3 200 0\n\nsummary: 250 4000\n";
    check("xdebug", xdebug.as_bytes(), None, Sum("0.000 s of Time", 0, "Memory (bytes)"));
    check("xdebug", xdebug.as_bytes(), Some("Memory"), Sum("4,000 bytes of Memory", 0, ""));
    let profile = parse(xdebug.as_bytes(), Path::new("x")).expect("a profile");
    assert_eq!(profile.total().cpu_ns(), 2500);
    let cachegrind =
        "desc: I1 cache: 32768 B\ncmd: ./t\nevents: Ir I1mr\nfl=t.c\nfn=main\n3 10 1\n4 5 0\nsummary: 16 1\n";
    check(
        "cachegrind",
        cachegrind.as_bytes(),
        None,
        Sum("15 of Ir (count)", 0, "the sum is 16, but its lines have 15"),
    );
    check("differences", cachegrind.replace("3 10 1", "3 -10 1").as_bytes(), None, Refused("pct diff"));
    let cut = &VALGRIND[..VALGRIND.find("+4 3 40").expect("a line")];
    check("cut", cut.as_bytes(), None, Sum("90 of Ir (count)", 0, "the sum is 130, but its lines have 90"));
}

#[test]
fn a_file_has_lines_inlined_files_and_calls() {
    let profile = parse(VALGRIND.as_bytes(), Path::new("x")).expect("a profile");
    assert_eq!(by_function(&profile), [("main".into(), (30, 130)), ("work".into(), (100, 100))].into());
    let mut places: Vec<String> = profile
        .cells
        .iter()
        .map(|cell| {
            let frame = &profile.frames[profile.stacks[cell.stack].frame];
            format!("{} {}", profile.place_of(frame).expect("a place"), cell.weight.cpu_ns())
        })
        .collect();
    places.sort();
    assert_eq!(places, ["inlined.h:3 40", "t.c:5 20", "t.c:6 10", "t.c:9 60"]);
    assert_eq!(profile.call_counts.values().copied().collect::<Vec<_>>(), [2]);
    assert_eq!(profile.objects[profile.functions.iter().next().expect("one").object].path, "/tmp/t");
}

#[test]
fn a_callee_is_in_the_file_of_the_lines_around_its_call() {
    let text = "events: Ir\nfl=a.c\nfn=main\n1 10\nfi=a.h\n7 1\ncfn=helper\ncalls=1 0\n8 20\nfe=a.c\n2 3\ncfn=work\n\
        calls=1 0\n3 40\nfn=work\n9 40\nfl=a.h\nfn=helper\n5 20\n";
    let profile = parse(text.as_bytes(), Path::new("x")).expect("a profile");
    let want = [("helper", (20, 20)), ("main", (14, 74)), ("work", (40, 40))];
    assert_eq!(by_function(&profile), want.map(|(name, amounts)| (name.to_owned(), amounts)).into());
}

#[test]
fn what_a_function_cost_is_shared_out_among_its_callers() {
    // `a` pays three parts of `shared`, `b` one; `shared` itself has 60 of the 80.
    let text = "events: Ir\nfn=main\n1 10\ncfn=a\ncalls=1 0\n2 65\ncfn=b\ncalls=1 0\n3 25\nfn=a\n1 5\ncfn=shared\ncalls=1 0\n\
        2 60\nfn=b\n1 5\ncfn=shared\ncalls=1 0\n2 20\nfn=shared\n1 60\ncfn=leaf\ncalls=1 0\n2 20\nfn=leaf\n1 20\n";
    check("shared", text.as_bytes(), None, Sum("100 of Ir (count)", 0, "shared out among its callers"));
    let profile = parse(text.as_bytes(), Path::new("x")).expect("a profile");
    let want =
        [("a", (5, 65)), ("b", (5, 25)), ("leaf", (20, 20)), ("main", (10, 100)), ("shared", (60, 80))];
    assert_eq!(by_function(&profile), want.map(|(name, amounts)| (name.to_owned(), amounts)).into());
    let tree = CallTree::top_down(&profile, &profile.cells, By::Function, Split::Merged);
    assert_eq!(tree.roots.len(), 1, "main calls all");
}

/// Functions that call each other as they like, themselves too.
fn calls() -> impl Strategy<Value = (Vec<u64>, Vec<(usize, usize, u64)>)> {
    let own = proptest::collection::vec(0u64..1000, 6);
    (own, proptest::collection::vec((0usize..6, 0usize..6, 1u64..5000), 0..14))
}

proptest! {
    #[test]
    fn own_costs_are_those_of_the_file_whatever_calls_what((own_costs, calls) in calls()) {
        let mut text = String::from("events: Ir\n");
        for (function, cost) in own_costs.iter().enumerate() {
            let _ = writeln!(text, "fn=f{function}\n1 {cost}");
            for (_, callee, cost) in calls.iter().filter(|call| call.0 == function) {
                let _ = writeln!(text, "cfn=f{callee}\ncalls=1 0\n2 {cost}");
            }
        }
        let Ok(profile) = parse(text.as_bytes(), Path::new("x")) else {
            prop_assert_eq!(own_costs.iter().sum::<u64>(), 0);
            return Ok(());
        };
        let found: Vec<(String, u64)> = own(&profile).into_iter().map(|(name, weight)| (name, weight.cpu_ns())).collect();
        let costs = own_costs.iter().enumerate().filter(|(_, cost)| **cost > 0);
        let want: Vec<(String, u64)> = costs.map(|(function, cost)| (format!("f{function}"), *cost)).collect();
        prop_assert_eq!(found, want);
    }
}
