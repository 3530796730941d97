//! Terms of plain values, and back.

use pct_deep::GoalPath;
use pct_deep::procrep::Var;

use crate::term::{Term, TermKind};

/// A term of the wrong type: what was expected, and the term's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IllTyped(pub String, pub u32);

pub(super) type Decoded<T> = Result<T, IllTyped>;

pub(super) fn compound(name: &str, args: Vec<Term>) -> Term {
    TermKind::Compound(name.to_owned(), args).into()
}
pub(super) fn atom(name: &str) -> Term {
    compound(name, Vec::new())
}
pub(super) fn string(text: &str) -> Term {
    TermKind::Str(text.to_owned()).into()
}
pub(super) fn int(n: i64) -> Term {
    TermKind::Int(n).into()
}
pub(super) fn float(x: f64) -> Term {
    TermKind::Float(x).into()
}
pub(super) fn var(v: Var) -> Term {
    int(i64::from(v.0))
}
pub(super) fn pair(key: Term, value: Term) -> Term {
    TermKind::Pair(Box::new(key), Box::new(value)).into()
}
pub(super) fn list<'a, T: 'a>(items: impl IntoIterator<Item = &'a T>, f: impl FnMut(&'a T) -> Term) -> Term {
    TermKind::List(items.into_iter().map(f).collect()).into()
}

pub(super) fn wrong<T>(term: &Term, expected: &str) -> Decoded<T> {
    Err(IllTyped(format!("Expected {expected}"), term.line))
}
/// The name and arguments of a compound term.
pub(super) fn parts<'a>(term: &'a Term, expected: &str) -> Decoded<(&'a str, &'a [Term])> {
    match &term.kind {
        TermKind::Compound(name, args) => Ok((name, args)),
        _ => wrong(term, expected),
    }
}
/// The arguments of a compound term with this name and arity.
pub(super) fn args<'a, const N: usize>(term: &'a Term, name: &str) -> Decoded<&'a [Term; N]> {
    match parts(term, name)? {
        (found, args) if found == name => args.try_into().or_else(|_| wrong(term, &format!("{name}/{N}"))),
        _ => wrong(term, &format!("{name}/{N}")),
    }
}
pub(super) fn to_string(term: &Term) -> Decoded<String> {
    match &term.kind {
        TermKind::Str(text) => Ok(text.clone()),
        _ => wrong(term, "a string"),
    }
}
pub(super) fn to_int(term: &Term) -> Decoded<i64> {
    match term.kind {
        TermKind::Int(n) => Ok(n),
        _ => wrong(term, "an integer"),
    }
}
pub(super) fn to_float(term: &Term) -> Decoded<f64> {
    match term.kind {
        TermKind::Float(x) => Ok(x),
        _ => wrong(term, "a float"),
    }
}
pub(super) fn to_u32(term: &Term) -> Decoded<u32> {
    u32::try_from(to_int(term)?).or_else(|_| wrong(term, "a number of 32 bits"))
}
pub(super) fn to_var(term: &Term) -> Decoded<Var> {
    to_u32(term).map(Var)
}
pub(super) fn to_list<T>(term: &Term, f: impl FnMut(&Term) -> Decoded<T>) -> Decoded<Vec<T>> {
    match &term.kind {
        TermKind::List(items) => items.iter().map(f).collect(),
        _ => wrong(term, "a list"),
    }
}
pub(super) fn to_pair<T, U>(
    term: &Term,
    f: impl Fn(&Term) -> Decoded<T>,
    g: impl Fn(&Term) -> Decoded<U>,
) -> Decoded<(T, U)> {
    match &term.kind {
        TermKind::Pair(key, value) => Ok((f(key)?, g(value)?)),
        _ => wrong(term, "a pair"),
    }
}
/// One of some constants.
pub(super) fn to_choice<T: Copy>(term: &Term, choices: &[(&str, T)]) -> Decoded<T> {
    if let TermKind::Compound(name, args) = &term.kind
        && args.is_empty()
        && let Some((_, value)) = choices.iter().find(|(n, _)| n == name)
    {
        return Ok(*value);
    }
    let names: Vec<&str> = choices.iter().map(|(n, _)| *n).collect();
    wrong(term, &names.join(" or "))
}
pub(super) fn choice<T: PartialEq>(value: &T, choices: &[(&str, T)]) -> Term {
    atom(choices.iter().find(|(_, v)| v == value).map_or("", |(n, _)| n))
}

pub(super) const YES_NO: [(&str, bool); 2] = [("no", false), ("yes", true)];

pub(super) fn path(path: &GoalPath) -> Term {
    string(&path.to_string())
}
pub(super) fn to_path(term: &Term) -> Decoded<GoalPath> {
    to_string(term)?.parse().or_else(|_| wrong(term, "a goal path"))
}
