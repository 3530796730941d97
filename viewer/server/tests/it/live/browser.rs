//! The pages' script in a real browser: headless Chromium. Without Chromium these tests say so and pass.

use pct_deep::synthetic::{Params, generate};
use pct_deep::{Compensation, Profile};
use pct_icicle::{Options, Tree, svg};
use pct_reports::page::{self, Request};
use pct_reports::render::html::PageContext;
use pct_reports::subject::Subject;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pct_kit::started::end_all;

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|d| d.join("chromium")).find(|p| p.exists());
    if found.is_none() {
        pct_kit::skip("chromium is not installed");
    }
    found
}

/// Opens a page (at a fragment of its address) with an added script that stores its findings in the title, and returns
/// them.
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
    let request = Request::parse("program_modules").expect("a query");
    let html = page::html(
        &Subject::new(profile),
        &request,
        &PageContext { file: "x.data".into(), ..PageContext::default() },
    );
    let script = r#"
        var out=[],q=function(s){return document.querySelector(s);},rows=document.querySelectorAll("main tbody tr");
        var key=function(k){document.dispatchEvent(new KeyboardEvent("keydown",{key:k,bubbles:true}));};
        var at=function(){return [].indexOf.call(document.querySelectorAll("main tbody tr"),q("tr.sel"));};
        out.push("theme "+!!q(".theme"));
        key("j");key("j");out.push("row "+at());key("k");out.push("row "+at());
        var ths=document.querySelectorAll("thead tr.second th");
        var th=[].find.call(ths,function(t){return t.textContent==="Exits";});
        var place=2+[].indexOf.call(ths,th);
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
            "theme true, row 1, row 0, , Exits descending true ranks true {}, \
             Exits ascending true ranks true {hash}, left 0, help true",
            hash.replace('a', "d")
        )
    );
    // A reload, or a link given to somebody, shows the same order.
    assert_eq!(
        findings(&chromium, &html.body, &hash, script),
        format!(
            "theme true, row 1, row 0, Exits ascending, Exits ascending true ranks true {hash}, left 0, help true"
        )
    );
}

#[test]
fn labels_are_whole_names_whatever_stands_in_brackets_behind_them() {
    let Some(chromium) = chromium() else { return };
    let mut tree = Tree::new("all (1)");
    tree.add_stack(["main", "T::f(int (*)(char))"], 30);
    let options = Options { unit: "of Ir (count)".to_owned(), ..Options::default() };
    let html = format!("<!doctype html><title>x</title><body>{}</body>", svg(&tree, &options));
    let script = r#"
        window.dispatchEvent(new Event("resize"));
        document.title=[].map.call(document.querySelectorAll(".f text"),function(t){return t.textContent;}).join(", ");"#;
    assert_eq!(findings(&chromium, &html, "", script), "all (1), main, T::f(int (*)(char))");
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
    // Somebody who gets the address sees the same.
    assert_eq!(
        findings(&chromium, &html, "#zoom=2.left&find=deep", script),
        "100%, 100% hidden 1, deep, matched 1 frames, 70.00%, #zoom=2.left&amp;find=%5Eright%24, 30% hidden 0"
    );
}

/// The page's information about columns beyond the window: the visible note, and the heads that are not visible. The
/// script sends it to the surrounding page.
const NOTES: &str = r#"
    var edge=document.documentElement.clientWidth,all=function(q){return [].slice.call(document.querySelectorAll(q));};
    var shown=function(e){return getComputedStyle(e).display!=="none";},text=function(e){return e.textContent;};
    var wide=function(e){return e.getBoundingClientRect().width>1;};
    var heads=all("table.data thead th:not(.group)");
    parent.postMessage([name,edge,all("p.cut").filter(shown).map(text),
        heads.filter(function(th){return wide(th)&&th.getBoundingClientRect().right>edge+1;}).map(text),
        heads.filter(function(th){return !wide(th);}).map(text),all("p.narrow").filter(shown).map(text)],"*");"#;

/// What [`NOTES`] finds in a window of a certain width.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Notes {
    /// The window's name: its index in the list of windows.
    window: String,
    edge: u32,
    notes: Vec<String>,
    cut: Vec<String>,
    gone: Vec<String>,
    left_out: Vec<String>,
}

/// Shows pages in windows of these widths, all in one page, because a window of headless Chromium is at least 500 wide.
/// Returns what a script says in each of them, in order.
fn in_windows<T: serde::de::DeserializeOwned>(
    chromium: &Path,
    script: &str,
    windows: &[(&str, u32)],
) -> Vec<T> {
    let mut frames = String::new();
    for (place, (html, width)) in windows.iter().enumerate() {
        let page = html.replace("</body>", &format!("<script>{script}</script></body>"));
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
    let mut found: Vec<serde_json::Value> =
        serde_json::from_str(&found).unwrap_or_else(|e| panic!("{e}: {found}"));
    found.sort_by_key(|said| said[0].as_str().and_then(|place| place.parse::<usize>().ok()));
    assert_eq!(found.len(), windows.len(), "each window answered");
    found.into_iter().map(|said| serde_json::from_value(said).expect("as the script says it")).collect()
}

/// A page as a browser without scripts shows it.
fn without_script(html: &str) -> String {
    let mut parts = html.split("<script");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |page, part| page + part.split_once("</script>").expect("an end").1)
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
        let html =
            page::html(&subject, &request, &PageContext { file: "x.data".into(), ..PageContext::default() })
                .body;
        let plain = without_script(&html);
        let windows: Vec<(&str, u32)> =
            widths.iter().flat_map(|width| [(html.as_str(), *width), (plain.as_str(), *width)]).collect();
        for (pair, width) in
            in_windows::<Notes>(&chromium, NOTES, &windows).chunks(2).zip(widths.iter().copied())
        {
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
            // With script, each column that is cut is named, and no other.
            let note = with.notes.join("\n");
            assert!(note.starts_with("to the right, beyond the window: "), "{at}");
            let shares = |text: &str| text.matches('%').count();
            assert_eq!(shares(&note), shares(&with.cut.join(" ")), "{at}");
            assert!(with.cut.iter().all(|name| note.contains(name)), "{at}");
            // Without script, the note says how to reach them.
            assert!(without.notes.iter().any(|note| note.contains("scroll to the right")), "{at}");
        }
    }
    assert!(
        ever_cut > least && ever_whole > least,
        "there are wide and narrow windows: {ever_cut}, {ever_whole}"
    );
}

/// What does not fit in a page: parts of names that are on two lines, names wider than their cell, labels wider than
/// their frame; and how many of each were checked. The script sends it to the surrounding page.
const FITS: &str = r#"
    var all=function(q){return [].slice.call(document.querySelectorAll(q));},text=function(e){return e.textContent;};
    var labels=all("svg.pct-icicle .f").filter(function(g){var t=g.querySelector("text");return t&&t.textContent;});
    var names=all("td.nm"),pieces=all("td.nm .k");
    var over=labels.filter(function(g){return g.querySelector("text").getBoundingClientRect().right>
        g.querySelector("rect").getBoundingClientRect().right+.5;});
    parent.postMessage([name,names.length,labels.length,
        pieces.filter(function(e){return e.getClientRects().length>1;}).map(text),
        names.filter(function(e){return e.scrollWidth>e.clientWidth+1;}).map(text),over.map(text)],"*");"#;

/// What [`FITS`] finds in a window.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Fits {
    window: String,
    names: usize,
    labels: usize,
    broken: Vec<String>,
    wide: Vec<String>,
    over: Vec<String>,
}

#[test]
fn names_break_between_words_and_labels_stay_in_their_frames() {
    let Some(chromium) = chromium() else { return };
    let Some(file) = pct_kit::real("deep/mandelbrot/Deep.data") else { return };
    let subject = Subject::open(&file, Compensation::Exact).expect("the sample is readable");
    let (mut names, mut labels) = (0, 0);
    for query in
        ["top_procs/1-100/callseqs/both/oa", "clique/91", "root/no", "clique_tree/185/callseqs", "menu"]
    {
        let request = Request::parse(query).expect("a query");
        let html =
            page::html(&subject, &request, &PageContext { file: "x.data".into(), ..PageContext::default() })
                .body;
        let plain = without_script(&html);
        let windows: Vec<(&str, u32)> = [400, 640, 1400]
            .iter()
            .flat_map(|width| [(html.as_str(), *width), (plain.as_str(), *width)])
            .collect();
        for fits in in_windows::<Fits>(&chromium, FITS, &windows) {
            let found = (&fits.broken, &fits.wide, &fits.over);
            assert!(found.0.is_empty() && found.1.is_empty() && found.2.is_empty(), "{query}: {fits:?}");
            names += fits.names;
            labels += fits.labels;
        }
    }
    assert!(names > 500 && labels > 100, "{names} names, {labels} labels");
}
