//! Which events change the state, by name. Names of LTTng 2.x, its predecessors, and perf (`sched:sched_switch`).

/// What an event tells about the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as the events are")]
pub enum Kind {
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
const NAMES: &[(&str, Kind)] = &[
    ("sched_switch", Kind::Switch),
    ("sched_wakeup", Kind::Wakeup),
    ("sched_wakeup_new", Kind::Wakeup),
    ("sched_waking", Kind::Wakeup),
    ("sched_process_fork", Kind::Fork),
    ("sched_process_exit", Kind::Exit),
    ("sched_process_free", Kind::Free),
    ("sched_process_exec", Kind::Exec),
    ("task_rename", Kind::Rename),
    ("exit_syscall", Kind::SyscallExit),
    ("sys_exit", Kind::SyscallExit),
    ("sys_enter", Kind::SyscallEntry),
    ("irq_handler_entry", Kind::IrqEntry),
    ("irq_handler_exit", Kind::IrqExit),
    ("softirq_raise", Kind::SoftIrqRaise),
    ("irq_softirq_raise", Kind::SoftIrqRaise),
    ("softirq_entry", Kind::SoftIrqEntry),
    ("irq_softirq_entry", Kind::SoftIrqEntry),
    ("softirq_exit", Kind::SoftIrqExit),
    ("irq_softirq_exit", Kind::SoftIrqExit),
    ("trap_entry", Kind::TrapEntry),
    ("page_fault_entry", Kind::TrapEntry),
    ("trap_exit", Kind::TrapExit),
    ("page_fault_exit", Kind::TrapExit),
    ("block_rq_issue", Kind::BlockIssue),
    ("block_rq_complete", Kind::BlockComplete),
    ("lttng_statedump_process_state", Kind::DumpProcess),
    ("lttng_statedump_file_descriptor", Kind::DumpFile),
    ("lttng_statedump_interrupt", Kind::DumpInterrupt),
    ("lttng_statedump_block_device", Kind::DumpDevice),
    ("lttng_statedump_end", Kind::DumpEnd),
];

/// Beginnings of names; the rest is the name of the system call.
const PREFIXES: &[(&str, Kind)] = &[
    ("syscall_entry_", Kind::SyscallEntry),
    ("compat_syscall_entry_", Kind::SyscallEntry),
    ("syscall_exit_", Kind::SyscallExit),
    ("compat_syscall_exit_", Kind::SyscallExit),
    ("sys_enter_", Kind::SyscallEntry),
    ("sys_exit_", Kind::SyscallExit),
    ("compat_sys_", Kind::SyscallEntry),
    ("sys_", Kind::SyscallEntry),
];

/// What an event of this name tells, and the name of the system call where it has one. The page fault events of x86 have no
/// exit in the trace: they change no state.
pub fn kind_of(name: &str) -> Option<(Kind, &str)> {
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
        assert_eq!(kind_of("sched:sched_switch"), Some((Kind::Switch, "")));
        assert_eq!(kind_of("syscall_entry_openat"), Some((Kind::SyscallEntry, "openat")));
        assert_eq!(kind_of("sys_read"), Some((Kind::SyscallEntry, "read")));
        assert_eq!(kind_of("exit_syscall"), Some((Kind::SyscallExit, "")));
        assert_eq!(kind_of("sched_stat_runtime"), None);
        assert_eq!(kind_of(""), None);
    }
}
