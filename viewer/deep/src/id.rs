//! Ids: dense numbers from 1, one type per table, so that an id can only index its own table.
//!
//! Id 0 means "none" in the files; here that is `Option<Id>`, which costs no memory.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// An id of one table: 1, 2, ... up to the table's length.
pub trait Id: Copy + Ord + Hash + fmt::Debug + fmt::Display {
    /// The id with this number; `None` for 0.
    fn new(number: u32) -> Option<Self>;
    /// The number as it stands in files and URLs; at least 1.
    fn number(self) -> u32;
    /// The position in a table: `number() - 1`.
    fn index(self) -> usize {
        self.number() as usize - 1
    }
    /// The id at a position of a table.
    ///
    /// # Panics
    /// If `index` is `u32::MAX` or more: tables are never that long (the reader refuses them).
    fn at(index: usize) -> Self {
        u32::try_from(index)
            .ok()
            .and_then(|i| i.checked_add(1))
            .and_then(Self::new)
            .expect("tables are shorter than 2^32 - 1")
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $word:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The id with this number; `None` for 0.
            pub const fn new(number: u32) -> Option<Self> {
                match NonZeroU32::new(number) {
                    Some(n) => Some(Self(n)),
                    None => None,
                }
            }
            /// The number as it stands in files and URLs; at least 1.
            pub const fn number(self) -> u32 {
                self.0.get()
            }
            /// The number of an optional id, 0 for none: the form that files use.
            pub fn number_or_zero(id: Option<Self>) -> u32 {
                id.map_or(0, Self::number)
            }
        }
        impl Id for $name {
            fn new(number: u32) -> Option<Self> {
                Self::new(number)
            }
            fn number(self) -> u32 {
                self.number()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, "{}"), self.0)
            }
        }
    )*};
}

ids! {
    /// A call site dynamic: one call edge, from one call site in one context to one context.
    CsdId "csd";
    /// A call site static: a position in the program that calls.
    CssId "css";
    /// A procedure dynamic: a procedure in one call context.
    PdId "pd";
    /// A procedure static: a procedure of the program.
    PsId "ps";
    /// A clique: contexts that reach each other. Callees' cliques have smaller numbers.
    CliqueId "clique";
    /// A module, numbered by name in octet order.
    ModuleId "module";
    /// A module of a program representation, in file order.
    RepModuleId "repmodule";
    /// A procedure of a program representation, in file order.
    RepProcId "repproc";
}

/// A table indexed by one kind of id.
#[derive(Clone, PartialEq, Eq)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    ids: PhantomData<fn() -> I>,
}

impl<I: Id, T> IdVec<I, T> {
    /// A table of no items.
    pub const fn new() -> Self {
        Self { items: Vec::new(), ids: PhantomData }
    }
    /// The table whose item with id `n` is `items[n - 1]`.
    pub const fn from_vec(items: Vec<T>) -> Self {
        Self { items, ids: PhantomData }
    }
    /// How many items there are; also the number of the last id.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The item of an id, if the id is in the table.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }
    /// Adds an item and returns its id.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::at(self.items.len() - 1)
    }
    /// All ids, ascending.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        ids_to(self.items.len())
    }
    /// All items with their ids, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(i, t)| (I::at(i), t))
    }
    /// The items, without their ids, to keep.
    pub fn into_vec(self) -> Vec<T> {
        self.items
    }
    /// The items without their ids.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }
    /// The items without their ids, to change.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.items
    }
}

/// The ids 1 to `count`.
pub fn ids_to<I: Id>(count: usize) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I> {
    (0..count).map(I::at)
}

impl<I: Id, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<I: Id, T: fmt::Debug> fmt::Debug for IdVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
