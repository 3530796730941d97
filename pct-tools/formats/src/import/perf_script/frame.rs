//! A line of a call chain: `ADDRESS symbol+0xOFFSET (object)`.

use super::super::objects::kind_of;
use pct_profile::model::ObjectKind;

/// Addresses from here on are the kernel's, on x86-64 and on 64-bit Arm.
const KERNEL_FROM: u64 = 0xffff_0000_0000_0000;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// Without its offset; `[unknown]` if perf knew none.
    pub(super) symbol: &'a str,
    /// Path or name in brackets; `None` for a call that was inlined into the next frame outwards.
    pub(super) object: Option<&'a str>,
    pub(super) address: u64,
    /// Source file and line, which `-F +srcline` prints in a line of their own.
    pub(super) source: Option<(&'a str, u32)>,
}

impl Frame<'_> {
    /// What kind of code it is. `[ext4]` is a module of the kernel, `[heap]` is not: the address tells.
    pub(super) fn kind(&self) -> ObjectKind {
        match kind_of(self.object.unwrap_or("[unknown]")) {
            ObjectKind::Anonymous | ObjectKind::Unknown if self.address >= KERNEL_FROM => ObjectKind::Kernel,
            kind => kind,
        }
    }
}

/// Parses a line; `None` if it is no frame.
pub(super) fn parse(line: &str) -> Option<Frame<'_>> {
    let line = line.trim();
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    if word.len() > 16 {
        return None;
    }
    let address = u64::from_str_radix(word, 16).ok()?;
    let rest = rest.trim_start();
    if rest.is_empty() {
        return Some(Frame { symbol: word, object: Some("[unknown]"), address, source: None });
    }
    let (symbol, object) = split(rest);
    let symbol = without_offset(symbol.trim_end());
    let symbol = if symbol.is_empty() { "[unknown]" } else { symbol };
    match object {
        Some("inlined") => Some(Frame { symbol, object: None, address, source: None }),
        object => Some(Frame { symbol, object: Some(object.unwrap_or("[unknown]")), address, source: None }),
    }
}

/// Parses the line behind a frame: `  file.c:12`. Without debug information it is `  :0`, `  ??:0` or
/// `  [object][ADDRESS]`, which say nothing. `None` if it is no such line.
pub(super) fn parse_source(line: &str) -> Option<Option<(&str, u32)>> {
    let text = line.strip_prefix("  ").filter(|text| !text.starts_with([' ', '\t']))?.trim_end();
    if text.ends_with(']') && text.contains('[') {
        return Some(None);
    }
    let (file, number) = text.rsplit_once(':')?;
    let number = number.parse().ok()?;
    Some(Some((file, number)).filter(|_| number > 0 && !file.is_empty()))
}

/// Symbol and object. Both may have spaces and parentheses.
fn split(rest: &str) -> (&str, Option<&str>) {
    let Some(inside) = rest.strip_suffix(')') else { return (rest, None) };
    // Behind an offset nothing but the object can come.
    let by_offset = rest.match_indices(" (").map(|(at, _)| at).find(|at| {
        let symbol = &rest[..*at];
        without_offset(symbol).len() < symbol.len()
    });
    if let Some(at) = by_offset {
        return (&rest[..at], Some(&inside[at + 2..]));
    }
    match opening(inside) {
        Some(0) => ("", Some(&inside[1..])),
        Some(at) if rest[..at].ends_with([' ', '\t']) => (&rest[..at], Some(&inside[at + 1..])),
        _ => (rest, None),
    }
}

/// The parenthesis that the one behind `inside` closes.
fn opening(inside: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, byte) in inside.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn without_offset(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, offset)) if !offset.is_empty() && offset.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => symbol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_and_objects_may_have_spaces_and_parentheses() {
        for (line, symbol, object) in [
            ("\t  55d0 inner+0x14 (/bin/prog)", "inner", Some("/bin/prog")),
            ("55d0 f(int) const+0x1 (/tmp/my prog (v2)/bin)", "f(int) const", Some("/tmp/my prog (v2)/bin")),
            ("55d0 inner+0x14 (/tmp/prog (deleted))", "inner", Some("/tmp/prog (deleted)")),
            ("55d0 [unknown] (/tmp/prog (deleted))", "[unknown]", Some("/tmp/prog (deleted)")),
            ("55d0 f(int) (/tmp/a)", "f(int)", Some("/tmp/a")),
            ("b3ce\tLock::unlock() (/system/lib/libc.so)", "Lock::unlock()", Some("/system/lib/libc.so")),
            ("0 [unknown] ([unknown])", "[unknown]", Some("[unknown]")),
            ("1136 leaf (inlined)", "leaf", None),
            ("1136 f+0x2 (/tmp/odd) name)", "f", Some("/tmp/odd) name")),
            ("1136 (/bin/prog)", "[unknown]", Some("/bin/prog")),
            ("1136 main", "main", Some("[unknown]")),
            ("\t   1136", "1136", Some("[unknown]")),
        ] {
            let frame = parse(line).unwrap();
            assert_eq!((frame.symbol, frame.object), (symbol, object), "{line}");
        }
        assert_eq!(parse_source("  w.c:12"), Some(Some(("w.c", 12))));
        for line in ["  :0", "  ??:0", "  [kernel.kallsyms][ffffffff822560c0]"] {
            assert_eq!(parse_source(line), Some(None), "{line}");
        }
        assert_eq!((parse_source("w.c:12"), parse_source("  x y")), (None, None));
        for line in ["", "main", "main+0x3 (/bin/prog)", "12345678901234567 x"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
