//! JSON files that other tools show.

use serde_json::Value;
use std::borrow::Cow;

/// The octets of a file. People see its names in the other tool, so hidden characters in names are escaped, as in
/// the text formats.
pub(super) fn octets(mut file: Value) -> Vec<u8> {
    show_hidden(&mut file);
    serde_json::to_vec(&file).unwrap_or_default()
}

fn show_hidden(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(visible) = pct_text::visible(text) {
                *text = visible;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(show_hidden),
        Value::Object(members) => members.values_mut().for_each(show_hidden),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
