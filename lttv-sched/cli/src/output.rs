//! The output: text for people, rows of JSON or CSV for programs, on standard output.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufWriter, Write};

use pct_text::csv_field;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::args::Format;

/// The output. A closed pipe means that the reader needs no more.
///
/// The traced programs choose the names in traces, so what could control a terminal is written as an escape
/// ([`pct_text`]).
pub struct Out {
    to: BufWriter<io::Stdout>,
    /// The text of the current line.
    pub line: String,
    /// The reader is gone.
    pub closed: bool,
    /// The head of a table that has no row yet, with the lines before it.
    head_of_text: String,
    /// Nothing was written yet.
    empty: bool,
    format: Format,
    /// Names of the columns of the CSV rows written last.
    head: Vec<String>,
    error: Option<io::Error>,
}

impl Out {
    /// Standard output, in a form.
    pub fn new(format: Format) -> Out {
        Out {
            to: BufWriter::with_capacity(1 << 16, io::stdout()),
            line: String::new(),
            closed: false,
            head_of_text: String::new(),
            empty: true,
            format,
            head: Vec::new(),
            error: None,
        }
    }

    /// Writes [`Out::line`] and a line end, and clears the line.
    pub fn end_line(&mut self) {
        let shown = pct_text::visible(&self.line);
        let head = std::mem::take(&mut self.head_of_text);
        let written = self.to.write_all(head.as_bytes());
        let written = written.and_then(|()| self.to.write_all(shown.as_bytes()));
        let written = written.and_then(|()| self.to.write_all(b"\n"));
        self.line.clear();
        self.empty = false;
        self.note(written);
    }

    /// Stores [`Out::line`] as the head of a table. It is written before the first row, so a table without rows has no
    /// head.
    pub fn end_head(&mut self) {
        self.head_of_text = pct_text::visible(&self.line).into_owned() + "\n";
        self.line.clear();
    }

    /// Like [`Out::end_head`], with an empty line before the head.
    pub fn end_head_below(&mut self) {
        self.end_head();
        self.head_of_text.insert(0, '\n');
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.empty
    }

    /// Writes an empty line. A head without a row is dropped.
    pub fn blank_line(&mut self) {
        self.head_of_text.clear();
        let written = self.to.write_all(b"\n");
        self.note(written);
    }

    /// Writes a row for programs: a JSON object on a line, or a line of CSV.
    pub fn row(&mut self, row: &impl Serialize) {
        let json = match serde_json::to_string(row) {
            Ok(json) => json,
            Err(error) => return self.note(Err(error.into())),
        };
        self.empty = false;
        if self.format == Format::Csv {
            self.csv(&json);
            return;
        }
        let shown = pct_text::visible_json(&json);
        let written = self.to.write_all(shown.as_bytes()).and_then(|()| self.to.write_all(b"\n"));
        self.note(written);
    }

    /// Writes a JSON object as a line of CSV. The names of the columns come before the first line, and after an empty
    /// line whenever they change.
    fn csv(&mut self, json: &str) {
        let columns: Columns = match serde_json::from_str(json) {
            Ok(columns) => columns,
            Err(error) => return self.note(Err(error.into())),
        };
        let head: Vec<String> = columns.0.iter().map(|(name, _)| name.clone()).collect();
        if head != self.head {
            if !self.head.is_empty() {
                self.blank_line();
            }
            self.csv_line(head.iter().map(|name| csv_field(name)));
            self.head = head;
        }
        self.csv_line(columns.0.iter().map(|(_, value)| field(value)));
    }

    fn csv_line<'c>(&mut self, fields: impl Iterator<Item = Cow<'c, str>>) {
        for (at, field) in fields.enumerate() {
            if at > 0 {
                self.line.push(',');
            }
            self.line.push_str(&field);
        }
        self.end_line();
    }

    /// Writes the buffered text, for a reader who waits for it.
    pub fn flush(&mut self) {
        let flushed = self.to.flush();
        self.note(flushed);
    }

    /// Writes the buffered text.
    ///
    /// # Errors
    /// A write failed for another reason than a closed pipe.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush();
        self.error.take().map_or(Ok(()), Err)
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.closed = true;
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.error.get_or_insert(error);
            }
        }
    }
}

/// The members of a JSON object in order.
struct Columns(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Columns {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Columns, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Columns;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Columns, A::Error> {
                let mut columns = Vec::new();
                while let Some(member) = map.next_entry()? {
                    columns.push(member);
                }
                Ok(Columns(columns))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// A value as a field of CSV: nothing for null, compounds as JSON.
fn field(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => csv_field(text),
        Value::Null => "".into(),
        // A negative number is no formula.
        Value::Number(number) => number.to_string().into(),
        other => csv_field(&other.to_string()).into_owned().into(),
    }
}

/// The head of a table. It is written with the table's first row; `head!(below out, ...)`: with an empty line before
/// it.
#[macro_export]
macro_rules! head {
    (below $out:expr, $($arg:tt)*) => {{
        let out: &mut $crate::output::Out = $out;
        let _ = std::fmt::Write::write_fmt(&mut out.line, format_args!($($arg)*));
        out.end_head_below();
    }};
    ($out:expr, $($arg:tt)*) => {{
        let out: &mut $crate::output::Out = $out;
        let _ = std::fmt::Write::write_fmt(&mut out.line, format_args!($($arg)*));
        out.end_head();
    }};
}

/// Writes a line to standard output at once.
#[macro_export]
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {{
        let out: &mut $crate::output::Out = $out;
        let _ = std::fmt::Write::write_fmt(&mut out.line, format_args!($($arg)*));
        out.end_line();
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_formulas_and_negative_numbers_stay_numbers() {
        assert_eq!(field(&Value::from("=cmd|' /C calc'!A0")), "'=cmd|' /C calc'!A0");
        assert_eq!(field(&Value::from(-5)), "-5");
        assert_eq!(field(&Value::from(vec![1, 2])), "\"[1,2]\"");
        assert_eq!(field(&Value::Null), "");
    }
}
