//! `NAME.native` beside `NAME.data`: what the data file's format cannot say.
//!
//! Lines of `key value`. The data file's length and hash (FNV-1a, 64 bits) tie the two together: a reader ignores a side file
//! that does not fit, with a warning.

use pct_profile::Profile;
use std::fmt::Write as _;

/// The text of the side file for a data file of these octets.
pub fn text(profile: &Profile, folded_ns: u64, data: &[u8]) -> String {
    let mut out = String::from(
        "native 1\nproducer sampled\ncalls unknown\nexits unknown\nallocs unknown\nlanguage unknown\nsites executed\n",
    );
    let _ = writeln!(out, "length {}\nhash {:016x}", data.len(), hash(data));
    let hz = profile.processes.iter().map(|p| p.hz).max().unwrap_or(0);
    let clock = profile.processes.iter().map(|p| p.clock.as_str()).next().unwrap_or("");
    let _ = writeln!(out, "rate {hz}\nclock {clock}\nfolded_ns {folded_ns}");
    for process in profile.processes.iter() {
        let _ = writeln!(out, "process {} {}", process.pid, process.name.replace('\n', " "));
    }
    for object in profile.objects.iter() {
        if let Some(id) = &object.build_id {
            let _ = writeln!(out, "build-id {id} {}", object.path.replace('\n', " "));
        }
    }
    for loss in &profile.account.losses {
        let _ = writeln!(out, "loss {} {}", loss.samples, loss.cause.replace('\n', " "));
    }
    out
}

/// FNV-1a, 64 bits.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}
