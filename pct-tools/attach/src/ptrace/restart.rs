//! System calls that any stop cuts short with a bare EINTR, whoever stops the thread: made again, the target never knows.
//!
//! Most calls are restarted by the kernel when a thread goes on after a stop. These are not (signal(7), "Interruption of system
//! calls and library functions by stop signals"), and programs that handle no signals do not expect EINTR from them.

use super::sys::{Regs, Tid};

const BARE_EINTR: &[i64] = &[
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    // sockets with SO_RCVTIMEO or SO_SNDTIMEO
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
];

/// The registers with which a stopped thread makes its interrupted call again; `None` when that is not needed, or when a
/// signal waits for it: the EINTR is then its own. A finite timeout of the call starts anew.
pub fn again(tid: Tid, regs: &Regs, mask: Option<u64>) -> Option<Regs> {
    let cut_short =
        regs.rax as i64 == -i64::from(libc::EINTR) && BARE_EINTR.contains(&(regs.orig_rax as i64));
    if !cut_short || has_pending(tid, mask) {
        return None;
    }
    let mut regs = *regs;
    regs.rax = regs.orig_rax;
    regs.rip = regs.rip.wrapping_sub(2);
    regs.orig_rax = u64::MAX;
    Some(regs)
}

/// A signal waits for the thread that it does not block (`mask`, or what the kernel says).
fn has_pending(tid: Tid, mask: Option<u64>) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let set = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key)).unwrap_or("0");
        u64::from_str_radix(line.trim(), 16).unwrap_or(0)
    };
    (set("SigPnd:") | set("ShdPnd:")) & !mask.unwrap_or_else(|| set("SigBlk:")) != 0
}
