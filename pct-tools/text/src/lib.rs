//! Text from files that people will see: names of functions, processes, fields, paths.
//!
//! Whoever made the file chose these names. A control character in one can steer the terminal that prints it. A
//! bidirectional control such as U+202E turns the letters around it, in terminals, browsers and editors alike. Other
//! characters have no shape at all, so two names look like one. Here is the one rule for all of them. Every printer
//! uses it: terminal, HTML, CSV, SVG.
//!
//! **The rule:** a character that [`is_hidden()`] is written as an escape that can be read: `\n`, `\t`, `\r`, else
//! `\u{202e}`. Everything else stays. So nothing is lost, different names stay different, and applying the rule twice
//! is the same as once. It does not escape markup, quotes or separators: the format does that afterwards.
//!
//! - [`visible()`]: a name, in one line.
//! - [`visible_lines()`]: a text of several lines, such as a source file or a whole page: line ends and tabs stay.
//! - [`Visible`]: the same as [`visible()`], for `write!` and `format!`.
//! - [`elided()`]: the short form of a function's long name, for tables and pictures; [`bare_name()`]: shorter still.
//! - [`csv_field()`]: a name in a table for programs and spreadsheets.
//! - [`behind_amount()`], [`head_of_amounts()`]: what amounts of another profiler's sample type are of, in their unit.
//! - [`complain!`]: a line on stderr.
//! - [`visible_json()`]: JSON that was written already: JSON's own escapes, so that readers get the original text.
//!
//! Apply it before text is measured or cut, since an escape is longer than what it stands for.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

use std::borrow::Cow;
use std::fmt::{self, Write as _};

mod amounts;
mod csv;
mod elide;

pub use amounts::{behind_amount, counts_samples, head_of_amounts};
pub use csv::csv_field;
pub use elide::{bare_name, elided};

/// Whether a character has an effect but no shape: controls (C0, DEL, C1), line and paragraph separators, the marks
/// and overrides of bidirectional text, characters without width, tags, noncharacters.
///
/// The two joiners U+200C and U+200D are not hidden: some scripts need them inside words.
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            // Soft hyphen, Arabic letter mark, Mongolian vowel separator.
            | '\u{ad}' | '\u{61c}' | '\u{180e}'
            // No width; left-to-right and right-to-left marks.
            | '\u{200b}' | '\u{200e}' | '\u{200f}'
            // Line and paragraph separators, embeddings, overrides.
            | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates, deprecated format characters.
            | '\u{2060}'..='\u{206f}'
            // Byte order mark, interlinear annotation, tags.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
            // Noncharacters, which XML forbids.
            | '\u{fffe}' | '\u{ffff}'
    )
}

/// A line on stderr, written as [`std::format!`] would: hidden characters as escapes, so that it stays one line. A
/// closed stderr is no reason to end, so nothing is said of it.
#[macro_export]
macro_rules! complain {
    ($($words:tt)*) => { $crate::write_complaint(&::std::format!($($words)*)) };
}

/// What [`complain!`] does with its text.
pub fn write_complaint(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{}", visible(text));
}

/// A name in one line: each hidden character as an escape.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    rewritten(text, is_hidden, escape)
}

/// A text of several lines: line feeds and tabs stay, each other hidden character becomes an escape.
#[must_use]
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    rewritten(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'), escape)
}

/// JSON text that a serializer has written: hidden characters become JSON's escapes (`\u202e`), so that the text can
/// be looked at and a reader still gets the original. Line feeds and tabs between values stay.
#[must_use]
pub fn visible_json(text: &str) -> Cow<'_, str> {
    rewritten(
        text,
        |c| is_hidden(c) && !matches!(c, '\n' | '\t'),
        |out, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// Writes a name by the rule of [`visible()`]. Width and alignment of a format string count the escapes.
#[derive(Clone, Copy, Debug)]
pub struct Visible<'a>(pub &'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&visible(self.0))
    }
}

fn escape(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c => drop(write!(out, "\\u{{{:x}}}", u32::from(c))),
    }
}

fn rewritten(text: &str, hidden: fn(char) -> bool, escape: fn(&mut String, char)) -> Cow<'_, str> {
    // Nearly all text is plain ASCII: one look at each octet settles it.
    let may_hide = |b: u8| !(0x20..0x7f).contains(&b);
    let Some(first) = text
        .bytes()
        .position(may_hide)
        .and_then(|from| text[from..].char_indices().find(|&(_, c)| hidden(c)).map(|(i, _)| from + i))
    else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if hidden(c) {
            escape(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_steers_or_turns_around_is_written_out() {
        assert_eq!(visible("a\x1b[2Jb\n\t"), "a\\u{1b}[2Jb\\n\\t");
        assert_eq!(visible("user\u{202e}txt.exe"), "user\\u{202e}txt.exe");
        assert_eq!(
            visible("\u{9b}31m\u{7f}\u{feff}x\u{200b}y\u{2066}"),
            "\\u{9b}31m\\u{7f}\\u{feff}x\\u{200b}y\\u{2066}"
        );
        assert_eq!(format!("{:>10}|", Visible("\u{8}")), "     \\u{8}|");
    }

    #[test]
    fn names_in_any_script_stay_as_they_are() {
        for name in [
            "main",
            "a::b<c>",
            "größe",
            "naïve\u{301}",
            "ファイル",
            "שלום",
            "می\u{200c}خواهم",
            "👩\u{200d}💻",
            "…",
        ] {
            assert!(matches!(visible(name), Cow::Borrowed(n) if n == name), "{name}");
        }
    }

    #[test]
    fn texts_keep_their_lines() {
        assert_eq!(visible_lines("a\n\tb\r\u{1b}"), "a\n\tb\\r\\u{1b}");
    }

    #[test]
    fn json_keeps_the_text_for_its_readers() {
        assert_eq!(
            visible_json("{\n\"a\": \"x\u{202e}y\u{7f}\u{e0041}\"}"),
            "{\n\"a\": \"x\\u202ey\\u007f\\udb40\\udc41\"}"
        );
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left_and_twice_is_once(text in any::<String>()) {
            let once = visible(&text).into_owned();
            prop_assert!(!once.chars().any(is_hidden));
            prop_assert_eq!(&*visible(&once), &once);
            prop_assert!(!visible_lines(&text).chars().any(|c| is_hidden(c) && c != '\n' && c != '\t'));
        }
    }
}
