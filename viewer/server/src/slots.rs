//! Places by name for what is read when it is asked for. Those that were used last are kept.

use std::sync::{Arc, Mutex, PoisonError};

/// A place. Whoever reads what belongs there holds its lock, so that it is read once.
pub(crate) type Slot<T> = Arc<Mutex<Option<T>>>;

/// Some places.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    /// The least recently used one first.
    by_name: Mutex<Vec<(String, Slot<T>)>>,
    most: usize,
}

impl<T> Slots<T> {
    /// At most `most` places.
    pub(crate) fn new(most: usize) -> Slots<T> {
        Slots { by_name: Mutex::new(Vec::new()), most }
    }

    /// The place of a name, if it has one. That does not count as a use.
    pub(crate) fn known(&self, name: &str) -> Option<Slot<T>> {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        by_name.iter().find(|(known, _)| known == name).map(|(_, slot)| Arc::clone(slot))
    }

    /// The place of a name: a new one if it has none. If there are too many then, the one whose last use is longest
    /// ago is forgotten.
    pub(crate) fn slot(&self, name: &str) -> Slot<T> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let known = by_name.iter().position(|(known, _)| known == name);
        let (name, slot) = match known {
            Some(at) => by_name.remove(at),
            None => (name.to_owned(), Arc::default()),
        };
        by_name.push((name, Arc::clone(&slot)));
        if by_name.len() > self.most {
            by_name.remove(0);
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_used_last_are_kept() {
        let slots: Slots<u32> = Slots::new(2);
        let fill = |name: &str, value| *slots.slot(name).lock().unwrap() = Some(value);
        let held = |name: &str| *slots.slot(name).lock().unwrap();
        fill("a", 1);
        fill("b", 2);
        assert_eq!(held("a"), Some(1));
        fill("c", 3);
        assert_eq!((held("a"), held("c")), (Some(1), Some(3)));
        assert!(slots.known("b").is_none());
        // Looking is no use: `a` is the next to go.
        assert!(slots.known("a").is_some());
        fill("d", 4);
        assert!(slots.known("a").is_none() && slots.known("c").is_some());
    }
}
