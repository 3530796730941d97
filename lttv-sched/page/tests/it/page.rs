//! Addresses and what they give, without a browser.

use std::collections::HashSet;
use std::sync::Arc;

use lttv_engine::source::Value;
use lttv_engine::synthetic::{SyntheticEvent, SyntheticFile, SyntheticTrace};
use lttv_modules::timeline::lanes::STATES;
use lttv_page::recording::TimeOf;
use lttv_page::{Recording, Shown, TimelinePage};
use pct_kit::wait::wait_for;
use pct_server::answer::Answers as _;
use serde_json::Value as Json;

use crate::recorded::{HOSTILE, SAMPLES, START, STEP, get, page, recording, whole};

fn json(text: &str) -> Json {
    serde_json::from_str(text).expect("JSON")
}

/// A tile. An answer that would take long comes as far as it is, and is asked for again.
fn final_tile(page: &TimelinePage, level: u32, index: i64) -> Json {
    wait_for("a final tile", || {
        let tile = json(&get(page, "/tl/tile", &format!("l={level}&i={index}")).body);
        (tile["final"] == Json::Bool(true)).then_some(tile)
    })
}

#[test]
fn senseless_addresses_are_refused_with_the_limit() {
    let page = page();
    let many = "0.1,".repeat(1001);
    for (path, query) in [
        ("/tl", "from=x".to_owned()),
        ("/tl", "from=9&to=3".to_owned()),
        ("/tl/tile", String::new()),
        ("/tl/tile", "l=2&i=0".to_owned()),
        ("/tl/tile", "l=46&i=0".to_owned()),
        ("/tl/tile", "l=3&i=9223372036854775807".to_owned()),
        ("/tl/tile", "l=20&i=99999999999999999999".to_owned()),
        ("/tl/tile", format!("l=20&i=0&lanes={many}")),
        ("/tl/tile", "l=20&i=0&lanes=x".to_owned()),
        ("/tl/names", "k=1".to_owned()),
        ("/tl/colours", "block=1".to_owned()),
        ("/tl/colours", "block=0.1048576".to_owned()),
        ("/tl/window", "a=1&b=y".to_owned()),
    ] {
        assert_eq!(get(&page, path, &query).status, 400, "{path}?{query}");
    }
    assert!(page.answer_path("/tl/nothing", "").is_none());
    // A tile far away is empty and final.
    let far = json(&get(&page, "/tl/tile", "l=45&i=-1024").body);
    assert_eq!((&far["final"], &far["sum"]["n"]), (&Json::Bool(true), &Json::from(0)));
}

#[test]
fn a_page_that_has_moved_on_is_told_so() {
    let page = page();
    let index = START >> (5 + 8);
    let ask = |g: u32| get(&page, "/tl/tile", &format!("l=5&i={index}&page=9&g={g}")).status;
    assert_eq!((ask(3), ask(4), ask(4), ask(3)), (200, 200, 200, 410));
}

#[test]
fn tiles_at_every_level_have_the_samples_of_their_time() {
    let page = page();
    let mut counted = HashSet::new();
    for level in [3u32, 9, 16, 20, 24, 30, 45] {
        for offset in [0, 1, 700, SAMPLES - 1] {
            let time = START + offset * STEP;
            let index = time >> (level + 8);
            let (from, to) = (index << (level + 8), (index + 1) << (level + 8));
            let expected: usize = [1, 4]
                .iter()
                .map(|every| {
                    (0..SAMPLES).step_by(*every).filter(|i| (from..to).contains(&(START + i * STEP))).count()
                })
                .sum();
            let marks = usize::from((from..to).contains(&(START + 7)));
            let tile = final_tile(&page, level, index);
            assert_eq!(tile["sum"]["n"], Json::from(expected + marks), "level {level}, {offset}");
            counted.insert(expected);
        }
    }
    assert!(counted.len() > 4);
}

#[test]
fn a_block_of_colours_has_those_of_its_names_and_ends_with_them() {
    let page = page();
    // States and names of events; functions; a block and a trace in which there is nothing.
    let mut sizes = Vec::new();
    for (block, first) in [("0.0", 0u32), ("0.262144", 1 << 30), ("0.5", 5 << 12), ("7.0", 0)] {
        let text = json(&get(&page, "/tl/colours", &format!("block={block}")).body)["colours"].clone();
        let text = text.as_str().expect("text");
        let count = u32::try_from(text.len() / 6).expect("small");
        let trace = block.split('.').next().expect("a number");
        for (at, key) in (first..first + count + 1).enumerate() {
            let word = format!("{trace}.{key}");
            let named = json(&get(&page, "/tl/names", &format!("k={word}")).body)[&word].clone();
            let colour = text.get(at * 6..at * 6 + 6).map(|digits| Json::from(format!("#{digits}")));
            assert_eq!(named.get("color").cloned(), colour, "{word}");
        }
        sizes.push(count);
    }
    assert!(sizes[0] > 10 && sizes[1] > 2 && sizes[2..] == [0, 0], "{sizes:?}");
}

#[test]
fn names_become_neither_markup_nor_script() {
    let page = page();
    let html = get(&page, "/tl", "").body;
    assert!(!html.contains("<b onclick"), "{html}");
    let window = get(&page, "/tl/window", "tab=events").body;
    assert!(!window.contains("<b onclick"));
    // Nor do they steer what shows them: hidden characters are written out in each part of the page.
    for (path, query) in [
        ("/tl", ""),
        ("/tl", "tab=sandwich"),
        ("/tl", "tab=tree"),
        ("/tl", "tab=heavy"),
        ("/tl", "name=%E2%80%AE&q=%E2%80%AE"),
        ("/tl/lanes", ""),
        ("/tl/window", "tab=stats"),
        ("/tl/window", "tab=events"),
        ("/tl/window.json", ""),
        ("/tl/meta", ""),
        ("/tl/names", "k=0.0,0.1,0.2"),
        ("/tl/search", "q=name"),
        ("/tl", "from=%E2%80%AE"),
    ] {
        let body = get(&page, path, query).body;
        let hidden = body.find(|c| pct_text::is_hidden(c) && !matches!(c, '\n' | '\t'));
        assert_eq!(hidden, None, "{path}?{query}: {body:?}");
    }
    let scripts = html.matches("<script").count();
    assert_eq!(html.matches("</script>").count(), scripts);
    let figures = json(&get(&page, "/tl/window.json", "").body);
    let names = figures["recordings"][0]["functions"].as_array().expect("functions");
    assert!(names.iter().any(|row| row["name"] == HOSTILE));
}

/// A kernel trace in which the recording's second thread, 501, runs on CPU 3 from the 10th to the 20th of its steps.
pub(crate) fn kernel_trace() -> Shown {
    let switch = |step: i64, prev: i64, next: i64| {
        let field = |name: &str, value| (name.into(), Value::Signed(value));
        let fields = vec![field("prev_tid", prev), field("prev_state", 1), field("next_tid", next)];
        SyntheticEvent { ts: START + step * STEP, id: 0, cpu: 3, fields }
    };
    let events = vec![switch(0, 7, 0), switch(10, 0, 501), switch(20, 501, 0), switch(30, 0, 7)];
    let file = SyntheticFile::new("kernel", Some(3), &["sched_switch"], events);
    let source = Arc::new(SyntheticTrace::new("kernel", vec![file]));
    Shown {
        name: "kernel".into(),
        source,
        recording: None,
        notes: vec!["its times are shifted by 5 ns".into()],
        kept: None,
    }
}

#[test]
fn a_recording_and_a_kernel_trace_lie_on_one_axis_and_a_threads_lanes_together() {
    let page = TimelinePage::new(whole(vec![Shown::recording(recording()), kernel_trace()]));
    let lanes = get(&page, "/tl/lanes", "all=1").body;
    let rows: Vec<(&str, &str)> = lanes
        .split("data-id=\"")
        .skip(1)
        .filter_map(|rest| {
            Some((rest.split('"').next()?, rest.split("data-kind=\"").nth(1)?.split('"').next()?))
        })
        .collect();
    let kinds: Vec<&str> = rows.iter().map(|row| row.1).collect();
    assert_eq!(kinds[..5], ["cpu", "events", "samples", "samples", "thread"], "{rows:?}");
    // The states of thread 501 beside its samples: nothing is known until it runs; blocked after.
    let level = 19;
    let bucket = |step: i64| (START + step * STEP) >> level;
    let state = |step: i64| {
        let tile = final_tile(&page, level, bucket(step) >> 8);
        let cells = tile["lanes"][rows[4].0]["c"].as_array().expect("cells").clone();
        let place = bucket(step) & 255;
        let cell = cells.chunks(9).find(|cell| {
            let (at, len) = (cell[0].as_i64().expect("a place"), cell[1].as_i64().expect("a length"));
            (at..at + len).contains(&place)
        });
        cell.map(|cell| STATES[usize::try_from(cell[4].as_u64().expect("a key")).expect("small")])
    };
    assert_eq!((state(5), state(15), state(25)), (None, Some("running"), Some("blocked")));
    assert!(get(&page, "/tl", "").body.contains("shifted by 5 ns"));
}

#[test]
fn what_is_no_cpu_time_is_nowhere_called_so() {
    for (time, unit, word, absent) in [
        (TimeOf::Wall, "wall s", "wall", "CPU"),
        (TimeOf::Cpu, "CPU s", "CPU", "wall s"),
        (TimeOf::Named("delay".into()), "s of delay", "delay", "CPU"),
        (TimeOf::Samples("1 ms a sample".into()), "s at 1 ms a sample", "1 ms a sample", "CPU"),
    ] {
        let page = TimelinePage::new(whole(vec![Shown::recording(Recording { time, ..recording() })]));
        let html = get(&page, "/tl", "part=1").body;
        // What is said of these samples: the help is about any.
        let said = html.split("<dialog").next().expect("a page");
        assert!(said.contains(&format!(" {unit}<")) && said.contains(&format!("<th>{unit}</th>")), "{said}");
        assert!(!said.contains(absent), "{absent}: {said}");
        let figures = json(&get(&page, "/tl/window.json", "").body);
        assert_eq!(figures["recordings"][0]["clock"], word);
    }
}

/// The links of a page that lead to pages of the timeline.
fn links(html: &str) -> Vec<String> {
    html.split("href=\"tl?")
        .skip(1)
        .filter_map(|rest| Some(rest.split('"').next()?.replace("&amp;", "&")))
        .collect()
}

#[test]
fn without_script_links_lead_everywhere_and_each_page_has_its_picture() {
    let page = page();
    // A page whose picture is not final comes again by itself.
    let first = wait_for("a final picture", || {
        let html = get(&page, "/tl", "").body;
        (!html.contains("http-equiv=\"refresh\"")).then_some(html)
    });
    assert!(first.contains("<svg") && first.contains("<rect x="), "a picture");
    let links_of_first = links(&first);
    assert!(links_of_first.len() > 12, "{links_of_first:?}");
    for query in links_of_first {
        let next = get(&page, "/tl", &query);
        assert_eq!(next.status, 200, "{query}");
        assert!(next.body.contains("<svg"), "{query}");
    }
    // A range by address alone: the numbers of the page are those of the data.
    let (a, b) = (START + 100 * STEP, START + 300 * STEP);
    let figures = json(&get(&page, "/tl/window.json", &format!("a={a}&b={b}")).body);
    assert_eq!(figures["recordings"][0]["samples"], 200 + 50);
    let html = get(&page, "/tl", &format!("a={a}&b={b}")).body;
    assert!(html.contains("250 samples, 0.25 CPU s"), "{html}");
    // Of the second thread alone.
    let alone = get(&page, "/tl/lanes", "").body;
    let id = alone.split("data-id=\"").nth(2).and_then(|rest| rest.split('"').next()).expect("a second lane");
    let figures = json(&get(&page, "/tl/window.json", &format!("a={a}&b={b}&lane={id}")).body);
    assert_eq!(figures["recordings"][0]["samples"], 50, "lane {id}");
}

#[test]
fn a_list_of_events_goes_on_where_it_ended() {
    let page = page();
    let mut query = "tab=events".to_owned();
    let mut seen = 0;
    for _ in 0..100 {
        let html = get(&page, "/tl/window", &query).body;
        seen += html.matches("<tr data-t=").count();
        match links(&html).into_iter().rfind(|link| html.contains(">next<") && link.contains("at=")) {
            Some(next) => query = next,
            None => break,
        }
    }
    let (all, quarter) = (SAMPLES, SAMPLES / 4);
    assert_eq!(seen, usize::try_from(all + quarter + 1).expect("small"));
}
