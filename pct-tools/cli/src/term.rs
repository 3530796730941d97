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

/// The terminal in raw mode with the other screen; set back when dropped.
#[derive(Debug)]
pub struct Raw {
    before: nix::sys::termios::Termios,
}

impl Raw {
    /// Switches over.
    ///
    /// # Errors
    /// When stdin is no terminal.
    pub fn enter() -> anyhow::Result<Self> {
        use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).map_err(|_| anyhow::anyhow!("stdin is no terminal (try --once)"))?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&stdin, SetArg::TCSANOW, &raw)?;
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(Self { before })
    }

    /// Shows a whole screen; lines end with `\n`.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn show(&mut self, text: &str) -> std::io::Result<()> {
        let mut screen = String::from("\x1b[H");
        for line in text.lines() {
            screen.push_str(line);
            screen.push_str("\x1b[K\r\n");
        }
        screen.push_str("\x1b[J");
        write(&screen)
    }

    /// Waits for a key so long; an escape sequence counts as none, end of input as Ctrl-C.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn key(&mut self, patience: std::time::Duration) -> std::io::Result<Option<u8>> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let stdin = std::io::stdin();
        let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        match poll(&mut ready, timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => return Ok(None),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut bytes = [0; 32];
        let n = nix::unistd::read(&stdin, &mut bytes)?;
        Ok(match n {
            0 => Some(3),
            1 => Some(bytes[0]),
            _ if bytes[0] == 0x1b => None,
            _ => Some(bytes[0]),
        })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        let _ = write("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &self.before);
    }
}

fn write(text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
