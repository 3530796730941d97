//! Ids of rows, one type for each table, and tables that are indexed by them.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

/// A typed row number of one table.
pub trait Id: Copy + Eq + Hash + fmt::Debug {
    /// The row as an index.
    fn index(self) -> usize;
    /// The id of a row; tables hold fewer than 2^32 rows (the builder refuses more).
    fn from_index(index: usize) -> Self;
    /// The row as a number.
    fn number(self) -> u32;
}

/// Declares types of row numbers, each for one table.
#[macro_export]
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub(crate) u32);
        impl $crate::ids::Id for $name {
            fn index(self) -> usize { self.0 as usize }
            fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("tables hold fewer than 2^32 rows"))
            }
            fn number(self) -> u32 { self.0 }
        }
    )* };
}

ids! {
    /// Names a row of [`crate::Profile::objects`].
    ObjectId,
    /// Names a row of [`crate::Profile::functions`].
    FunctionId,
    /// Names a row of [`crate::Profile::files`].
    FileId,
    /// Names a row of [`crate::Profile::frames`].
    FrameId,
    /// Names a row of [`crate::Profile::stacks`].
    StackId,
    /// Names a row of [`crate::Profile::processes`].
    ProcessId,
    /// Names a row of [`crate::Profile::threads`].
    ThreadId,
}

/// A table whose rows are named by one kind of id only.
#[derive(Clone, Debug)]
pub struct IdVec<I, T> {
    pub(crate) rows: Vec<T>,
    id: PhantomData<fn(I)>,
}

impl<I: Id, T> IdVec<I, T> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: Vec::new(), id: PhantomData }
    }
    /// Appends a row and names it.
    pub fn push(&mut self, row: T) -> I {
        let id = I::from_index(self.rows.len());
        self.rows.push(row);
        id
    }
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// No row at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// The rows in order of their ids.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.rows.iter()
    }
    /// The rows with their ids.
    pub fn enumerate(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.rows.iter().enumerate().map(|(i, row)| (I::from_index(i), row))
    }
    /// All ids.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.rows.len()).map(I::from_index)
    }
    /// The row, if there is one.
    #[must_use]
    pub fn get(&self, id: I) -> Option<&T> {
        self.rows.get(id.index())
    }
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self { rows: Vec::new(), id: PhantomData }
    }
}
impl<I: Id, T> std::ops::Index<I> for IdVec<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.rows[id.index()]
    }
}
impl<I: Id, T> std::ops::IndexMut<I> for IdVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.rows[id.index()]
    }
}
