//! Views to words: tables for people, CSV and JSON for programs.
//!
//! [`table`] knows columns, widths and colours; [`numbers`] how numbers are written; the others say which columns a
//! view has. Everything gives a `String`; nothing here prints.

pub mod account;
pub mod diff;
pub mod digest;
pub mod flat;
pub mod growth;
pub mod memory;
pub mod memory_account;
pub mod memory_data;
pub mod memory_digest;
pub mod memory_words;
pub mod nested;
pub mod numbers;
pub mod parallelism;
pub mod path;
pub mod rates;
pub mod table;
pub mod tree;
pub mod wait_digest;
pub mod wait_names;
pub mod waits;

/// A value as a line of JSON. Hidden characters of names are JSON's escapes: programs get the names as they are, and
/// people who look at the line are not misled.
#[must_use]
pub fn json_line(value: &serde_json::Value) -> String {
    format!("{}\n", pct_text::visible_json(&value.to_string()))
}

/// What the reader's terminal can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Columns to fit into; `None`: as wide as it gets (a pipe or file).
    pub width: Option<usize>,
    /// ANSI colours.
    pub color: bool,
    /// Lines and bars by Unicode characters.
    pub unicode: bool,
    /// Long names of functions with their template arguments.
    pub wide: bool,
}

/// Columns beyond which no line of prose goes, however wide the terminal is.
const WIDEST_PROSE: usize = 100;

impl Layout {
    /// A sentence in as many lines as it needs where the output has a width; those after the first are indented. A pipe
    /// or file gets one line.
    #[must_use]
    pub fn prose(&self, text: &str) -> String {
        let Some(width) = self.width else { return format!("{text}\n") };
        let options =
            textwrap::Options::new(width.min(WIDEST_PROSE)).subsequent_indent("  ").break_words(false);
        textwrap::wrap(text, options).join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn prose_is_as_wide_as_the_terminal_and_whole_in_a_pipe() {
        let text = "accounted 12.99 of 13.11 CPU s; 28 processes without a sample: 0.014 s; nothing lost";
        let told = |width| Layout { width, ..Layout::default() }.prose(text);
        assert_eq!(told(None), format!("{text}\n"));
        assert_eq!(told(Some(100)), format!("{text}\n"));
        assert_eq!(
            told(Some(50)),
            "accounted 12.99 of 13.11 CPU s; 28 processes\n  without a sample: 0.014 s; nothing lost\n"
        );
        let long = "/a/path/that/no/line/has/room/for";
        assert_eq!(Layout { width: Some(20), ..Layout::default() }.prose(long), format!("{long}\n"));
        let wide = Layout { width: Some(300), ..Layout::default() }.prose(&"word ".repeat(50));
        assert!(wide.lines().all(|line| line.len() <= 100) && wide.lines().count() == 3, "{wide}");
    }
}
