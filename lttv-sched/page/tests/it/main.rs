//! The timeline page: tiles against counts of requests, addresses, and the page in a real browser.

mod browser;
mod kept;
mod lanes;
mod page;
mod real;
mod recorded;
mod room;
mod simulated;
mod states;
mod workbench;
