//! The kernel's side of samples: which system call a thread was in, and what the kernel called there.

use super::raw::{ROOT, RawFrame};
use super::tally::NodeIndex;
use crate::fold::Frames;
use crate::model::{Builder, Object, ObjectKind, StackId};
use pct_format::record::{Boundary, Entry};
use pct_symbols::kallsyms::KernelFunction;
use pct_symbols::{CallSite, CodeAddr, ObjectId, Source, Symbolizer, system_call};
use rustc_hash::FxHashMap;

/// Callers beyond these are not asked for the number of a call.
const CALLERS: usize = 4;

/// Reads the code where threads were in the kernel. `symbols` knows all addresses already.
pub(super) fn find_system_calls(nodes: &[(NodeIndex, RawFrame)], symbols: &mut Symbolizer) {
    let places: Vec<Vec<CallSite>> = nodes
        .iter()
        .filter(|(_, place)| matches!(place, RawFrame::System | RawFrame::Boundary(_)))
        .map(|(parent, _)| sites(nodes, *parent))
        .collect();
    symbols.find_system_calls(places.iter().map(Vec::as_slice));
}

/// A place of the trie and its nearest callers, as far as they are code of objects.
fn sites(nodes: &[(NodeIndex, RawFrame)], from: NodeIndex) -> Vec<CallSite> {
    let mut sites = Vec::new();
    let mut at = from;
    while at != ROOT && sites.len() <= CALLERS {
        let Some((parent, RawFrame::Code(object, address))) = nodes.get(at as usize) else { break };
        sites.push(CallSite { object: *object, address: *address });
        at = *parent;
    }
    sites
}

/// What the name of a function of the kernel says, where it is the outermost one.
#[derive(Debug, PartialEq, Eq)]
enum Role<'a> {
    /// Glue on the way in that says how the thread came in.
    Enters(&'static str),
    /// Glue that says nothing.
    Passes,
    /// The function of a system call, which it names.
    Call(&'a str),
    /// It does work.
    Works,
}

impl<'a> Role<'a> {
    fn from_name(name: &'a str) -> Self {
        const CALLS: [&str; 6] = [
            "__x64_sys_",
            "__ia32_sys_",
            "__x64_compat_sys_",
            "__ia32_compat_sys_",
            "__arm64_sys_",
            "__se_sys_",
        ];
        if let Some(call) = CALLS.iter().find_map(|start| name.strip_prefix(start)) {
            return Self::Call(call);
        }
        match name {
            "asm_exc_page_fault" => Self::Enters("[page fault]"),
            "ret_from_fork_asm" | "ret_from_fork" => Self::Enters("[thread start]"),
            "do_syscall_64" | "x64_sys_call" | "invoke_syscall" | "do_el0_svc" | "el0_svc" => Self::Passes,
            _ if name.starts_with("asm_sysvec_") || name.starts_with("asm_common_interrupt") => {
                Self::Enters("[interrupt]")
            }
            _ if name.starts_with("asm_exc_") => Self::Enters("[exception]"),
            _ if ["entry_SYSCALL_", "entry_SYSENTER_", "el0t_64_sync"]
                .iter()
                .any(|start| name.starts_with(start)) =>
            {
                Self::Passes
            }
            _ => Self::Works,
        }
    }
}

/// Where one thread's own frames end and the kernel's begin.
#[derive(Clone, Copy)]
struct Half {
    /// The thread's own stack.
    user: Option<StackId>,
    /// A function of the kernel that does work is on the stack.
    works: bool,
}

/// The kernel's halves of stacks, on the way from addresses to frames.
pub(super) struct KernelHalves<'a> {
    nodes: &'a [(NodeIndex, RawFrame)],
    symbols: &'a Symbolizer,
    /// Glue is shown too.
    all: bool,
    halves: FxHashMap<NodeIndex, Half>,
}

impl<'a> KernelHalves<'a> {
    pub(super) fn new(nodes: &'a [(NodeIndex, RawFrame)], symbols: &'a Symbolizer, frames: Frames) -> Self {
        Self { nodes, symbols, all: frames == Frames::All, halves: FxHashMap::default() }
    }

    /// The name of time in the kernel below this place: `[read]`, or `[system]` where the call is not known.
    pub(super) fn call_name(&self, place: NodeIndex) -> String {
        named(self.symbols.system_call(&sites(self.nodes, place)))
    }

    /// A thread enters the kernel: the stack that ends in a frame for how. `node`: the place of this in the
    /// trie, and its parent's.
    pub(super) fn enter(
        &mut self,
        b: &mut Builder,
        (node, parent): (usize, NodeIndex),
        boundary: Boundary,
        user: Option<StackId>,
    ) -> StackId {
        let name = match boundary.entry {
            Entry::PageFault => "[page fault]".to_owned(),
            Entry::Interrupt => "[interrupt]".to_owned(),
            Entry::Exception => "[exception]".to_owned(),
            Entry::ThreadStart => "[thread start]".to_owned(),
            Entry::SystemCall if boundary.number.is_some() => named(boundary.number.map(u32::from)),
            Entry::SystemCall | Entry::Unknown => self.call_name(parent),
        };
        self.keep(node, Half { user, works: false });
        let frame = b.kernel_frame(&name);
        b.stack(user, frame)
    }

    /// The stack below `above` with a function of the kernel, as far as it is shown.
    pub(super) fn call(
        &mut self,
        b: &mut Builder,
        (node, parent): (usize, NodeIndex),
        (object, address): (ObjectId, CodeAddr),
        above: Option<StackId>,
    ) -> Option<StackId> {
        let half = self.halves.get(&parent).copied().unwrap_or(Half { user: above, works: false });
        let frame =
            self.symbols.frames(object, address).last().filter(|frame| frame.source != Source::Unknown);
        let Some(frame) = frame else {
            self.keep(node, half);
            return above.or_else(|| Some(system(b, None)));
        };
        let function = KernelFunction::parse(self.symbols.text(frame.function));
        let role = if half.works { Role::Works } else { Role::from_name(function.name) };
        let at = match role {
            Role::Enters(how) => Some(entered(b, half.user, how)),
            Role::Call(call) => Some(entered(b, half.user, &format!("[{call}]"))),
            Role::Passes | Role::Works => above,
        };
        let works = matches!(role, Role::Works | Role::Call(_));
        self.keep(node, Half { works, ..half });
        if !works && !self.all {
            return at.or_else(|| Some(system(b, None)));
        }
        let object = match function.module {
            None => b.kernel(),
            Some(module) => b.object(Object::new(format!("[{module}]"), ObjectKind::Kernel)),
        };
        let function = b.function(object, function.name);
        let frame = b.plain_frame(function);
        Some(b.stack(at, frame))
    }

    fn keep(&mut self, node: usize, half: Half) {
        if let Ok(node) = NodeIndex::try_from(node) {
            self.halves.insert(node, half);
        }
    }
}

/// The stack of a thread in the kernel.
fn entered(b: &mut Builder, user: Option<StackId>, how: &str) -> StackId {
    let frame = b.kernel_frame(how);
    b.stack(user, frame)
}

fn system(b: &mut Builder, user: Option<StackId>) -> StackId {
    entered(b, user, "[system]")
}

fn named(number: Option<u32>) -> String {
    number.and_then(system_call::name).map_or_else(|| "[system]".to_owned(), |name| format!("[{name}]"))
}

#[cfg(test)]
mod tests {
    use super::Role;

    #[test]
    fn glue_says_how_a_thread_came_in() {
        assert_eq!(Role::from_name("asm_exc_page_fault"), Role::Enters("[page fault]"));
        assert_eq!(Role::from_name("asm_sysvec_apic_timer_interrupt"), Role::Enters("[interrupt]"));
        assert_eq!(Role::from_name("entry_SYSCALL_64_after_hwframe"), Role::Passes);
        assert_eq!(Role::from_name("__x64_sys_read"), Role::Call("read"));
        assert_eq!(Role::from_name("vfs_read"), Role::Works);
    }
}
