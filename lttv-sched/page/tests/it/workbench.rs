//! What is made of the samples of a range, by address alone: pictures, trees, filters, transforms, files, search.

use lttv_page::{Shown, TimelinePage};
use pct_server::answer::{Answers as _, Reply};
use serde_json::Value as Json;

use crate::recorded::{HOSTILE, SAMPLES, START, STEP, get, page, recording, whole};

fn json(text: &str) -> Json {
    serde_json::from_str(text).expect("JSON")
}

/// The file of an address, and its type.
pub(crate) fn file(page: &TimelinePage, query: &str) -> (String, &'static str) {
    match page.answer_path("/tl/file", query) {
        Some(Reply::Stream(stream)) => {
            let bytes: Vec<u8> = stream.pieces.flatten().collect();
            (String::from_utf8(bytes).expect("text"), stream.content_type)
        }
        Some(Reply::Whole(response)) => panic!("{query}: {} {}", response.status, response.body),
        None => panic!("{query}: no answer"),
    }
}

/// The attributes of a name, as numbers.
fn numbers(html: &str, name: &str) -> Vec<u64> {
    let attribute = format!("{name}=\"");
    let texts = html.split(&*attribute).skip(1).filter_map(|rest| rest.split('"').next());
    texts.map(|text| text.parse().expect("a number")).collect()
}

const ALL_NS: u64 = 5_000_000_000;

#[test]
fn every_picture_of_a_range_has_the_same_sum() {
    let page = page();
    for tab in ["flame", "heavy", "inverted", "sandwich&fn=main", "tree"] {
        let html = get(&page, "/tl/window", &format!("tab={tab}")).body;
        assert!(html.contains("5,000 samples, 5.00 CPU s"), "{tab}: {html}");
        match tab {
            "tree" => {
                let own: u64 = numbers(&html, "data-own").iter().sum();
                assert_eq!((own, numbers(&html, "data-total")[0]), (ALL_NS, ALL_NS));
                assert_eq!(html.matches("<details open").count(), 1, "{html}");
            }
            _ => {
                let pictures = if tab.starts_with("sandwich") { 2 } else { 1 };
                assert_eq!(html.matches("<figure").count(), pictures, "{tab}");
                assert!(html.matches("(5.000 s, 100.00%").count() >= pictures, "{tab}: {html}");
                assert_eq!(numbers(&html, "data-own").iter().sum::<u64>(), ALL_NS, "{tab}");
            }
        }
    }
    // Callers stand above the function, callees below it.
    let html = get(&page, "/tl/window", "tab=sandwich&fn=main").body;
    assert!(
        html.find("pct-icicle flame").expect("callers") < html.find("pct-icicle icicle").expect("callees")
    );
    let none = get(&page, "/tl/window", "tab=sandwich&fn=nobody").body;
    assert!(none.contains("No sample of this range has nobody"), "{none}");
}

#[test]
fn what_is_about_one_function_begins_with_the_one_that_has_most_time() {
    let page = page();
    let most = json(&get(&page, "/tl/window.json", "").body)["recordings"][0]["functions"][0]["name"].clone();
    let most: String = most.as_str().expect("a name").bytes().map(|byte| format!("%{byte:02x}")).collect();
    for tab in ["sandwich", "source"] {
        let html = get(&page, "/tl/window", &format!("tab={tab}")).body;
        let chosen = get(&page, "/tl/window", &format!("tab={tab}&fn={most}")).body;
        assert!(html.contains("This is the function with most time here."), "{tab}: {html}");
        assert!(!chosen.contains("This is the function with most"), "{tab}");
        let pictures =
            |html: &str| (html.matches("<figure").count(), html.matches("class=\"data listing\"").count());
        assert_eq!(pictures(&html), pictures(&chosen), "{tab}");
        assert_ne!(pictures(&html), (0, 0), "{tab}");
    }
    // What has no sample has no such function.
    let empty = get(&page, "/tl/window", "tab=sandwich&function=nosuch").body;
    assert!(!empty.contains("This is the function") && !empty.contains("<figure"), "{empty}");
}

#[test]
fn legends_are_of_where_time_was_spent_in_pictures_of_callers_too() {
    let page = page();
    let keys = |tab: &str| -> Vec<String> {
        let html = get(&page, "/tl/window", &format!("tab={tab}")).body;
        let picture = html.split("<figure").nth(1).unwrap_or_default();
        let keys = picture.split("class=\"s\" x=\"17\"").skip(1);
        keys.filter_map(|key| Some(key.split('>').nth(1)?.split('<').next()?.to_owned())).collect()
    };
    let spent = keys("flame");
    assert!(spent.len() > 1, "{spent:?}");
    assert_eq!(keys("inverted"), spent);
    assert_eq!(keys("heavy"), spent);
}

#[test]
fn a_recording_of_samples_has_neither_processors_nor_states() {
    let page = page();
    let html = get(&page, "/tl/window", "tab=events").body;
    assert!(!html.contains(">CPU</th>") && !html.contains("data-tab=\"states\""), "{html}");
    // Whoever comes by an old address still has the tab.
    assert!(get(&page, "/tl/window", "tab=states").body.contains("Choose the lane of a thread"));
}

#[test]
fn filters_and_transforms_stand_in_the_address_and_can_be_taken_away() {
    let page = page();
    let count = |query: &str| {
        json(&get(&page, "/tl/window.json", query).body)["recordings"][0]["samples"]
            .as_u64()
            .expect("a count")
    };
    let all = count("");
    let (parse, rest) = (count("function=parse"), count("x=ignore:parse"));
    assert!(parse > 0 && rest > 0);
    assert_eq!(parse + rest, all);
    assert_eq!(count("function=parse&x=ignore:parse"), 0);
    let html = get(&page, "/tl/window", "function=parse&x=ignore:write&x=merge:a%26b").body;
    let chips: Vec<&str> = html.split("class=\"chip\" href=\"").skip(1).collect();
    assert_eq!(chips.len(), 3, "{html}");
    assert!(!chips[0].split('"').next().expect("a link").contains("function="));
    let without_first = chips[1].split('"').next().expect("a link");
    assert!(
        without_first.contains("x=merge:a%26b") && !without_first.contains("x=ignore"),
        "{without_first}"
    );
    assert!(html.contains("--focus &#39;parse&#39;") || html.contains("--focus 'parse'"), "{html}");
    // What is no pattern is said, in words on the page and as an error to who asks for numbers.
    assert!(get(&page, "/tl/window", "function=(").body.contains("bad pattern"));
    assert_eq!(get(&page, "/tl/window.json", "function=(").status, 400);
}

#[test]
fn the_chosen_function_has_its_controls_and_its_source() {
    let page = page();
    let bar = get(&page, "/tl/window", "fn=parse").body;
    for control in [
        "sandwich",
        "source",
        "only below it",
        "without it",
        "merge into callers",
        "collapse recursion",
        "collapse prog",
    ] {
        assert!(bar.contains(&format!(">{control}</a>")), "{control}: {bar}");
    }
    let html = get(&page, "/tl/window", "tab=source&fn=parse").body;
    assert!(
        html.contains("src/prog.c") && html.contains("if (a &lt; b)") && html.contains("no instructions"),
        "{html}"
    );
    assert!(html.contains("data-line=\"8\"") && html.contains("50.0%"), "{html}");
    // Names of functions are links that survive whatever stands in them.
    let html = get(&page, "/tl", "tab=tree").body;
    assert!(!html.contains("<b onclick"));
    let link = html
        .split("class=\"fn\" href=\"tl?")
        .filter_map(|rest| rest.split('"').next())
        .find(|l| l.contains("onclick"));
    let sandwich = get(&page, "/tl", &link.expect("a link").replace("&amp;", "&")).body;
    assert!(!sandwich.contains("No sample of this range"), "{sandwich}");
    assert!(!HOSTILE.is_empty() && !sandwich.contains("<b onclick"));
}

#[test]
fn the_window_is_saved_with_what_is_seen() {
    let page = page();
    let (a, b) = (START + 100 * STEP, START + 300 * STEP);
    let (folded, kind) = file(&page, &format!("a={a}&b={b}&as=folded&r=0"));
    assert_eq!((folded.matches("main;").count(), kind), (250, "text/plain; charset=utf-8"));
    assert_eq!(file(&page, &format!("a={a}&b={b}&x=ignore:parse&as=jsonl")).0.lines().count(), 50);
    let (svg, kind) = file(&page, "as=flame");
    assert!(svg.starts_with("<svg") && svg.contains("5.000 s") && kind == "image/svg+xml");
    assert!(!svg.contains("href="), "a file has no links into a server");
    let (svg, _) = file(&page, "as=lanes");
    assert!(svg.starts_with("<svg") && svg.matches("<svg").count() == svg.matches("</svg>").count());
    // Events come piece by piece, none twice.
    let (events, _) = file(&page, "as=events");
    let times: Vec<i64> = events.lines().map(|line| json(line)["ns"].as_i64().expect("a time")).collect();
    assert_eq!(times.len(), usize::try_from(SAMPLES + SAMPLES / 4 + 1).expect("small"));
    assert!(times.is_sorted());
    for bad in ["as=exe", "as=folded&r=7", "as=flame&function=("] {
        assert_eq!(get(&page, "/tl/file", bad).status, 400, "{bad}");
    }
}

#[test]
fn a_search_finds_functions_and_marks_and_leads_from_hit_to_hit() {
    let page = TimelinePage::new(whole(vec![Shown::recording(recording())]));
    let found = |query: &str| json(&get(&page, "/tl/search", query).body);
    let parse = found("q=parse");
    let expected =
        json(&get(&page, "/tl/window.json", "function=parse").body)["recordings"][0]["samples"].clone();
    assert_eq!(parse["total"], expected);
    let marks: usize =
        parse["marks"].as_object().expect("lanes").values().map(|m| m.as_array().expect("marks").len()).sum();
    assert!(marks > 100 && parse["seen"] == expected, "{marks}");
    assert_eq!(found("q=begin")["total"], 1, "a mark of the program");
    assert_eq!(found("q=nowhere")["total"], 0);
    assert!(found("q=(")["problems"][0].as_str().expect("words").contains("bad pattern"));
    // From the first hit to the last one and back.
    let mut hit = START - 1;
    let mut seen = 0_u64;
    while let Some(next) = found(&format!("q=parse&hit={hit}"))["next"].as_str().map(str::to_owned) {
        let next: i64 = next.parse().expect("a time");
        assert!(next > hit);
        hit = next;
        seen += 1;
        if seen == 3 {
            hit = START + (SAMPLES - 1) * STEP;
        }
    }
    let last = found(&format!("q=parse&hit={hit}"));
    assert!(last["previous"].is_string());
    // Without script: marks in the picture, links to the next hit with that hit in the middle.
    let html = get(&page, "/tl", "q=parse").body;
    assert!(html.contains("class=\"mark\"") && html.contains("rel=\"next\""), "{html}");
    assert!(!get(&page, "/tl", "q=nowhere").body.contains("class=\"mark\""));
}
