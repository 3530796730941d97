//! Every cause for which a recording may lack something is told where the account is.

use pct_format::LossCause;
use pct_format::builder::Builder;
use pct_profile::load::{Options, load};
use pct_profile::text::account;

#[test]
fn every_cause_of_a_loss_is_told_and_nothing_is_then_said_to_be_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    for cause in LossCause::ALL {
        for weight in [0, 3] {
            let mut b = Builder::new();
            b.argv(&[b"./demo"]);
            let thread = b.thread(1, 7, b"t");
            b.sample(thread, 1_000_000, 0x1000, 1, false, 0);
            b.loss(*cause, 3, weight);
            let path = folder.path().join(format!("{cause:?}-{weight}.pct"));
            std::fs::write(&path, b.finish()).expect("written");
            let profile = load(&[path], &Options { symbols: false, ..Options::default() }).expect("read");
            let lines = account::closing(&profile, &profile.cells).join("\n");
            // Definitions are no samples: what lacks them is in a sentence of its own.
            let told = if cause.loses_samples() {
                cause.name()
            } else {
                "3 stacks or pieces of code could not be written"
            };
            assert!(lines.contains(told), "{cause:?}: {lines}");
            assert!(!lines.contains("nothing lost"), "{cause:?}: {lines}");
        }
    }
}
