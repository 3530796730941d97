//! .pct files: any octets are refused or read, all of it, in time that their length bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_format::{File, Index};

fuzz_target!(|octets: &[u8]| {
    let Ok(file) = File::parse(octets) else { return };
    let header = file.header();
    let _ = (header.argv().count(), header.losses().count(), header.first_anchor(), header.latest_anchor());
    let index = Index::new(&file);
    let mut samples = 0;
    for (thread, sample) in index.samples_by_time() {
        assert!(thread < index.threads.len());
        let _ = index.region_at(sample.pc, sample.time);
        let _ = (index.timeline.monotonic_ns(sample.time), index.timeline.realtime_ns(sample.time));
        samples += 1;
    }
    // A sample takes three words at least.
    assert!(samples <= octets.len() / 24);
    let by_thread: usize = index.threads.iter().map(|t| index.samples(t).count()).sum();
    assert_eq!(by_thread, samples);
    for area in file.counters() {
        assert!(area.nonzero().count() <= octets.len() / 8);
    }
});
