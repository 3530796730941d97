//! Displays as HTML and as terminal text. (JSON is made of reports, not of displays: [`crate::page::json`].)

pub mod html;
pub mod text;
