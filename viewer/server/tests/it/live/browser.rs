//! The pages' script in a real browser: headless Chromium. Where it is not installed these tests say so and pass.

use pct_deep::synthetic::{Params, generate};
use pct_deep::{Compensation, Profile};
use pct_icicle::{Options, Tree, svg};
use pct_reports::page::{self, Request};
use pct_reports::render::html::Place;
use pct_reports::subject::Subject;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::started::end_all;

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|d| d.join("chromium")).find(|p| p.exists());
    if found.is_none() {
        pct_kit::skip("chromium is not installed");
    }
    found
}

/// Opens a page (at a fragment of its address) to which a script was added that leaves its findings in the title, and returns them.
fn findings(chromium: &Path, html: &str, fragment: &str, script: &str) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("page.html");
    let page = html.replace("</body>", &format!("<script>{script}</script></body>"));
    std::fs::write(&file, page).expect("writes");
    let mut browser = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--virtual-time-budget=3000", "--dump-dom", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
        .arg(format!("file://{}{fragment}", file.display()))
        // It keeps its files by itself, and its helpers are known by this name.
        .env("HOME", dir.path())
        .envs(["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"].map(|name| (name, dir.path())))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromium runs");
    let mut dom = Vec::new();
    let read = browser.stdout.take().expect("is piped").read_to_end(&mut dom);
    let ended = browser.wait();
    end_all(dir.path(), Some(browser.id()));
    assert!(read.is_ok() && ended.is_ok(), "{read:?} {ended:?}");
    let dom = String::from_utf8_lossy(&dom);
    let title = dom.split("<title>").nth(1).and_then(|t| t.split("</title>").next());
    title.unwrap_or("no title").to_owned()
}

#[test]
fn tables_sort_and_filter_and_keys_move() {
    let Some(chromium) = chromium() else { return };
    let params = Params { contexts: 3000, procs: 150, ..Params::default() };
    let profile =
        Profile::new(generate(&params).expect("generates"), Compensation::Exact).expect("well formed");
    let request = Request::parse("top_procs/1-100/callseqs/both/oa").expect("a query");
    let html =
        page::html(&Subject::new(profile), &request, &Place { file: "x.data".into(), ..Place::default() });
    let script = r#"
        var out=[],q=function(s){return document.querySelector(s);},rows=document.querySelectorAll("main tbody tr");
        var key=function(k){document.dispatchEvent(new KeyboardEvent("keydown",{key:k,bubbles:true}));};
        var at=function(){return [].indexOf.call(document.querySelectorAll("main tbody tr"),q("tr.sel"));};
        out.push("theme "+!!q(".theme"));
        key("j");key("j");out.push("row "+at());key("k");out.push("row "+at());
        var ths=document.querySelectorAll("thead tr.second th");
        var th=[].find.call(ths,function(t){return t.textContent==="Exits";});
        var place=3+[].indexOf.call(ths,th);
        var column=function(n){return [].map.call(document.querySelectorAll("main tbody tr"),function(r){
            return +r.cells[n].textContent.replace(/,/g,"");});};
        var exits=function(){return column(place);};
        var sorted=function(a,s){return a.every(function(x,i){return !i||(x-a[i-1])*s>=0;});};
        var marked=function(){return [].map.call(document.querySelectorAll("th[aria-sort]"),function(t){
            return t.textContent+" "+t.getAttribute("aria-sort");}).join("+");};
        var state=function(s){return marked()+" "+sorted(exits(),s)+" ranks "+sorted(column(0),1)+" "+location.hash;};
        out.push(marked());
        if(!location.hash){th.click();out.push(state(-1));th.click();}
        out.push(state(1));
        var f=q(".filter");f.value="no such thing";f.dispatchEvent(new Event("input"));
        out.push("left "+document.querySelectorAll("main tbody tr:not(.off)").length);
        key("?");out.push("help "+!!q("dialog[open]"));
        document.title=out.join(", ");"#;
    let first = findings(&chromium, &html.body, "", script);
    let place = first.rsplit_once("#sort=").map(|(_, rest)| rest.split(',').next().unwrap_or_default());
    let hash = format!("#sort={}", place.unwrap_or_default());
    assert_eq!(
        first,
        format!(
            "theme true, row 1, row 0, Total descending, Exits descending true ranks true {}, \
             Exits ascending true ranks true {hash}, left 0, help true",
            hash.replace('a', "d")
        )
    );
    // A reload, or a link that somebody was given, shows the same order.
    assert_eq!(
        findings(&chromium, &html.body, &hash, script),
        format!(
            "theme true, row 1, row 0, Exits ascending, Exits ascending true ranks true {hash}, left 0, help true"
        )
    );
}

#[test]
fn pictures_zoom_and_search() {
    let Some(chromium) = chromium() else { return };
    let mut tree = Tree::new("all");
    tree.add_stack(["main", "left", "deep"], 30);
    tree.add_stack(["main", "right"], 70);
    let html = format!("<!doctype html><title>x</title><body>{}</body>", svg(&tree, &Options::default()));
    let script = r#"
        var out=[],svg=document.querySelector("svg"),frames=svg.querySelectorAll(".f");
        var find=function(n){return [].find.call(frames,function(g){
            return g.querySelector("title").textContent.indexOf(n+" (")===0;});};
        var left=find("left"),w=function(){return left.querySelector("rect").getAttribute("width");};
        out.push(w());
        left.dispatchEvent(new MouseEvent("click",{bubbles:true,cancelable:true}));
        out.push(w()+" hidden "+svg.querySelectorAll(".off").length);
        var box=svg.querySelector(".ask input"),kept=location.hash;
        out.push(box.value);
        box.value="^right$";box.dispatchEvent(new Event("input"));out.push(svg.querySelector(".m").textContent);
        out.push(location.hash);
        svg.querySelector(".reset").dispatchEvent(new MouseEvent("click",{bubbles:true}));
        out.push(w()+" hidden "+svg.querySelectorAll(".off").length);
        document.title=out.join(", ");"#;
    assert_eq!(
        findings(&chromium, &html, "", script),
        "30%, 100% hidden 1, , matched 1 frames, 70.00%, #zoom=2.left&amp;find=%5Eright%24, 30% hidden 0"
    );
    // Somebody who is given the address sees the same.
    assert_eq!(
        findings(&chromium, &html, "#zoom=2.left&find=deep", script),
        "100%, 100% hidden 1, deep, matched 1 frames, 70.00%, #zoom=2.left&amp;find=%5Eright%24, 30% hidden 0"
    );
}

/// What a page says of columns beyond the window: the note that is seen, the heads that are not. It is told to the page around.
const NOTES: &str = r#"
    var edge=document.documentElement.clientWidth,all=function(q){return [].slice.call(document.querySelectorAll(q));};
    var shown=function(e){return getComputedStyle(e).display!=="none";},text=function(e){return e.textContent;};
    var wide=function(e){return e.getBoundingClientRect().width>1;};
    var heads=all("table.data thead th:not(.group)");
    parent.postMessage([name,edge,all("p.cut").filter(shown).map(text),
        heads.filter(function(th){return wide(th)&&th.getBoundingClientRect().right>edge+1;}).map(text),
        heads.filter(function(th){return !wide(th);}).map(text),all("p.narrow").filter(shown).map(text)],"*");"#;

/// What [`NOTES`] finds in a window of a width.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Notes {
    /// The window's name: its place in the list of windows.
    window: String,
    edge: u32,
    notes: Vec<String>,
    cut: Vec<String>,
    gone: Vec<String>,
    left_out: Vec<String>,
}

/// Shows pages in windows of these widths, all in one page: a window of headless Chromium is never narrower than 500.
fn notes(chromium: &Path, windows: &[(&str, u32)]) -> Vec<Notes> {
    let mut frames = String::new();
    for (place, (html, width)) in windows.iter().enumerate() {
        let page = html.replace("</body>", &format!("<script>{NOTES}</script></body>"));
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        frames += &format!(
            "<iframe name={place} style='width:{width}px;height:600px;border:0' srcdoc=\"{page}\"></iframe>"
        );
    }
    let collect = "<script>var found=[];addEventListener('message',function(e){found.push(e.data);\
                   document.title=JSON.stringify(found);});</script>";
    let outer = format!("<!doctype html><title>none</title><body>{collect}{frames}</body>");
    let found = findings(chromium, &outer, "", "");
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let mut found: Vec<Notes> = serde_json::from_str(&found).unwrap_or_else(|e| panic!("{e}: {found}"));
    found.sort_by_key(|notes| notes.window.parse::<usize>().expect("a place"));
    assert_eq!(found.len(), windows.len(), "each window answered");
    found
}

#[test]
fn columns_beyond_the_window_are_named_with_and_without_script() {
    let Some(chromium) = chromium() else { return };
    let params = Params { contexts: 3000, procs: 150, ..Params::default() };
    let profile =
        Profile::new(generate(&params).expect("generates"), Compensation::Exact).expect("well formed");
    let subject = Subject::new(profile);
    let widths: &[u32] = if pct_kit::long() { &[400, 640, 700, 1000, 1400, 2000] } else { &[400, 700, 2000] };
    let least = if pct_kit::long() { 6 } else { 2 };
    let (mut ever_cut, mut ever_whole) = (0, 0);
    for query in ["top_procs/1-100/callseqs/both/oa", "program_modules", "proc/7", "root/no"] {
        let request = Request::parse(query).expect("a query");
        let html = page::html(&subject, &request, &Place { file: "x.data".into(), ..Place::default() }).body;
        let script = html.rfind("<script").expect("the page's script is its last");
        let end = html[script..].find("</script>").expect("an end") + script;
        let plain = format!("{}{}", &html[..script], &html[end + "</script>".len()..]);
        let windows: Vec<(&str, u32)> =
            widths.iter().flat_map(|width| [(html.as_str(), *width), (plain.as_str(), *width)]).collect();
        for (pair, width) in notes(&chromium, &windows).chunks(2).zip(widths.iter().copied()) {
            let [with, without] = pair else { panic!("two windows of each width") };
            let at = format!("{query} at {width}: {with:?}, without script {without:?}");
            assert_eq!(with.edge, width, "{at}");
            assert_eq!(with.cut.len(), without.cut.len(), "script changes no width: {at}");
            for name in with.gone.iter().filter(|name| *name != "Rank") {
                assert!(with.left_out.iter().all(|note| note.contains(name)), "{at}");
                assert!(!with.left_out.is_empty() && with.left_out == without.left_out, "{at}");
            }
            if with.cut.is_empty() {
                ever_whole += 1;
                assert!(with.notes.is_empty(), "nothing is cut: {at}");
                continue;
            }
            ever_cut += 1;
            // With script each column that is cut is named, and no other.
            let note = with.notes.join("\n");
            assert!(note.starts_with("to the right, beyond the window: "), "{at}");
            let shares = |text: &str| text.matches('%').count();
            assert_eq!(shares(&note), shares(&with.cut.join(" ")), "{at}");
            assert!(with.cut.iter().all(|name| note.contains(name)), "{at}");
            // Without, the note says how to come to them.
            assert!(without.notes.iter().any(|note| note.contains("scroll to the right")), "{at}");
        }
    }
    assert!(
        ever_cut > least && ever_whole > least,
        "there are wide and narrow windows: {ever_cut}, {ever_whole}"
    );
}
