//! A contour file: any text is a list of exclusions, a warning or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_analysis::contour::{ContourState, parse};

fuzz_target!(|octets: &[u8]| {
    let text = String::from_utf8_lossy(octets);
    let state = parse("x.contour", &text, |name| name.len() % 2 == 0);
    if let ContourState::Readable { exclusion, .. } = state {
        for name in text.split_whitespace().take(20) {
            let _ = (exclusion.excludes(name, true), exclusion.excludes(name, false));
        }
    }
});
