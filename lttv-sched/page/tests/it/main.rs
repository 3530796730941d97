//! The timeline page: tiles against counts of requests, addresses, and the page in a real browser.

mod browser;
mod page;
mod real;
mod recorded;
mod simulated;
mod workbench;
