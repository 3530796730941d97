//! The command itself: exit status, closed pipes, manual pages, damaged traces.

use crate::common::{put, written};
use crate::support::*;

#[test]
fn exit_status_tells_what_went_wrong() {
    let tmp = tempfile::tempdir().unwrap();
    let (t, _) = trace(&tmp.path().join("good"), 13);
    let status = |args: &[&str]| lttv(args).status.code();
    assert_eq!(status(&["events", &t]), Some(0));
    assert_eq!(status(&["events", &t, "--filter", "name =="]), Some(2));
    assert_eq!(status(&["events", &t, "--from", "yesterday"]), Some(2));
    assert_eq!(status(&["events"]), Some(2));
    assert_eq!(status(&["events", "/nonexistent"]), Some(1));
    // One damaged trace beside a good one: the good one is shown.
    let bad = tmp.path().join("bad");
    put(&bad, b"/* CTF 1.8 */ trace {", &[]);
    let o = lttv(&["events", &t, bad.to_str().unwrap()]);
    assert_eq!(o.status.code(), Some(1));
    assert_eq!(o.stdout.iter().filter(|b| **b == b'\n').count(), 120);
    let told = String::from_utf8_lossy(&o.stderr);
    assert!(told.contains("bad/metadata: line 1:"), "{told}");
    // Cut in the middle of a packet: it gives the events before the cut, a diagnostic, and exit code 1.
    let stream = tmp.path().join("good/chan_2");
    let bytes = std::fs::read(&stream).unwrap();
    std::fs::write(&stream, &bytes[..bytes.len() * 5 / 8]).unwrap();
    let o = lttv(&["events", &t]);
    assert_eq!(o.status.code(), Some(1));
    let n = o.stdout.iter().filter(|b| **b == b'\n').count();
    assert!((60..100).contains(&n), "{n} events");
    let told = String::from_utf8_lossy(&o.stderr);
    assert!(told.contains("chan_2") && told.contains("truncated"), "{told}");
}

#[test]
fn manual_pages_and_completions_know_every_command() {
    let dir = tempfile::tempdir().expect("a folder");
    let pages = dir.path().join("man");
    out(&["generate", "man", pages.to_str().expect("UTF-8")]);
    for page in ["lttv", "lttv-events", "lttv-stats", "lttv-states", "lttv-histogram"] {
        let text = std::fs::read_to_string(pages.join(format!("{page}.1"))).expect(page);
        assert!(text.contains(".TH") && (page == "lttv" || text.contains("\\-\\-filter")), "{page}: {text}");
    }
    let bash = out(&["generate", "completions", "bash"]);
    assert!(bash.contains("histogram") && bash.contains("--columns"), "{bash}");
}

/// Traces that other readers accept: a character constant, packets of another UUID; and a clock beyond all times.
#[test]
fn odd_traces_are_read_with_a_word() {
    let tmp = tempfile::tempdir().unwrap();
    let metadata = |attribute: &str, offset: &str| {
        format!(
            "/* CTF 1.8 */ typealias integer {{ size = 8; }} := u8;
            trace {{ major = 1; minor = 8; byte_order = le; uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; {attribute}
            packet.header := struct {{ u8 uuid[16]; }}; }};
            clock {{ name = monotonic; {offset} }};
            stream {{ event.header := struct {{ integer {{ size = 64; align = 8; map = clock.monotonic.value; }} timestamp; }}; }};
            event {{ name = tick; fields := struct {{ u8 n; }}; }};"
        )
    };
    let own =
        [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
    let run = |name: &str, metadata: String, uuid: [u8; 16], args: &[&str]| {
        let dir = tmp.path().join(name);
        put(&dir, metadata.as_bytes(), &[("s", &[&uuid[..], &5u64.to_le_bytes(), &[7]].concat())]);
        let o = lttv(&[&["events", dir.to_str().unwrap()][..], args].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (o.status.code(), text(&o.stdout).lines().count(), text(&o.stderr))
    };
    let constant = run("constant", metadata("colour = '\\n';", ""), own, &[]);
    assert!(constant.0 == Some(0) && constant.1 == 1 && constant.2.contains("colour"), "{constant:?}");
    let foreign = run("foreign", metadata("", ""), [9; 16], &[]);
    assert!(
        foreign.0 == Some(0) && foreign.1 == 1 && foreign.2.contains("belongs to trace 0909"),
        "{foreign:?}"
    );
    let strict = run("foreign", metadata("", ""), [9; 16], &["--strict"]);
    assert!(strict.0 == Some(1) && strict.1 == 0, "{strict:?}");
    let late = run("late", metadata("", "offset_s = 9223372036854775807;"), own, &[]);
    assert!(late.0 == Some(1) && late.1 == 0 && late.2.contains("does not fit 64 bits of ns"), "{late:?}");
}

/// A process and its reader, of which one goes before the other.
mod live {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    use pct_kit::started::Killed;
    use pct_kit::wait::wait_until;

    use super::*;
    use crate::support::started;

    #[test]
    fn a_reader_that_has_enough_is_no_failure() {
        let tmp = tempfile::tempdir().unwrap();
        let w = written(14, 40, 200);
        put(tmp.path(), w.tsdl.as_bytes(), &[("s", &w.stream)]);
        let bin = env!("CARGO_BIN_EXE_lttv");
        let mut command = Command::new(bin);
        command.args(["events", tmp.path().to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = started(&mut command);
        drop(child.0.stdout.take());
        let mut said = String::new();
        child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.0.wait().unwrap().success(), "{said}");
    }

    #[test]
    fn a_terminal_with_a_desktop_gets_a_browser_unless_it_says_no() {
        let tmp = tempfile::tempdir().unwrap();
        let (t, _) = trace(&tmp.path().join("trace"), 15);
        let (at, bin) = (tmp.path(), tmp.path().join("bin"));
        std::fs::create_dir(&bin).unwrap();
        // The browser that is found keeps what it was to show.
        let fake = bin.join("xdg-open");
        let opens = "#!/bin/sh\ncat \"$1\" > page\n: > done\n";
        std::fs::write(&fake, opens).unwrap();
        std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o700)).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        // `script` gives it a terminal: only there a browser is started.
        let served = |words: &str| {
            let line = format!("exec '{}' view {words} '{t}'", env!("CARGO_BIN_EXE_lttv"));
            let mut command = Command::new("script");
            command
                .args(["-qfec", &line, "/dev/null"])
                .current_dir(at)
                .env("PATH", &path)
                .env("DISPLAY", ":0");
            command
                .env("XDG_RUNTIME_DIR", at)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            command.env("XDG_CACHE_HOME", "").env("HOME", "").spawn().ok().map(Killed)
        };
        let Some(mut with_browser) = served("") else {
            pct_kit::skip("script(1) is not installed");
            return;
        };
        wait_until("a browser", || at.join("done").exists());
        let page = std::fs::read_to_string(at.join("page")).unwrap();
        assert!(page.contains("http-equiv=\"refresh\" content=\"0;url=http://127.0.0.1:"), "{page}");
        drop(with_browser.0.kill());
        std::fs::remove_file(at.join("done")).unwrap();
        // Where it is not to start one, the address is said all the same; a browser would have been started before.
        let mut without = served("--no-open").unwrap();
        let mut said = String::new();
        let mut out = without.0.stdout.take().unwrap();
        while !said.contains("`quit`") {
            let mut piece = [0; 256];
            let count = out.read(&mut piece).unwrap();
            assert!(count > 0, "{said}");
            said += &String::from_utf8_lossy(&piece[..count]);
        }
        let address = said.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        let (host, rest) = address.trim_start_matches("http://").split_once('/').unwrap();
        let mut stream = std::net::TcpStream::connect(host).unwrap();
        write!(stream, "GET /{rest} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 "), "it serves");
        assert!(!at.join("done").exists());
    }
}
