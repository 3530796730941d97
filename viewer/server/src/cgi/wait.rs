//! Waits for descriptors until a deadline.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

/// Time left, rounded up, in units of `poll`.
pub(super) fn left(deadline: Instant) -> PollTimeout {
    let ms = deadline.saturating_duration_since(Instant::now()).as_millis() + 1;
    PollTimeout::try_from(ms.min(60_000)).unwrap_or(PollTimeout::MAX)
}

/// Waits until `fd` is ready for `events`. Returns false if the deadline has passed.
pub(super) fn ready(fd: &impl AsFd, events: PollFlags, deadline: Instant) -> io::Result<bool> {
    loop {
        let mut fds = [PollFd::new(fd.as_fd(), events)];
        match poll(&mut fds, left(deadline)) {
            Ok(0) if Instant::now() >= deadline => return Ok(false),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(e) => return Err(e.into()),
        }
    }
}
