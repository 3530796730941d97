//! Feedback files: any text is a file that can be reported and written again, or a refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_feedback::{file, report};

fuzz_target!(|octets: &[u8]| {
    let text = String::from_utf8_lossy(octets);
    let Ok(feedback) = file::parse(&text, None) else { return };
    let _ = report::report(&feedback);
    // What was read is written so that it is read the same, except for infinity and NaN.
    let written = file::to_text(&feedback);
    if !written.contains("inf") && !written.contains("NaN") {
        let again = file::parse(&written, None).expect("what was written is read");
        assert_eq!(file::to_text(&again), written);
    }
});
