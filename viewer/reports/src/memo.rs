//! Results that took long to compute and are requested again.
//!
//! A [`Subject`](crate::subject::Subject) owns one [`Memos`]. Each kind of report stores its own type in it, so the
//! subject need not know any report.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// One value of each type, made by `Default` at the first request.
#[derive(Default)]
pub(crate) struct Memos(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Memos {
    /// The value of type `T`.
    pub(crate) fn value_of_type<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Arc::clone(all.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())));
        // The entry under a type's id has that type.
        found.downcast::<T>().unwrap_or_default()
    }
}

impl fmt::Debug for Memos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memos").finish_non_exhaustive()
    }
}

/// At most `MOST` results by key. When it is full, all are removed.
pub(crate) struct Memo<K, V, const MOST: usize>(Mutex<HashMap<K, Arc<V>>>);

impl<K, V, const MOST: usize> Default for Memo<K, V, MOST> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V, const MOST: usize> Memo<K, V, MOST> {
    /// The result stored under `key`.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).map(Arc::clone)
    }

    /// Stores `value` under `key`.
    pub(crate) fn keep(&self, key: K, value: &Arc<V>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, Arc::clone(value));
    }

    /// The stored result, or the one that `make` makes. Failures are not stored. Two threads that ask at once may both
    /// call `make`.
    pub(crate) fn get_or<E>(&self, key: K, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        if let Some(known) = self.get(&key) {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        self.keep(key, &made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Squares(Memo<u32, u32, 2>);

    #[test]
    fn a_kind_finds_what_it_kept_and_no_more_than_its_bound() {
        let memos = Memos::default();
        let square = |n: u32| memos.value_of_type::<Squares>().0.get_or(n, || Ok::<_, ()>(n * n));
        assert_eq!(square(3), Ok(Arc::new(9)));
        let again = memos.value_of_type::<Squares>().0.get_or(3, || Err("made twice"));
        assert_eq!(again, Ok(Arc::new(9)));
        assert_eq!(square(4), Ok(Arc::new(16)));
        // A third one makes room first.
        assert_eq!(square(5), Ok(Arc::new(25)));
        assert_eq!(memos.value_of_type::<Squares>().0.get(&3), None);
        assert_eq!(memos.value_of_type::<Squares>().0.get_or(6, || Err("no square")), Err("no square"));
        assert_eq!(memos.value_of_type::<Squares>().0.get(&6), None);
    }
}
