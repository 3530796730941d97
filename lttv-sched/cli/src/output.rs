//! Where results go: text for people, rows of JSON or CSV for programs, on standard output.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufWriter, Write};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::args::Format;

/// Where results go. A closed pipe is the reader's way to say that it has enough.
///
/// Names in traces are chosen by whoever was traced: what could steer a terminal is written as an escape
/// ([`pct_text`]).
pub struct Out {
    to: BufWriter<io::Stdout>,
    /// The text of the present line.
    pub line: String,
    /// Nobody reads any more.
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

    /// Writes [`Out::line`] and a line end; the line is empty then.
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

    /// Keeps [`Out::line`] as the head of a table: it is written before the first row. A table without a row has no head.
    pub fn end_head(&mut self) {
        self.head_of_text = pct_text::visible(&self.line).into_owned() + "\n";
        self.line.clear();
    }

    /// As [`Out::end_head`], with an empty line before the head.
    pub fn end_head_below(&mut self) {
        self.end_head();
        self.head_of_text.insert(0, '\n');
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.empty
    }

    /// Writes an empty line. A head without a row goes.
    pub fn blank_line(&mut self) {
        self.head_of_text.clear();
        let written = self.to.write_all(b"\n");
        self.note(written);
    }

    /// Writes a row for programs: an object of JSON in a line, or a line of CSV.
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

    /// Writes an object of JSON as a line of CSV. The names of the columns come before the first line, and
    /// again after an
    /// empty line where they change.
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
            self.csv_line(head.iter().map(String::as_str));
            self.head = head;
        }
        let cells: Vec<Cow<'_, str>> = columns.0.iter().map(|(_, value)| cell(value)).collect();
        self.csv_line(cells.iter().map(Cow::as_ref));
    }

    fn csv_line<'c>(&mut self, cells: impl Iterator<Item = &'c str>) {
        for (at, cell) in cells.enumerate() {
            if at > 0 {
                self.line.push(',');
            }
            let cell = pct_text::visible(cell);
            if cell.contains([',', '"', '\n']) {
                self.line.push('"');
                self.line.push_str(&cell.replace('"', "\"\""));
                self.line.push('"');
            } else {
                self.line.push_str(&cell);
            }
        }
        self.end_line();
    }

    /// Writes what is held back, for a reader who waits for it.
    pub fn flush(&mut self) {
        let flushed = self.to.flush();
        self.note(flushed);
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// A write failed, for another reason than that the reader has gone.
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

/// The members of an object of JSON in their order.
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

/// A value as a cell of CSV: text as it is, nothing for null, compounds as JSON.
fn cell(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        Value::Null => "".into(),
        other => other.to_string().into(),
    }
}

/// The head of a table, which is written when its first row is; `head!(below out, ...)`: with an empty line before it.
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
