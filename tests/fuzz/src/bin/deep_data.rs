//! Deep.data: any octets load or are refused with a place; what loads answers and writes back to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_deep::{Compensation, ErrorCode, Version, load, read, to_octets};

fuzz_target!(|octets: &[u8]| {
    let profile = match load(octets, Compensation::Exact) {
        Ok(profile) => profile,
        Err(error) => {
            assert!(error.offset.is_some() || matches!(error.code, ErrorCode::Overflow | ErrorCode::BadId), "{error}");
            return;
        }
    };
    for ps in profile.pss() {
        let _ = (profile.qualified_name(ps), profile.ps_figures(ps), profile.calls_of(ps), profile.ps_coverage(ps));
    }
    for css in profile.csss() {
        let _ = (profile.css_csds(css).count(), profile.css_figures(css), profile.path(profile.css(css).path));
    }
    for csd in profile.csds() {
        let _ = (profile.csd_css(csd), profile.csd_total(csd), profile.csd_comp(csd));
    }
    for clique in profile.cliques() {
        let _ = (profile.clique_figures(clique), profile.clique_entry_pd(clique));
    }
    let version = Version::from_number(profile.header().version).expect("only known versions load");
    let written = to_octets(profile.data(), version).expect("a version carries what it was read from");
    let again = read(&written).expect("what is written can be read");
    assert!(to_octets(&again, version).expect("as before") == written);
    let _ = load(octets, Compensation::Compat);
});
