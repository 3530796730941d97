//! Prepares text for the picture: escapes it and cuts names.

use std::borrow::Cow;

/// Appends `s` as plain text for XML content and double-quoted attributes. Hidden characters are escaped
/// ([`pct_text`]). These include everything that XML 1.0 does not allow.
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

/// Characters of a name that a label shows whatever they are. Of longer names template arguments are left out.
const MOST_UNELIDED: usize = 60;

/// The name that labels are made of, without hidden characters: that of a long one is in the form of
/// [`pct_text::elided()`]. `None`: the name itself.
#[must_use]
pub fn short_name(name: &str) -> Option<String> {
    match pct_text::elided(&pct_text::visible(name), MOST_UNELIDED) {
        Cow::Owned(short) => Some(short),
        Cow::Borrowed(_) => None,
    }
}

/// `s` with its hidden characters escaped, in at most `max` characters. What does not fit is removed in this order:
/// template arguments and parameters, the names before the last, the text before an address, the middle. Below 3
/// characters: nothing is left.
#[must_use]
pub fn cut(s: &str, max: usize) -> String {
    if max < 3 {
        return String::new();
    }
    let s = &*pct_text::visible(s);
    // A name of n bytes has at most n characters, so the common case needs no counting.
    if s.len() <= max || s.chars().count() <= max {
        return s.to_owned();
    }
    let plain = &*pct_text::bare_name(s);
    let plain = if plain.is_empty() { s } else { plain };
    let length = |s: &str| s.chars().count();
    if length(plain) <= max {
        return plain.to_owned();
    }
    // The last names of a path say most; for an address in an object, the address does.
    for (at, colons) in plain.match_indices("::") {
        let tail = &plain[at + colons.len()..];
        if length(tail) < max {
            return format!("\u{2026}{tail}");
        }
    }
    let last = plain.rfind("::").map_or(plain, |at| &plain[at + 2..]);
    if let Some(tail) = last.rfind("+0x").map(|at| &last[at..]).filter(|tail| length(tail) < max) {
        return format!("\u{2026}{tail}");
    }
    let head = (max - 1).div_ceil(2);
    let tail = max - 1 - head;
    let count = length(last);
    if count <= max {
        return last.to_owned();
    }
    let mut out: String = last.chars().take(head).collect();
    out.push('\u{2026}');
    out.extend(last.chars().skip(count - tail));
    out
}

/// Least characters of a label that is not the whole name: fewer do not tell one name from another.
const LEAST_CUT: usize = 6;

/// The label of a frame with room for `max` characters: the name as [`cut()`] shortens it. It is empty where less than
/// [`LEAST_CUT`] characters of a cut name would be left.
pub(crate) fn label(name: &str, max: usize) -> String {
    let text = cut(name, max);
    let is_cut = max < LEAST_CUT && text.contains('\u{2026}');
    if is_cut { String::new() } else { text }
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

    #[test]
    fn a_label_is_the_whole_name_or_enough_of_it() {
        assert_eq!(label("main", 4), "main");
        assert_eq!(label("Pool<int>::run", 4), "");
        assert_eq!(label("run<int>", 4), "run");
        assert_eq!(label("__libc_fork", 5), "");
        assert_eq!(label("__libc_fork", 6), "__l\u{2026}rk");
    }

    #[test]
    fn only_long_names_have_short_ones() {
        let name = "std::mersenne_twister_engine<unsigned long, 64ul, 312ul, 156ul, 31ul>::_M_gen_rand()";
        assert_eq!(short_name(name).as_deref(), Some("std::mersenne_twister_engine<...>::_M_gen_rand()"));
        assert_eq!(short_name("std::vector<int, std::allocator<int> >::push_back"), None);
        assert_eq!(short_name(&"a\u{1b}".repeat(40)), None);
    }

    #[test]
    fn a_cut_name_still_says_something() {
        let name = "std::map<int, std::vector<int>>::operator[](int const&)";
        assert_eq!(cut(name, 30), "std::map::operator[]");
        assert_eq!(cut(name, 16), "\u{2026}map::operator[]");
        assert_eq!(cut(name, 12), "\u{2026}operator[]");
        assert_eq!(cut(name, 7), "ope\u{2026}r[]");
        assert_eq!(cut("libfoo.so.1+0xfc0b0", 12), "\u{2026}+0xfc0b0");
        assert_eq!(cut("(anonymous)", 8), "(ano\u{2026}us)");
        assert_eq!(cut("operator<(a const&, b const&)", 9), "operator<");
        assert_eq!(cut("std::less<int>::operator()(int, int) const", 30), "std::less::operator() const");
        assert_eq!(cut("(anonymous namespace)::Pool<int>::run(int)", 40), "(anonymous namespace)::Pool::run");
        assert_eq!(cut("<Vec<u8> as Debug>::fmt", 20), "<Vec as Debug>::fmt");
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
