//! The text file beside a native program's profile: any text is one or an error that names its line, and one
//! that is comes back after printing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_deep::native::Side;

fuzz_target!(|octets: &[u8]| {
    if let Ok(side) = Side::parse(&String::from_utf8_lossy(octets)) {
        let again = Side::parse(&side.to_text()).expect("what is printed parses");
        assert_eq!(again.to_text(), side.to_text());
    }
});
