//! The page in a real browser, headless Chromium, by its devtools protocol. Where it is not installed these tests say
//! so and pass. Each waits for what the page says of itself, never for a time.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use lttv_page::TimelinePage;
use nix::sys::stat::Mode;
use pct_kit::wait::DEADLINE;
use pct_server::view::Served;
use serde_json::{Value, json};

use crate::recorded::page;
use crate::started::end_all;

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|d| d.join("chromium")).find(|p| p.exists());
    if found.is_none() {
        pct_kit::skip("chromium is not installed");
    }
    found
}

/// A server of a page, in a thread; ends when dropped.
struct Serving {
    url: String,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    fn new(page: TimelinePage) -> Serving {
        let served = Served::of(Arc::new(page), "timeline", 0).expect("listens");
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

struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    calls: u64,
    session: Option<String>,
    /// What it said without being asked.
    heard: Vec<Value>,
    folder: tempfile::TempDir,
}

impl Browser {
    fn start(chromium: &PathBuf) -> Browser {
        let folder = tempfile::tempdir().expect("a folder");
        let (asked, answered) = (folder.path().join("to"), folder.path().join("from"));
        for pipe in [&asked, &answered] {
            nix::unistd::mkfifo(pipe, Mode::S_IRWXU).expect("a pipe");
        }
        // The protocol goes over descriptors 3 and 4, which the shell opens.
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$TO\" 4>\"$FROM\""])
            .arg(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg("about:blank")
            // It keeps its files by itself, and its helpers are known by this name.
            .env("HOME", folder.path())
            .envs(["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"].map(|name| (name, folder.path())))
            .process_group(0)
            .env("TO", &asked)
            .env("FROM", &answered)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let to = File::options().write(true).open(&asked).expect("opens");
        let from = BufReader::new(File::open(&answered).expect("opens"));
        let mut browser = Browser { child, to, from, calls: 0, session: None, heard: Vec::new(), folder };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach)["sessionId"].clone();
        browser.session = session.as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.size(1400, 900);
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        write!(self.to, "{message}\0").expect("the browser listens");
        loop {
            let mut octets = Vec::new();
            self.from.read_until(0, &mut octets).expect("the browser answers");
            assert_eq!(octets.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&octets).expect("JSON");
            if answer["id"] == json!(self.calls) {
                assert_eq!(answer.get("error"), None, "{method}");
                return answer["result"].clone();
            }
            self.heard.push(answer);
        }
    }

    fn size(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// The value of an expression; of a promise, what it comes to.
    fn eval(&mut self, script: &str) -> Value {
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let result = self.call("Runtime.evaluate", params);
        assert_eq!(result.get("exceptionDetails"), None, "{script}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true, as long as `pct_kit::wait` does.
    fn until(&mut self, condition: &str) {
        let most = DEADLINE.as_millis();
        let script = format!(
            "new Promise(function(done){{var begun=performance.now();\
             (function look(){{if({condition})done(true);else if(performance.now()-begun>{most})done(false);else setTimeout(look,20)}})()}})"
        );
        assert_eq!(self.eval(&script), json!(true), "waited a minute for {condition}");
    }

    /// Opens a page and waits until it says that all of it is drawn.
    fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
        self.until("document.readyState==='complete'&&location.href!=='about:blank'");
        self.until(FINAL);
    }

    fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key}));
        }
    }

    fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let press = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, "buttons": 1});
        self.call("Input.dispatchMouseEvent", press);
    }

    /// Nothing went wrong, and nothing was asked of anybody but the server.
    fn check(&self, server: &str) {
        let (host, _) = server.trim_start_matches("http://").split_once('/').expect("a path");
        for event in &self.heard {
            let method = event["method"].as_str().unwrap_or_default();
            let is_error = event["params"]["entry"]["level"] == "error";
            assert!(method != "Runtime.exceptionThrown" && !is_error, "{event}");
            if method == "Network.requestWillBeSent" {
                let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
                assert!(url.starts_with(&format!("http://{host}/")), "{url}");
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        end_all(self.folder.path(), Some(self.child.id()));
    }
}

const FINAL: &str =
    "window.timeline&&document.documentElement.dataset.state==='final'&&timeline.names.size>0";

/// Compares the canvas with the tiles: each cell has its colour at the bottom of its lane, each empty bucket has none.
/// Gives cells looked at, cells drawn empty, cells of another colour, empty buckets, empty buckets drawn full.
const LOOK: &str = r##"(function(){
  var t=timeline,c=t.canvas,p=c.getContext("2d"),l=t.level(),out=[0,0,0,0,0];
  var bg=getComputedStyle(document.documentElement).getPropertyValue("--lane").trim();
  var v=parseInt(bg.slice(1),16),back=(0xff000000|(v&255)<<16|v&0xff00|v>>16)>>>0;
  var px=new Uint32Array(p.getImageData(0,0,c.width,c.height).data.buffer);
  t.visible(l).forEach(function(i){
    var tile=t.tiles.get(t.key(l,i)),X=Math.round(t.x_of(tile.start)),R=Math.round(t.x_of(tile.start+Math.pow(2,l+8)));
    t.rows().forEach(function(row){
      var got=tile.lanes[row.id],full=new Array(256).fill(null),y=row.y+row.h-1;
      if(got)for(var j=0;j<got.c.length;j+=6)for(var b=got.c[j];b<got.c[j]+got.c[j+1];b++)full[b]=got.c[j+4];
      full.forEach(function(key,b){
        var ns=tile.start+(b+.5)*Math.pow(2,l);
        var x=X+Math.floor((b+.5)/256*(R-X));
        if(x<0||x>=c.width)return;
        var seen=px[y*c.width+x];
        if(key===null){if(!t.outside(ns)){out[3]++;if(seen!==back)out[4]++;}return;}
        out[0]++;
        if(seen===back)out[1]++;
        else if(seen!==t.names.get(row.id.split(".")[0]+"."+key).rgb)out[2]++;
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
    browser.open(&serving.url);
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

#[test]
fn keys_mouse_address_and_history_move_one_page() {
    let Some(chromium) = chromium() else { return };
    let serving = Serving::new(page());
    let mut browser = Browser::start(&chromium);
    browser.open(&serving.url);
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
         return r.functions.length===rows.length&&r.samples>0&&r.samples<5000&&\
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
    browser.open(&serving.url);
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
    browser.open(&serving.url);
    serving.quit();
    browser.key("w");
    browser.until("document.getElementById('gone')");
    assert_eq!(browser.eval("timeline.rows().length>0&&timeline.canvas.height>10"), json!(true));
}

/// A page of the made-up recording in a browser, all of it drawn.
fn opened(chromium: &PathBuf, query: &str) -> (Serving, Browser) {
    let serving = Serving::new(page());
    let mut browser = Browser::start(chromium);
    let url = serving.url.replace("/deep", &format!("/tl?{query}"));
    browser.open(&url);
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
