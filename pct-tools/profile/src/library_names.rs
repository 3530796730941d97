//! Which functions belong to the standard library of C++ or of Rust, by their demangled names.
//!
//! A demangled name may have a return type in front and arguments behind, and any of its parts may have template
//! arguments with spaces, parentheses and `::` in them: `void std::vector<char*, std::allocator<char*>
//! >::_M_realloc_insert<char*>(char*&&)`. So names are cut only where no bracket is open.
//!
//! Names come from the program's files. Every string gets an answer, in time proportional to its length.

/// Crates and namespaces of Rust's standard library, and of what it is built on.
const CRATES: &[&str] = &["__rustc", "alloc", "core", "hashbrown", "pct_alloc", "std"];
/// Namespaces of the standard library of C++.
const NAMESPACES: &[&str] = &["__cxxabiv1", "__gnu_cxx", "std"];
/// How linker names of its functions begin: those that could not be demangled.
const MANGLED: &[&str] =
    &["_ZNSt", "_ZNKSt", "_ZSt", "_ZNSs", "_ZNKSs", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx", "_ZN10__cxxabiv1"];
/// The operators of C++ that are written as signs, long ones first.
const OPERATORS: &[&str] = &[
    "<<=", ">>=", "<=>", "->*", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--", "+=", "-=", "*=",
    "/=", "%=", "^=", "&=", "|=", "->", "()", "[]", "+", "-", "*", "/", "%", "^", "&", "|", "~", "!", "=",
    "<", ">", ",",
];
/// Types inside types (`<<A as B>::C as D>::f`) are followed so deep. Compilers write fewer.
const DEEPEST: u32 = 8;

/// Objects that hold nothing but the standard library of C++, by the beginning of their file's name. Stripped ones have
/// functions without names.
const OBJECTS: &[&str] = &["libstdc++.so", "libc++.so", "libc++abi.so"];

/// Whether a file of this name holds nothing but the standard library of C++.
pub(crate) fn is_object_of_standard_library(file: &str) -> bool {
    OBJECTS.iter().any(|start| file.starts_with(start))
}

/// Whether a function is one of a standard library's. What a program implements for its own types (`<mine::Item as
/// core::clone::Clone>::clone`) is the program's.
pub(crate) fn is_of_standard_library(name: &str) -> bool {
    let function = FunctionName::parse(name);
    // Names of Rust have no list of arguments. A program in C++ may have a namespace `core`.
    let roots = if function.has_arguments { NAMESPACES } else { CRATES };
    MANGLED.iter().any(|beginning| name.starts_with(beginning))
        || is_below(function.path, roots)
        || !function.has_arguments && is_below(function.path, NAMESPACES)
        || is_of_library_type(function.path, DEEPEST)
}

/// A function's name without its return type and its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FunctionName<'n> {
    /// The qualified name, with its template arguments.
    pub(crate) path: &'n str,
    /// A list of arguments follows.
    has_arguments: bool,
}

impl<'n> FunctionName<'n> {
    pub(crate) fn parse(name: &'n str) -> Self {
        let mut brackets = Brackets::default();
        let mut start = 0;
        // An operator's own signs are no brackets: `operator<`, `operator()`.
        let mut signs_end = 0;
        for (at, c) in name.char_indices() {
            if at < signs_end {
                continue;
            }
            if !brackets.is_open() {
                let before = &name[start..at];
                match c {
                    // `operator< <int>` goes on.
                    ' ' if signs_end == at && signs_end > 0 && name[at + 1..].starts_with('<') => continue,
                    ' ' => start = at + 1,
                    '(' if !matches!(before, "" | "decltype" | "noexcept") => {
                        return Self { path: before, has_arguments: true };
                    }
                    'o' if before.is_empty() || before.ends_with("::") => match operator(&name[at..]) {
                        Some(Operator::Signs(length)) => {
                            signs_end = at + length;
                            continue;
                        }
                        Some(Operator::Words) => {
                            let end = end_of_words(name, at);
                            return Self { path: &name[start..end], has_arguments: end < name.len() };
                        }
                        None => {}
                    },
                    _ => {}
                }
            }
            brackets.step(name, at, c);
        }
        Self { path: &name[start..], has_arguments: false }
    }
}

/// What the word `operator` is followed by.
enum Operator {
    /// Signs: `operator+`. The octets of it all.
    Signs(usize),
    /// Words up to the arguments: `operator new[]`, `operator unsigned long`.
    Words,
}

fn operator(text: &str) -> Option<Operator> {
    const WORD: &str = "operator";
    let rest = text.strip_prefix(WORD)?;
    if rest.starts_with(' ') {
        return Some(Operator::Words);
    }
    // Arguments or template arguments follow the signs: `operator<<char>` is `operator<` of `<char>`.
    let fits = |signs: &&&str| {
        rest.strip_prefix(**signs)
            .is_some_and(|more| more.is_empty() || more.starts_with(['(', '<', ' ', '[']))
    };
    let signs = OPERATORS.iter().find(fits)?;
    Some(Operator::Signs(WORD.len() + signs.len()))
}

/// Where the arguments begin.
fn end_of_words(name: &str, from: usize) -> usize {
    let mut brackets = Brackets::default();
    for (at, c) in name.char_indices().skip_while(|(at, _)| *at < from) {
        if c == '(' && !brackets.is_open() {
            return at;
        }
        brackets.step(name, at, c);
    }
    name.len()
}

/// The brackets that are open at a place of a name.
#[derive(Default)]
struct Brackets {
    open: Vec<char>,
    /// How many of `open` are `(`, `[` and `{`.
    others: [usize; 3],
}

impl Brackets {
    fn is_open(&self) -> bool {
        !self.open.is_empty()
    }
    fn step(&mut self, name: &str, at: usize, c: char) {
        const OTHERS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];
        if c == '<' {
            self.open.push(c);
        } else if c == '>' {
            // An arrow is no bracket: `<fn() -> u8 as core::ops::function::FnOnce<()>>`. Nor is a sign of comparison
            // in parentheses: `(a > b)`.
            if self.open.last() == Some(&'<') && !name[..at].ends_with('-') {
                self.open.pop();
            }
        } else if let Some(kind) = OTHERS.iter().position(|(open, _)| *open == c) {
            self.others[kind] += 1;
            self.open.push(c);
        } else if let Some(kind) = OTHERS.iter().position(|(_, close)| *close == c) {
            // Signs of comparison inside it end with it: `(a < b)`.
            while self.others[kind] > 0 {
                let Some(inner) = self.open.pop() else { return };
                if let Some(inner) = OTHERS.iter().position(|(open, _)| *open == inner) {
                    self.others[inner] -= 1;
                    if inner == kind {
                        return;
                    }
                }
            }
        }
    }
}

/// The first part of a path, and whether another one follows.
fn root(path: &str) -> (&str, bool) {
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(path.len());
    (&path[..end], path[end..].starts_with("::"))
}

fn is_below(path: &str, roots: &[&str]) -> bool {
    let (root, more) = root(path);
    more && roots.contains(&root)
}

/// Whether a path of Rust begins with a type of the standard library: `<str>::repeat`, `<u8 as
/// core::clone::Clone>::clone`.
fn is_of_library_type(path: &str, depth: u32) -> bool {
    let Some((inside, rest)) = in_angles(path) else { return false };
    let Some(depth) = depth.checked_sub(1) else { return false };
    if !rest.starts_with("::") {
        return false;
    }
    let (type_, interface) = split_as(inside);
    let is_library_type = || {
        let bare = type_.trim_start_matches(['&', '*', '[', '(', ' ']);
        let bare = ["mut ", "const ", "dyn "].iter().fold(bare, |bare, word| bare.trim_start_matches(word));
        let (root, more) = root(bare);
        // A type without a path is one of the language, or stands for any type (`T`).
        is_of_library_type(bare, depth) || !bare.starts_with('<') && (!more || CRATES.contains(&root))
    };
    match interface {
        None => is_library_type(),
        // What the library implements inside itself for any type: `<mine::Item as <[_]>::to_vec_in::ConvertVec>`.
        Some(interface) if interface.starts_with('<') || is_below(interface, &["alloc"]) => true,
        Some(interface) => is_below(interface, CRATES) && is_library_type(),
    }
}

/// What is between the angle brackets that a path begins with, and what follows them.
fn in_angles(path: &str) -> Option<(&str, &str)> {
    let mut brackets = Brackets::default();
    if !path.starts_with('<') {
        return None;
    }
    for (at, c) in path.char_indices() {
        brackets.step(path, at, c);
        if !brackets.is_open() {
            return Some((&path[1..at], &path[at + c.len_utf8()..]));
        }
    }
    None
}

/// `TYPE as TRAIT`.
fn split_as(inside: &str) -> (&str, Option<&str>) {
    let mut brackets = Brackets::default();
    for (at, c) in inside.char_indices() {
        if c == ' ' && !brackets.is_open() && inside[at..].starts_with(" as ") {
            return (&inside[..at], Some(&inside[at + 4..]));
        }
        brackets.step(inside, at, c);
    }
    (inside, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_stands_around_their_path() {
        for (name, path) in [
            ("main", "main"),
            ("operator new(unsigned long)", "operator new"),
            ("operator new[](unsigned long, std::nothrow_t const&)", "operator new[]"),
            (
                "void std::vector<char*, std::allocator<char*> >::f<char*>(char*&&)",
                "std::vector<char*, std::allocator<char*> >::f<char*>",
            ),
            (
                "std::count<(__gnu_cxx::_Lock_policy)2>::count<int*>(int*)",
                "std::count<(__gnu_cxx::_Lock_policy)2>::count<int*>",
            ),
            ("(anonymous namespace)::load(int) const", "(anonymous namespace)::load"),
            ("decltype (a(b)) std::invoke<int (*)(char)>(int (*&&)(char))", "std::invoke<int (*)(char)>"),
            ("decltype(auto) std::visit<A>(A&&)", "std::visit<A>"),
            ("bool std::operator< <int>(int)", "std::operator< <int>"),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&)",
                "std::operator<< <std::char_traits<char> >",
            ),
            ("std::string std::operator+<char, int>(char const*)", "std::operator+<char, int>"),
            ("bool std::operator<<char, int>(char const*)", "std::operator<<char, int>"),
            ("std::function<int (int)>::operator()(int) const", "std::function<int (int)>::operator()"),
            ("Text::operator std::string() const", "Text::operator std::string"),
            ("std::unique_ptr<A>::operator->() const", "std::unique_ptr<A>::operator->"),
            ("std::x<(1>0)>::y(int)", "std::x<(1>0)>::y"),
            (
                "<fn() -> u8 as core::ops::function::FnOnce<()>>::call_once",
                "<fn() -> u8 as core::ops::function::FnOnce<()>>::call_once",
            ),
            ("fill(int)::{lambda(int)#1}::operator()(int) const", "fill"),
            ("", ""),
            (">>)(", ">>)"),
        ] {
            assert_eq!(FunctionName::parse(name).path, path, "{name}");
        }
    }

    #[test]
    fn functions_of_standard_libraries_are_told_by_their_names() {
        for name in [
            "std::vector<int, std::allocator<int> >::resize(unsigned long)",
            "void std::vector<char*, std::allocator<char*> >::_M_realloc_insert<char* const&>(char* const&)",
            "std::__shared_count<(__gnu_cxx::_Lock_policy)2>::__shared_count<Item, std::allocator<void>, >(&&)",
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > std::operator+<char>(char const*)",
            "std::pair<std::_Rb_tree_iterator<int>, bool> std::_Rb_tree<int>::_M_insert_unique<int>(int&&)",
            "char*& std::vector<char*, std::allocator<char*> >::emplace_back<char*>(char*&&)",
            "void std::_Function_base::_Base_manager<bind_calls()::{lambda(int)#1}>::_M_create<int>(std::_Any_data&)",
            "_ZSt11make_sharedI4ItemJEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES4_E4typeEEDpOT0_",
            "<str>::repeat",
            "<[u8]>::repeat",
            "core::option::Option<T>::map_or_else",
            "<core::option::Option<_>>::map_or_else::<alloc::string::String, fn(&str) -> u8>",
            "std::fs::read_to_string::inner",
            "<u64 as core::fmt::Display>::fmt",
            "<&mut T as core::fmt::Write>::write_str",
            "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
            "<mine::Item as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
            "<mine::Item as alloc::string::SpecToString>::spec_to_string",
            "<<alloc::sync::Arc<mine::Item>>::new as core::ops::function::FnOnce<(mine::Item,)>>::call_once",
        ] {
            assert!(is_of_standard_library(name), "{name}");
        }
    }

    #[test]
    fn functions_of_the_program_are_not() {
        for name in [
            "main",
            "Cache::insert(int)",
            "std_like::grow(int)",
            "std::vector<int> load()",
            "std::vector<int, std::allocator<int> > Loader<std::string>::load(std::string const&)",
            "core::Engine::load(char const*)",
            "Text::operator std::string() const",
            "fill(std::vector<int>&)::{lambda(int)#1}::operator()(int) const",
            "(anonymous namespace)::load(std::string)",
            "<mine::Item as core::clone::Clone>::clone",
            "<alloc::vec::Vec<u8> as mine::Encode>::encode",
            "<mine::Item>::new",
            "<gimli::read::abbrev::Abbreviations>::insert",
            // Of Python and JavaScript.
            "<module>",
            "<listcomp>",
            "<anonymous>",
            "stdout.write",
        ] {
            assert!(!is_of_standard_library(name), "{name}");
        }
    }

    #[test]
    fn hostile_names_have_an_answer() {
        for name in
            ["<".repeat(200_000), "(".repeat(200_000), "operator".repeat(50_000), ">)]}".repeat(50_000)]
        {
            let _ = is_of_standard_library(&name);
            let _ = is_of_standard_library(&format!("<{name} as std::x>::y"));
        }
        let _ = is_of_standard_library("<é as ü>::ö operator");
    }
}
