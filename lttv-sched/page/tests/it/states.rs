//! States of a thread, one after the other: in the list, and by going from one to the next.

use std::sync::Arc;

use lttv_engine::source::Value;
use lttv_engine::synthetic::{SyntheticEvent, SyntheticFile, SyntheticTrace};
use lttv_page::{Shown, TimelinePage};
use serde_json::Value as Json;

use crate::recorded::{START, STEP, get, whole};

/// Thread 501 runs, calls `read`, is blocked in it, is woken by thread 9, waits for the CPU, returns and gives way.
fn page() -> TimelinePage {
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
