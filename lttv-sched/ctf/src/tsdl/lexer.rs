//! The tokens of TSDL: words, numbers, texts and signs, each with its line.

use crate::error::MetaError;

/// Longest identifier, bytes.
const MAX_IDENT: usize = 64 << 10;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tok<'t> {
    /// Identifier or keyword.
    Word(&'t str),
    /// Magnitude of an integer literal; the sign is its own token.
    Int(u64),
    /// String literal, without escapes.
    Text(String),
    /// `{ } [ ] ( ) < > ; : , . = + - *`, `:=` as 'A', `...` as 'E', `->` as 'P'.
    Sign(char),
    /// After the last token.
    End,
}

impl std::fmt::Display for Tok<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Tok::Word(w) => write!(f, "`{w}`"),
            Tok::Int(v) => write!(f, "`{v}`"),
            Tok::Text(t) => write!(f, "\"{t}\""),
            Tok::Sign('A') => write!(f, "`:=`"),
            Tok::Sign('E') => write!(f, "`...`"),
            Tok::Sign('P') => write!(f, "`->`"),
            Tok::Sign(c) => write!(f, "`{c}`"),
            Tok::End => write!(f, "the end of the text"),
        }
    }
}

/// Returns the tokens of a text one by one.
pub(crate) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Lexer<'t> {
        Lexer { text, at: 0, line: 1 }
    }

    /// The next token and its line. At the end it returns [`Tok::End`] each time.
    pub(crate) fn next_token(&mut self) -> Result<(Tok<'t>, usize), MetaError> {
        let text = self.text;
        while let Some(&c) = text.get(self.at) {
            let (at, line) = (self.at, self.line);
            let next = text.get(at + 1).copied();
            let (token, len) = match c {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                    continue;
                }
                b' ' | b'\t' | b'\r' | 0x0B | 0x0C => {
                    self.at += 1;
                    continue;
                }
                b'/' if next == Some(b'/') => {
                    self.at += memchr::memchr(b'\n', &text[at..]).unwrap_or(text.len() - at);
                    continue;
                }
                b'/' if next == Some(b'*') => {
                    let body = &text[at + 2..];
                    let len = memchr::memmem::find(body, b"*/")
                        .ok_or_else(|| MetaError::new(line, "comment without its end"))?;
                    self.line += memchr::memchr_iter(b'\n', &body[..len]).count();
                    self.at += len + 4;
                    continue;
                }
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                    let len =
                        text[at..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == b'_').count();
                    if len > MAX_IDENT {
                        return Err(MetaError::new(
                            line,
                            format!("identifier of {len} bytes, at most {MAX_IDENT} are allowed"),
                        ));
                    }
                    let word = std::str::from_utf8(&text[at..at + len]).unwrap_or_default();
                    (Tok::Word(word), len)
                }
                b'0'..=b'9' => {
                    let len = text[at..].iter().take_while(|c| c.is_ascii_alphanumeric()).count();
                    (Tok::Int(integer(&text[at..at + len]).map_err(|e| MetaError::new(line, e))?), len)
                }
                b'"' => {
                    let (bytes, len) = quoted(&text[at + 1..], b'"').map_err(|e| MetaError::new(line, e))?;
                    self.line += memchr::memchr_iter(b'\n', &text[at..at + len + 1]).count();
                    (Tok::Text(String::from_utf8_lossy(&bytes).into_owned()), len + 1)
                }
                b'\'' => {
                    let (bytes, len) = quoted(&text[at + 1..], b'\'').map_err(|e| MetaError::new(line, e))?;
                    let [value] = bytes[..] else {
                        return Err(MetaError::new(
                            line,
                            format!("character constant of {} bytes, expected 1", bytes.len()),
                        ));
                    };
                    (Tok::Int(u64::from(value)), len + 1)
                }
                b':' if next == Some(b'=') => (Tok::Sign('A'), 2),
                b'-' if next == Some(b'>') => (Tok::Sign('P'), 2),
                b'.' if text[at..].starts_with(b"...") => (Tok::Sign('E'), 3),
                b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>' | b';' | b':' | b',' | b'.' | b'='
                | b'+' | b'-' | b'*' => (Tok::Sign(char::from(c)), 1),
                // A packetized text may be padded with zeros at its end.
                0 if text[at..].iter().all(|c| *c == 0) => break,
                _ => return Err(MetaError::new(line, format!("unexpected byte {c:#04x}"))),
            };
            self.at += len;
            return Ok((token, line));
        }
        Ok((Tok::End, self.line))
    }
}

fn integer(word: &[u8]) -> Result<u64, String> {
    let word = String::from_utf8_lossy(word);
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    u64::from_str_radix(digits, radix).map_err(|e| match e.kind() {
        std::num::IntErrorKind::PosOverflow => format!("integer {word} does not fit 64 bits"),
        _ => format!("`{word}` is not an integer"),
    })
}

/// The bytes up to the closing quote, without escapes, and the number of bytes including that quote.
fn quoted(s: &[u8], quote: u8) -> Result<(Vec<u8>, usize), String> {
    let (mut out, mut i) = (Vec::new(), 0);
    loop {
        match s.get(i) {
            None => return Err("text without its closing quote".into()),
            Some(c) if *c == quote => return Ok((out, i + 1)),
            Some(b'\\') => {
                let c = *s.get(i + 1).ok_or("text without its closing quote")?;
                i += 2;
                out.push(match c {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'v' => 11,
                    b'x' => {
                        let n = s[i..].iter().take(2).take_while(|c| c.is_ascii_hexdigit()).count();
                        if n == 0 {
                            return Err("`\\x` without hexadecimal digits".into());
                        }
                        let v = s[i..i + n]
                            .iter()
                            .fold(0u32, |v, c| v * 16 + char::from(*c).to_digit(16).unwrap_or(0));
                        i += n;
                        (v & 0xFF) as u8
                    }
                    b'0'..=b'7' => {
                        let n = s[i - 1..].iter().take(3).take_while(|c| (b'0'..=b'7').contains(*c)).count();
                        let v = s[i - 1..i - 1 + n].iter().fold(0u32, |v, c| v * 8 + u32::from(c - b'0'));
                        i += n - 1;
                        (v & 0xFF) as u8
                    }
                    c => c,
                });
            }
            Some(c) => {
                out.push(*c);
                i += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &[u8]) -> Result<Vec<(Tok<'_>, usize)>, MetaError> {
        let mut lexer = Lexer::new(text);
        let mut all = Vec::new();
        loop {
            all.push(lexer.next_token()?);
            if let Some((Tok::End, _)) = all.last() {
                return Ok(all);
            }
        }
    }

    fn only(text: &str) -> Vec<Tok<'_>> {
        tokens(text.as_bytes()).unwrap().into_iter().map(|t| t.0).collect()
    }

    #[test]
    fn character_constants_are_integers() {
        assert_eq!(only(r"'a' '\n' '\'' '\x41'")[..4], [97, 10, 39, 65].map(Tok::Int));
        for text in ["'", "''", "'ab'", "'a"] {
            assert!(tokens(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn integers_of_all_bases_are_read_and_long_ones_refused() {
        assert_eq!(
            only("0x10 0b101 017 42u 0 18446744073709551615")[..6],
            [16, 5, 15, 42, 0, u64::MAX].map(Tok::Int)
        );
        assert!(tokens(b"18446744073709551616").unwrap_err().what.contains("64 bits"));
        assert!(tokens(b"0x").is_err() && tokens(b"12z").is_err() && tokens(b"08").is_err());
    }

    #[test]
    fn escapes_and_comments_and_lines() {
        let t = tokens(b"/* a\n*/ \"q\\\"\\n\\x41\\101\\\\\" // c\r\n:= ...").unwrap();
        assert_eq!(t[0], (Tok::Text("q\"\nAA\\".into()), 2));
        assert_eq!((&t[1], &t[2]), (&(Tok::Sign('A'), 3), &(Tok::Sign('E'), 3)));
        assert!(tokens(b"/* x").is_err() && tokens(b"\"x").is_err() && tokens(b"\"\\").is_err());
    }
}
