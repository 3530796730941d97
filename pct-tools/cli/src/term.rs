//! The terminal as a device: its size, and raw mode for `pct top`.
//!
//! A fence: the one ioctl that asks for the size has no safe wrapper.

use std::os::fd::{AsFd, AsRawFd as _};

mod ioctl {
    nix::ioctl_read_bad!(window_size, libc::TIOCGWINSZ, libc::winsize);
}

/// Columns and rows of the terminal behind a descriptor, if it is one and knows.
pub fn size(stream: &impl AsFd) -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one `winsize` through the pointer, which is a live local of that type.
    unsafe { ioctl::window_size(stream.as_fd().as_raw_fd(), &raw mut size) }.ok()?;
    (size.ws_col > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Columns of the terminal: what COLUMNS says, else what the device says.
pub fn columns(stream: &impl AsFd) -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|value| value.parse().ok()).filter(|&n| n > 0);
    said.or_else(|| size(stream).map(|(columns, _)| columns))
}
