//! A `ScopeInfo`: what V8 keeps of a function's names and of its place in the source.
//!
//! ```text
//! V8 up to 12   flags, parameters, n, names[n], infos[n], [name, slot], [name by use], begin, end, ...
//! V8 13         flags, parameters, n, begin, end, names[n], infos[n], [name, slot], [name by use], ...
//! ```
//!
//! With 75 variables and more their names are in a table, one word. What stands in brackets may be missing.

use super::layout::Layout;
use super::object::{small, typed};
use super::text::Text;
use crate::ThreadMemory;

/// With so many variables their names are in a table.
const IN_TABLE: u64 = 75;
/// Most variables.
const MOST: u64 = 1 << 20;
/// Words that are looked at behind the variables.
const LOOKS: u64 = 10;
/// Words of a `ScopeInfo` before its place, where that comes first.
const BEFORE_PLACE: u64 = 3;
const WORD: u64 = 8;

/// Names and place of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Its name. `None`: it has none, but perhaps one by its use.
    pub name: Option<Text>,
    /// Where it begins and ends in its source, in characters of UTF-16. `None`: not known.
    pub place: Option<(u32, u32)>,
}

impl Scope {
    /// From the word that a function has for its name: a string, a `ScopeInfo`, or a number for no name.
    pub(super) fn from_word<M: ThreadMemory>(memory: &M, layout: &Layout, word: u64) -> Option<Scope> {
        if small(word).is_some() {
            return Some(Scope::default());
        }
        if let Some(name) = Text::new(memory, layout, word) {
            return Some(Scope { name: Some(name).filter(|name| name.length > 0), place: None });
        }
        let (scope, kind) = typed(memory, layout, word)?;
        if kind != layout.scope_type {
            return None;
        }
        let at = |index: u64| memory.read_word(scope + WORD + WORD * index);
        let variables = u64::from(small(at(2)?)?);
        if variables > MOST {
            return None;
        }
        let names = if variables < IN_TABLE { variables } else { 1 };
        let mut place = None;
        if layout.scope_head > BEFORE_PLACE {
            place = Some((small(at(BEFORE_PLACE)?)?, small(at(BEFORE_PLACE + 1)?)?));
        }
        let begin = layout.scope_head + names + variables;
        let mut found: Option<Text> = None;
        let mut numbers = [None; 2];
        for index in begin..begin + LOOKS {
            let Some(word) = at(index) else { break };
            if let Some(number) = small(word) {
                numbers = [numbers[1], Some(number)];
                continue;
            }
            if let [Some(begin), Some(end)] = numbers {
                place = place.or(Some((begin, end)));
                break;
            }
            numbers = [None; 2];
            match Text::new(memory, layout, word) {
                Some(text) => found = found.filter(|name| name.length > 0).or(Some(text)),
                None if place.is_some() => break,
                None => {}
            }
        }
        let place = place.filter(|(begin, end)| begin <= end);
        Some(Scope { name: found.filter(|name| name.length > 0), place })
    }
}
