//! The timeline page: tiles against counts of requests, addresses, and the page in a real browser.
//!
//! Live is the module below `live`: it runs servers and browsers. The others are exact.

mod page;
mod real;
mod recorded;
mod simulated;
#[path = "../../../../viewer/server/tests/it/started.rs"]
mod started;
mod workbench;

mod live {
    mod browser;
}
