//! Escapes texts so that they fit on a line of an archive.

use std::fmt::Write as _;

use pct_num::str2num;

/// Escapes a text for one line: `\\`, `\n` and `\xNN` (control characters and bytes that are not UTF-8).
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                c if c.is_ascii_control() => {
                    let _ = write!(out, "\\x{:02x}", c as u32);
                }
                c => out.push(c),
            }
        }
        for b in chunk.invalid() {
            let _ = write!(out, "\\x{b:02x}");
        }
    }
    out
}

/// The bytes of an escaped text. None: an escape is invalid.
pub(super) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(b) = text.get(at) {
        at += 1;
        if *b != b'\\' {
            out.push(*b);
            continue;
        }
        match text.get(at)? {
            b'\\' => out.push(b'\\'),
            b'n' => out.push(b'\n'),
            b'x' => {
                out.push(u8::try_from(str2num::<16>(text.get(at + 1..at + 3)?).ok()?).ok()?);
                at += 2;
            }
            _ => return None,
        }
        at += 1;
    }
    Some(out)
}
