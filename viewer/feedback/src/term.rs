//! Mercury terms as text, as in feedback files.
//!
//! `f(a, b)`, `[a, b]`, `"text"`, `12`, `3.5`, `K - V`. Blanks, line breaks and `%` comments are allowed between
//! tokens.

use std::fmt::{self, Write};

/// A term, with the line on which it begins (0 for one that was not read).
#[derive(Clone, Debug)]
pub struct Term {
    /// Its kind.
    pub kind: TermKind,
    /// From 1.
    pub line: u32,
}

/// The kinds of terms.
#[derive(Clone, Debug, PartialEq)]
pub enum TermKind {
    /// `name` or `name(arguments)`
    Compound(String, Vec<Term>),
    /// `[items]`
    List(Vec<Term>),
    /// `key - value`
    Pair(Box<Term>, Box<Term>),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// `"text"`
    Str(String),
}

impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl From<TermKind> for Term {
    fn from(kind: TermKind) -> Self {
        Self { kind, line: 0 }
    }
}

/// Why text is not a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermError {
    /// It ends inside a term, or before one.
    End,
    /// The text is malformed on this line.
    Bad(String, u32),
}

/// Terms nested deeper than this are refused: lists are not nested by their length, and the stack of a thread has room
/// for this, also in a build that is not optimised.
const MAX_DEPTH: u32 = 400;

/// Reads one term and the full stop after it, and nothing further. `line`: that of the text's beginning.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse(text: &str, line: u32) -> Result<Term, TermError> {
    let mut parser = Parser { rest: text, line };
    let term = parser.term(0)?;
    parser.expect('.')?;
    Ok(term)
}

struct Parser<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Parser<'a> {
    fn skip_blanks(&mut self) {
        loop {
            let trimmed = self.rest.trim_start();
            let blanks = &self.rest[..self.rest.len() - trimmed.len()];
            let lines = blanks.matches('\n').count();
            self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
            self.rest = trimmed;
            match self.rest.strip_prefix('%') {
                Some(comment) => self.rest = comment.find('\n').map_or("", |at| &comment[at..]),
                None => return,
            }
        }
    }
    fn peek(&mut self) -> Result<char, TermError> {
        self.skip_blanks();
        self.rest.chars().next().ok_or(TermError::End)
    }
    fn bad<T>(&self, message: impl Into<String>) -> Result<T, TermError> {
        Err(TermError::Bad(message.into(), self.line))
    }
    fn expect(&mut self, wanted: char) -> Result<(), TermError> {
        let found = self.peek()?;
        if found != wanted {
            return self.bad(format!("Syntax error: expected `{wanted}', found `{found}'"));
        }
        self.rest = &self.rest[found.len_utf8()..];
        Ok(())
    }
    fn take_while(&mut self, f: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !f(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
    fn term(&mut self, depth: u32) -> Result<Term, TermError> {
        let left = self.argument(depth)?;
        self.skip_blanks();
        if let Some(rest) = self.rest.strip_prefix('-') {
            self.rest = rest;
            let line = left.line;
            let right = self.argument(depth)?;
            return Ok(Term { kind: TermKind::Pair(Box::new(left), Box::new(right)), line });
        }
        Ok(left)
    }
    fn argument(&mut self, depth: u32) -> Result<Term, TermError> {
        if depth > MAX_DEPTH {
            return self.bad("Terms are nested too deep");
        }
        let first = self.peek()?;
        let line = self.line;
        let kind = match first {
            '[' => {
                self.expect('[')?;
                TermKind::List(self.items(']', depth)?)
            }
            '"' => TermKind::Str(self.quoted('"')?),
            '\'' => {
                let name = self.quoted('\'')?;
                self.compound(name, depth)?
            }
            '-' | '0'..='9' => self.number()?,
            c if c.is_ascii_lowercase() => {
                let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_').to_owned();
                self.compound(name, depth)?
            }
            c => return self.bad(format!("Syntax error: unexpected `{c}'")),
        };
        Ok(Term { kind, line })
    }
    fn compound(&mut self, name: String, depth: u32) -> Result<TermKind, TermError> {
        if self.rest.starts_with('(') {
            self.expect('(')?;
            return Ok(TermKind::Compound(name, self.items(')', depth)?));
        }
        Ok(TermKind::Compound(name, Vec::new()))
    }
    fn items(&mut self, close: char, depth: u32) -> Result<Vec<Term>, TermError> {
        let mut items = Vec::new();
        if close == ']' && self.peek()? == close {
            self.expect(close)?;
            return Ok(items);
        }
        loop {
            items.push(self.term(depth + 1)?);
            if self.peek()? == close {
                self.expect(close)?;
                return Ok(items);
            }
            self.expect(',')?;
        }
    }
    fn number(&mut self) -> Result<TermKind, TermError> {
        let start = self.rest;
        if self.rest.starts_with('-') {
            self.rest = &self.rest[1..];
        }
        let digits = self.take_while(|c| c.is_ascii_digit());
        let mut float = false;
        // A full stop ends the term, unless a digit follows.
        if self.rest.starts_with('.') && self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            float = true;
            self.rest = &self.rest[1..];
            self.take_while(|c| c.is_ascii_digit());
        }
        if !digits.is_empty() && self.rest.starts_with(['e', 'E']) {
            float = true;
            self.rest = &self.rest[1..];
            if self.rest.starts_with(['+', '-']) {
                self.rest = &self.rest[1..];
            }
            self.take_while(|c| c.is_ascii_digit());
        }
        let text = &start[..start.len() - self.rest.len()];
        let kind =
            if float { text.parse().ok().map(TermKind::Float) } else { text.parse().ok().map(TermKind::Int) };
        match kind {
            Some(kind) => Ok(kind),
            None => self.bad(format!("Syntax error: `{text}' is not a number")),
        }
    }
    fn quoted(&mut self, quote: char) -> Result<String, TermError> {
        let mut chars = self.rest[1..].char_indices();
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.rest = &self.rest[1 + at + 1..];
                    return Ok(text);
                }
                '\\' => match chars.next().ok_or(TermError::End)?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'a' => text.push('\u{7}'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'v' => text.push('\u{b}'),
                    '\n' => self.line += 1,
                    'x' => {
                        let mut code = 0_u32;
                        loop {
                            match chars.next().ok_or(TermError::End)?.1 {
                                '\\' => break,
                                d => match d.to_digit(16) {
                                    Some(d) => code = code.saturating_mul(16).saturating_add(d),
                                    None => return self.bad("Syntax error: bad hexadecimal escape"),
                                },
                            }
                        }
                        match char::from_u32(code) {
                            Some(c) => text.push(c),
                            None => return self.bad("Syntax error: bad hexadecimal escape"),
                        }
                    }
                    c @ ('\\' | '"' | '\'' | '`') => text.push(c),
                    c => return self.bad(format!("Syntax error: unknown escape `\\{c}'")),
                },
                c => {
                    self.line += u32::from(c == '\n');
                    text.push(c);
                }
            }
        }
        Err(TermError::End)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, items: &[Self]| -> fmt::Result {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{item}")?;
            }
            Ok(())
        };
        match &self.kind {
            TermKind::Compound(name, args) => {
                f.write_str(name)?;
                if args.is_empty() {
                    return Ok(());
                }
                f.write_char('(')?;
                list(f, args)?;
                f.write_char(')')
            }
            TermKind::List(items) => {
                f.write_char('[')?;
                list(f, items)?;
                f.write_char(']')
            }
            TermKind::Pair(key, value) => write!(f, "{key} - {value}"),
            TermKind::Int(n) => write!(f, "{n}"),
            TermKind::Float(x) => f.write_str(&float(*x)),
            TermKind::Str(text) => {
                f.write_char('"')?;
                for c in text.chars() {
                    match c {
                        '"' => f.write_str("\\\"")?,
                        '\\' => f.write_str("\\\\")?,
                        '\n' => f.write_str("\\n")?,
                        '\t' => f.write_str("\\t")?,
                        '\r' => f.write_str("\\r")?,
                        '\u{7}' => f.write_str("\\a")?,
                        '\u{8}' => f.write_str("\\b")?,
                        '\u{c}' => f.write_str("\\f")?,
                        '\u{b}' => f.write_str("\\v")?,
                        c if c.is_control() => write!(f, "\\x{:x}\\", c as u32)?,
                        c => f.write_char(c)?,
                    }
                }
                f.write_char('"')
            }
        }
    }
}

/// A float in the files' form: the shortest of `%.15g`, `%.16g`, `%.17g` that reads back equal, with `.0` if it would
/// look like an integer.
pub fn float(x: f64) -> String {
    let mut text = String::new();
    for precision in 15..=17 {
        text = general(x, precision);
        if text.parse() == Ok(x) {
            break;
        }
    }
    if !text.contains(['.', 'e', 'n', 'i']) {
        text.push_str(".0");
    }
    text
}

/// C's `%.{precision}g`.
fn general(x: f64, precision: u8) -> String {
    let scientific = format!("{x:.*e}", usize::from(precision) - 1);
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let strip = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if exponent < -4 || exponent >= i32::from(precision) {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", strip(digits), exponent.abs())
    } else {
        let decimals = usize::try_from(i32::from(precision) - 1 - exponent).unwrap_or(0);
        strip(&format!("{x:.decimals$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn floats_look_as_in_the_files() {
        for (x, text) in [
            (8.0, "8.0"),
            (1.01, "1.01"),
            (6100.5, "6100.5"),
            (0.0, "0.0"),
            (-2.5, "-2.5"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.0e-5, "1e-05"),
            (1.0 / 3.0, "0.3333333333333333"),
        ] {
            assert_eq!(float(x), text);
        }
    }

    #[test]
    fn terms_are_read_with_blanks_comments_and_escapes() {
        let text = "[ f(a,\n \"x\\\"\\\\\\n\\x41\\\"), % note\n -3 - 2.5e1, g ] . rest";
        let term = parse(text, 4).unwrap();
        assert_eq!(term.to_string(), "[f(a, \"x\\\"\\\\\\nA\"), -3 - 25.0, g]");
        let TermKind::List(items) = &term.kind else { panic!("a list") };
        assert_eq!(items.iter().map(|t| t.line).collect::<Vec<_>>(), [4, 6, 6]);
    }

    #[test]
    fn faults_have_their_line() {
        assert_eq!(parse("", 4), Err(TermError::End));
        assert_eq!(parse("[a, b", 4), Err(TermError::End));
        assert_eq!(parse("\"abc", 4), Err(TermError::End));
        assert!(matches!(parse("[a,\n,]", 4), Err(TermError::Bad(_, 5))));
        assert!(matches!(parse("[a] b.", 4), Err(TermError::Bad(_, 4))));
        assert!(matches!(parse("99999999999999999999.", 4), Err(TermError::Bad(_, 4))));
        assert!(matches!(parse(&"[".repeat(100_000), 4), Err(TermError::Bad(_, 4))));
    }

    fn term() -> impl Strategy<Value = Term> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(TermKind::Int),
            any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(TermKind::Float),
            any::<String>().prop_map(TermKind::Str),
            prop::sample::select(vec!["no", "a_b", "x1"])
                .prop_map(|n| TermKind::Compound(n.to_owned(), Vec::new())),
        ]
        .prop_map(Term::from);
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(TermKind::List),
                prop::collection::vec(inner, 1..5).prop_map(|a| TermKind::Compound("f".to_owned(), a)),
            ]
            .prop_map(Term::from)
        })
    }

    proptest! {
        #[test]
        fn terms_print_and_parse_as_inverses(term in term()) {
            prop_assert_eq!(parse(&format!("{term}."), 1).unwrap(), term);
        }

        #[test]
        fn any_text_parses_or_is_refused(text in "[\\[\\](),.\\-\"a-c0-9 e\\\\%\n]{0,40}") {
            let _ = parse(&text, 1);
        }
    }
}
