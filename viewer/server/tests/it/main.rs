//! The server of pages: every page it has, `mdprof_cgi` as a web server runs it, the pages in a browser.
//!
//! Live are the modules below `live`: they run servers, browsers and processes that are killed. The others are exact.

mod support;
mod sweep;

mod live {
    mod browser;
    mod cgi;
    mod web;
}
