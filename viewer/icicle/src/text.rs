//! Text that goes into the picture: escaping, cutting names.

/// Appends `s` so that it is plain text in XML content and in double-quoted attributes. Hidden characters, and so all
/// that XML 1.0 does not allow, are written out ([`pct_text`]).
pub fn escape_into(out: &mut String, s: &str) {
    for c in pct_text::visible(s).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

/// `s` with its hidden characters written out, in at most `max` characters: what does not fit is taken from the
/// middle. Fewer than 3 characters: nothing.
#[must_use]
pub fn cut(s: &str, max: usize) -> String {
    if max < 3 {
        return String::new();
    }
    let s = &*pct_text::visible(s);
    // A name of n bytes has at most n characters: the common case needs no count.
    if s.len() <= max || s.chars().count() <= max {
        return s.to_owned();
    }
    let count = s.chars().count();
    let head = (max - 1).div_ceil(2);
    let tail = max - 1 - head;
    let mut out: String = s.chars().take(head).collect();
    out.push('\u{2026}');
    out.extend(s.chars().skip(count - tail));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(cut("abcdefghij", 5), "ab\u{2026}ij");
        assert_eq!(cut("abcde", 5), "abcde");
        assert_eq!(cut("abcdef", 2), "");
    }

    proptest! {
        #[test]
        fn a_cut_name_fits(s in "\\PC{0,40}", max in 0usize..30) {
            prop_assert!(cut(&s, max).chars().count() <= max);
        }

        #[test]
        fn escaped_text_has_no_markup(s in any::<String>()) {
            let mut out = String::new();
            escape_into(&mut out, &s);
            let has_markup = out.contains(['<', '>', '"', '\'']);
            prop_assert!(!has_markup);
            prop_assert!(!out.chars().any(pct_text::is_hidden));
        }
    }
}
