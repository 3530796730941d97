//! Names as fields of CSV.

use std::borrow::Cow;

use crate::visible;

/// A name as a field of CSV: hidden characters written out, quoted where it must be (RFC 4180).
///
/// Anybody may have made the file that a name comes from, and people open tables in spreadsheets. A name that a
/// spreadsheet would take for a formula gets a `'` in front.
#[must_use]
pub fn csv_field(text: &str) -> Cow<'_, str> {
    let mut text = visible(text);
    // The wide forms too: spreadsheets of Japanese and Chinese systems read them so.
    if text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        text = Cow::Owned(format!("'{text}"));
    }
    if text.contains([',', '"']) { Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_would_execute_is_text() {
        for formula in ["=cmd|' /C calc'!A0", "+1", "-[NSString init]", "@SUM(A1)", "＝1+1", "＠x"] {
            assert_eq!(csv_field(formula), format!("'{formula}"));
        }
        assert_eq!(csv_field("=f(1,\"x\")"), "\"'=f(1,\"\"x\"\")\"");
        for plain in ["", "main", "a=b", "a - b", "std::map", "1", "'x"] {
            assert_eq!(csv_field(plain), plain);
        }
        assert_eq!(csv_field("a,b\n"), "\"a,b\\n\"");
    }
}
