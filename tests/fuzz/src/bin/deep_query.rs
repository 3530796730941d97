//! A page's query: whatever stands in an address is a query or none, and one that is prints and parses as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_reports::query::Query;

fuzz_target!(|octets: &[u8]| {
    let text = String::from_utf8_lossy(octets);
    if let Ok(query) = Query::parse(&text) {
        let again = Query::parse(&query.to_string());
        // Not a number is not equal to itself, whatever it is printed as.
        if !query.to_string().contains("NaN") {
            assert_eq!(again.as_ref(), Ok(&query), "{query}");
        }
    }
});
