//! Why a thread does not run: its state, the system call that it is in, and what the call's descriptor is.
//!
//! Everything is read from `/proc` while the thread waits; nothing is stopped. What cannot be read is not guessed.

use super::waiting::Place;
use crate::memory::Memory;
use pct_format::record::{Blocked, BlockedBy, DescriptorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// What the first argument of a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Argument {
    /// A descriptor.
    Descriptor,
    /// A list of descriptors with events, and the second one its length.
    PollList,
    /// Anything else.
    Other,
}

fn first_argument(call: i64) -> Argument {
    match call {
        libc::SYS_read
        | libc::SYS_write
        | libc::SYS_pread64
        | libc::SYS_pwrite64
        | libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_preadv
        | libc::SYS_pwritev
        | libc::SYS_preadv2
        | libc::SYS_pwritev2
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_connect
        | libc::SYS_shutdown
        | libc::SYS_ioctl
        | libc::SYS_fcntl
        | libc::SYS_flock
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_sync_file_range
        | libc::SYS_getdents64
        | libc::SYS_sendfile
        | libc::SYS_splice
        | libc::SYS_tee
        | libc::SYS_vmsplice => Argument::Descriptor,
        libc::SYS_poll | libc::SYS_ppoll => Argument::PollList,
        _ => Argument::Other,
    }
}

/// Why the thread with this folder in `/proc` waits at `place`.
pub(super) fn of_waiting(folder: &Path, place: &Place, memory: &impl Memory) -> Blocked {
    let Place::Waiting { call, arguments: [first, second], .. } = *place else {
        return Blocked::by(BlockedBy::Unknown);
    };
    let state = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
    let state = state.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    match (state, u16::try_from(call)) {
        (Some('T' | 't'), _) => Blocked::by(BlockedBy::Stopped),
        (_, Ok(number)) => {
            let descriptor = match first_argument(call) {
                Argument::Descriptor => i32::try_from(first & 0xffff_ffff).ok(),
                // Of several it is not known which one is waited for.
                Argument::PollList if second == 1 => memory.half(first).ok().map(u32::cast_signed),
                Argument::PollList | Argument::Other => None,
            };
            let descriptor = descriptor.filter(|number| *number >= 0);
            let descriptor = descriptor.and_then(|number| kind(&folder.join(format!("fd/{number}"))));
            Blocked { by: BlockedBy::SystemCall, call: Some(number), descriptor }
        }
        // In no call, and the kernel sleeps on its behalf.
        (Some('D'), Err(_)) => Blocked::by(BlockedBy::PageFault),
        (_, Err(_)) => Blocked::by(BlockedBy::Unknown),
    }
}

/// What the descriptor behind this link is.
fn kind(link: &Path) -> Option<DescriptorKind> {
    let target = std::fs::read_link(link).ok()?;
    let target = target.to_string_lossy();
    let anonymous = [
        ("anon_inode:[eventfd]", DescriptorKind::EventFd),
        ("anon_inode:[timerfd]", DescriptorKind::TimerFd),
        ("anon_inode:[signalfd]", DescriptorKind::SignalFd),
        ("anon_inode:[eventpoll]", DescriptorKind::Epoll),
        ("anon_inode:inotify", DescriptorKind::Inotify),
        ("socket:[", DescriptorKind::Socket),
        ("pipe:[", DescriptorKind::Pipe),
    ];
    if let Some((_, kind)) = anonymous.iter().find(|(start, _)| target.starts_with(start)) {
        return Some(*kind);
    }
    if ["/dev/pts/", "/dev/tty", "/dev/console"].iter().any(|start| target.starts_with(start)) {
        return Some(DescriptorKind::Terminal);
    }
    // Of the file itself, wherever its name leads by now.
    let Ok(file) = std::fs::metadata(link) else { return Some(DescriptorKind::Other) };
    let file_type = file.file_type();
    Some(if file_type.is_file() || file_type.is_dir() {
        DescriptorKind::File
    } else if file_type.is_fifo() {
        DescriptorKind::Pipe
    } else if file_type.is_char_device() || file_type.is_block_device() {
        DescriptorKind::Device
    } else {
        DescriptorKind::Other
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_what_they_were_opened_as() {
        let of =
            |file: &dyn std::os::fd::AsRawFd| kind(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())));
        let (end, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        assert_eq!(of(&end), Some(DescriptorKind::Socket));
        let (end, _other) = std::io::pipe().expect("a pipe");
        assert_eq!(of(&end), Some(DescriptorKind::Pipe));
        assert_eq!(of(&tempfile::tempfile().expect("a file")), Some(DescriptorKind::File));
        assert_eq!(of(&std::fs::File::open("/dev/null").expect("null")), Some(DescriptorKind::Device));
        assert_eq!(of(&std::fs::File::open("/").expect("a folder")), Some(DescriptorKind::File));
        assert_eq!(kind(Path::new("/proc/self/fd/1000000")), None);
    }
}
