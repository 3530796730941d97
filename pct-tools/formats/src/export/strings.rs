//! The table of texts that protobuf formats refer to by number.

use std::collections::HashMap;

/// Distinct texts, numbered from 0.
#[derive(Default)]
pub(super) struct Strings {
    ids: HashMap<String, u64>,
    list: Vec<String>,
}

impl Strings {
    /// The number of a text.
    pub(super) fn id(&mut self, text: &str) -> u64 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    /// All texts in order of their numbers.
    pub(super) fn list(&self) -> &[String] {
        &self.list
    }
}
