//! States of a thread, one after the other: in the list, and by going from one to the next.

use std::sync::Arc;

use lttv_engine::source::Value;
use lttv_engine::synthetic::{SyntheticEvent, SyntheticFile, SyntheticTrace};
use lttv_page::{Shown, TimelinePage};
use serde_json::Value as Json;

use crate::recorded::{START, STEP, get, whole};

/// Thread 501 runs, calls `read`, is blocked in it, is woken by thread 9, waits for the CPU, returns and gives way.
pub(crate) fn page() -> TimelinePage {
    let number = |name: &str, value| (name.into(), Value::Signed(value));
    let event = |step: i64, id, fields| SyntheticEvent { ts: START + step * STEP, id, cpu: 3, fields };
    let switch = |step, prev, next| {
        event(step, 0, vec![number("prev_tid", prev), number("prev_state", 1), number("next_tid", next)])
    };
    let events = vec![
        switch(0, 7, 501),
        event(2, 1, Vec::new()),
        switch(4, 501, 9),
        event(8, 2, vec![number("tid", 501)]),
        switch(10, 9, 501),
        event(12, 3, Vec::new()),
        switch(5000, 501, 0),
        switch(6000, 0, 9),
    ];
    let classes = ["sched_switch", "syscall_entry_read", "sched_waking", "syscall_exit_read"];
    let file = SyntheticFile::new("kernel", Some(3), &classes, events);
    let source = Arc::new(SyntheticTrace::new("kernel", vec![file]));
    let shown = Shown { name: "kernel".into(), source, recording: None, notes: Vec::new(), kept: None };
    TimelinePage::new(whole(vec![shown]))
}

/// The lane of thread 501.
fn lane(page: &TimelinePage) -> String {
    let lanes = get(page, "/tl/lanes", "all=1").body;
    let rows = lanes.split("data-id=\"").skip(1);
    let found = rows.filter(|row| row.contains("data-kind=\"thread\"") && row.contains("(501)"));
    let ids: Vec<&str> = found.filter_map(|row| row.split('"').next()).collect();
    assert_eq!(ids.len(), 1, "{lanes}");
    ids[0].to_owned()
}

fn change(page: &TimelinePage, lane: &str, step: i64, dir: &str) -> Option<(i64, i64, String)> {
    let query = format!("lane={lane}&t={}&dir={dir}", START + step * STEP);
    let got: Json = serde_json::from_str(&get(page, "/tl/change", &query).body).expect("JSON");
    let step = |key: &str| Some((got[key].as_str()?.parse::<i64>().ok()? - START) / STEP);
    let woken = got["woken_by"].as_str().map_or_else(String::new, |who| format!(", woken by {}", who.trim()));
    Some((step("from")?, step("to")?, format!("{}{woken}", got["state"].as_str()?)))
}

#[test]
fn each_state_leads_to_the_next_and_back() {
    let page = page();
    let lane = lane(&page);
    let expected = [
        (2, 4, "running in read"),
        (4, 8, "blocked in read, woken by 9"),
        (8, 10, "waits for cpu in read"),
        (10, 12, "running in read"),
        (12, 5000, "running (user)"),
        (5000, 6000, "blocked in unknown"),
    ];
    let expected = expected.map(|(from, to, what)| (from, to, what.to_owned()));
    let (mut forth, mut at) = (Vec::new(), 0);
    while let Some(state) = change(&page, &lane, at, "next") {
        at = state.0;
        forth.push(state);
    }
    assert_eq!(forth, expected);
    // Back, from the begin of the last one; further back than one search reaches at first.
    let mut back = Vec::new();
    while let Some(state) = change(&page, &lane, at, "previous") {
        at = state.0;
        back.push(state);
    }
    back.reverse();
    assert_eq!(back[1..], expected[..expected.len() - 1]);
    assert_eq!((back[0].0, back[0].1), (0, 2), "the first one has no `next` that leads to it");
    // From the middle of a state.
    assert_eq!(change(&page, &lane, 3000, "previous").map(|state| (state.0, state.1)), Some((10, 12)));
    assert_eq!(change(&page, &lane, 3000, "next").map(|state| state.0), Some(5000));
}

#[test]
fn the_list_of_states_has_what_blocked_the_thread_and_who_woke_it() {
    let page = page();
    let lane = lane(&page);
    let html = get(&page, "/tl/window", &format!("tab=states&lane={lane}")).body;
    let rows: Vec<&str> = html.split("<tr data-from=").skip(1).collect();
    assert_eq!(rows.len(), 7, "{html}");
    assert!(rows[2].contains("blocked in read") && rows[2].contains(">9 "), "{}", rows[2]);
    // Each row leads to the range of its state.
    let link = format!("a={}&amp;b={}", START + 4 * STEP, START + 8 * STEP);
    assert!(rows[2].contains(&link), "{}", rows[2]);
    let part = format!("tab=states&lane={lane}&a={}&b={}", START + 5 * STEP, START + 7 * STEP);
    assert_eq!(get(&page, "/tl/window", &part).body.matches("<tr data-from=").count(), 1);
    assert!(get(&page, "/tl/window", "tab=states").body.contains("Choose the lane of a thread"));
    for bad in ["t=x&dir=next", "dir=next", "t=5&dir=up"] {
        assert_eq!(get(&page, "/tl/change", &format!("lane={lane}&{bad}")).status, 400, "{bad}");
    }
    assert_eq!(get(&page, "/tl/change", "t=5&dir=next").body, "{}", "no lane, no thread");
}

/// Names of the events of a list, in its order.
fn names(html: &str) -> Vec<&str> {
    let rows = html.split("<tr data-t=").skip(1);
    rows.filter_map(|row| row.split("class=\"swatch\"").nth(1)?.split("</span>").nth(1)?.split('<').next())
        .collect()
}

/// What is between a text and the next `<`.
fn after<'h>(html: &'h str, text: &str) -> Vec<&'h str> {
    html.split(text).skip(1).filter_map(|rest| rest.split('<').next()).collect()
}

#[test]
fn the_events_of_a_thread_are_those_while_it_ran_in_lists_and_in_statistics() {
    let page = page();
    let lane = lane(&page);
    let list = get(&page, "/tl/window", &format!("tab=events&lane={lane}")).body;
    // Its system call and what ended its turns. That thread 9 woke it and made way for it are events of thread 9.
    let own = ["syscall_entry_read", "sched_switch", "syscall_exit_read", "sched_switch"];
    assert_eq!(names(&list), own, "{list}");
    // Without script its time leads to a picture in which that place is marked.
    let link =
        list.split("<td><a href=\"tl?").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
    assert!(link.contains(&format!("hit={}", START + 2 * STEP)), "{link}");
    let there = get(&page, "/tl", &link.replace("&amp;", "&")).body;
    assert!(there.contains("<rect class=\"mark\" x=\"0.33\" y=\"0\""), "{there}");
    // A trace has no flame graph, whatever the address says.
    assert!(get(&page, "/tl/window", "tab=flame").body.contains("choose what to see"));
    let statistics = get(&page, "/tl/window", &format!("tab=stats&lane={lane}")).body;
    assert!(statistics.contains(": 4 events"), "{statistics}");
    assert_eq!(after(&statistics, "<tr data-count=\""), ["2\">", "1\">", "1\">"], "{statistics}");
    // It ran from the first event on until it was blocked, and again: 4 and 4,990 ms of CPU 3.
    assert!(statistics.contains("<td>4.994 s</td><td>4</td><td>3</td>"), "{statistics}");
    let part = format!("tab=stats&lane={lane}&a={}&b={}", START + 3 * STEP, START + 11 * STEP);
    let statistics = get(&page, "/tl/window", &part).body;
    assert!(statistics.contains(": 1 events") && statistics.contains("<td>2.000 ms</td>"), "{statistics}");
    // Hits of a search are marked in the lane of the thread whose events they are.
    let marks: Json = serde_json::from_str(&get(&page, "/tl/search", "q=sched_waking").body).expect("JSON");
    assert!(marks["total"] == 1 && marks["marks"].get(&lane).is_none(), "{marks}");
    let marks: Json = serde_json::from_str(&get(&page, "/tl/search", "q=exit_read").body).expect("JSON");
    assert_eq!(marks["marks"][&lane], serde_json::json!([12 * STEP]), "{marks}");
}

#[test]
fn the_statistics_of_a_cpu_are_of_that_cpu_and_numbers_beside_lanes_of_what_is_seen() {
    let number = |name: &str, value| (name.into(), Value::Signed(value));
    let files = [0_i64, 1].map(|cpu| {
        let event = |step: i64| SyntheticEvent {
            ts: START + step * STEP,
            id: 0,
            cpu: u32::try_from(cpu).expect("small"),
            fields: vec![
                number("prev_tid", step % 2 * (cpu + 5)),
                number("next_tid", (step + 1) % 2 * (cpu + 5)),
            ],
        };
        // CPU 0 is busy every other millisecond for a second, CPU 1 in its first 100 ms.
        let events = (0..=if cpu == 0 { 1000 } else { 99 }).map(event).collect();
        SyntheticFile::new("kernel", u32::try_from(cpu).ok(), &["sched_switch"], events)
    });
    let source = Arc::new(SyntheticTrace::new("kernel", files.into()));
    let shown = Shown { name: "kernel".into(), source, recording: None, notes: Vec::new(), kept: None };
    let page = TimelinePage::new(whole(vec![shown]));
    let rows = |query: &str| -> Vec<(String, String, String)> {
        let html = get(&page, "/tl/lanes", query).body;
        let of = |row: &str| {
            let id = row.split('"').next()?.to_owned();
            let name = row.split("title=\"").nth(1)?.split('"').next()?.to_owned();
            let amount =
                row.split("class=\"amount\"").nth(1)?.split('>').nth(1)?.split('<').next()?.to_owned();
            Some((id, name, amount))
        };
        html.split("data-id=\"").skip(1).filter_map(of).collect()
    };
    let amounts = |query: &str| -> Vec<String> {
        rows(query).into_iter().map(|(_, name, amount)| format!("{name}: {amount}")).collect()
    };
    let whole = amounts("");
    for expected in [
        "CPU 0: 50.0%",
        "events of CPU 0: 1,001",
        "CPU 1: 5.0%",
        "events of CPU 1: 100",
        "thread (5): 50.0%",
        "thread (6): 5.0%",
    ] {
        assert!(whole.iter().any(|row| row == expected), "{expected}: {whole:?}");
    }
    // The busier thread comes first. In the second half nothing happened on CPU 1.
    let threads: Vec<&String> = whole.iter().filter(|row| row.contains(" (")).collect();
    assert!(threads[0].contains("(5)") && threads[1].contains("(6)"), "{whole:?}");
    let half = amounts(&format!("from={}&to={}", START + 500 * STEP, START + 1000 * STEP));
    for expected in ["CPU 1: ", "events of CPU 1: 0", "thread (6): "] {
        assert!(half.iter().any(|row| row == expected), "{expected}: {half:?}");
    }
    let cpu_0: Vec<&String> = half.iter().filter(|row| row.contains("CPU 0: ")).collect();
    assert_eq!(*cpu_0[0], "CPU 0: 50.0%", "{half:?}");
    let lane = rows("").into_iter().find(|row| row.1 == "CPU 1").expect("a lane").0;
    let statistics = get(&page, "/tl/window", &format!("tab=stats&lane={lane}")).body;
    assert!(statistics.contains("CPU 1: 100 events"), "{statistics}");
    assert!(
        statistics.contains("<td>50.00 ms</td><td>6</td>") && !statistics.contains("<td>5</td>"),
        "{statistics}"
    );
}
