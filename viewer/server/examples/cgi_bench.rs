//! Measures the cost of a warm CGI answer beyond that of an empty CGI program: `cargo run --release -p pct-server
//! --example cgi_bench -- FILE.data` after `cargo build --release -p pct-server --bins`.
//!
//! Runs are in pairs, one of each program. The table has medians and the median of the differences, in milliseconds.
//! The empty program is this one with an option to print a header and end.

use pct_kit::median;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

const PAIRS: usize = 200;

fn timed(command: &mut Command) -> f64 {
    let began = Instant::now();
    let out = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let ms = began.elapsed().as_secs_f64() * 1e3;
    assert!(out.is_ok_and(|o| o.status.success()), "a run failed");
    ms
}

fn main() -> ExitCode {
    if std::env::var_os("PCT_EMPTY_CGI").is_some() {
        print!("Content-Type: text/plain\r\n\r\n");
        return ExitCode::SUCCESS;
    }
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: cgi_bench FILE.data");
        return ExitCode::from(2);
    };
    let me = std::env::current_exe().expect("has a name");
    let cgi = me.parent().and_then(|d| d.parent()).expect("is in a directory").join("mdprof_cgi");
    let ask = |cmd: &str| {
        let mut command = Command::new(&cgi);
        command.env("QUERY_STRING", format!("{cmd}&&{file}"));
        command
    };
    println!("first request (loads): {:.2} ms", timed(&mut ask("menu")));
    println!("{:<28} {:>8} {:>8} {:>8}", "query", "empty", "warm", "over");
    for cmd in ["menu", "root/90", "proc/3", "top_procs/1-100/time/both/oa", "program_modules"] {
        let (mut empty, mut warm, mut over) = (vec![], vec![], vec![]);
        for _ in 0..PAIRS {
            let e = timed(Command::new(&me).env("PCT_EMPTY_CGI", "1"));
            let w = timed(&mut ask(cmd));
            empty.push(e);
            warm.push(w);
            over.push(w - e);
        }
        println!("{cmd:<28} {:>8.2} {:>8.2} {:>8.2}", median(empty), median(warm), median(over));
    }
    timed(&mut ask("quit"));
    ExitCode::SUCCESS
}
