//! The loader's list of objects, which it keeps for debuggers.

use crate::Memory;

/// Most objects of a list that are visited.
const MOST_OBJECTS: u32 = 4096;

/// One object of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedObject {
    /// Difference between addresses in the process and the object's own.
    pub bias: u64,
    /// Address of its name, which ends with NUL. The program's name is empty.
    pub name: u64,
    /// Address of its dynamic section.
    pub dynamic: u64,
}

/// The objects of the list in the order of loading; the program comes first.
#[derive(Debug)]
pub struct LinkedObjects<'m, M> {
    memory: &'m M,
    next: u64,
    left: u32,
}

impl<'m, M: Memory> LinkedObjects<'m, M> {
    /// The list whose head, the loader's `struct r_debug`, is at `debug`. With 0 the list is empty: the
    /// program has no loader, or it has not been found.
    pub fn new(memory: &'m M, debug: u64) -> Self {
        // The version, then the first `struct link_map`.
        let first = if debug == 0 { None } else { debug.checked_add(8).and_then(|at| memory.read_word(at)) };
        LinkedObjects { memory, next: first.unwrap_or(0), left: MOST_OBJECTS }
    }
}

impl<M: Memory> Iterator for LinkedObjects<'_, M> {
    type Item = LinkedObject;

    fn next(&mut self) -> Option<LinkedObject> {
        if self.next == 0 {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        // Bias, name, dynamic section, next.
        let link: [u8; 32] = self.memory.bytes(self.next)?;
        let [bias, name, dynamic, next] = [0, 8, 16, 24].map(|at| link.as_slice().read_word(at));
        self.next = next?;
        Some(LinkedObject { bias: bias?, name: name?, dynamic: dynamic? })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_list_is_walked_to_its_end_and_a_ring_is_left() {
        let list = |last: u64| -> Vec<u8> {
            let words = [0, 1, 16 + 8, 5, 6, 7, 16 + 8 + 32, 8, 9, 10, last];
            words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
        };
        let (whole, ring) = (list(0), list(24));
        let memory = whole.as_slice();
        let found: Vec<_> = LinkedObjects::new(&memory, 8).map(|o| (o.bias, o.name, o.dynamic)).collect();
        assert_eq!(found, [(5, 6, 7), (8, 9, 10)]);
        assert_eq!(LinkedObjects::new(&memory, 0).count(), 0);
        assert_eq!(LinkedObjects::new(&ring.as_slice(), 8).count(), 4096);
        assert_eq!(LinkedObjects::new(&&whole[..80], 8).count(), 1, "the second is cut");
    }
}
