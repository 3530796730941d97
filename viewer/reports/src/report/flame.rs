//! The stacks of a recording as a tree of functions. Recursion is not folded.

use crate::analysis::Failure;
use crate::subject::Subject;
use serde::Serialize;

/// The tree.
#[derive(Clone, Debug, Serialize)]
pub struct FlameReport {
    /// The nodes. A caller comes before its callees. The first is the program.
    pub nodes: Vec<FlameNode>,
    /// Number of small branches that were left out.
    pub left_out: usize,
}

/// A function on a stack.
#[derive(Clone, Debug, Serialize)]
pub struct FlameNode {
    /// Index of the caller; for the first node its own index.
    pub parent: usize,
    /// The procedure.
    pub ps: u32,
    /// Its name.
    pub name: String,
    /// The object that it is in.
    pub object: String,
    /// Nanoseconds with this stack or one that begins with it.
    pub total_ns: u64,
}

/// Most nodes of a picture.
const NODES: usize = 6000;

/// The report.
///
/// # Errors
/// The stacks are unknown, because the profile is a file and not a recording.
pub fn create(subject: &Subject) -> Result<FlameReport, Failure> {
    let stacks = match &subject.recorded {
        Some(r) if !r.stacks.is_empty() => r,
        _ => {
            return Err(Failure(
                "The stacks are known only where the recording itself is viewed.".to_owned(),
            ));
        }
    };
    let profile = &subject.profile;
    let root = profile.pd_ps(profile.root());
    let mut nodes = vec![FlameNode {
        parent: 0,
        ps: root.number(),
        name: profile.program().into_owned(),
        object: String::new(),
        total_ns: stacks.stacks.iter().filter(|n| n.parent.is_none()).map(|n| n.total_ns).sum(),
    }];
    let mut place: Vec<usize> = vec![0; stacks.stacks.len()];
    // The heaviest come first, and callers before callees, so whole branches are cut off.
    let left_out = stacks.stacks_left_out + stacks.stacks.len().saturating_sub(NODES);
    for (i, node) in stacks.stacks.iter().enumerate().take(NODES) {
        place[i] = nodes.len();
        nodes.push(FlameNode {
            parent: node.parent.map_or(0, |p| place[p as usize]),
            ps: node.ps.number(),
            name: profile.unqualified_name(node.ps),
            object: profile.ps_module_name(node.ps).into_owned(),
            total_ns: node.total_ns,
        });
    }
    Ok(FlameReport { nodes, left_out })
}
