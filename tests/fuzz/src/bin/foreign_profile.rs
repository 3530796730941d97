//! Other tools' profiles (pprof, perf.data, perf script, folded, callgrind, JSON): any octets are read or
//! refused; what was read can be written in every format.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use pct_formats::{Format, export, import};

fuzz_target!(|octets: &[u8]| {
    let wanted = import::Wanted { timeline: true, sample_type: None };
    let Ok(profile) = import::parse_with(octets, Path::new("x"), wanted) else { return };
    assert!(!profile.cells.is_empty());
    for &(_, format) in Format::ALL {
        let _ = export(&profile, &profile.cells, format);
    }
});
