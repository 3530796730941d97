//! Short forms of long names of functions, for tables, trees and pictures.
//!
//! The name of a C++ or Rust function can have thousands of characters, nearly all of them template arguments. The
//! path says which function it is, so the arguments are left out first, then the parameters.
//!
//! One pass over the bytes finds the brackets, with a stack of the open ones: time and memory are linear, and the
//! depth of the input does not matter. A text whose brackets do not pair is left as it is.

use std::borrow::Cow;

/// What stands for what is left out.
const DOTS: &str = "...";

/// Operators of C++ that can be functions, those first that begin with another one.
const OPERATORS: [&str; 42] = [
    "<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "==", "!=", "&&", "||", "++", "--",
    "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "+", "-", "*", "/", "%", "^", "&", "|", "~", "!", "=",
    ",", "<", ">", "\"\"", " new", " delete",
];

/// A name of at most `most` characters as it is. Of a longer one the template arguments are replaced by dots:
/// `std::map<...>::at(int const&)`. If it is still longer than `most`, its parameters are too:
/// `std::map<...>::at(...)`.
///
/// What names a place or a thing stays: `(anonymous namespace)`, `operator<`, `[clone .cold]`, a file and line behind
/// the name, an angle bracket that begins a name or a part of its path (`<alloc::vec::Vec<...> as Debug>::fmt`,
/// `core::slice::<impl [T]>::sort`, `<stdin>`, `Object.<anonymous>`).
#[must_use]
pub fn elided(name: &str, most: usize) -> Cow<'_, str> {
    let is_short = |text: &str| text.len() <= most || text.chars().count() <= most;
    if is_short(name) {
        return Cow::Borrowed(name);
    }
    let Some(brackets) = brackets(name) else { return Cow::Borrowed(name) };
    let short = without(name, &brackets, |kind| kind == Kind::Arguments);
    if is_short(&short) {
        return short;
    }
    without(name, &brackets, |kind| kind != Kind::Kept)
}

/// The path of a function: its name without template arguments and parameters. `std::vector<int>::at(int)` is
/// `std::vector::at`. The same brackets stay as in [`elided()`].
#[must_use]
pub fn bare_name(name: &str) -> Cow<'_, str> {
    let Some(brackets) = brackets(name) else { return Cow::Borrowed(name) };
    let mut out = String::new();
    let mut written = 0;
    for &Bracket { open, close, kind } in &brackets {
        if open >= written && kind != Kind::Kept {
            out.push_str(&name[written..open]);
            written = close + 1;
        }
    }
    if written == 0 {
        return Cow::Borrowed(name);
    }
    out.push_str(&name[written..]);
    // Behind `operator<< <int>`.
    out.truncate(out.trim_end().len());
    Cow::Owned(out)
}

/// What a pair of brackets is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// `<...>` behind a name: arguments of a template or generic.
    Arguments,
    /// `(...)` behind a name: parameters.
    Parameters,
    /// A part of the name itself.
    Kept,
}

/// A pair of brackets: where it opens and closes.
struct Bracket {
    open: usize,
    close: usize,
    kind: Kind,
}

/// The name with the contents of some brackets replaced. Contents no longer than the dots stay.
fn without<'a>(name: &'a str, brackets: &[Bracket], replaced: fn(Kind) -> bool) -> Cow<'a, str> {
    let mut out = String::new();
    let mut written = 0;
    for &Bracket { open, close, kind } in brackets {
        if open >= written && replaced(kind) && close - open - 1 > DOTS.len() {
            out.push_str(&name[written..=open]);
            out.push_str(DOTS);
            written = close;
        }
    }
    if written == 0 {
        return Cow::Borrowed(name);
    }
    out.push_str(&name[written..]);
    Cow::Owned(out)
}

/// All pairs of brackets in the order of their beginnings; `None` if they do not pair.
fn brackets(name: &str) -> Option<Vec<Bracket>> {
    let bytes = name.as_bytes();
    let mut brackets: Vec<Bracket> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    // What stands before the byte that is looked at; a whole operator counts as a letter.
    let mut before = b' ';
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        if byte == b'o' && !is_of_word(before) && rest.starts_with(b"operator") {
            at += "operator".len() + operator_length(&rest["operator".len()..]);
            before = b'r';
            continue;
        }
        // A bracket as a constant: `Foo<'<'>`.
        if let [b'\'', b'<' | b'>' | b'(' | b')', b'\'', ..] = rest {
            (at, before) = (at + 3, b'\'');
            continue;
        }
        match byte {
            b'<' if !matches!(rest.get(1), None | Some(b' ' | b'=')) => {
                open.push(brackets.len());
                brackets.push(Bracket { open: at, close: at, kind: kind_of_angle(bytes, at, before) });
            }
            b'(' => {
                let is_behind_name = is_of_word(before) || matches!(before, b'>' | b']' | b')' | b'\'');
                let kind = if is_behind_name { Kind::Parameters } else { Kind::Kept };
                open.push(brackets.len());
                brackets.push(Bracket { open: at, close: at, kind });
            }
            b'>' if !matches!(before, b'-' | b'=') => {
                let last = &mut brackets[*open.last()?];
                // In round brackets it compares: `Foo<(1 > 0)>`.
                if bytes[last.open] == b'<' {
                    last.close = at;
                    open.pop();
                }
            }
            b')' => {
                let last = &mut brackets[open.pop()?];
                if bytes[last.open] != b'(' {
                    return None;
                }
                last.close = at;
            }
            _ => {}
        }
        before = byte;
        at += 1;
    }
    open.is_empty().then_some(brackets)
}

/// Whether an angle bracket opens arguments. It does so behind a name, and in Rust behind `::` too; but there it can
/// also open a part of the path.
fn kind_of_angle(bytes: &[u8], at: usize, before: u8) -> Kind {
    const PARTS: [&[u8]; 4] = [b"impl ", b"lambda", b"unnamed", b"anonymous"];
    let is_behind_colons = bytes[..at].ends_with(b"::");
    let is_part = PARTS.iter().any(|part| bytes[at + 1..].starts_with(part));
    if is_of_word(before) || before == b']' || is_behind_colons && !is_part {
        Kind::Arguments
    } else {
        Kind::Kept
    }
}

/// The length of what follows the word `operator` and belongs to it. The space in `operator<< <int>` belongs to it.
fn operator_length(rest: &[u8]) -> usize {
    let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(operator.as_bytes())) else {
        return 0;
    };
    let length = operator.len();
    length + usize::from(rest[length..].starts_with(b" <"))
}

/// Letters of names: all of other scripts too.
const fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Names as demanglers and runtimes write them, and their short forms when template arguments must go (`most` 0
    /// would take the parameters too).
    #[test]
    fn template_arguments_are_left_out() {
        for (name, wanted) in [
            (
                "std::vector<std::string, std::allocator<std::string> >::size() const",
                "std::vector<...>::size() const",
            ),
            ("std::map<std::string, int>::at(int const&)", "std::map<...>::at(int const&)"),
            (
                "void std::sort<__gnu_cxx::__normal_iterator<int*, std::vector<int> > >(int)",
                "void std::sort<...>(int)",
            ),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char)",
                "std::ostream& std::operator<< <...>(std::ostream&, char)",
            ),
            ("bool std::operator< <char, int>(int)", "bool std::operator< <...>(int)"),
            ("bool operator<(ab<char, int> const&)", "bool operator<(ab<...> const&)"),
            ("std::operator<=><Wide>(Wide<char>)", "std::operator<=><...>(Wide<...>)"),
            ("std::unique_ptr<Engine>::operator->() const", "std::unique_ptr<...>::operator->() const"),
            ("A<Engine>::operator->*<Other>(int)", "A<...>::operator->*<...>(int)"),
            ("A<Engine>::operator>><Other>(int)", "A<...>::operator>><...>(int)"),
            ("A<Engine>::operator std::vector<Wide>() const", "A<...>::operator std::vector<...>() const"),
            ("A<Engine>::operator\"\" _km(long double)", "A<...>::operator\"\" _km(long double)"),
            ("my_operator<Engine>::run()", "my_operator<...>::run()"),
            (
                "(anonymous namespace)::Pool<Task>::run((anonymous namespace)::Task&)",
                "(anonymous namespace)::Pool<...>::run((anonymous namespace)::Task&)",
            ),
            (
                "run()::{lambda(std::vector<char>)#1}::operator()<Task>(Task) const",
                "run()::{lambda(std::vector<...>)#1}::operator()<...>(Task) const",
            ),
            ("f<Task>(int) [clone .cold]", "f<...>(int) [clone .cold]"),
            ("f[abi:cxx11]<Task>(int) pool.cc:120", "f[abi:cxx11]<...>(int) pool.cc:120"),
            ("A<(1 > 0), (char)60>::f() 0x12ab", "A<...>::f() 0x12ab"),
            ("A<(b < c), d->e>::f()", "A<...>::f()"),
            ("main()::<lambda(A<Task>)>", "main()::<lambda(A<...>)>"),
            // Rust.
            (
                "<alloc::vec::Vec<Task> as core::fmt::Debug>::fmt",
                "<alloc::vec::Vec<...> as core::fmt::Debug>::fmt",
            ),
            (
                "<alloc::vec::Vec<u8> as core::fmt::Debug>::fmt",
                "<alloc::vec::Vec<u8> as core::fmt::Debug>::fmt",
            ),
            ("core::slice::<impl [T]>::sort", "core::slice::<impl [T]>::sort"),
            (
                "core::iter::<impl Iterator<Item> for &mut I>::next",
                "core::iter::<impl Iterator<...> for &mut I>::next",
            ),
            (
                "<<A<Task> as B>::C as core::ops::Fn<Task>>::call",
                "<<A<...> as B>::C as core::ops::Fn<...>>::call",
            ),
            ("core::ptr::drop_in_place::<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place::<...>"),
            (
                "core::ptr::drop_in_place<dyn Fn(usize) -> bool>::{{closure}}",
                "core::ptr::drop_in_place<...>::{{closure}}",
            ),
            ("foo::<'<'>::bar<'('>", "foo::<'<'>::bar<'('>"),
            // Java, JavaScript, Python, Go.
            ("java.util.ArrayList.<init>(int)", "java.util.ArrayList.<init>(int)"),
            ("Object.<anonymous> /srv/app.js:12", "Object.<anonymous> /srv/app.js:12"),
            ("get <anonymous> (native)", "get <anonymous> (native)"),
            ("outer.<locals>.inner", "outer.<locals>.inner"),
            ("python3 <stdin>", "python3 <stdin>"),
            ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
            ("runtime.(*mheap).alloc", "runtime.(*mheap).alloc"),
            // What does not pair.
            ("a<bcde", "a<bcde"),
            ("abcde>f<ghij>", "abcde>f<ghij>"),
            ("(abcd<efgh)>", "(abcd<efgh)>"),
            ("f<Task>(int", "f<Task>(int"),
        ] {
            let brackets = brackets(name);
            let short = brackets.map(|all| without(name, &all, |kind| kind == Kind::Arguments));
            assert_eq!(short.unwrap_or(Cow::Borrowed(name)), wanted, "{name}");
        }
    }

    #[test]
    fn parameters_are_left_out_only_when_that_is_not_enough() {
        let name = "std::map<std::string, int>::operator[](std::string const&) const";
        assert_eq!(elided(name, name.len()), name);
        assert_eq!(elided(name, name.len() - 1), "std::map<...>::operator[](std::string const&) const");
        assert_eq!(elided(name, 30), "std::map<...>::operator[](...) const");
        assert_eq!(elided("größe<größe>()", 14), "größe<größe>()", "characters are counted, not bytes");
        for (name, wanted) in [
            (
                "f(abcd)::{lambda(abcd)#1}::operator()(abcd) const",
                "f(...)::{lambda(...)#1}::operator()(...) const",
            ),
            ("(anonymous namespace)::f(void (*)(abcd))", "(anonymous namespace)::f(...)"),
            ("runtime.(*mheap).alloc.func1", "runtime.(*mheap).alloc.func1"),
            ("bool operator<(abcd)", "bool operator<(...)"),
            ("f(abcd) [clone .cold] (.llvm.12)", "f(...) [clone .cold] (.llvm.12)"),
            ("<(abcd, efgh) as A>::f()", "<(abcd, efgh) as A>::f()"),
        ] {
            assert_eq!(elided(name, 0), wanted, "{name}");
        }
    }

    #[test]
    fn bare_names_are_paths() {
        for (name, wanted) in [
            ("std::vector<int>::at(int) const", "std::vector::at const"),
            ("std::less<A<int> >::operator()(int) const", "std::less::operator() const"),
            ("bool std::operator< <char>(int, int)", "bool std::operator<"),
            ("(anonymous namespace)::Pool<int>::fill(int)", "(anonymous namespace)::Pool::fill"),
            ("<alloc::vec::Vec<u8> as core::fmt::Debug>::fmt", "<alloc::vec::Vec as core::fmt::Debug>::fmt"),
            ("main", "main"),
            ("f(int", "f(int"),
        ] {
            assert_eq!(bare_name(name), wanted, "{name}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let name = "a<(".repeat(200_000) + &")>".repeat(200_000);
        assert_eq!(elided(&name, 60), "a<...>");
    }

    proptest! {
        #[test]
        fn any_text_gets_no_longer_and_twice_is_once(
            text in prop_oneof![any::<String>(), "(<|>|\\(|\\)|'|:|::|-|a|bc|operator| |ä|impl ){0,40}"],
            most in 0_usize..40,
        ) {
            let short = elided(&text, most).into_owned();
            prop_assert!(short.len() <= text.len());
            if text.chars().count() <= most {
                prop_assert_eq!(&short, &text);
            }
            prop_assert_eq!(&*elided(&short, most), &*short);
            prop_assert!(bare_name(&text).len() <= text.len());
        }
    }
}
