//! Words, numbers, texts and signs of TSDL, each with its line.

use crate::error::MetaError;

/// Longest identifier, bytes.
const MAX_IDENT: usize = 64 << 10;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tok {
    /// Identifier or keyword.
    Word(String),
    /// Magnitude of an integer literal; the sign is its own token.
    Int(u64),
    /// String literal, escapes undone.
    Text(String),
    /// `{ } [ ] ( ) < > ; : , . = + - *`, `:=` as 'A', `...` as 'E', `->` as 'P'.
    Sign(char),
    /// After the last token.
    End,
}

impl std::fmt::Display for Tok {
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

/// All tokens of a text, with the line of each; the last one is [`Tok::End`].
pub(crate) fn tokens(text: &[u8]) -> Result<Vec<(Tok, usize)>, MetaError> {
    let mut out = Vec::with_capacity(text.len() / 4);
    let (mut i, mut line) = (0, 1);
    while let Some(&c) = text.get(i) {
        let next = text.get(i + 1).copied();
        match c {
            b'\n' => {
                line += 1;
                i += 1;
            }
            b' ' | b'\t' | b'\r' | 0x0B | 0x0C => i += 1,
            b'/' if next == Some(b'/') => i += memchr::memchr(b'\n', &text[i..]).unwrap_or(text.len() - i),
            b'/' if next == Some(b'*') => {
                let body = &text[i + 2..];
                let n = memchr::memmem::find(body, b"*/")
                    .ok_or_else(|| MetaError::new(line, "comment without its end"))?;
                line += memchr::memchr_iter(b'\n', &body[..n]).count();
                i += n + 4;
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let n = text[i..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == b'_').count();
                if n > MAX_IDENT {
                    return Err(MetaError::new(
                        line,
                        format!("identifier of {n} bytes, at most {MAX_IDENT} are allowed"),
                    ));
                }
                out.push((Tok::Word(String::from_utf8_lossy(&text[i..i + n]).into_owned()), line));
                i += n;
            }
            b'0'..=b'9' => {
                let n = text[i..].iter().take_while(|c| c.is_ascii_alphanumeric()).count();
                out.push((Tok::Int(integer(&text[i..i + n]).map_err(|e| MetaError::new(line, e))?), line));
                i += n;
            }
            b'"' => {
                let (s, n) = string(&text[i + 1..]).map_err(|e| MetaError::new(line, e))?;
                let start = line;
                line += memchr::memchr_iter(b'\n', &text[i..i + n + 1]).count();
                out.push((Tok::Text(s), start));
                i += n + 1;
            }
            b'\'' => {
                return Err(MetaError::new(line, "character constant: not a part of TSDL's declarations"));
            }
            b':' if next == Some(b'=') => {
                out.push((Tok::Sign('A'), line));
                i += 2;
            }
            b'-' if next == Some(b'>') => {
                out.push((Tok::Sign('P'), line));
                i += 2;
            }
            b'.' if text[i..].starts_with(b"...") => {
                out.push((Tok::Sign('E'), line));
                i += 3;
            }
            b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>' | b';' | b':' | b',' | b'.' | b'='
            | b'+' | b'-' | b'*' => {
                out.push((Tok::Sign(char::from(c)), line));
                i += 1;
            }
            // A packetized text may be padded with zeros at its end.
            0 if text[i..].iter().all(|c| *c == 0) => break,
            _ => return Err(MetaError::new(line, format!("unexpected byte {c:#04x}"))),
        }
    }
    out.push((Tok::End, line));
    Ok(out)
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

/// The text up to the closing quote, and how many bytes it took with that quote.
fn string(s: &[u8]) -> Result<(String, usize), String> {
    let (mut out, mut i) = (Vec::new(), 0);
    loop {
        match s.get(i) {
            None => return Err("text without its closing quote".into()),
            Some(b'"') => return Ok((String::from_utf8_lossy(&out).into_owned(), i + 1)),
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

    fn only(t: &str) -> Vec<Tok> {
        tokens(t.as_bytes()).unwrap().into_iter().map(|t| t.0).collect()
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
