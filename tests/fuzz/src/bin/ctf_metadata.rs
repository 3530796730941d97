//! CTF metadata: any octets, in packets or plain, are a trace class or are refused with a place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lttv_ctf::{json, tsdl};

fuzz_target!(|octets: &[u8]| {
    if let Err(error) = tsdl::parse(octets) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = json::parse(octets) {
        assert!(!error.to_string().is_empty());
    }
});
