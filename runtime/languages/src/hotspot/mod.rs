//! HotSpot 11 to 25: what a reader of recordings needs of Java methods, their line tables ([`lines`]).

pub mod lines;
