//! The terminal as a device: its size, and raw mode for `pct top`.
//!
//! A fence: the ioctl that asks for the size and the call that sets signal handlers have no safe wrappers.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd as _};
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Columns that tables may take: what COLUMNS says (also for a pipe or file: who exports it means it), but no
/// more than the terminal has, whose window may have become smaller since; else what the terminal says, else
/// 80; `None` without either.
pub fn columns(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|value| value.parse().ok()).filter(|&n| n > 0);
    let terminal = stream.is_terminal().then(|| size(stream).map(|(columns, _)| columns));
    narrower(said, terminal)
}

/// `terminal`: `None` where there is none, `Some(None)` where it does not know.
fn narrower(said: Option<usize>, terminal: Option<Option<usize>>) -> Option<usize> {
    match (said, terminal) {
        (Some(said), Some(Some(columns))) => Some(said.min(columns)),
        (Some(said), _) => Some(said),
        (None, terminal) => terminal.map(|columns| columns.unwrap_or(80)),
    }
}

/// The terminal in raw mode with the other screen; set back when dropped.
#[derive(Debug)]
pub struct Raw {
    before: nix::sys::termios::Termios,
    /// Keys that came and were not asked for yet.
    typed: VecDeque<u8>,
}

/// Set by the signals that end a program.
static ENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn note(signal: libc::c_int) {
    if signal != libc::SIGWINCH {
        // Relaxed: looked at by the thread that the signal interrupts.
        ENDING.store(true, Ordering::Relaxed);
    }
}

/// Lets SIGTERM and SIGHUP end the picture as q does, and a change of the window's size interrupt the wait for a key.
fn watch_signals() -> nix::Result<()> {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGWINCH] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { sigaction(signal, &action) }?;
    }
    Ok(())
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
        watch_signals()?;
        tcsetattr(&stdin, SetArg::TCSANOW, &raw)?;
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(Self { before, typed: VecDeque::new() })
    }

    /// Shows a whole screen of so many rows: the text (lines end with `\n`) from its top, `footer` in its last row.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn show(&mut self, text: &str, footer: &str, rows: usize) -> std::io::Result<()> {
        let mut screen = String::from("\x1b[H");
        for line in text.lines().take(rows.saturating_sub(1)) {
            screen.push_str(line);
            screen.push_str("\x1b[K\r\n");
        }
        screen.push_str(&format!("\x1b[J\x1b[{rows};1H{footer}\x1b[K"));
        write(&screen)
    }

    /// Waits for a key so long; an escape sequence counts as none, end of input as Ctrl-C.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn key(&mut self, patience: std::time::Duration) -> std::io::Result<Option<u8>> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        if let Some(key) = self.typed.pop_front() {
            return Ok(Some(key));
        }
        let stdin = std::io::stdin();
        let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        let waited = poll(&mut ready, timeout);
        if ENDING.load(Ordering::Relaxed) {
            return Ok(Some(CTRL_C));
        }
        match waited {
            Ok(0) | Err(nix::errno::Errno::EINTR) => return Ok(None),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut bytes = [0; 256];
        let n = nix::unistd::read(&stdin, &mut bytes)?;
        if n == 0 {
            return Ok(Some(CTRL_C));
        }
        self.typed.extend(keys(&bytes[..n]));
        Ok(self.typed.pop_front())
    }
}

/// What Ctrl-C is in raw mode.
pub const CTRL_C: u8 = 3;
const ESCAPE: u8 = 0x1b;

/// The keys in what a terminal sent: sequences (arrows, function keys) are left out, an escape alone is a key.
fn keys(mut sent: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&first, rest)) = sent.split_first() {
        sent = match (first, rest) {
            // Parameters and intermediate octets end with a letter or `~`.
            (ESCAPE, [b'[', sequence @ ..]) => {
                let end = sequence.iter().position(|b| (0x40..=0x7e).contains(b));
                &sequence[end.map_or(sequence.len(), |at| at + 1)..]
            }
            (ESCAPE, [b'O', _, rest @ ..]) => rest,
            _ => {
                out.push(first);
                rest
            }
        };
    }
    out
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

#[cfg(test)]
mod tests {
    use super::{keys, narrower};

    #[test]
    fn tables_are_never_wider_than_the_window() {
        assert_eq!(narrower(Some(200), Some(Some(80))), Some(80));
        assert_eq!(narrower(Some(60), Some(Some(80))), Some(60));
        assert_eq!(narrower(Some(200), None), Some(200));
        assert_eq!(narrower(Some(200), Some(None)), Some(200));
        assert_eq!(narrower(None, Some(None)), Some(80));
        assert_eq!(narrower(None, None), None);
    }

    #[test]
    fn keys_typed_fast_are_all_there_and_arrows_are_none() {
        assert_eq!(keys(b"/shade\r"), b"/shade\r");
        assert_eq!(keys(b"a\x1b[Ab\x1bOPc\x1b[15~d"), b"abcd");
        assert_eq!(keys(b"\x1b"), [0x1b]);
        assert_eq!(keys(b"\x1b[1;"), b"");
    }
}
