//! The stack chart of a thread in the timeline of a recording: what it called when.

use super::timeline::Serving;
use pct_format::Clock;
use pct_format::builder::Builder;
use pct_format::layout::header as at;
use pct_format::record::{Blocked, BlockedBy, Frame};
use pct_kit::browser::{Browser, chromium};
use std::fmt::Write as _;

/// `perf script` of a thread that is in `f` for 0.2 s, in `h` called by `g` for 0.3 s, nowhere for 0.2 s, and in `f`
/// again for 0.3 s, in turns with `f` that called `h`. Another thread is in `idle` for the first 0.1 s. Its first
/// sample is that of the file, from which times count.
fn perf_script() -> String {
    let mut out = String::new();
    let mut put = |(tid, name): (u32, &str), ms: u32, stack: &[&str]| {
        let us = ms * 1000;
        let _ = writeln!(
            out,
            "{name} 100/{tid} {}.{:06}:    1000000 cpu-clock: ",
            7 + us / 1_000_000,
            us % 1_000_000
        );
        for (at, frame) in stack.iter().enumerate() {
            let _ = writeln!(out, "\t{:16x} {frame} (/opt/prog)", 0x1000 + 16 * at);
        }
        out.push('\n');
    };
    for ms in 0..=1000 {
        let stack: &[&str] = match ms {
            0 => &[],
            1..=200 => &["f+0x1", "main+0x2"],
            201..=500 => &["h+0x1", "g+0x2", "main+0x2"],
            501..=700 => &[],
            _ if ms % 2 == 0 => &["h+0x1", "f+0x2", "main+0x2"],
            _ => &["f+0x1", "main+0x2"],
        };
        if !stack.is_empty() {
            put((100, "prog"), ms, stack);
        }
        if ms <= 100 {
            put((101, "other"), ms, &["idle+0x1"]);
        }
    }
    out
}

fn serving(dir: &std::path::Path) -> Serving {
    std::fs::write(dir.join("p.txt"), perf_script()).expect("written");
    Serving::of(dir, &["p.txt"])
}

/// Name, and first and last per cent of the range, of the calls of a chart; its root is left out.
fn calls(html: &str) -> Vec<(String, f64, f64)> {
    let number = |text: &str, name: &str| -> f64 {
        let text = text.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('%').next());
        text.and_then(|text| text.parse().ok()).expect("a number")
    };
    let call = |text: &str| {
        let title = text.split("</title>").next().expect("a title");
        let (x, width) = (number(text, "x"), number(text, "width"));
        (title.split(" (").next().expect("a name").to_owned(), x, x + width)
    };
    html.split("<title>").skip(2).map(call).collect()
}

/// The address that says a range, in ms after the start of the file.
fn range(from_ms: u64, to_ms: u64) -> String {
    format!("from={}&to={}", from_ms * 1_000_000, to_ms * 1_000_000)
}

#[test]
fn a_chart_shows_what_a_thread_called_when() {
    let dir = tempfile::tempdir().expect("a folder");
    let serving = serving(dir.path());
    let chart = |query: &str| serving.get(&format!("of/0/tl/window?tab=chart&{query}"));
    let html = chart(&range(0, 1000));
    assert!(html.contains("This is the thread that ran most here: ") && html.contains("(100)</b>"), "{html}");
    let found = calls(&html);
    // Each call where it was, to a column of one part in 600.
    let want = [
        ("main", 0.0, 50.0),
        ("f", 0.0, 20.0),
        ("g", 20.0, 50.0),
        ("h", 20.0, 50.0),
        ("main", 70.0, 100.0),
        ("f", 70.0, 100.0),
    ];
    let is = |(name, from, to): &(&str, f64, f64)| {
        let near = |a: f64, b: f64| (a - b).abs() < 0.25;
        found.iter().any(|call| call.0 == *name && near(call.1, *from) && near(call.2, *to))
    };
    assert!(want.iter().all(is), "{found:?}");
    assert_eq!(found.iter().filter(|call| call.0 == "main").count(), 2, "{found:?}");
    let in_turns = found.iter().filter(|call| call.0 == "h" && call.1 > 60.0).count();
    assert!(in_turns > 20, "{in_turns}");
    // From near it is seen exactly: a sample stands for the time before it.
    let found = calls(&chart(&range(700, 710)));
    let of_h: Vec<(f64, f64)> =
        found.iter().filter(|call| call.0 == "h").map(|call| (call.1, call.2)).collect();
    let want: Vec<(f64, f64)> = [1.0, 3.0, 5.0, 7.0, 9.0].map(|ms| (ms * 10.0, ms * 10.0 + 10.0)).into();
    let off = of_h.iter().zip(&want).map(|(a, b)| (a.0 - b.0).abs().max((a.1 - b.1).abs()));
    assert!(of_h.len() == 5 && off.fold(0.0, f64::max) < 0.2, "{of_h:?}");
    // The last sample before a range stands for no part of it, the first one after it does for its end.
    assert_eq!(calls(&chart(&range(502, 600))), []);
    assert!(calls(&chart("from=200100000&to=200900000")).iter().all(|call| call.2 > 99.9));
    // Filters, threads and transforms are in force.
    let names = |query: &str| {
        let mut names: Vec<String> = calls(&chart(query)).into_iter().map(|call| call.0).collect();
        names.sort();
        names.dedup();
        names
    };
    assert_eq!(names(&format!("{}&function=^g$", range(0, 1000))), ["g", "h", "main"]);
    assert_eq!(names(&format!("{}&thread=101", range(0, 1000))), ["idle"]);
    assert_eq!(names(&format!("{}&x=ignore:h", range(0, 1000))), ["f", "main"]);
    assert_eq!(names(&format!("{}&x=merge:h&x=focus:g", range(0, 1000))), ["g"]);
    let other = serving.get("of/0/tl/meta");
    let lane = super::timeline::json(&other)["lanes"].as_array().expect("lanes").iter().find_map(|lane| {
        let is = lane["name"].as_str().is_some_and(|name| name.contains("101"));
        is.then(|| lane["id"].as_str().map(str::to_owned)).flatten()
    });
    let lane = lane.expect("a lane of the other thread");
    let html = chart(&format!("{}&lane={lane}", range(0, 1000)));
    assert_eq!(calls(&html).iter().map(|call| &*call.0).collect::<Vec<_>>(), ["idle"], "{html}");
}

#[test]
fn the_thread_of_a_chart_is_the_one_that_ran_most_and_not_the_one_that_waited() {
    let mut b = Builder::new();
    b.region(1, 1, 0x1000..0x9000, 0, 1, b"", b"/no/such/program");
    b.set_header_word(at::CLOCK_ASKED, Clock::Wall as u64).set_header_word(at::CLOCK_GOT, Clock::Wall as u64);
    let [waits, runs] = [(100, "waits"), (101, "runs")].map(|(tid, name)| b.thread(1, tid, name.as_bytes()));
    let read = Frame::Blocked(Blocked { by: BlockedBy::SystemCall, call: Some(0), descriptor: None });
    let [blocked, ran] = [&[read, Frame::Return(0x2000)][..], &[Frame::Return(0x2000)]].map(|s| b.stack(s));
    for i in 1..=100 {
        b.sample(waits, 10_000_000 * i, 0x3000, 10, true, blocked);
    }
    for i in 1..=30 {
        b.sample(runs, 10_000_000 * i, 0x3000, 10, false, ran);
    }
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a.pct"), b.finish()).expect("written");
    let html = Serving::of(dir.path(), &["a.pct"]).get("of/0/tl/window?tab=chart");
    assert!(html.contains("This is the thread that ran most here: <b>runs"), "{html}");
}

#[test]
fn a_range_is_selected_by_a_drag_over_the_chart_and_by_a_double_click_on_a_call() {
    let Some(chromium) = chromium() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let serving = serving(dir.path());
    let mut browser = Browser::start(&chromium);
    let address = serving.url.replace("deep", "of/0/tl");
    browser.open(&format!("{address}?tab=chart&{}", range(0, 1000)));
    browser.until(
        "window.timeline&&document.documentElement.dataset.state==='final'&&document.querySelector('figure.chart .f')",
    );
    let selected = "document.querySelector('#window h2').textContent";
    let place = |browser: &mut Browser, what: &str| {
        let place = browser.eval(&format!(
            "(()=>{{document.querySelector('{what}').scrollIntoView({{block:'center'}});let b=document.querySelector('{what}').getBoundingClientRect();return [b.left,b.top,b.width]}})()"
        ));
        [0, 1, 2].map(|at| place[at].as_f64().expect("a number"))
    };
    let drag = |browser: &mut Browser, (from, to): (f64, f64)| {
        let [left, top, width] = place(browser, "figure.chart svg");
        let y = top + 25.0;
        browser.mouse("mousePressed", left + from * width, y);
        browser.mouse("mouseMoved", left + f64::midpoint(from, to) * width, y);
        browser.mouse("mouseMoved", left + to * width, y);
        browser.until("document.querySelectorAll('.chart .chosen').length===1");
        (left + to * width, y)
    };
    // A drag that is given up selects nothing.
    let (x, y) = drag(&mut browser, (0.3, 0.5));
    browser.key("Escape");
    browser.until("document.querySelectorAll('.chart .chosen').length===0");
    browser.mouse("mouseReleased", x, y);
    assert_eq!(
        browser.eval(&format!("{selected}.startsWith('seen')&&!location.search.includes('fn=')")),
        true
    );
    // A drag is no click: no function is chosen by it.
    let (x, y) = drag(&mut browser, (0.45, 0.25));
    browser.mouse("mouseReleased", x, y);
    browser.until(&format!("{selected}.startsWith('selected 0.2')&&!document.querySelector('#window.busy')"));
    assert_eq!(browser.eval("location.search.includes('fn=')"), false);
    browser.until("document.querySelectorAll('figure.chart .f').length===4");
    browser.key("Escape");
    browser.until(&format!("{selected}.startsWith('seen')&&!document.querySelector('#window.busy')"));
    // A click chooses the function, a double-click the time of the call.
    let call = "[...document.querySelectorAll('figure.chart .f')].find(f=>(f.dataset.t||f.textContent).startsWith('g ('))";
    browser.eval(&format!(
        "(()=>{{let f={call};for(let [kind,detail] of [['click',1],['click',2],['dblclick',2]])f.querySelector('rect').dispatchEvent(new MouseEvent(kind,{{bubbles:true,cancelable:true,detail}}))}})()"
    ));
    browser.until(&format!("{selected}.startsWith('selected 0.2')&&!document.querySelector('#window.busy')"));
    browser.until("new URLSearchParams(location.search).get('fn')==='g'");
    assert_eq!(browser.eval("location.search.includes('tab=chart')"), true);
    browser.check(&serving.url);
}
