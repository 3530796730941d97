//! Deep profiles: files, laws, figures that are known. All of it is exact; nothing here is live.

mod common;
mod files;
mod invariants;
mod merge;
mod naive;
mod procrep;
mod vectors;
