//! The names of causes for which threads did not run: `[waits: read pipe]`, `[run queue]`.

use crate::model::{RUN_QUEUE, STOPPED};
use pct_format::record::{Blocked, BlockedBy};
use pct_symbols::system_call;

/// Calls of one family have one name: what a thread waits for does not depend on how it asks.
const FAMILIES: &[(&str, &[&str])] = &[
    ("sleep", &["nanosleep", "clock_nanosleep"]),
    ("poll", &["poll", "ppoll"]),
    ("select", &["select", "pselect6"]),
    ("epoll", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    ("child", &["wait4", "waitid"]),
    ("signal", &["pause", "rt_sigsuspend", "rt_sigtimedwait"]),
    ("futex", &["futex", "futex_wait", "futex_waitv", "futex_requeue"]),
    ("read", &["read", "readv", "pread64", "preadv", "preadv2"]),
    ("write", &["write", "writev", "pwrite64", "pwritev", "pwritev2"]),
    ("receive", &["recvfrom", "recvmsg", "recvmmsg"]),
    ("send", &["sendto", "sendmsg", "sendmmsg"]),
    ("accept", &["accept", "accept4"]),
];

/// What tables and trees show.
pub(super) fn name(blocked: Blocked) -> String {
    match blocked.by {
        BlockedBy::RunQueue => RUN_QUEUE.to_owned(),
        BlockedBy::Stopped => STOPPED.to_owned(),
        BlockedBy::PageFault => "[waits: page fault]".to_owned(),
        BlockedBy::Unknown => "[waits: cause not known]".to_owned(),
        BlockedBy::SystemCall => {
            let call = blocked.call.and_then(|number| system_call::name(u32::from(number)));
            let Some(call) = call else { return "[waits: system call]".to_owned() };
            let family = FAMILIES.iter().find(|(_, calls)| calls.contains(&call)).map(|(family, _)| *family);
            let what = family.unwrap_or(call);
            match blocked.descriptor {
                Some(kind) => format!("[waits: {what} {}]", kind.name()),
                None => format!("[waits: {what}]"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_format::record::DescriptorKind;

    #[test]
    fn a_wait_is_named_by_what_is_waited_for() {
        let call = |call, descriptor| name(Blocked { by: BlockedBy::SystemCall, call, descriptor });
        assert_eq!(call(Some(0), Some(DescriptorKind::Pipe)), "[waits: read pipe]");
        assert_eq!(call(Some(230), None), "[waits: sleep]");
        assert_eq!(call(Some(202), None), "[waits: futex]");
        assert_eq!(call(Some(74), Some(DescriptorKind::File)), "[waits: fsync file]");
        assert_eq!(call(Some(60_000), None), "[waits: system call]");
        assert_eq!(name(Blocked::by(BlockedBy::RunQueue)), "[run queue]");
        // Each name of a family is a call's, so a misspelt one is found.
        let calls: Vec<&str> = (0..600).filter_map(system_call::name).collect();
        assert!(FAMILIES.iter().flat_map(|(_, names)| *names).all(|name| calls.contains(name)));
    }
}
