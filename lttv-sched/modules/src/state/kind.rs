//! Which events change the state, by name. Names of LTTng 2.x, its predecessors, and perf (`sched:sched_switch`).

/// What an event tells about the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as the events are")]
pub enum KernelEvent {
    Switch,
    Wakeup,
    Fork,
    Exit,
    Free,
    Exec,
    Rename,
    SyscallEntry,
    SyscallExit,
    IrqEntry,
    IrqExit,
    SoftIrqRaise,
    SoftIrqEntry,
    SoftIrqExit,
    TrapEntry,
    TrapExit,
    BlockIssue,
    BlockComplete,
    DumpProcess,
    DumpFile,
    DumpInterrupt,
    DumpDevice,
    DumpEnd,
}

/// Whole names.
const NAMES: &[(&str, KernelEvent)] = &[
    ("sched_switch", KernelEvent::Switch),
    ("sched_wakeup", KernelEvent::Wakeup),
    ("sched_wakeup_new", KernelEvent::Wakeup),
    ("sched_waking", KernelEvent::Wakeup),
    ("sched_process_fork", KernelEvent::Fork),
    ("sched_process_exit", KernelEvent::Exit),
    ("sched_process_free", KernelEvent::Free),
    ("sched_process_exec", KernelEvent::Exec),
    ("task_rename", KernelEvent::Rename),
    ("exit_syscall", KernelEvent::SyscallExit),
    ("sys_exit", KernelEvent::SyscallExit),
    ("sys_enter", KernelEvent::SyscallEntry),
    ("irq_handler_entry", KernelEvent::IrqEntry),
    ("irq_handler_exit", KernelEvent::IrqExit),
    ("softirq_raise", KernelEvent::SoftIrqRaise),
    ("irq_softirq_raise", KernelEvent::SoftIrqRaise),
    ("softirq_entry", KernelEvent::SoftIrqEntry),
    ("irq_softirq_entry", KernelEvent::SoftIrqEntry),
    ("softirq_exit", KernelEvent::SoftIrqExit),
    ("irq_softirq_exit", KernelEvent::SoftIrqExit),
    ("trap_entry", KernelEvent::TrapEntry),
    ("page_fault_entry", KernelEvent::TrapEntry),
    ("trap_exit", KernelEvent::TrapExit),
    ("page_fault_exit", KernelEvent::TrapExit),
    ("block_rq_issue", KernelEvent::BlockIssue),
    ("block_rq_complete", KernelEvent::BlockComplete),
    ("lttng_statedump_process_state", KernelEvent::DumpProcess),
    ("lttng_statedump_file_descriptor", KernelEvent::DumpFile),
    ("lttng_statedump_interrupt", KernelEvent::DumpInterrupt),
    ("lttng_statedump_block_device", KernelEvent::DumpDevice),
    ("lttng_statedump_end", KernelEvent::DumpEnd),
];

/// Beginnings of names; the rest is the name of the system call.
const PREFIXES: &[(&str, KernelEvent)] = &[
    ("syscall_entry_", KernelEvent::SyscallEntry),
    ("compat_syscall_entry_", KernelEvent::SyscallEntry),
    ("syscall_exit_", KernelEvent::SyscallExit),
    ("compat_syscall_exit_", KernelEvent::SyscallExit),
    ("sys_enter_", KernelEvent::SyscallEntry),
    ("sys_exit_", KernelEvent::SyscallExit),
    ("compat_sys_", KernelEvent::SyscallEntry),
    ("sys_", KernelEvent::SyscallEntry),
];

/// What an event of this name tells, and the name of the system call where it has one. The page fault events
/// of x86 have no exit in the trace: they change no state.
pub fn kind_of(name: &str) -> Option<(KernelEvent, &str)> {
    let name = name.rsplit(':').next().unwrap_or(name);
    if let Some((_, kind)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some((*kind, ""));
    }
    PREFIXES.iter().find_map(|(prefix, kind)| Some((*kind, name.strip_prefix(prefix)?)))
}

/// Names of the deferred interrupts, by number, as the kernel has them since version 4.10.
const SOFTIRQS: [&str; 10] =
    ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];

/// The name of a deferred interrupt whose number is given as text; the text itself when the kernel has no such number.
pub fn softirq_name(number: &str) -> &str {
    number.parse().ok().and_then(|number: usize| SOFTIRQS.get(number).copied()).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_tracers_are_known() {
        assert_eq!(kind_of("sched:sched_switch"), Some((KernelEvent::Switch, "")));
        assert_eq!(kind_of("syscall_entry_openat"), Some((KernelEvent::SyscallEntry, "openat")));
        assert_eq!(kind_of("sys_read"), Some((KernelEvent::SyscallEntry, "read")));
        assert_eq!(kind_of("exit_syscall"), Some((KernelEvent::SyscallExit, "")));
        assert_eq!(kind_of("sched_stat_runtime"), None);
        assert_eq!(kind_of(""), None);
    }
}
