//! Why a thread did not run, for samples by the wall clock: the system call in which it waited, and for what.
//!
//! The word is in the stack before (inwards of) the thread's own frames. The sample's PC is still the address in the
//! thread's code.
//!
//! Signal safety: arithmetic only.

use crate::numbered::numbered;

numbered! {
    /// What kept a thread from running.
    BlockedBy {
        /// It waited in a system call.
        SystemCall = 1 "system call",
        /// It waited for a page of memory.
        PageFault = 2 "page fault",
        /// A signal or a debugger had stopped it.
        Stopped = 3 "stopped",
        /// It was ready to run but had no processor.
        RunQueue = 4 "run queue",
        /// The writer could not find out.
        Unknown = 5 "not known",
    }
}

numbered! {
    /// The kind of a descriptor.
    DescriptorKind {
        /// One end of a pipe.
        Pipe = 1 "pipe",
        /// A socket of any family.
        Socket = 2 "socket",
        /// A regular file or a folder.
        File = 3 "file",
        /// A terminal.
        Terminal = 4 "terminal",
        /// `eventfd`.
        EventFd = 5 "eventfd",
        /// `timerfd`.
        TimerFd = 6 "timerfd",
        /// `signalfd`.
        SignalFd = 7 "signalfd",
        /// `epoll`.
        Epoll = 8 "epoll",
        /// `inotify`.
        Inotify = 9 "inotify",
        /// A device.
        Device = 10 "device",
        /// Anything else.
        Other = 11 "descriptor",
    }
}

/// Why a thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocked {
    /// The cause.
    pub by: BlockedBy,
    /// Number of the system call, if it was in a known one.
    pub call: Option<u16>,
    /// Kind of the call's descriptor, if it has one that could be examined.
    pub descriptor: Option<DescriptorKind>,
}

impl Blocked {
    const DESCRIPTOR_AT: u32 = 8;
    const CALL_AT: u32 = 16;

    /// A cause without a system call.
    #[must_use]
    pub const fn by(by: BlockedBy) -> Self {
        Blocked { by, call: None, descriptor: None }
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        let call = match self.call {
            // The last number is no call.
            Some(number) => number.wrapping_add(1) as u64,
            None => 0,
        };
        let descriptor = match self.descriptor {
            Some(kind) => kind as u64,
            None => 0,
        };
        self.by as u64 | descriptor << Self::DESCRIPTOR_AT | call << Self::CALL_AT
    }

    #[inline]
    pub(super) const fn from_bits(bits: u64) -> Self {
        let by = match BlockedBy::from_number(bits & 0xff) {
            Some(by) => by,
            None => BlockedBy::Unknown,
        };
        let octets = (bits >> Self::CALL_AT).to_le_bytes();
        let number = u16::from_le_bytes([octets[0], octets[1]]);
        let descriptor = DescriptorKind::from_number(bits >> Self::DESCRIPTOR_AT & 0xff);
        Blocked { by, call: number.checked_sub(1), descriptor }
    }
}
