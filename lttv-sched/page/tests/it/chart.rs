//! The stack chart of a thread: where its calls stand, and what is said of them.

use crate::recorded::{HOSTILE, SAMPLES, START, STEP, get, page};
use crate::workbench::file;

/// Name, left edge and width of all frames, in percent of the picture.
fn frames(html: &str) -> Vec<(String, f64, f64)> {
    let number = |text: &str, name: &str| {
        let text = text.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('%').next());
        text.and_then(|text| text.parse().ok()).expect("a number")
    };
    let frame = |text: &str| {
        let title = text.split("</title>").next().expect("a title");
        let name = title.rsplit_once(" (").map_or(title, |(name, _)| name);
        (name.to_owned(), number(text, "x"), number(text, "width"))
    };
    html.split("<title>").skip(1).map(frame).collect()
}

#[test]
fn calls_stand_where_their_time_is() {
    let page = page();
    // The span of the page ends a sample before the last call does.
    let (from, to) = (START, START + SAMPLES * STEP);
    let html = get(&page, "/tl/window", &format!("tab=chart&from={from}&to={to}")).body;
    let frames = frames(&html);
    let names: Vec<&str> = frames.iter().map(|frame| &*frame.0).collect();
    assert_eq!(names[..3], ["prog (500)", "main", "parse"], "{html}");
    assert_eq!(frames.len(), 2 + 8);
    for (at, (name, x, width)) in frames[2..].iter().enumerate() {
        let want = at as f64 * 12.5;
        assert!((x - want).abs() < 1e-3 && (width - 12.5).abs() < 1e-3, "{name}: {x} {width}");
    }
    assert!(html.contains("(500.0 ms, 12.50%; libc.so.6; from 1.00"), "{html}");
    // In a range that begins and ends within calls they are cut, and keep their places.
    let (a, b) = (START + 250 * STEP, START + 750 * STEP);
    let html = get(&page, "/tl/window", &format!("tab=chart&a={a}&b={b}")).body;
    let places: Vec<(f64, f64)> = frames_of(&html).collect();
    assert_eq!(places, [(0.0, 100.0), (0.0, 100.0), (0.0, 50.0), (50.0, 50.0)]);
    // Where there is no sample nothing is drawn: before the first one, and after the last.
    let (a, b) = (START - 1000 * STEP, START + 500 * STEP);
    let html = get(&page, "/tl/window", &format!("tab=chart&from={a}&to={b}")).body;
    let places: Vec<(f64, f64)> = frames_of(&html).collect();
    assert_eq!(places, [(0.0, 100.0), (66.6667, 33.3333), (66.6667, 33.3333)]);
}

fn frames_of(html: &str) -> impl Iterator<Item = (f64, f64)> {
    frames(html).into_iter().map(|frame| (frame.1, frame.2))
}

#[test]
fn what_is_drawn_is_said() {
    let page = page();
    let html = get(&page, "/tl/window", "tab=chart").body;
    for words in [
        "This is the thread that ran most here: <b>prog (500)</b>",
        "Each column stands for 6.248 ms; it is empty where the thread has no sample.",
        "In 3 of 8 columns there was more than one stack",
        "In 2 columns the stack has more than 200 levels",
    ] {
        assert!(html.contains(words), "{words}: {html}");
    }
    // A thread that was chosen is not said to be the one that ran most.
    let html = get(&page, "/tl/window", "tab=chart&lane=0.1").body;
    assert!(!html.contains("This is the thread") && html.contains("<figure"), "{html}");
    assert!(!html.contains("<b onclick") && frames(&html)[0].0.contains("(501)"), "{html}");
    // Calls lead to their functions.
    let link =
        html.split("href=\"").filter_map(|rest| rest.split('"').next()).find(|at| at.contains("fn=write"));
    let there = get(&page, "/tl", &link.expect("a link")["tl?".len()..].replace("&amp;", "&")).body;
    assert!(there.contains("of the range,") && there.contains("<b title=\"write\""), "{there}");
    // Nothing is drawn of a range without samples, and a filter that is no pattern is told.
    let none = get(&page, "/tl/window", "tab=chart&function=nosuch").body;
    assert!(!none.contains("<figure"), "{none}");
    assert!(get(&page, "/tl/window", "tab=chart&function=(").body.contains("bad pattern"));
}

#[test]
fn the_chart_is_saved_as_it_is_seen() {
    let page = page();
    let (svg, kind) = file(&page, "tab=chart&as=flame");
    assert_eq!((kind, frames(&svg).len()), ("image/svg+xml", 10));
    assert!(svg.contains("stack chart of prog (500)") && !svg.contains("href=\"tl"), "{svg}");
    assert_eq!(file(&page, "tab=chart&as=flame&lane=0.1").0.matches(HOSTILE).count(), 0);
    let none = file(&page, "tab=chart&as=flame&function=nosuch").0;
    assert!(none.starts_with("<svg") && none.contains("no sample"), "{none}");
}
