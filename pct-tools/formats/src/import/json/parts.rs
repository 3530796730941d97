//! What the readers of JSON have in common: parts of a file, numbers in their odd spellings, the choice of a type.

use super::super::problem::Problem;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A file's outermost members.
pub(super) type Members<'t> = BTreeMap<Cow<'t, str>, &'t RawValue>;

/// A part of a file.
pub(super) fn parsed<'t, T: Deserialize<'t>>(text: &'t str, place: &str) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|why| {
        let place = if why.line() > 0 { format!("line {}", why.line()) } else { place.to_owned() };
        Problem { place, problem: why.to_string() }
    })
}

/// A problem at a place of a file.
pub(super) fn problem(place: impl Into<String>, problem: impl Into<String>) -> Problem {
    Problem { place: place.into(), problem: problem.into() }
}

/// A number of a process or thread, which some writers give as text.
#[derive(Deserialize, Clone, Debug)]
#[serde(untagged)]
pub(super) enum Number {
    Whole(i64),
    Real(f64),
    Text(String),
}

impl Number {
    /// 0 = not known.
    pub(super) fn value(&self) -> u32 {
        match self {
            Self::Whole(whole) => u32::try_from(*whole).unwrap_or(0),
            Self::Real(real) => line(Some(*real)),
            Self::Text(text) => text.parse().unwrap_or(0),
        }
    }
    /// What tells it from others, also where it is no number.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Whole(whole) => whole.to_string(),
            Self::Real(real) => real.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// A decimal number, which some writers give as text.
pub(super) fn decimal<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Decimal {
        Number(f64),
        Text(String),
    }
    match Option::<Decimal>::deserialize(from)? {
        None => Ok(None),
        Some(Decimal::Number(number)) => Ok(Some(number)),
        Some(Decimal::Text(text)) => {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            number.map(Some).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no number")))
        }
    }
}

/// File and line of `file:line:column` or `file:line`.
pub(super) fn script(at: &str) -> Option<(&str, u32)> {
    let (rest, last) = at.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let before = rest.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    Some(before.unwrap_or((rest, last)))
}

/// A thread's name in our own files, which have its number behind it.
pub(super) fn without_number(name: &str, tid: u32) -> &str {
    let split = name.rsplit_once(' ').filter(|(_, number)| number.parse() == Ok(tid));
    split.map_or(name, |(name, _)| name)
}

/// A line from 1; 0 = unknown. Files give lines as numbers that may be absent, negative or too large.
pub(super) fn line(number: Option<f64>) -> u32 {
    number
        .filter(|line| *line >= 1.0 && *line <= f64::from(u32::MAX))
        .map_or(0, |line| u32::try_from(pct_num::rounded(line)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::script;

    #[test]
    fn a_script_has_a_line_and_perhaps_a_column() {
        assert_eq!(script("https://e.org:8080/a.js:12:3"), Some(("https://e.org:8080/a.js", 12)));
        assert_eq!(script("a.js:7"), Some(("a.js", 7)));
        assert_eq!(script("void (int)"), None);
    }
}
