//! Trees of named values, in which traces, tracesets and the engine publish what they know.
//!
//! A node is an ordered list of (name, value). Entries are found by name. A removed entry leaves a hole, so that
//! all other entries keep their index. Trees are values: a clone shares only what pointers point to. The text form is
//! in [`text`].

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::time::Time;

pub mod text;

/// Name of an entry: a word, or a number for entries of arrays such as CPUs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AttributeName {
    /// A named entry.
    Word(Arc<str>),
    /// A numbered one.
    Number(u64),
}

impl From<&str> for AttributeName {
    fn from(name: &str) -> Self {
        AttributeName::Word(name.into())
    }
}

impl From<u64> for AttributeName {
    fn from(number: u64) -> Self {
        AttributeName::Number(number)
    }
}

impl From<Attribute> for AttributeValue {
    fn from(tree: Attribute) -> Self {
        AttributeValue::Tree(tree)
    }
}

impl fmt::Display for AttributeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeName::Word(word) => f.write_str(word),
            AttributeName::Number(number) => number.fmt(f),
        }
    }
}

/// A value in a tree.
#[derive(Clone, Default)]
pub enum AttributeValue {
    /// The name exists without a value.
    #[default]
    None,
    /// 32 bits, signed.
    Int(i32),
    /// 32 bits, unsigned.
    Uint(u32),
    /// 64 bits, signed.
    Long(i64),
    /// 64 bits, unsigned.
    Ulong(u64),
    /// Single precision.
    Float(f32),
    /// Double precision.
    Double(f64),
    /// A point in trace time, or a duration, in ns.
    Time(Time),
    /// Text.
    String(String),
    /// A shared object. Copies point to the same object; the text form leaves it out.
    Pointer(Arc<dyn Any + Send + Sync>),
    /// A sub-tree.
    Tree(Attribute),
}

/// Type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as the values are")]
pub enum AttributeType {
    None,
    Int,
    Uint,
    Long,
    Ulong,
    Float,
    Double,
    Time,
    String,
    Pointer,
    Tree,
}

impl AttributeValue {
    /// Its type.
    pub fn kind(&self) -> AttributeType {
        match self {
            AttributeValue::None => AttributeType::None,
            AttributeValue::Int(_) => AttributeType::Int,
            AttributeValue::Uint(_) => AttributeType::Uint,
            AttributeValue::Long(_) => AttributeType::Long,
            AttributeValue::Ulong(_) => AttributeType::Ulong,
            AttributeValue::Float(_) => AttributeType::Float,
            AttributeValue::Double(_) => AttributeType::Double,
            AttributeValue::Time(_) => AttributeType::Time,
            AttributeValue::String(_) => AttributeType::String,
            AttributeValue::Pointer(_) => AttributeType::Pointer,
            AttributeValue::Tree(_) => AttributeType::Tree,
        }
    }

    /// Zero, the empty text, the empty tree; a pointer to a dummy object.
    pub fn zero(kind: AttributeType) -> AttributeValue {
        match kind {
            AttributeType::None => AttributeValue::None,
            AttributeType::Int => AttributeValue::Int(0),
            AttributeType::Uint => AttributeValue::Uint(0),
            AttributeType::Long => AttributeValue::Long(0),
            AttributeType::Ulong => AttributeValue::Ulong(0),
            AttributeType::Float => AttributeValue::Float(0.0),
            AttributeType::Double => AttributeValue::Double(0.0),
            AttributeType::Time => AttributeValue::Time(Time(0)),
            AttributeType::String => AttributeValue::String(String::new()),
            AttributeType::Pointer => AttributeValue::Pointer(Arc::new(())),
            AttributeType::Tree => AttributeValue::Tree(Attribute::new()),
        }
    }

    /// The sum of two numbers or times of one type; sums that do not fit stay at the limit. Other types: no effect.
    fn add(&mut self, other: &AttributeValue) {
        use AttributeValue as V;
        match (self, other) {
            (V::Int(a), V::Int(b)) => *a = a.saturating_add(*b),
            (V::Uint(a), V::Uint(b)) => *a = a.saturating_add(*b),
            (V::Long(a), V::Long(b)) => *a = a.saturating_add(*b),
            (V::Ulong(a), V::Ulong(b)) => *a = a.saturating_add(*b),
            (V::Float(a), V::Float(b)) => *a += b,
            (V::Double(a), V::Double(b)) => *a += b,
            (V::Time(a), V::Time(b)) => *a = a.saturating_add(b.ns()),
            (V::Tree(a), V::Tree(b)) => a.recursive_add(b),
            _ => {}
        }
    }
}

impl PartialEq for AttributeValue {
    /// Floats are compared by their bits, pointers by their addresses.
    fn eq(&self, other: &Self) -> bool {
        use AttributeValue as V;
        match (self, other) {
            (V::None, V::None) => true,
            (V::Int(a), V::Int(b)) => a == b,
            (V::Uint(a), V::Uint(b)) => a == b,
            (V::Long(a), V::Long(b)) => a == b,
            (V::Ulong(a), V::Ulong(b)) => a == b,
            (V::Float(a), V::Float(b)) => a.to_bits() == b.to_bits(),
            (V::Double(a), V::Double(b)) => a.to_bits() == b.to_bits(),
            (V::Time(a), V::Time(b)) => a == b,
            (V::String(a), V::String(b)) => a == b,
            (V::Pointer(a), V::Pointer(b)) => Arc::ptr_eq(a, b),
            (V::Tree(a), V::Tree(b)) => a == b,
            _ => false,
        }
    }
}

/// The name is in use already.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("attribute {0} exists already")]
pub struct DuplicateName(pub AttributeName);

/// A node: an ordered list of named values.
#[derive(Clone, Default)]
pub struct Attribute {
    slots: Vec<Option<(AttributeName, AttributeValue)>>,
    places: BTreeMap<AttributeName, usize>,
}

impl Attribute {
    /// An empty node.
    pub fn new() -> Attribute {
        Attribute::default()
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The entry at an index; absent if it was removed. An entry keeps its index while it exists.
    pub fn get(&self, index: usize) -> Option<(&AttributeName, &AttributeValue)> {
        self.slots.get(index)?.as_ref().map(|(name, value)| (name, value))
    }

    /// Value of a name.
    pub fn get_by_name(&self, name: impl Into<AttributeName>) -> Option<&AttributeValue> {
        let place = *self.places.get(&name.into())?;
        self.slots[place].as_ref().map(|(_, value)| value)
    }

    /// The value of a name, for changing it.
    pub fn get_mut(&mut self, name: impl Into<AttributeName>) -> Option<&mut AttributeValue> {
        let place = *self.places.get(&name.into())?;
        self.slots[place].as_mut().map(|(_, value)| value)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&AttributeName, &AttributeValue)> {
        self.slots.iter().flatten().map(|(name, value)| (name, value))
    }

    /// Appends an entry and returns its index.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add(
        &mut self,
        name: impl Into<AttributeName>,
        value: AttributeValue,
    ) -> Result<usize, DuplicateName> {
        let name = name.into();
        if self.places.contains_key(&name) {
            return Err(DuplicateName(name));
        }
        let place = self.slots.len();
        self.places.insert(name.clone(), place);
        self.slots.push(Some((name, value)));
        Ok(place)
    }

    /// Sets the value of a name. Appends an entry if the name is new.
    pub fn set(&mut self, name: impl Into<AttributeName>, value: AttributeValue) {
        *self.entry(name.into(), AttributeType::None) = value;
    }

    /// Removes an entry by name and returns its value. All other entries keep their index.
    pub fn remove(&mut self, name: impl Into<AttributeName>) -> Option<AttributeValue> {
        let place = self.places.remove(&name.into())?;
        let (_, value) = self.slots[place].take()?;
        while matches!(self.slots.last(), Some(None)) {
            self.slots.pop();
        }
        Some(value)
    }

    /// Removes an entry by index and returns its value.
    pub fn remove_at(&mut self, index: usize) -> Option<AttributeValue> {
        let (name, _) = self.slots.get(index)?.as_ref()?;
        let name = name.clone();
        self.remove(name)
    }

    fn entry(&mut self, name: AttributeName, kind: AttributeType) -> &mut AttributeValue {
        let slots = &mut self.slots;
        let place = *self.places.entry(name.clone()).or_insert_with(|| {
            slots.push(Some((name, AttributeValue::zero(kind))));
            slots.len() - 1
        });
        let slot = slots[place].as_mut().expect("places names only slots that are taken");
        &mut slot.1
    }

    /// The value of a name, created as zero if it does not exist. Absent if it has another type.
    pub fn find(
        &mut self,
        name: impl Into<AttributeName>,
        kind: AttributeType,
    ) -> Option<&mut AttributeValue> {
        Some(self.entry(name.into(), kind)).filter(|value| value.kind() == kind)
    }

    /// The sub-tree of a name, created if it does not exist. Absent if the name has another value.
    pub fn find_subdir(&mut self, name: impl Into<AttributeName>) -> Option<&mut Attribute> {
        match self.entry(name.into(), AttributeType::Tree) {
            AttributeValue::Tree(tree) => Some(tree),
            _ => None,
        }
    }

    /// [`Attribute::find`] for a path `a/b/c`. Missing levels are created. Absent if a level of the path is not a
    /// tree or the value has another type.
    pub fn find_by_path(&mut self, path: &str, kind: AttributeType) -> Option<&mut AttributeValue> {
        match path.split_once('/') {
            Some((dir, rest)) => self.find_subdir(dir)?.find_by_path(rest, kind),
            None => self.find(path, kind),
        }
    }

    /// The value at a path, if it exists. Creates nothing.
    pub fn get_by_path(&self, path: &str) -> Option<&AttributeValue> {
        match path.split_once('/') {
            Some((dir, rest)) => match self.get_by_name(dir)? {
                AttributeValue::Tree(tree) => tree.get_by_path(rest),
                _ => None,
            },
            None => self.get_by_name(path),
        }
    }

    /// Sets the value of a path and creates missing levels. Returns false if a level of the path is not a tree.
    pub fn set_by_path(&mut self, path: &str, value: AttributeValue) -> bool {
        match path.split_once('/') {
            Some((dir, rest)) => self.find_subdir(dir).is_some_and(|tree| tree.set_by_path(rest, value)),
            None => {
                self.set(path, value);
                true
            }
        }
    }

    /// Removes the entry at a path and returns its value.
    pub fn remove_by_path(&mut self, path: &str) -> Option<AttributeValue> {
        match path.split_once('/') {
            Some((dir, rest)) => match self.get_mut(dir)? {
                AttributeValue::Tree(tree) => tree.remove_by_path(rest),
                _ => None,
            },
            None => self.remove(path),
        }
    }

    /// The entries of this node. Sub-trees are left empty.
    #[must_use]
    pub fn shallow_copy(&self) -> Attribute {
        let mut copy = Attribute::new();
        for (name, value) in self.iter() {
            copy.set(
                name.clone(),
                match value {
                    AttributeValue::Tree(_) => AttributeValue::Tree(Attribute::new()),
                    other => other.clone(),
                },
            );
        }
        copy
    }

    /// The whole tree. Only what pointers point to is shared.
    #[must_use]
    pub fn deep_copy(&self) -> Attribute {
        let mut copy = Attribute::new();
        for (name, value) in self.iter() {
            copy.set(
                name.clone(),
                match value {
                    AttributeValue::Tree(tree) => AttributeValue::Tree(tree.deep_copy()),
                    other => other.clone(),
                },
            );
        }
        copy
    }

    /// Adds numbers and times of `other` to those with the same name and type here, merges sub-trees, and creates
    /// what is missing. Other types are not changed.
    pub fn recursive_add(&mut self, other: &Attribute) {
        for (name, value) in other.iter() {
            use AttributeType as T;
            if matches!(value.kind(), T::None | T::String | T::Pointer) {
                continue;
            }
            self.entry(name.clone(), value.kind()).add(value);
        }
    }
}

impl PartialEq for Attribute {
    /// Equal entries in the same order. Holes do not count.
    fn eq(&self, other: &Self) -> bool {
        self.count() == other.count() && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_a1_removal_moves_no_other_entry() {
        let mut node = Attribute::new();
        let indices: Vec<_> =
            (0..5u64).map(|n| node.add(n, AttributeValue::Ulong(n * 10)).unwrap()).collect();
        assert!(node.add(3, AttributeValue::None).is_err());
        assert_eq!(node.remove_at(indices[1]), Some(AttributeValue::Ulong(10)));
        assert_eq!(node.remove(4), Some(AttributeValue::Ulong(40)));
        for n in [0u64, 2, 3] {
            assert_eq!(node.get(indices[n as usize]).unwrap().1, &AttributeValue::Ulong(n * 10));
            assert_eq!(node.get_by_name(n), Some(&AttributeValue::Ulong(n * 10)));
        }
        assert_eq!(node.get(indices[1]), None);
        assert_eq!(node.count(), 3);
        assert_eq!(node.iter().count(), 3);
    }

    #[test]
    fn find_makes_zero_and_refuses_another_type() {
        let mut node = Attribute::new();
        *node.find_by_path("a/b/c", AttributeType::Int).unwrap() = AttributeValue::Int(3);
        assert_eq!(node.get_by_path("a/b/c"), Some(&AttributeValue::Int(3)));
        assert!(node.find_by_path("a/b/c", AttributeType::Uint).is_none());
        assert!(node.find_by_path("a/b/c/d", AttributeType::Uint).is_none());
        assert!(node.find_subdir("a").unwrap().find_subdir("b").is_some());
        assert!(node.get_by_path("a/x").is_none());
        assert!(node.remove_by_path("a/b/c").is_some());
        assert!(!node.set_by_path("a/b", AttributeValue::None) || node.get_by_path("a/b").is_some());
    }

    #[test]
    fn r_a3_copies_share_nothing_and_sums_add_up() {
        let mut tree = Attribute::new();
        tree.set_by_path("x/n", AttributeValue::Ulong(7));
        tree.set_by_path("x/t", AttributeValue::Time(Time(5)));
        tree.set_by_path("x/s", AttributeValue::String("text".into()));
        let mut copy = tree.deep_copy();
        assert_eq!(copy, tree);
        copy.set_by_path("x/n", AttributeValue::Ulong(8));
        assert_eq!(tree.get_by_path("x/n"), Some(&AttributeValue::Ulong(7)));
        let mut sum = Attribute::new();
        sum.recursive_add(&tree);
        assert_eq!(sum.get_by_path("x/n"), Some(&AttributeValue::Ulong(7)));
        assert_eq!(sum.get_by_path("x/s"), None);
        sum.recursive_add(&tree);
        sum.recursive_add(&copy);
        assert_eq!(sum.get_by_path("x/n"), Some(&AttributeValue::Ulong(22)));
        assert_eq!(sum.get_by_path("x/t"), Some(&AttributeValue::Time(Time(15))));
        assert_eq!(tree.shallow_copy().get_by_path("x"), Some(&AttributeValue::Tree(Attribute::new())));
    }
}
