//! Prints one page of a profile: `cargo run -p pct-reports --example page -- FILE.data QUERY [html|text|json]`.
#![forbid(unsafe_code)]
use pct_deep::Compensation;
use pct_reports::page::{self, Request};
use pct_reports::render::html::PageContext;
use pct_reports::render::text::TextOptions;
use pct_reports::subject::Subject;
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, query, rest @ ..] = args.as_slice() else {
        eprintln!("usage: page FILE.data QUERY [html|text|json]");
        std::process::exit(2);
    };
    let start = Instant::now();
    let subject = Subject::open(file.as_ref(), Compensation::Exact).unwrap_or_else(|e| {
        eprintln!("{file}: {e}");
        std::process::exit(1);
    });
    let opened = start.elapsed();
    let request = Request::parse(query).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(2);
    });
    let start = Instant::now();
    let page = match rest.first().map(String::as_str) {
        Some("html") => {
            page::html(&subject, &request, &PageContext { file: file.clone(), ..PageContext::default() })
        }
        Some("json") => page::json(&subject, &request),
        _ => page::text(&subject, &request, &TextOptions { commands: true, ..TextOptions::default() }),
    };
    let made = start.elapsed();
    print!("{}", page.body);
    eprintln!("opened in {:.1} ms, page in {:.2} ms", opened.as_secs_f64() * 1e3, made.as_secs_f64() * 1e3);
}
