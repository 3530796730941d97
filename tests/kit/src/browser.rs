//! Headless Chromium, driven by its devtools protocol: tests wait for what a page says of itself, benches measure it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::stat::Mode;
use serde_json::{Value, json};

use crate::started::end_all;
use crate::wait::DEADLINE;

/// The browser, if it is installed; if not, the test is skipped.
#[must_use]
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|d| d.join("chromium")).find(|p| p.exists());
    if found.is_none() {
        crate::skip("chromium is not installed");
    }
    found
}

/// A browser with one page. It ends when this is dropped.
///
/// Its methods panic when the browser breaks off, or a script fails.
pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    calls: u64,
    session: Option<String>,
    /// What it said without being asked.
    pub heard: Vec<Value>,
    folder: tempfile::TempDir,
}

impl Browser {
    /// Starts one.
    #[must_use]
    pub fn start(chromium: &Path) -> Browser {
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

    /// What a method of the protocol gives.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// What a method of the protocol gives, or the error that the browser answers.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
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
                return match answer.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(answer["result"].clone()),
                };
            }
            self.heard.push(answer);
        }
    }

    /// Sets the size of the page, in pixels.
    pub fn size(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// The value of an expression; of a promise, what it comes to.
    pub fn eval(&mut self, script: &str) -> Value {
        self.evaluated(script).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    fn evaluated(&mut self, script: &str) -> Result<Value, Value> {
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let result = self.ask("Runtime.evaluate", params)?;
        assert_eq!(result.get("exceptionDetails"), None, "{script}");
        Ok(result["result"]["value"].clone())
    }

    /// Waits until an expression is true, as long as [`crate::wait`] does. If the page goes to another address, the
    /// next page is asked.
    pub fn until(&mut self, condition: &str) {
        let most = DEADLINE.as_millis();
        let script = format!(
            "new Promise(function(done){{var begun=performance.now();\
             (function look(){{if({condition})done(true);else if(performance.now()-begun>{most})done(false);else setTimeout(look,20)}})()}})"
        );
        let begun = Instant::now();
        loop {
            match self.evaluated(&script) {
                Ok(value) => return assert_eq!(value, json!(true), "waited a minute for {condition}"),
                // The protocol's word for a page that is left.
                Err(error) => {
                    assert!(error["code"] == -32000 && begun.elapsed() < DEADLINE, "{condition}: {error}");
                }
            }
        }
    }

    /// Goes to an address and waits until its page is complete.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
        self.until("document.readyState==='complete'&&location.href!=='about:blank'");
    }

    /// Presses a key.
    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key}));
        }
    }

    /// Does something with the left mouse button at a place: `mousePressed`, `mouseMoved`, `mouseReleased`.
    pub fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let press = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, "buttons": 1});
        self.call("Input.dispatchMouseEvent", press);
    }

    /// Nothing went wrong, and nothing was asked of anybody but the server.
    pub fn check(&self, server: &str) {
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
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        end_all(self.folder.path(), Some(self.child.id()));
    }
}
