//! A range of time or a thread that is chosen on one page is in force on all of them.

use super::timeline::{Serving, json, recording, recording_of_waits, rows_of_waits};
use crate::support::PCT;
use pct_kit::browser::{Browser, chromium};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Two threads of a second, and a server that shows them.
fn serving(dir: &Path) -> Option<Serving> {
    let Some(bytes) = recording() else {
        pct_kit::skip("no libc.so.6 is mapped");
        return None;
    };
    std::fs::write(dir.join("a.pct"), bytes).expect("written");
    Some(Serving::of(dir, &["a.pct"]))
}

/// The overview's data.
fn overview(serving: &Serving, file: &str) -> Value {
    json(&serving.get(&format!("deep/json?menu&&{file}")))["report"]["menu"]["recording"].take()
}

/// Samples and CPU seconds of `pct report` with these options.
fn report(dir: &Path, options: &[&str]) -> (u64, f64) {
    let mut command = Command::new(PCT);
    command.args(["report", "-q", "--format", "json", "a.pct"]).args(options).current_dir(dir);
    let total = json(&String::from_utf8_lossy(&command.output().expect("runs").stdout))["total"].take();
    (total["samples"].as_u64().expect("a number"), total["cpu_seconds"].as_f64().expect("a number"))
}

/// Nanoseconds of the picture of what was spent when, and of its columns from this time on and before that one.
fn drawn(overview: &Value, (from, to): (u64, u64)) -> (u64, u64) {
    let picture = &overview["over_time"];
    let number = |name: &str| picture[name].as_u64().expect("a number");
    let begin = |column: usize| {
        number("begin_realtime_ns") + number("column_ns") * column as u64
            - number("start_realtime_ns").min(number("begin_realtime_ns"))
    };
    let (mut whole, mut within) = (0, 0);
    for group in picture["groups"].as_array().expect("groups") {
        for (column, ns) in group["spent_ns"].as_array().expect("columns").iter().enumerate() {
            let ns = ns.as_u64().expect("nanoseconds");
            whole += ns;
            within += if (from..to).contains(&begin(column)) { ns } else { 0 };
        }
    }
    (whole, within)
}

#[test]
fn a_part_has_the_numbers_of_the_report_of_the_same_part() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(serving) = serving(dir.path()) else { return };
    let names = json(&serving.get("deep/json?owners&&a.pct"));
    let rows = names["report"]["owners"]["Ok"]["rows"].as_array().expect("rows");
    let mut names = rows.iter().filter_map(|row| row["name"].as_str());
    // One that is itself as a regular expression.
    let function =
        names.find(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')).expect("a function");
    for (part, options) in [
        ("!0.1..0.4005", vec!["--from", "0.1", "--to", "0.4005"]),
        ("!0.9..", vec!["--from", "0.9"]),
        ("!thread:100", vec!["--thread", "100"]),
        ("!0.25..0.5,thread:second", vec!["--from", "0.25", "--to", "0.5", "--thread", "second"]),
        ("!object:libc", vec!["--object", "libc"]),
        ("!0.5..0.75,without:NAME", vec!["--from", "0.5", "--to", "0.75", "--ignore", function]),
    ] {
        let file = format!("a.pct{}", part.replace("NAME", function));
        let found = overview(&serving, &file);
        let (samples, seconds) = report(dir.path(), &options);
        assert_eq!(found["samples"], samples, "{file}");
        let threads = found["threads"].as_array().expect("threads");
        let of_threads: f64 = threads.iter().filter_map(|row| row["seconds"].as_f64()).sum();
        assert!((of_threads - seconds).abs() < 1e-6, "{file}: {of_threads} {seconds}");
        assert!(
            found["headline"].as_str().expect("words").contains(&format!("{samples} samples")),
            "{found}"
        );
    }
}

#[test]
fn the_picture_of_what_was_spent_when_has_all_time_of_the_chosen_threads() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(serving) = serving(dir.path()) else { return };
    let ns = |options: &[&str]| (report(dir.path(), options).1 * 1e9).round() as u64;
    let whole = overview(&serving, "a.pct");
    assert_eq!(drawn(&whole, (0, u64::MAX)), (ns(&[]), ns(&[])));
    // A range is a part of the picture, which stays that of the whole time; a filter is in force in it.
    let range = overview(&serving, "a.pct!0.25..0.5");
    assert_eq!(range["over_time"]["window"], serde_json::json!([250_000_000, 500_000_000]));
    assert_eq!(drawn(&range, (0, 1)).0, ns(&[]));
    let thread = overview(&serving, "a.pct!0.25..0.5,thread:100");
    assert_eq!(drawn(&thread, (0, 1)).0, ns(&["--thread", "100"]));
    // A column has what was sampled in its time: columns are about 1 ms long here, so borders lie within a column.
    let column = whole["over_time"]["column_ns"].as_u64().expect("nanoseconds");
    let (_, within) = drawn(&whole, (250_000_000, 500_000_000));
    let wanted = ns(&["--from", "0.25", "--to", "0.5"]);
    assert!(within.abs_diff(wanted) <= 2 * 2 * column, "{within} {wanted} {column}");
}

#[test]
fn a_chip_says_what_is_chosen_and_lifts_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(serving) = serving(dir.path()) else { return };
    let file = "a.pct!0.25..0.5,thread:100";
    for page in ["menu", "flame", "root/no", "clique_tree/0/time", "owners", "program_modules"] {
        let html = serving.get(&format!("deep?{page}&&{file}"));
        let chips = html.split("class=\"chips\"").nth(1).and_then(|rest| rest.split("</div>").next());
        let chips = chips.unwrap_or_else(|| panic!("{page}: {html}"));
        assert!(chips.contains("0.25 s to 0.5 s") && chips.contains("thread 100"), "{page}: {chips}");
        // Without one of them the other stays, on the same page.
        for rest in ["a.pct!thread:100\"", "a.pct!0.25..0.5\""] {
            assert!(chips.contains(rest) && chips.contains(&format!("?{page}")), "{page}: {chips}");
        }
        // All links of the page stay in the part, but for those that lift a limit or choose another.
        let elsewhere = html.replace(chips, "");
        let links = elsewhere.split("href=\"?").skip(1).filter_map(|rest| rest.split('"').next());
        let outside: Vec<&str> = links.filter(|link| !link.contains("&amp;a.pct!")).collect();
        assert_eq!(outside, Vec::<&str>::new(), "{page}");
    }
    let text = serving.get(&format!("deep/text?menu&&{file}"));
    assert!(text.contains("only 0.25 s to 0.5 s, thread 100\n"), "{text}");
    let data = json(&serving.get(&format!("deep/json?menu&&{file}")));
    assert_eq!(data["only"], serde_json::json!(["0.25 s to 0.5 s", "thread 100"]));
    // Numbers of functions differ from part to part: their pages lead on by name.
    let html = serving.get(&format!("deep?proc/2&&{file}"));
    let chips = html.split("class=\"chips\"").nth(1).and_then(|rest| rest.split("</div>").next());
    assert!(chips.is_some_and(|chips| chips.contains("?proc_named/") && !chips.contains("?proc/")), "{html}");
    let html = serving.get(&format!("deep?clique/2&&{file}"));
    let chips = html.split("class=\"chips\"").nth(1).and_then(|rest| rest.split("</div>").next());
    assert!(chips.is_some_and(|chips| chips.contains("?menu&amp;") && !chips.contains("?clique/")), "{html}");
    // What was typed where the server was started is told too, and cannot be lifted here.
    let typed = Serving::of(dir.path(), &["--thread", "100", "a.pct"]);
    let html = typed.get("deep?menu&&a.pct!0.25..0.5");
    let chips = html.split("class=\"chips\"").nth(1).and_then(|rest| rest.split("</div>").next());
    let chips = chips.expect("chips");
    assert!(chips.contains("thread 100") && chips.matches("<a ").count() == 1, "{chips}");
}

#[test]
fn the_timeline_and_the_other_pages_lead_to_each_other_in_the_same_part() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(serving) = serving(dir.path()) else { return };
    let html = serving.get("deep?menu&&a.pct!0.25..0.5,thread:100");
    let timeline = html.split("href=\"of/0/tl?").nth(1).and_then(|rest| rest.split('"').next());
    let query = timeline.unwrap_or_else(|| panic!("{html}")).replace("&amp;", "&");
    let page = json(&serving.get(&format!("of/0/tl/window.json?{query}")));
    let (samples, _) = report(dir.path(), &["--from", "0.25", "--to", "0.5", "--thread", "100"]);
    assert_eq!(page["recordings"][0]["samples"], samples);
    // And back.
    let html = serving.get(&format!("of/0/tl?{query}"));
    for page in ["menu", "flame", "owners", "clique_tree/0/time"] {
        let back = format!("href=\"../../deep?{page}&amp;&amp;a.pct!0.25..0.5,thread:100\"");
        assert!(html.contains(&back), "{page}: {html}");
    }
    // Times have the same begin everywhere, that of the recording.
    let selected = html.split("selected ").nth(1).and_then(|rest| rest.split(" (").next());
    assert_eq!(selected, Some("0.2500 s to 0.5000 s"));
    // The script does the same when another range is selected.
    assert!(html.contains("<h2 data-part=\"!0.25..0.5,thread:100\">"), "{html}");
    // A range without an end stays one.
    let html = serving.get("deep?menu&&a.pct!0.5..");
    let timeline = html.split("href=\"of/0/tl?").nth(1).and_then(|rest| rest.split('"').next());
    let query = timeline.unwrap_or_else(|| panic!("{html}"));
    let page = json(&serving.get(&format!("of/0/tl/window.json?{query}")));
    assert_eq!(page["recordings"][0]["samples"], report(dir.path(), &["--from", "0.5"]).0);
    let html = serving.get(&format!("of/0/tl?{query}"));
    assert!(html.contains("<h2 data-part=\"!0.5..\">"), "{html}");
    // The whole is no part.
    let html = serving.get("of/0/tl");
    assert!(
        html.contains("<h2 data-part=\"\">") && html.contains("href=\"../../deep?menu&amp;&amp;a.pct\""),
        "{html}"
    );
}

#[test]
fn waits_of_a_range_are_the_same_in_the_report_on_the_pages_and_on_the_timeline() {
    let Some(bytes) = recording_of_waits() else { return pct_kit::skip("no libc.so.6 is mapped") };
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a.pct"), bytes).expect("written");
    let serving = Serving::of(dir.path(), &["a.pct"]);
    // The only wait is from 0.2 s to 0.5 s. The recording begins a nanosecond late.
    for (from, to, ms) in
        [("0", "1", 300.0), ("0.1", "0.3", 100.0), ("0.3", "0.4", 100.0), ("0.4", "0.9", 100.0)]
    {
        let report = Command::new(PCT)
            .args(["report", "--wait", "--format", "json", "--from", from, "--to", to, "a.pct"])
            .current_dir(dir.path())
            .output()
            .expect("runs");
        let rows = json(&String::from_utf8_lossy(&report.stdout))["waits"].take();
        let row = &rows[0];
        assert_eq!(rows.as_array().map(Vec::len), Some(1), "{from}..{to}: {rows}");
        let close = |seconds: &Value| (seconds.as_f64().expect("seconds") * 1000.0 - ms).abs() < 1e-5;
        assert!(close(&row["seconds"]) && close(&row["by"][0]["seconds"]), "{from}..{to}: {rows}");
        assert_eq!(row["by"][0]["thread"], "first", "{rows}");
        let page = json(&serving.get(&format!("deep/json?waits/locks&&a.pct!{from}..{to}")));
        assert!(close(&page["report"]["waits"]["Ok"]["seconds"]), "{from}..{to}: {page}");
        let html = serving.get(&format!("deep?menu&&a.pct!{from}..{to}"));
        let timeline = html.split("href=\"of/0/tl?").nth(1).and_then(|rest| rest.split('"').next());
        let query = timeline.expect("a link").replace("&amp;", "&");
        let rows = rows_of_waits(&serving.get(&format!("of/0/tl?tab=waits&{query}")));
        let shown: Option<f64> = rows[0][0].strip_suffix(" ms").and_then(|number| number.parse().ok());
        assert_eq!(shown, Some(ms), "{from}..{to}: {rows:?}");
    }
    // Of a range without a wait nothing is said but that.
    let page = serving.get("deep/text?waits/locks&&a.pct!0.6..0.9");
    assert!(page.contains("No thread waited for a lock."), "{page}");
}

#[test]
fn a_part_that_cannot_be_shown_says_why() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(serving) = serving(dir.path()) else { return };
    for (query, why) in [
        ("menu&&a.pct!thread:%28", "bad pattern \"(\""),
        (
            "menu&&a.pct!5..6",
            "Only 5 s to 6 s. a.pct: nothing to view: none of the 1,000 samples is in the part that was asked for",
        ),
        ("top_procs/1-9/words/self/oa&&a.pct!thread:100", "Allocations are counted by stack"),
        ("proc_named/no_such&&a.pct!0.25..0.5", "no_such"),
    ] {
        let text = serving.get(&format!("deep/text?{query}"));
        assert!(text.contains(why), "{query}: {text}");
    }
}

#[test]
fn a_range_is_chosen_with_the_mouse_on_one_page_and_is_in_force_on_the_others() {
    let Some(chromium) = chromium() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let Some(serving) = serving(dir.path()) else { return };
    let mut browser = Browser::start(&chromium);
    browser.open(&format!("{}?menu&&a.pct", serving.url));
    let place = |browser: &mut Browser, what: &str| {
        let place = browser.eval(&format!(
            "(()=>{{let b=document.querySelector('{what}').getBoundingClientRect();return [b.left,b.top,b.width]}})()"
        ));
        [0, 1, 2].map(|at| place[at].as_f64().expect("a number"))
    };
    let drag = |browser: &mut Browser, [left, top, width]: [f64; 3], (from, to): (f64, f64)| {
        let at = |share: f64| left + share * width;
        browser.mouse("mousePressed", at(from), top + 20.0);
        browser.mouse("mouseMoved", at(f64::midpoint(from, to)), top + 20.0);
        browser.mouse("mouseMoved", at(to), top + 20.0);
    };
    let release = |browser: &mut Browser, [left, top, width]: [f64; 3], share: f64| {
        browser.mouse("mouseReleased", left + share * width, top + 20.0);
    };
    // The times that the address of a page has, in seconds.
    let range = |browser: &mut Browser| {
        let found = browser.eval("decodeURIComponent(location.search).split('!')[1].split(',')[0]");
        let (from, to) = found.as_str().and_then(|text| text.split_once("..")).expect("a range");
        let number = |text: &str| text.parse::<f64>().expect("seconds");
        (number(from), number(to))
    };
    // A drag that is given up leads nowhere.
    let picture = place(&mut browser, "svg.areas");
    drag(&mut browser, picture, (0.3, 0.6));
    browser.until("document.querySelectorAll('svg.areas .chosen').length===1");
    browser.key("Escape");
    browser.until("document.querySelectorAll('svg.areas .chosen').length===0");
    release(&mut browser, picture, 0.6);
    // To the left is as good as to the right. The picture is a second long, or a little more.
    drag(&mut browser, picture, (0.5, 0.25));
    release(&mut browser, picture, 0.25);
    browser.until("location.search.includes('!')&&document.querySelectorAll('.chip').length===1");
    let (from, to) = range(&mut browser);
    assert!((from - 0.25).abs() < 0.05 && (to - 0.5).abs() < 0.05, "{from} {to}");
    let dimmed = browser.eval("document.querySelectorAll('svg.areas .outside').length");
    assert_eq!(dimmed, 2);
    let picture = place(&mut browser, "svg.areas");
    // A click chooses the slice below it, which is at most a fortieth of the picture and a column.
    drag(&mut browser, picture, (0.7, 0.7));
    release(&mut browser, picture, 0.7);
    browser
        .until("document.readyState==='complete'&&/!0[.]([67])/.test(decodeURIComponent(location.search))");
    let (from, to) = range(&mut browser);
    assert!(from < 0.71 && to > 0.69 && to - from < 0.06, "{from} {to}");
    // The timeline has the range, another one is selected there, and the other pages have that one.
    browser
        .eval("[...document.querySelectorAll('nav.sections a')].find(a=>a.textContent==='timeline').click()");
    browser.until(
        "window.timeline&&document.documentElement.dataset.state==='final'&&document.querySelector('#selected')&&document.querySelector('#window h2[data-part^=\"!0\"]')",
    );
    let plot = place(&mut browser, "#plot");
    drag(&mut browser, plot, (0.15, 0.25));
    release(&mut browser, plot, 0.25);
    browser.until(
        "/^!0[.]1/.test(document.querySelector('#window h2').dataset.part)&&!document.querySelector('#window.busy')",
    );
    browser.eval("document.querySelector('nav.sections a').click()");
    browser.until("document.readyState==='complete'&&document.querySelector('svg.areas')");
    let (from, to) = range(&mut browser);
    assert!((from - 0.15).abs() < 0.02 && (to - 0.25).abs() < 0.02, "{from} {to}");
    // The chip gives all of it back.
    browser.eval("document.querySelector('.chip a').click()");
    browser.until("!location.search.includes('!')&&document.readyState==='complete'&&document.querySelector('svg.areas')");
    assert_eq!(browser.eval("document.querySelectorAll('.chip').length"), 0);
    browser.check(&serving.url);
}
