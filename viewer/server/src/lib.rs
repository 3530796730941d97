//! Serves deep profile pages.
//!
//! In reading order: [`answer`] (request to response, the same for all callers), [`viewer`] (a loaded profile that
//! answers), [`library`] (several of them under their names), [`http`] (the built-in web server of `pct view`) above
//! `connections` (its bounds), [`view`] (library and web server together), [`sweep`] (every page of a profile, every
//! link on it: `mdprof_test`), [`page_files`] (pages as files), [`dump`] and [`derived`] (`mdprof_dump`: the data as
//! text, all figures as JSON lines), [`procrep`] (`mdprof_procrep`: procedure bodies as text), [`merge`]
//! (`mdprof_merge`: several runs as one data file), [`cgi`] (`mdprof_cgi`: a server process behind a web server).
//!
//! Invariant: only [`http`] and `connections` know sockets, only [`viewer`] knows profiles' files, and only [`cgi`]
//! knows pipes.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod answer;
pub mod cgi;
mod connections;
pub mod derived;
pub mod dump;
pub mod http;
pub mod library;
pub mod merge;
pub mod page_files;
pub mod procrep;
mod program;
mod slots;
pub mod sweep;
pub mod view;
pub mod viewer;
