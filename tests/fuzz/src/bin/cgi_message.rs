//! Messages between a CGI client and its server: any line is one or none, and one that is comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_server::cgi::message::{Ask, MAX, Reply, Status, line, parse};

fuzz_target!(|octets: &[u8]| {
    if let Some(ask) = parse::<Ask>(octets) {
        if let Some(text) = line(&ask) {
            assert!(text.len() <= MAX);
            assert_eq!(parse::<Ask>(&text), Some(ask));
        }
    }
    let _ = (parse::<Reply>(octets), parse::<Status>(octets));
});
