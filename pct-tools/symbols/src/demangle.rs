//! Turns linker names into source names: Rust (legacy and v0) and C++ (Itanium).
//!
//! If a name cannot be demangled, it is returned unchanged. Hostile names do no harm: input, output and the depth of
//! recursion are bounded. Of a C++ name that cannot be read whole, the part that is certain is shown: `partial`.

mod bounded;
mod partial;

use bounded::Bounded;
use std::borrow::Cow;
use std::fmt::Write;

/// Longest name that is demangled. Compilers write no longer ones, and parsing takes time.
const MAX_INPUT: usize = 64 * 1024;
/// Deepest nesting of a C++ name that is read.
const MAX_DEPTH: u32 = 96;

/// The readable form of a linker name, or the input unchanged.
///
/// Rust names are given without the hash. The suffix of a stub (`foo@plt`) or symbol version (`foo@@V1`) is kept.
///
/// ```
/// assert_eq!(pct_symbols::demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
/// assert_eq!(pct_symbols::demangle("_ZN3foo3barEi"), "foo::bar(int)");
/// assert_eq!(pct_symbols::demangle("_Znotaname"), "_Znotaname");
/// ```
pub fn demangle(name: &str) -> Cow<'_, str> {
    let bytes = name.as_bytes();
    let mangled = match bytes {
        [b'_', b'Z' | b'R', ..] => true,
        [b'_', b'_', b'Z' | b'R', ..] => true,
        [b'R' | b'Z', rest @ ..] => rest.first().is_some_and(|c| *c == b'N'),
        _ => false,
    };
    if !mangled || name.len() > MAX_INPUT {
        return Cow::Borrowed(name);
    }
    let (core, version) = match memchr::memchr(b'@', bytes) {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    match rust(core).or_else(|| cpp(core)).or_else(|| partial::name(core, MAX_DEPTH)) {
        Some(mut text) => {
            text.push_str(version);
            Cow::Owned(text)
        }
        None => Cow::Borrowed(name),
    }
}

fn rust(name: &str) -> Option<String> {
    let parsed = rustc_demangle::try_demangle(name).ok()?;
    // Legacy Rust names share their prefix with C++. All of them end in a hash, so without one the name is C++.
    // (Otherwise a C++ variable in a namespace looks exactly like a Rust path.)
    if !name.trim_start_matches('_').starts_with('R') && !has_rust_hash(name) {
        return None;
    }
    let mut out = Bounded(String::with_capacity(name.len()));
    write!(out, "{parsed:#}").ok()?;
    Some(out.0)
}

/// `...17h` + 16 hexadecimal digits + `E`, then perhaps a suffix that begins with a dot.
fn has_rust_hash(name: &str) -> bool {
    let body = match name.find("E.") {
        Some(at) => &name[..=at],
        None => name,
    };
    let Some(body) = body.strip_suffix('E') else { return false };
    let Some(start) = body.len().checked_sub(19) else { return false };
    body.as_bytes()[start..].starts_with(b"17h")
        && body.as_bytes()[start + 3..].iter().all(u8::is_ascii_hexdigit)
}

fn cpp(name: &str) -> Option<String> {
    let limits = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = cpp_demangle::Symbol::new_with_options(name, &limits).ok()?;
    let mut out = Bounded(String::with_capacity(name.len() * 2));
    let options = cpp_demangle::DemangleOptions::default().recursion_limit(MAX_DEPTH);
    symbol.structured_demangle(&mut out, &options).ok()?;
    Some(out.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_both_languages_are_told_apart() {
        for (mangled, wanted) in [
            ("_ZN3std2io4Read4read17h0123456789abcdefE", "std::io::Read::read"),
            ("_ZN3std2io4Read4read17h0123456789abcdefE.llvm.123", "std::io::Read::read"),
            ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
            ("_ZN3foo3barE", "foo::bar"),
            ("_ZN5boost6system14error_categoryD1Ev", "boost::system::error_category::~error_category()"),
            ("_ZNKSt6vectorIiSaIiEE4sizeEv", "std::vector<int, std::allocator<int> >::size() const"),
            ("_Z3addii@plt", "add(int, int)@plt"),
            ("main", "main"),
            ("_Z", "_Z"),
            ("", ""),
        ] {
            assert_eq!(demangle(mangled), wanted, "{mangled}");
        }
    }

    #[test]
    fn a_name_that_doubles_at_each_step_is_given_back_as_it_is() {
        // Each pair of template arguments names the pair before it twice.
        let mut name = String::from("_Z1fI1AIiiE");
        for i in 0..60 {
            let seq = if i == 0 { String::from("S0_") } else { format!("S{}_", base36(i)) };
            name.push_str(&format!("1AI{seq}{seq}E"));
        }
        name.push_str("Evv");
        let out = demangle(&name);
        assert!(out.len() <= bounded::MAX_OUTPUT);
    }

    fn base36(mut n: usize) -> String {
        let mut digits = Vec::new();
        loop {
            digits.push(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n % 36]);
            n /= 36;
            if n == 0 {
                break;
            }
        }
        digits.reverse();
        String::from_utf8(digits).expect("digits are ASCII")
    }

    proptest! {
        #[test]
        fn any_text_is_demangled_or_unchanged(tail in "[_A-Za-z0-9.@$]{0,60}", head in "(_Z|_R|_ZN|__Z|)") {
            let name = format!("{head}{tail}");
            let _ = demangle(&name);
        }
    }
}
