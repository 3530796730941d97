//! Views of memory: the rows that trees and tables are made of, which frames they hide, and what grew.

pub mod cells;
pub mod growth;
pub mod hide;
pub mod rates;
