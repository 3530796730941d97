//! The page in a real browser, headless Chromium, by its devtools protocol. Where it is not installed these tests say
//! so and pass. Each waits for what the page says of itself, never for a time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lttv_page::{Origin, Shown, TimelinePage};
use pct_kit::browser::{Browser, chromium};
use pct_server::view::Served;
use serde_json::{Value, json};

use crate::recorded::{get, page, recording, recording_times, whole};

/// A server of a page, in a thread; ends when dropped.
struct Serving {
    url: String,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    fn new(page: TimelinePage) -> Serving {
        let served = Served::serve_answers(Arc::new(page), "timeline", 0).expect("listens");
        let url = served.url();
        let thread = std::thread::spawn(move || served.run().expect("serves"));
        Serving { url, thread: Some(thread) }
    }

    fn quit(&mut self) {
        let rest = self.url.trim_start_matches("http://");
        let (host, path) = rest.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(host).expect("connects");
        write!(stream, "GET /{path}?quit HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .expect("sends");
        let _ = stream.read_to_end(&mut Vec::new());
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("ends"));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.quit();
        }
    }
}

/// Opens a page and waits until it says that all of it is drawn.
fn open(browser: &mut Browser, url: &str) {
    browser.open(url);
    browser.until(FINAL);
}

const FINAL: &str =
    "window.timeline&&document.documentElement.dataset.state==='final'&&timeline.colours.size>0";

/// Compares the canvas with the tiles: each cell has its colour at the bottom of its lane, over all the time that its
/// samples stand for. Elsewhere the lane is empty. Gives cells looked at, cells drawn empty, cells of another colour,
/// empty buckets, empty buckets drawn full.
const LOOK: &str = r##"(function(){
  var t=timeline,c=t.canvas,p=c.getContext("2d"),l=t.level(),out=[0,0,0,0,0],bucket=Math.pow(2,l);
  var bg=getComputedStyle(document.documentElement).getPropertyValue("--lane").trim();
  var v=parseInt(bg.slice(1),16),back=(0xff000000|(v&255)<<16|v&0xff00|v>>16)>>>0;
  var px=new Uint32Array(p.getImageData(0,0,c.width,c.height).data.buffer);
  function cells(i,row){var tile=t.tiles.get(t.key(l,i)),got=tile&&tile.lanes[row.id],o=[];
    if(got)for(var j=0;j<got.c.length;j+=9)o.push(got.c.slice(j,j+9));return o;}
  function first(row,cell,before){
    if(row.kind!=="samples")return cell[0];
    var periods=before===null?1:8,from=Math.ceil(cell[0]+1-cell[3]/cell[2]*periods/bucket);
    return Math.min(cell[0],before===null?from:Math.max(before,from));}
  t.visible(l).forEach(function(i){
    var tile=t.tiles.get(t.key(l,i)),X=Math.round(t.x_of(tile.start)),R=Math.round(t.x_of(tile.start+256*bucket));
    t.rows().forEach(function(row){
      var full=new Array(256).fill(null),y=row.y+row.h-1,left=cells(i-1n,row).pop(),right=cells(i+1n,row)[0];
      var before=left?left[0]+left[1]-256:null,all=cells(i,row);
      if(right)all.push([right[0]+256].concat(right.slice(1)));
      all.forEach(function(cell){
        for(var b=Math.max(0,first(row,cell,before));b<Math.min(256,cell[0]+cell[1]);b++)full[b]=cell[6]?cell[7]:cell[4];
        before=cell[0]+cell[1];});
      full.forEach(function(key,b){
        var ns=tile.start+(b+.5)*bucket;
        var x=X+Math.floor((b+.5)/256*(R-X));
        if(x<0||x>=c.width)return;
        var seen=px[y*c.width+x];
        if(key===null){if(!t.outside(ns)){out[3]++;if(seen!==back)out[4]++;}return;}
        out[0]++;
        if(seen===back)out[1]++;
        else if(seen!==t.colourer(row.id)(key))out[2]++;
      });
    });
  });
  return out;})()"##;

fn look(browser: &mut Browser) -> Vec<u64> {
    let counts = browser.eval(LOOK);
    counts.as_array().expect("counts").iter().filter_map(Value::as_u64).collect()
}

#[test]
fn the_canvas_shows_what_the_tiles_say_at_every_zoom() {
    let Some(chromium) = chromium() else { return };
    let serving = Serving::new(page());
    let mut browser = Browser::start(&chromium);
    open(&mut browser, &serving.url);
    for zoom in ["0", "w", "w", "w", "d", "w", "w", "w", "w", "w", "w", "s", "0"] {
        browser.key(zoom);
        browser.until(FINAL);
        let counts = look(&mut browser);
        let [cells, drawn_empty, other_colour, empty, drawn_full] = counts[..] else { panic!("{counts:?}") };
        assert!(cells > 0 || empty > 0, "{zoom}: {counts:?}");
        assert_eq!((drawn_empty, other_colour, drawn_full), (0, 0, 0), "{zoom}: {counts:?}");
    }
    browser.check(&serving.url);
}

/// Lanes of states, of which most are shorter than a pixel; the numbers beside them; and the strip of all lanes.
#[test]
fn what_a_thread_ran_is_seen_at_every_zoom_and_the_numbers_are_those_of_what_is_seen() {
    let Some(chromium) = chromium() else { return };
    let serving = Serving::new(crate::states::page());
    let mut browser = Browser::start(&chromium);
    open(&mut browser, &serving.url);
    // The strip, told by nothing but the items of the lanes that are shown (all are), and by what it paints.
    let strip = "(function(){var t=timeline,l=t.level(),out=[0,0,0],c=document.querySelector('#recorded canvas');\
        var px=new Uint32Array(c.getContext('2d').getImageData(0,c.height-1,c.width,1).data.buffer);\
        t.visible(l).forEach(function(i){var tile=t.tiles.get(t.key(l,i)),n={};\
        t.rows().forEach(function(row){var got=tile.lanes[row.id];if(!got||row.kind!=='events')return;\
        for(var j=0;j<got.c.length;j+=9)n[got.c[j]]=(n[got.c[j]]||0)+got.c[j+2];});\
        for(var j=0;j<tile.strip.length;j+=2){out[0]++;if(n[tile.strip[j]]!==tile.strip[j+1])out[1]++;delete n[tile.strip[j]];\
        var x=Math.floor(t.x_of(tile.start+(tile.strip[j]+.5)*Math.pow(2,l)));if(x>=0&&x<c.width&&!px[x])out[2]++;}\
        out[1]+=Object.keys(n).length;});return out})()";
    let amounts = "Array.from(document.querySelectorAll('#lanes .row')).map(function(row){\
        return row.dataset.kind+' '+row.querySelector('a').title+' '+row.querySelector('.amount').textContent})";
    // As the server says them of the same view.
    let told = "fetch('tl/lanes'+location.search).then(function(a){return a.text()}).then(function(text){\
        var box=document.createElement('div');box.innerHTML=text;\
        return Array.from(box.querySelectorAll('.row')).map(function(row){\
        return row.dataset.kind+' '+row.querySelector('a').title+' '+row.querySelector('.amount').textContent})})";
    let mut seen = Vec::new();
    for zoom in ["0", "w", "d", "w", "w", "w", "w", "w", "w", "s", "0"] {
        browser.key(zoom);
        browser.until(FINAL);
        let counts = look(&mut browser);
        assert!(counts[0] > 0 && counts[1..3] == [0, 0] && counts[4] == 0, "{zoom}: {counts:?}");
        let strip = browser.eval(strip);
        assert_eq!((strip[1].clone(), strip[2].clone()), (json!(0), json!(0)), "{zoom}: {strip}");
        seen.push(browser.eval(amounts));
    }
    assert_eq!(seen.first(), seen.last());
    assert_ne!(seen.first(), seen.get(4));
    // The address follows a moment after the last zoom.
    browser.until("new URLSearchParams(location.search).get('from')===new URLSearchParams(timeline.query()).get('from')");
    assert_eq!(seen.last(), Some(&browser.eval(told)));
    let whole = seen[0].to_string();
    assert!(whole.contains("thread thread (501) 83.2%"), "{whole}");
    browser.check(&serving.url);
}

#[test]
fn an_event_of_the_list_leads_to_its_place_and_to_its_thread() {
    let Some(chromium) = chromium() else { return };
    let serving = Serving::new(crate::states::page());
    let mut browser = Browser::start(&chromium);
    let (base, _) = serving.url.split_once("/deep").expect("an address");
    open(&mut browser, &format!("{base}/tl?tab=events"));
    let rows = browser.eval(
        "Array.from(document.querySelectorAll('#window tr[data-t]')).map(function(row){\
         return [row.cells[1].textContent,row.cells[3].textContent,row.cells[4].textContent,row.getBoundingClientRect().height<=40]})",
    );
    assert_eq!(rows[0], json!(["", "", "sched_switch", true]), "nothing is known before the first event");
    assert_eq!(rows[1], json!(["2.000 ms", "thread (501)", "syscall_entry_read", true]));
    assert_eq!(rows[3], json!(["4.000 ms", "thread (9)", "sched_waking", true]));
    // A click on its time marks its lane and its place, and moves nothing that is seen already.
    let seen = browser.eval("JSON.stringify(timeline.view())");
    browser.eval("document.querySelectorAll('#window tr[data-t]')[1].querySelector('a[data-ns]').click()");
    browser.until("/hit=/.test(location.search)");
    assert_eq!(browser.eval("JSON.stringify(timeline.view())"), seen);
    let marked = "document.querySelector('#lanes .row.here a').title";
    assert_eq!(browser.eval(marked), json!("thread (501)"));
    // A click on its thread shows that lane alone, and its events.
    browser.eval("document.querySelectorAll('#window tr[data-t]')[1].cells[3].querySelector('a').click()");
    browser.until("document.querySelectorAll('#window tr[data-t]').length===4");
    browser.until("document.querySelectorAll('#lanes .row').length===1");
    // Without samples there is no tab of them.
    let tabs =
        "Array.from(document.querySelectorAll('nav.tabs>*')).map(function(tab){return tab.textContent})";
    assert_eq!(browser.eval(tabs), json!(["statistics", "events", "states"]));
    browser.check(&serving.url);
}

#[test]
fn the_line_of_details_names_what_is_under_the_pointer() {
    let Some(chromium) = chromium() else { return };
    let serving = Serving::new(page());
    let mut browser = Browser::start(&chromium);
    open(&mut browser, &serving.url);
    assert_eq!(browser.eval("timeline.names.size"), json!(0), "no name is asked for that nobody sees");
    let place = browser.eval(
        "(function(){var b=document.getElementById('plot').getBoundingClientRect(),r=timeline.rows()[0];\
         return [b.left+b.width/2,b.top+r.y+r.h/2]})()",
    );
    let (x, y) = (place[0].as_f64().expect("x"), place[1].as_f64().expect("y"));
    browser.mouse("mouseMoved", x, y);
    browser.until(
        "(function(){var n=[...timeline.names.values()].filter(Boolean),t=document.getElementById('details').textContent;\
         return n.length>0&&t.indexOf(n[0].name)>0})()",
    );
    browser.check(&serving.url);
}

#[test]
fn keys_mouse_address_and_history_move_one_page() {
    let Some(chromium) = chromium() else { return };
    let serving = Serving::new(page());
    let mut browser = Browser::start(&chromium);
    open(&mut browser, &serving.url);
    let whole = browser.eval("timeline.view().to-timeline.view().from");
    // A selection by mouse: the part below is about it, with the numbers of the same range by address.
    let place = browser.eval("(function(){var b=document.getElementById('plot').getBoundingClientRect();return [b.left,b.top,b.width]})()");
    let at = |share: f64| place[0].as_f64().expect("x") + place[2].as_f64().expect("width") * share;
    let y = place[1].as_f64().expect("y") + 8.0;
    browser.mouse("mousePressed", at(0.25), y);
    browser.mouse("mouseMoved", at(0.4), y);
    browser.mouse("mouseMoved", at(0.5), y);
    browser.mouse("mouseReleased", at(0.5), y);
    browser.until("/^selected/.test(document.querySelector('#window h2').textContent)&&!document.querySelector('#window.busy')");
    let same = browser.eval(
        "fetch('tl/window.json?'+location.search.slice(1)).then(function(a){return a.json()}).then(function(j){\
         var r=j.recordings[0],rows=document.querySelectorAll('#window tr[data-own]');\
         r.functions=r.functions.filter(function(f){return f.owned_ns>0});return r.functions.length===rows.length&&r.samples>0&&r.samples<5000&&\
         r.functions.every(function(f,i){return rows[i].dataset.own==f.own_ns&&rows[i].dataset.total==f.total_ns})})",
    );
    assert_eq!(same, json!(true));
    // The flame graph in it has its script: a click on a frame zooms.
    let zoomed = browser.eval(
        "(function(){var f=document.querySelectorAll('#window svg .f'),w=function(g){return g.querySelector('rect').getAttribute('width')},\
         g=f[f.length-1],before=w(g);g.dispatchEvent(new MouseEvent('click',{bubbles:true,cancelable:true}));return before!==w(g)&&w(g)==='100%'})()",
    );
    assert_eq!(zoomed, json!(true));
    // Zoom by key changes the address; back undoes it.
    browser.key("w");
    browser.until("/from=/.test(location.search)");
    let narrow = browser.eval("timeline.view().to-timeline.view().from");
    assert!(narrow.as_f64() < whole.as_f64());
    browser.eval("history.back()");
    browser.until(&format!("Math.abs(timeline.view().to-timeline.view().from-{whole})<2"));
    browser.key("Escape");
    browser.until("!document.getElementById('selected')&&!/[?&]a=/.test(location.search)");
    // The address that was left behind shows the same to somebody else.
    browser.key("w");
    browser.key("d");
    browser.until("/from=/.test(location.search)");
    browser.until(FINAL);
    browser.check(&serving.url);
}

#[test]
fn a_storm_of_wheel_steps_asks_for_no_more_tiles_than_a_few_views_have() {
    let Some(chromium) = chromium() else { return };
    let serving = Serving::new(page());
    let mut browser = Browser::start(&chromium);
    open(&mut browser, &serving.url);
    let before = browser.eval("timeline.count.asked").as_u64().expect("a count");
    browser.eval(
        "(function(){var p=document.getElementById('plot'),b=p.getBoundingClientRect();\
         for(var i=0;i<100;i++)p.dispatchEvent(new WheelEvent('wheel',{deltaY:-40,ctrlKey:true,clientX:b.left+300,clientY:b.top+5,cancelable:true}));return 1})()",
    );
    browser.until(FINAL);
    let after = browser.eval("timeline.count.asked").as_u64().expect("a count");
    let most = browser.eval("2*(timeline.visible(timeline.level()).length+2)").as_u64().expect("a count");
    assert!(after - before <= most, "{} tiles asked for, at most {most}", after - before);
    // A pan inside the tiles at hand asks for nothing.
    browser.eval("timeline.go(timeline.view().from+1,timeline.view().to+1,false)");
    browser.until(FINAL);
    browser.eval("new Promise(function(r){setTimeout(r,0)}).then(function(){return 1})");
    browser.check(&serving.url);
}

#[test]
fn a_server_that_is_gone_is_said_and_the_picture_stays() {
    let Some(chromium) = chromium() else { return };
    let mut serving = Serving::new(page());
    let mut browser = Browser::start(&chromium);
    open(&mut browser, &serving.url);
    serving.quit();
    browser.key("w");
    browser.until("document.getElementById('gone')");
    assert_eq!(browser.eval("timeline.rows().length>0&&timeline.canvas.height>10"), json!(true));
}

/// A page of the made-up recording in a browser, all of it drawn.
fn opened(chromium: &Path, query: &str) -> (Serving, Browser) {
    let serving = Serving::new(page());
    let mut browser = Browser::start(chromium);
    let url = serving.url.replace("/deep", &format!("/tl?{query}"));
    open(&mut browser, &url);
    (serving, browser)
}

const REST: &str = "!document.querySelector('#window.busy')";

#[test]
fn a_frame_says_what_it_is_below_its_picture_and_a_click_gives_what_can_be_done_with_it() {
    let Some(chromium) = chromium() else { return };
    let (serving, mut browser) = opened(&chromium, "");
    let over = browser.eval(
        "(function(){var f=Array.from(document.querySelectorAll('#window svg .f')).find(function(g){return /^parse /.test(g.querySelector('title').textContent)});\
         f.dispatchEvent(new PointerEvent('pointerover',{bubbles:true}));window.frame=f;\
         return [document.querySelector('#window p.details').textContent,document.querySelectorAll('#window svg title').length]})()",
    );
    assert!(over[0].as_str().is_some_and(|text| text.starts_with("parse (")), "{over}");
    assert_eq!(over[1], json!(0), "the browser's own hints are gone");
    browser.eval("frame.dispatchEvent(new MouseEvent('click',{bubbles:true,cancelable:true}))");
    browser.until("document.querySelector('#chosen p.chosen')&&/fn=parse/.test(location.search)");
    let link = |text: &str| {
        format!(
            "Array.from(document.querySelectorAll('#chosen a')).find(function(a){{return a.textContent==='{text}'}}).click()"
        )
    };
    // Without it: the numbers go down, the transform is a chip, taking it away brings all back.
    let samples =
        "+/([0-9,]+) samples, /.exec(document.getElementById('window').textContent)[1].replace(/,/g,'')";
    let all = browser.eval(samples);
    browser.eval(&link("without it"));
    browser.until(&format!("document.querySelector('a.chip')&&{REST}"));
    let rest = browser.eval(samples);
    assert!(rest.as_u64() < all.as_u64() && rest.as_u64() > Some(0), "{rest} of {all}");
    browser.eval("document.querySelector('a.chip').click()");
    browser.until(&format!("!document.querySelector('a.chip')&&{REST}"));
    assert_eq!(browser.eval(samples), all);
    // The sandwich has two pictures, the back button leads out of it.
    browser.eval(&link("sandwich"));
    browser.until(&format!("document.querySelectorAll('#window svg.pct-icicle').length===2&&{REST}"));
    browser.eval("history.back()");
    browser.until(&format!("document.querySelectorAll('#window svg.pct-icicle').length===1&&{REST}"));
    browser.check(&serving.url);
}

#[test]
fn the_call_tree_opens_in_place_and_a_filter_needs_no_new_page() {
    let Some(chromium) = chromium() else { return };
    let (serving, mut browser) = opened(&chromium, "tab=tree");
    let seen = "Array.from(document.querySelectorAll('#window .tree .row[data-own]')).filter(function(r){return r.checkVisibility({contentVisibilityAuto:true})}).length";
    let open = browser.eval(seen);
    browser.eval("document.querySelector('#window .tree summary').click()");
    let closed = browser.eval(seen);
    assert!(closed.as_u64() < open.as_u64(), "{closed} of {open} rows");
    browser.eval("window.same=1;var i=document.querySelector('form.filters input[name=function]');i.value='parse';i.form.requestSubmit()");
    browser.until(&format!("document.querySelector('a.chip')&&{REST}"));
    assert_eq!(browser.eval("same===1&&/function=parse/.test(location.search)"), json!(true));
    assert_eq!(browser.eval(seen), json!(2));
    browser.check(&serving.url);
}

#[test]
fn a_search_marks_the_canvas_and_keys_go_from_hit_to_hit() {
    let Some(chromium) = chromium() else { return };
    let (serving, mut browser) = opened(&chromium, "");
    let pink = "(function(){var c=timeline.canvas,d=c.getContext('2d').getImageData(0,0,c.width,c.height).data,n=0;\
        for(var i=0;i<d.length;i+=4)if(d[i]===0xe0&&d[i+1]===0x21&&d[i+2]===0x8a)n++;return n})()";
    assert_eq!(browser.eval(pink), json!(0));
    browser.key("/");
    assert_eq!(browser.eval("document.activeElement.name"), json!("q"));
    browser.eval("document.activeElement.value='parse';document.activeElement.form.requestSubmit()");
    browser.until("document.documentElement.dataset.hits>0&&document.querySelector('#search .hits')");
    browser.until(&format!("{FINAL}&&{pink}>0"));
    let total = browser.eval(
        "fetch('tl/search?q=parse').then(function(a){return a.json()}).then(function(j){return j.total})",
    );
    assert_eq!(browser.eval("+document.documentElement.dataset.hits"), total);
    browser.key("n");
    browser.until("/hit=/.test(location.search)&&document.querySelector('#search a[rel=prev]')");
    let first = browser.eval("new URLSearchParams(location.search).get('hit')");
    browser.until(FINAL);
    browser.key("n");
    browser.until(&format!("new URLSearchParams(location.search).get('hit')!=={first}"));
    browser.check(&serving.url);
}

/// The made-up recording while it is being recorded: the first so many samples of each thread.
struct Growing(Arc<AtomicUsize>);

fn first_samples(most: usize) -> Shown {
    let mut recording = recording();
    for thread in &mut recording.threads {
        thread.samples = std::sync::Arc::new(thread.samples.iter().take(most).collect());
    }
    Shown::recording(recording)
}

impl Origin for Growing {
    fn stamp(&self) -> u64 {
        self.0.load(Ordering::SeqCst) as u64
    }

    fn is_written(&self) -> bool {
        self.0.load(Ordering::SeqCst) < 4000
    }

    fn open(&self) -> Result<Vec<Shown>, String> {
        Ok(vec![first_samples(self.0.load(Ordering::SeqCst))])
    }
}

#[test]
fn a_recording_in_progress_extends_the_page() {
    let Some(chromium) = chromium() else { return };
    let samples = Arc::new(AtomicUsize::new(500));
    let store = whole(vec![first_samples(500)]);
    let page = TimelinePage::following(Box::new(Growing(samples.clone())), store, 500);
    let serving = Serving::new(page);
    let mut browser = Browser::start(&chromium);
    open(&mut browser, &serving.url);
    assert_eq!(
        browser.eval("document.getElementById('news').textContent.split(';')[0]"),
        json!("Still being recorded")
    );
    let before = browser.eval("timeline.span.to").as_f64().expect("a time");
    // From here on the lanes are never without a colour: a picture of each frame is looked at.
    browser.eval("window.empty=0;(function look(){var c=timeline.canvas,n=0,d=c.getContext('2d').getImageData(0,0,c.width,c.height).data;for(var i=0;i<d.length;i+=4)if(Math.abs(d[i]-d[i+2])>20)n++;if(!n)empty++;requestAnimationFrame(look)})()");
    samples.store(4000, Ordering::SeqCst);
    browser.until(&format!("timeline.span.to>2*{before}&&document.getElementById('news').hidden&&{FINAL}"));
    assert_eq!(browser.eval("empty"), json!(0));
    // A view of the whole goes on with it, and all that is drawn is of what was read last.
    assert_eq!(browser.eval("timeline.view().to===timeline.span.to"), json!(true));
    let counts = look(&mut browser);
    assert!(counts[0] > 1000 && counts[1] == 0 && counts[2] == 0 && counts[4] == 0, "{counts:?}");
    browser.check(&serving.url);
}

#[test]
fn what_takes_long_to_count_comes_after_the_lanes() {
    let Some(chromium) = chromium() else { return };
    let page = TimelinePage::new(whole(vec![Shown::recording(recording_times(1000))]));
    let address = |query: &str| get(&page, "/tl", query).body;
    let (first, rest) = (address(""), address("part=1"));
    assert!(
        first.contains("are being counted")
            && first.contains("&amp;part=1")
            && !first.contains("data-own=\"")
    );
    assert!(rest.contains("data-own=\"") && !rest.contains("are being counted"));
    let serving = Serving::new(page);
    let mut browser = Browser::start(&chromium);
    open(&mut browser, &serving.url);
    browser.until("document.querySelectorAll('#window tr[data-own]').length===3");
    browser.check(&serving.url);
}

/// On a narrow window pictures and tables scroll by themselves; the page does not run past the edge.
#[test]
fn no_tab_is_wider_than_a_narrow_window() {
    let Some(chromium) = chromium() else { return };
    let kernel = crate::page::kernel_trace();
    let serving = Serving::new(TimelinePage::new(whole(vec![Shown::recording(recording()), kernel])));
    let mut browser = Browser::start(&chromium);
    browser.size(400, 800);
    let (base, _) = serving.url.split_once("/deep").expect("an address");
    for tab in ["flame", "heavy", "inverted", "tree", "stats", "events", "states"] {
        open(&mut browser, &format!("{base}/tl?lane=0.0&tab={tab}"));
        let wide =
            browser.eval("[document.documentElement.scrollWidth,document.documentElement.clientWidth]");
        assert_eq!(wide[0], wide[1], "{tab}");
    }
}

/// Threads often differ by nothing but their numbers: those are seen at any width, however long the names are.
#[test]
fn the_numbers_of_threads_are_not_cut() {
    let Some(chromium) = chromium() else { return };
    let mut recording = recording();
    for thread in &mut recording.threads {
        thread.process = "a-program-with-a-long-name".into();
        thread.name = "its-threads-have-long-names-too".into();
    }
    let serving = Serving::new(TimelinePage::new(whole(vec![Shown::recording(recording)])));
    let mut browser = Browser::start(&chromium);
    for width in [1400, 400] {
        browser.size(width, 800);
        open(&mut browser, &serving.url);
        let cut = browser.eval(
            "Array.from(document.querySelectorAll('#lanes .row.samples')).map(function(row){\
             var n=row.querySelector('.number'),box=n.getBoundingClientRect(),lane=row.getBoundingClientRect();\
             return [/^\\(\\d+\\)$/.test(n.textContent),box.width>0,box.right<=lane.right+1]})",
        );
        let rows = cut.as_array().expect("rows");
        assert!(
            !rows.is_empty() && rows.iter().all(|row| *row == json!([true, true, true])),
            "{width}: {cut}"
        );
    }
    // Without a keyboard the help is a button.
    browser.eval("document.getElementById('keys').click()");
    assert_eq!(browser.eval("document.getElementById('help').open"), json!(true));
    browser.check(&serving.url);
}
