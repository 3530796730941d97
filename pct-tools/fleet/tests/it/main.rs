//! Tables of many hosts: made, shipped, asked.
//!
//! `live::` has servers, engines of the machine, and packages that are installed. All others are exact: what is in the
//! tables, also after a program killed itself at a step.

mod ask;
mod common;
mod compact;
mod rollup;
mod ship;
mod tables;

mod live {
    mod deploy;
    mod engines;
    mod push;
    mod symbolize;
}
