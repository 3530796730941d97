//! What threads waited for, on a page of CPU time.

use maud::{Markup, html};
use pct_icicle::heat_class;
use pct_num::{count, percent, share, thousands};
use pct_profile::model::Profile;
use pct_profile::text::numbers::seconds;
use pct_profile::text::wait_digest::digest;
use pct_text::visible;

/// Locks that are listed; the rest is counted.
const LOCKS: usize = 10;

/// The locks that were waited for longest, and how much was waited for work.
pub(super) fn part(profile: &Profile) -> Markup {
    let digest = digest(profile, &profile.waits, LOCKS);
    html! {
        p { (digest.heading()) }
        @if !digest.locks.rows.is_empty() {
            table.data.boxed {
                thead {
                    tr {
                        th { "seconds" } th { "share" } th { "waits" } th.l { "lock" } th.l { "waited for in" }
                        th.l { "held by" }
                    }
                }
                tbody {
                    @for row in &digest.locks.rows {
                        tr {
                            td { (seconds(row.ns)) }
                            td class=(heat_class(percent(row.ns, digest.locks.ns) / 100.0)) {
                                (share(row.ns, digest.locks.ns))
                            }
                            td { (thousands(row.waits)) }
                            td.w { (visible(&row.what)) }
                            td.w { (visible(&row.waited_in)) }
                            td.w { (visible(&row.by)) }
                        }
                    }
                }
            }
        }
        @if digest.locks.more > 0 { p { (count(digest.locks.more as u64, "more lock", "more locks")) } }
        @if let Some(work) = &digest.work { p { (visible(work)) } }
    }
}
