//! The kernel's side of samples: which system call a thread was in.

use super::raw::{Place, ROOT};
use super::tally::NodeIndex;
use pct_symbols::{CallSite, Symbolizer, system_call};

/// Callers beyond these are not asked for the number of a call.
const CALLERS: usize = 4;

/// Reads the code where threads were in the kernel. `symbols` knows all addresses already.
pub(super) fn find_system_calls(nodes: &[(NodeIndex, Place)], symbols: &mut Symbolizer) {
    let places: Vec<Vec<CallSite>> = nodes
        .iter()
        .filter(|(_, place)| *place == Place::System)
        .map(|(parent, _)| sites(nodes, *parent))
        .collect();
    symbols.find_system_calls(places.iter().map(Vec::as_slice));
}

/// The frame of time in the kernel below this place of the trie: `[read]`, or `[system]` where the call is not known.
pub(super) fn frame_name(nodes: &[(NodeIndex, Place)], at: NodeIndex, symbols: &Symbolizer) -> String {
    let number = symbols.system_call(&sites(nodes, at));
    number.and_then(system_call::name).map_or_else(|| "[system]".to_owned(), |name| format!("[{name}]"))
}

/// A place of the trie and its nearest callers, as far as they are code of objects.
fn sites(nodes: &[(NodeIndex, Place)], from: NodeIndex) -> Vec<CallSite> {
    let mut sites = Vec::new();
    let mut at = from;
    while at != ROOT && sites.len() <= CALLERS {
        let Some((parent, Place::Code(object, address))) = nodes.get(at as usize) else { break };
        sites.push(CallSite { object: *object, address: *address });
        at = *parent;
    }
    sites
}
