//! The lines of a perf script file: which are headers, which are frames.

use super::bare::{self, Columns};
use super::frame::{self, Frame};
use super::header::{self, Header};

/// How many lines have to fit perf's columns in a file whose headers say too little.
const LOOKED_AT: usize = 1_000;

/// Which headers a file has.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// With a time and ids, or with ids and an event.
    Full,
    /// With less, told apart by perf's columns.
    Bare(bare::Columns),
}

/// The form of a text; `None` if it is of another tool. A command's name may end in what looks like an id, so a text is
/// full only if all of its first lines are, or if it does not fit perf's columns.
pub(super) fn form(text: &str) -> Option<Form> {
    let full = begins_in_full(text).then_some(Form::Full);
    if full.is_some() && !of_form(text, Form::Full).take(LOOKED_AT).any(|line| matches!(line, Line::Other)) {
        return full;
    }
    bare_columns(text).map(Form::Bare).or(full)
}

/// Whether one of the first lines is a header with a time, or with a frame behind it or in the next line.
fn begins_in_full(text: &str) -> bool {
    let mut lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#')).take(6).peekable();
    while let Some(line) = lines.next() {
        if header::with_time(line).is_some() {
            return true;
        }
        let Some(header) = header::without_time(line) else { continue };
        let mut next =
            lines.peek().filter(|next| next.starts_with([' ', '\t']) || next.ends_with(')')).into_iter();
        if frame::parse(header.rest).is_some() || next.any(|next| frame::parse(next).is_some()) {
            return true;
        }
    }
    false
}

/// What a line is.
pub(super) enum Line<'t> {
    Header(Header<'t>),
    Frame(Frame<'t>),
    /// Where the frame before is in the source, where known.
    Source(Option<(&'t str, u32)>),
    /// Neither text nor comment: the end of a sample.
    Empty,
    Comment,
    Other,
}

fn line(text: &str) -> Line<'_> {
    if text.trim().is_empty() {
        return Line::Empty;
    }
    if text.starts_with('#') {
        return Line::Comment;
    }
    if let Some(header) = header::with_time(text) {
        return Line::Header(header);
    }
    // The name of a command may look like an address: `dd`.
    let without_time = header::without_time(text);
    if let Some(header) = without_time
        && (header.rest.is_empty() || frame::parse(header.rest).is_some())
    {
        return Line::Header(header);
    }
    // (Some tools strip the blanks.)
    if (text.starts_with([' ', '\t']) || text.ends_with(')'))
        && let Some(frame) = frame::parse(text)
    {
        return Line::Frame(frame);
    }
    if let Some(header) = without_time {
        return Line::Header(header);
    }
    frame::parse_source(text).map_or(Line::Other, Line::Source)
}

fn bare_columns(text: &str) -> Option<Columns> {
    let no_events = Form::Bare(Columns { events: false });
    let mut has_symbols = false;
    for line in of_form(text, no_events).take(LOOKED_AT) {
        let frame = match line {
            Line::Other => return None,
            Line::Header(header) => frame::parse(header.rest),
            Line::Frame(frame) => Some(frame),
            _ => None,
        };
        has_symbols |= frame.is_some_and(|frame| u64::from_str_radix(frame.symbol, 16) != Ok(frame.address));
    }
    let events = of_form(text, no_events).all(|line| match line {
        Line::Header(header) => header.name.split_whitespace().next_back().is_some_and(header::is_event),
        _ => true,
    });
    has_symbols.then_some(Columns { events })
}

/// The lines of a file.
pub(super) fn of_form(text: &str, form: Form) -> impl Iterator<Item = Line<'_>> {
    let mut in_sample = false;
    let lines = text.lines().zip(text.lines().skip(1).chain([""]));
    lines.map(move |(text, next)| match form {
        Form::Full => line(text),
        Form::Bare(columns) => {
            let line = bare_line(text, next, columns, in_sample);
            in_sample = match line {
                Line::Empty => false,
                Line::Header(_) => true,
                _ => in_sample,
            };
            line
        }
    })
}

fn bare_line<'t>(text: &'t str, next: &str, columns: Columns, in_sample: bool) -> Line<'t> {
    if text.trim().is_empty() {
        return Line::Empty;
    }
    if text.starts_with('#') {
        return Line::Comment;
    }
    match bare::split(text) {
        Some(("", rest)) if in_sample && text.starts_with('\t') => {
            frame::parse(rest).map_or(Line::Other, Line::Frame)
        }
        Some((head, rest)) => Line::Header(columns.header(head, rest)),
        None if in_sample => frame::parse_source(text).map_or(Line::Other, Line::Source),
        None if bare::may_be_header(text, next) => Line::Header(columns.header(text, "")),
        None => Line::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_for_samples_only_if_its_lines_fit() {
        let frame = "\t    7f256c1e4998 f\n";
        for (text, events) in [
            (format!("bash \n{frame}{frame}\nbash \n{frame}\n"), Some(false)),
            (format!("\n{frame}{frame}\n\n{frame}"), Some(false)),
            (format!("cycles: \n{frame}\ncycles: \n{frame}\n"), Some(true)),
            (format!("cycles: \n{frame}\ncycles \n{frame}\n"), Some(false)),
            (format!("bash \n{frame}  f.c:12\n\n"), Some(false)),
            (format!("bash \n\nbash \n{frame}\n"), Some(false)),
            ("     7f256c1e4998 f\n     7f256c1e4998 g\n".to_owned(), Some(false)),
            ("\t    7f256c1e4998\n".to_owned(), None),
            (format!("bash \nDear Bob\n{frame}"), None),
            (format!("bash \n{frame}Dear Bob\n"), None),
            (String::new(), None),
        ] {
            assert_eq!(bare_columns(&text), events.map(|events| Columns { events }), "{text:?}");
        }
    }
}
