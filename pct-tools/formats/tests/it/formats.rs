//! What is written can be read back; damage is reported; nothing panics.

use pct_formats::import::parse;
use pct_formats::{Format, export, flame, html};
use pct_profile::fold::{Owners, Whose};
use pct_profile::model::{Cell, Profile};
use pct_profile::{By, CallTree, Flat, Split, flat::Order};
use proptest::prelude::*;
use std::path::Path;

const FOLDED: &str = "main;render;shade 40\nmain;render;shade;pow 10\nmain;render 5\nmain;load;read;<T as \"X\"> 3\nmain;fib;fib;fib 7\n";

fn sample() -> Profile {
    parse(FOLDED.as_bytes(), Path::new("x.folded")).unwrap()
}

fn by_function(p: &Profile, cells: &[Cell]) -> Vec<(String, u64, u64)> {
    let flat = Flat::count_cells(p, cells, Some(By::Function), Split::Merged, Order::Own);
    let mut rows: Vec<_> =
        flat.rows.iter().map(|r| (r.label.unwrap().name(p), r.own.cpu_ns(), r.total.cpu_ns())).collect();
    rows.sort();
    rows
}

#[test]
fn folded_and_pprof_go_round() {
    let p = sample();
    for format in [Format::Folded, Format::Pprof] {
        let bytes = export(&p, &p.cells, format);
        let again = parse(&bytes, Path::new("again")).unwrap();
        assert_eq!(by_function(&again, &again.cells), by_function(&p, &p.cells), "{format:?}");
        assert_eq!(again.total().samples, p.total().samples, "{format:?}");
    }
}

/// Objects and functions of a stack, outermost first, its samples, and the nanoseconds of each sample.
type Made<'a> = (&'a [(&'a str, &'a str)], u64, u64);

/// A profile of one thread with these stacks.
fn made(stacks: &[Made<'_>]) -> Profile {
    use pct_profile::model::{Builder, Object, ObjectKind, Weight};
    let mut b = Builder::new(false);
    let process = b.process(Default::default());
    let thread = b.thread(process, 1, "t");
    for (frames, samples, ns) in stacks {
        let mut at = None;
        for (object, function) in *frames {
            let object = b.object(Object::new(*object, ObjectKind::File));
            let function = b.function(object, function);
            let frame = b.plain_frame(function);
            at = Some(b.stack(at, frame));
        }
        let weight = Weight { samples: *samples, user_ns: samples * ns, system_ns: 0 };
        b.add(thread, at.expect("a frame"), weight);
    }
    b.finish()
}

#[test]
fn folded_counts_are_samples_and_the_import_says_what_it_took() {
    let p = made(&[(&[("/p", "main"), ("/p", "a")], 950, 1_003_009)]);
    let bytes = export(&p, &p.cells, Format::Folded);
    assert_eq!(String::from_utf8(bytes.clone()).unwrap(), "main;a 950\n");
    let again = parse(&bytes, Path::new("again")).unwrap();
    assert_eq!((again.total().samples, again.total().cpu_ns()), (950, 950));
    assert!(again.account.notes.iter().any(|n| n.contains("no unit")), "{:?}", again.account.notes);
}

#[test]
fn the_program_is_the_first_mapping_of_pprof() {
    let p = made(&[
        (&[("/tmp/libpct.so", "start"), ("/bin/prog", "main"), ("/lib/libc.so.6", "memcpy")], 5, 1),
        (&[("/lib/libc.so.6", "clone"), ("/bin/prog", "work")], 3, 1),
    ]);
    let packed = export(&p, &p.cells, Format::Pprof);
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut bytes).unwrap();
    // Fields of the profile: a tag and then, here, a short length. Field 3 is a mapping, whose first field is its
    // number.
    let mut at = 0;
    while bytes[at] != 3 << 3 | 2 {
        assert!(bytes[at] & 7 == 2 && bytes[at + 1] < 0x80, "a field with a length below 128");
        at += 2 + usize::from(bytes[at + 1]);
    }
    assert_eq!(bytes[at + 2], 1 << 3);
    let first = p.objects.iter().nth(usize::from(bytes[at + 3]) - 1).unwrap();
    assert_eq!(first.path, "/bin/prog");
    let again = parse(&packed, Path::new("again")).unwrap();
    assert_eq!(by_function(&again, &again.cells), by_function(&p, &p.cells));
}

#[test]
fn no_text_carries_escapes_or_formulas() {
    let name = "=cmd|' /C calc'!A0 \x1b[31mred\r\n\u{9b}x";
    let p = made(&[(&[("/bin/prog", "main"), ("/bin/=1+1", name)], 5, 1)]);
    let flat = Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Merged, Order::Own);
    let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Merged);
    let csv = pct_profile::text::flat::csv(&p, &flat, usize::MAX);
    let tree_csv = pct_profile::text::tree::csv(&p, &tree);
    for text in [&csv, &tree_csv] {
        for field in text.split([',', '\n', '"']) {
            assert!(!field.starts_with('='), "{text}");
        }
    }
    let folded = String::from_utf8(export(&p, &p.cells, Format::Folded)).unwrap();
    let callgrind = String::from_utf8(export(&p, &p.cells, Format::Callgrind)).unwrap();
    for text in [csv, tree_csv, folded, callgrind] {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}

#[test]
fn declarations_go_through_pprof() {
    let mut b = pct_profile::model::Builder::new(false);
    let process = b.process(Default::default());
    let thread = b.thread(process, 1, "t");
    let object = b.unknown_object();
    let function = b.function(object, "f");
    let file = b.file("/src/f.c");
    b.declare(function, file, 17);
    let frame = b.plain_frame(function);
    let stack = b.stack(None, frame);
    b.add(thread, stack, pct_profile::model::Weight { samples: 1, user_ns: 5, system_ns: 0 });
    let p = b.finish();
    let again = parse(&export(&p, &p.cells, Format::Pprof), Path::new("again")).unwrap();
    let declared = again.functions.iter().next().unwrap().declared.unwrap();
    assert_eq!((again.files[declared.0].as_str(), declared.1), ("/src/f.c", 17));
}

#[test]
fn perf_scripts_text_is_read() {
    let text = "# a comment\nmy prog 4711/4712  1.000001:    1000000 cpu-clock:u: \n\t    55d0 inner+0x14 (/bin/prog)\n\t    55d1 main+0x20 (/bin/prog)\n\nmy prog 4711/4712  1.000002:    2000000 cpu-clock:u: \n\tffffffff81000000 clear_page+0x1 ([kernel.kallsyms])\n\t    55d1 main+0x20 (/bin/prog)\n\n";
    let p = parse(text.as_bytes(), Path::new("perf.txt")).unwrap();
    let total = p.total();
    assert_eq!((total.samples, total.user_ns, total.system_ns), (2, 1_000_000, 2_000_000));
    assert_eq!(p.threads.iter().next().unwrap().tid, 4712);
    let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Merged);
    assert_eq!(tree.roots.len(), 1);
}

#[test]
fn every_export_is_made_and_json_is_json() {
    let p = sample();
    for &(name, format) in Format::ALL {
        let bytes = export(&p, &p.cells, format);
        assert!(!bytes.is_empty(), "{name}");
        if matches!(format, Format::Speedscope | Format::Chrome | Format::Firefox) {
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
    let speedscope: serde_json::Value =
        serde_json::from_slice(&export(&p, &p.cells, Format::Speedscope)).unwrap();
    let profile = &speedscope["profiles"][0];
    let weights: u64 = profile["weights"].as_array().unwrap().iter().map(|w| w.as_u64().unwrap()).sum();
    assert_eq!(weights, p.total().cpu_ns());
    assert_eq!(profile["samples"].as_array().unwrap().len(), profile["weights"].as_array().unwrap().len());
}

fn by_owner(profile: &pct_profile::Profile) -> Flat {
    let owners = Owners::from_profile(profile);
    Flat::count_found(profile, &owners, &profile.cells, Whose::Owner, Split::Merged, Order::Own)
}

#[test]
fn a_page_shows_long_names_without_template_arguments_and_has_them_in_titles() {
    let text = "main;std::map<std::basic_string<char>, std::basic_string<char> >::at(int) const 3";
    let p = parse(text.as_bytes(), Path::new("x.folded")).unwrap();
    let page = html::page(&p, &p.cells, &by_owner(&p), &[]);
    let long = "std::map&lt;std::basic_string&lt;char&gt;, std::basic_string&lt;char&gt; &gt;::at(int) const";
    let cell = format!("<td class=\"w\" title=\"{long}\">std::map&lt;...&gt;::at(int) const</td>");
    assert!(page.contains(&cell), "{page}");
}

#[test]
fn names_never_become_markup() {
    let p = sample();
    let page = html::page(&p, &p.cells, &by_owner(&p), &["all <accounted>".into()]);
    assert!(!page.contains("<T as"), "a name is markup");
    assert!(page.contains("&lt;T as"));
    assert!(!page.contains("all <accounted>"));
    for outside in ["http://", "https://", "src=\"//"] {
        let found = page.replace("http://www.w3.org/", "").contains(outside);
        assert!(!found, "the page points outside: {outside}");
    }
}

#[test]
fn a_page_says_each_note_once() {
    let mut p = sample();
    p.account.notes.push("clocks went back".into());
    let page = html::page(&p, &p.cells, &by_owner(&p), &pct_profile::text::account::closing(&p, &p.cells));
    assert_eq!(page.matches("clocks went back").count(), 1);
}

#[test]
fn a_difference_has_both_weights() {
    let (new, old) = (sample(), parse(b"main;render;shade 80\n", Path::new("old")).unwrap());
    let tree = flame::difference((&new, &new.cells), (&old, &old.cells));
    assert!(tree.len() > 5);
}

#[test]
fn weights_without_measure_go_into_every_format() {
    let stacks: [&[(&str, &str)]; 3] = [
        &[("/p", "main"), ("/p", "a")],
        &[("/p", "main"), ("/p", "b")],
        &[("/p", "main"), ("/p", "a"), ("/p", "c")],
    ];
    let p = made(&stacks.map(|stack| (stack, u64::MAX, 1)));
    for &(_, format) in Format::ALL {
        assert!(!export(&p, &p.cells, format).is_empty());
    }
}

#[test]
fn samples_without_a_stack_are_no_profile() {
    // A pprof file with one sample type without a name, whose only sample has no location.
    let e = parse(&[0x0a, 0, 0x12, 2, 0x10, 1, 0x32, 0], Path::new("x.pb")).unwrap_err().to_string();
    assert!(e.contains("x.pb") && e.contains("no sample with a stack"), "{e}");
}

#[test]
fn what_cannot_be_read_names_the_file_and_the_place() {
    for (bytes, word) in [
        (&b"hello world\n"[..], "line 1"),
        (b"PERFILE2\0\0\0", "octet"),
        (b"\x1f\x8b\x08\0garbage", "x.bin"),
        (b"\0\x01\x02\x03", "octet"),
        (b"", "octet"),
    ] {
        let e = parse(bytes, Path::new("x.bin")).unwrap_err().to_string();
        assert!(e.contains("x.bin") && e.contains(word), "{e}");
    }
    let e = parse(b"a;b 3\nno count here\na;c 4\n", Path::new("x")).unwrap_err().to_string();
    assert!(e.contains("line 2"), "{e}");
}

proptest! {
    #[test]
    fn damaged_pprof_is_read_or_refused(cut in 0usize..400, flips in proptest::collection::vec((0usize..400, any::<u8>()), 0..8)) {
        use std::io::Read as _;
        let p = sample();
        let gz = export(&p, &p.cells, Format::Pprof);
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&gz[..]).read_to_end(&mut bytes).unwrap();
        for (at, byte) in flips {
            let n = bytes.len();
            bytes[at % n] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        if let Ok(p) = parse(&bytes, Path::new("x")) {
            for &(_, format) in Format::ALL {
                export(&p, &p.cells, format);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z;: /()\\[\\]0-9.\n\t+x]{0,300}") {
        let _ = parse(text.as_bytes(), Path::new("x"));
    }
}
