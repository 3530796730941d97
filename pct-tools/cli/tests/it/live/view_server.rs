//! `pct view` as a server: what strangers on the machine can do to it, and what they can learn.

use crate::support::{PCT, first_line, host_and_path};
use pct_kit::started::Killed;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a.folded"), "main;load 300\nmain;render 4000\n").expect("written");
    dir
}

fn get(url: &str, query: &str) -> String {
    let (host, path) = host_and_path(url);
    let mut stream = TcpStream::connect(host).expect("connects");
    write!(stream, "GET {path}?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .expect("sends");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("receives");
    text
}

#[test]
fn a_flood_of_connections_and_endless_bodies_leave_a_server_that_answers() {
    let dir = folder();
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -n 40; exec \"$0\" view --no-open a.folded", PCT])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let url = first_line(&mut child);
    let mut server = Killed(child);
    let (host, _) = host_and_path(&url);
    // Fewer descriptors than connections that it would allow: it runs out of them first.
    let flood: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(host).expect("connects");
            let _ = stream.write_all(b"G");
            stream
        })
        .collect();
    assert!(get(&url, "menu&&a.folded").starts_with("HTTP/1.1 200"));
    drop(flood);
    let mut body = TcpStream::connect(host).expect("connects");
    write!(body, "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999999999\r\n\r\n").expect("sends");
    let mut refused = Vec::new();
    let _ = body.read_to_end(&mut refused);
    assert!(refused.starts_with(b"HTTP/1.1 404"));
    assert!(get(&url, "menu&&a.folded").starts_with("HTTP/1.1 200"));
    assert!(get(&url, "quit&&a.folded").starts_with("HTTP/1.1 200"));
    assert!(server.0.wait().expect("ends").success());
}

/// Everything that was written into a file of which the writer has told us by a named pipe.
fn told(pipe: &Path) -> String {
    std::fs::read_to_string(pipe).expect("is told")
}

#[test]
fn no_command_line_holds_the_secret_address() {
    let dir = folder();
    let at = dir.path();
    let pipe = at.join("told");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    std::fs::create_dir(at.join("bin")).expect("made");
    let fake = at.join("bin/xdg-open");
    std::fs::write(&fake, "#!/bin/sh\n{ echo \"$@\"; cat \"$1\"; } > told\n").expect("written");
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o700)).expect("set");
    // `script` gives it a terminal: only there a browser is started.
    let path = format!("{}:{}", at.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let child = Command::new("script")
        .args(["-qec", &format!("exec '{PCT}' view a.folded"), "/dev/null"])
        .current_dir(at)
        .env("PATH", path)
        .env("DISPLAY", ":0")
        .env("XDG_RUNTIME_DIR", at)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        pct_kit::skip("script(1) is not installed");
        return;
    };
    let mut running = Killed(child);
    let told = told(&pipe);
    let (argument, page) = told.split_once('\n').expect("a command line and a file");
    assert!(Path::new(argument).starts_with(at), "{argument}");
    let mode = std::fs::metadata(argument).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let url = page.split("href=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
    assert!(page.contains(&format!("http-equiv=\"refresh\" content=\"0;url={url}\"")), "{page}");
    let token = host_and_path(url).1.split('/').nth(1).expect("a token");
    assert!(token.len() == 32 && !argument.contains(token), "{argument}");
    assert!(get(url, "menu&&a.folded").starts_with("HTTP/1.1 200"));
    assert!(!Path::new(argument).exists(), "the file has done its work");
    assert!(get(url, "quit&&a.folded").starts_with("HTTP/1.1 200"));
    assert!(running.0.wait().expect("ends").success());
}
