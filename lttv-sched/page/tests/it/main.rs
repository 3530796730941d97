//! The timeline page: tiles against counts of requests, addresses, and the page in a real browser.
//!
//! Live is the module below `live`: it runs servers and browsers. The others are exact.

mod board;
mod chart;
mod kept;
mod lanes;
mod page;
mod real;
mod recorded;
mod room;
mod simulated;
mod states;
mod waits;
mod workbench;

mod live {
    mod browser;
}
