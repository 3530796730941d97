//! Displays as HTML and as terminal text. (JSON is made of reports, not of displays: [`crate::page::json`].)

pub mod html;
mod html_picture;
mod html_table;
mod html_width;
pub mod text;
