//! The command line of a translator, with placeholders for the object.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use super::answers::{Answers, TranslatorError};
use crate::image::BuildId;

/// A command line with placeholders for the object: `addr2line -e %o -f -C`.
///
/// Words are split at blanks; `'...'`, `"..."` and `\` quote as in a shell, but no shell runs. If you need a shell,
/// write `sh -c '...'`. In each word `%o` stands for the object's path, `%b` for its build-id, `%%` for a percent sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    words: Vec<Vec<u8>>,
    pub(super) answers: Answers,
    /// How long a translator may stay silent while an answer is due.
    pub(super) patience: Duration,
}

/// Why a template is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// It has no word.
    #[error("the translator's command line is empty")]
    Empty,
    /// A quote has no end.
    #[error("the translator's command line has a {0} that does not end")]
    Unfinished(char),
    /// `%` is followed by something else than `o`, `b` or `%`.
    #[error("the translator's command line has %{0}: known are %o (object), %b (build-id) and %%")]
    UnknownPlace(char),
}

impl Template {
    /// Splits and checks a command line.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let words = split(text)?;
        if words.is_empty() {
            return Err(TemplateError::Empty);
        }
        for word in &words {
            let mut bytes = word.iter();
            while let Some(b) = bytes.next() {
                if *b == b'%' {
                    match bytes.next() {
                        Some(b'o' | b'b' | b'%') => {}
                        other => {
                            return Err(TemplateError::UnknownPlace(char::from(*other.unwrap_or(&b' '))));
                        }
                    }
                }
            }
        }
        Ok(Template { words, answers: Answers::Auto, patience: Duration::from_secs(30) })
    }

    /// Sets how many lines an address's answer has.
    pub fn with_answers(mut self, answers: Answers) -> Template {
        self.answers = answers;
        self
    }

    /// Sets how long it may stay silent while answers are due (30 s by default).
    pub fn with_patience(mut self, patience: Duration) -> Template {
        self.patience = patience;
        self
    }

    /// The program's name, for messages.
    pub fn program(&self) -> String {
        String::from_utf8_lossy(&self.words[0]).into_owned()
    }

    /// The command line for an object.
    ///
    /// # Errors
    /// [`TranslatorError::NoBuildId`].
    pub fn command_line(
        &self,
        object: &Path,
        build_id: Option<&BuildId>,
    ) -> Result<Vec<OsString>, TranslatorError> {
        let mut line = Vec::new();
        for word in &self.words {
            let mut out = Vec::new();
            let mut bytes = word.iter();
            while let Some(b) = bytes.next() {
                match (b, if *b == b'%' { bytes.next() } else { None }) {
                    (b'%', Some(b'o')) => out.extend_from_slice(object.as_os_str().as_bytes()),
                    (b'%', Some(b'b')) => {
                        let id = build_id.ok_or(TranslatorError::NoBuildId)?;
                        out.extend_from_slice(id.to_string().as_bytes());
                    }
                    (b'%', _) => out.push(b'%'),
                    (other, _) => out.push(*other),
                }
            }
            line.push(OsString::from_vec(out));
        }
        Ok(line)
    }

    /// Whether the command is an addr2line that lists inlined calls.
    pub(super) fn unrolls_inlines(&self) -> bool {
        let program = Path::new(OsStr::from_bytes(&self.words[0])).file_name().map(OsStr::as_bytes);
        let is_addr2line = program.is_some_and(|n| memchr::memmem::find(n, b"addr2line").is_some());
        is_addr2line
            && self.words[1..].iter().any(|w| match w.as_slice() {
                [b'-', b'-', long @ ..] => long.starts_with(b"inline"),
                [b'-', short @ ..] => short.iter().take_while(|c| !b"ejb".contains(c)).any(|c| *c == b'i'),
                _ => false,
            })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.words.iter().enumerate() {
            let blank = if i > 0 { " " } else { "" };
            write!(f, "{blank}{}", String::from_utf8_lossy(word))?;
        }
        Ok(())
    }
}

/// Splits a command line at blanks, with quotes.
fn split(text: &str) -> Result<Vec<Vec<u8>>, TemplateError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let inside = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => return Err(TemplateError::Unfinished(c)),
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' => match chars.next() {
                            None => return Err(TemplateError::Unfinished('\\')),
                            Some(next @ ('"' | '\\')) => inside.push(next),
                            Some(next) => inside.extend(['\\', next]),
                        },
                        Some(other) => inside.push(other),
                    }
                }
            }
            '\\' => match chars.next() {
                None => return Err(TemplateError::Unfinished('\\')),
                Some(next) => word.get_or_insert_default().push(next),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words.into_iter().map(String::into_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_split_as_a_shell_would_and_filled_in() {
        let template = Template::parse(r#"tool -e %o 'two words' "a\"b" x\ y %b %%"#).expect("good");
        let id = BuildId::parse("abcd");
        let line = template.command_line(Path::new("/a b/c"), id.as_ref()).expect("has an id");
        assert_eq!(line, ["tool", "-e", "/a b/c", "two words", "a\"b", "x y", "abcd", "%"]);
        assert!(matches!(template.command_line(Path::new("x"), None), Err(TranslatorError::NoBuildId)));
        assert_eq!(Template::parse("  "), Err(TemplateError::Empty));
        assert_eq!(Template::parse("a 'b"), Err(TemplateError::Unfinished('\'')));
        assert_eq!(Template::parse("a %x"), Err(TemplateError::UnknownPlace('x')));
        assert_eq!(Template::parse("a %"), Err(TemplateError::UnknownPlace(' ')));
    }

    #[test]
    fn inlining_addr2lines_are_known_by_their_options() {
        for (text, wanted) in [
            ("addr2line -e %o -f -C", false),
            ("addr2line -e %o -fiC", true),
            ("/usr/bin/x86_64-linux-gnu-addr2line --inlines -e %o", true),
            ("addr2line -e i", false),
            ("llvm-addr2line -i -e %o", true),
            ("other -i", false),
        ] {
            assert_eq!(Template::parse(text).expect("good").unrolls_inlines(), wanted, "{text}");
        }
    }
}
