//! A program on a terminal of its own: a pseudo terminal, what the program draws on it as lines, and keys.
//!
//! Of the escape sequences those are known that pct uses: go to a place, clear to the end of the line or of the
//! screen. Others (colours, the other screen, the cursor) change no text.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus};

use nix::pty::{Winsize, openpty};

/// A program on a terminal. It is killed when this is dropped.
pub struct Terminal {
    child: Child,
    to: File,
    from: File,
    screen: Screen,
    /// Octets that came and do not end a character or sequence yet.
    rest: Vec<u8>,
}

/// What is on the screen.
struct Screen {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    pictures: u64,
}

impl Terminal {
    /// Starts a program on a terminal of so many columns and rows.
    ///
    /// # Panics
    /// When there is no pseudo terminal, or the program does not start.
    #[must_use]
    pub fn start(command: &mut Command, columns: u16, rows: u16) -> Terminal {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a pseudo terminal");
        let slave = |what| pty.slave.try_clone().unwrap_or_else(|why| panic!("{what}: {why}"));
        command.stdin(slave("stdin")).stdout(slave("stdout")).stderr(slave("stderr"));
        command.env("TERM", "xterm").env_remove("COLUMNS").env("NO_COLOR", "1");
        let child = command.spawn().expect("it starts");
        // The command holds copies of the terminal's other side; with them the end of the program would not be
        // noticed.
        command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let to = File::from(pty.master);
        let from = to.try_clone().expect("a descriptor");
        let screen = Screen { rows: vec![Vec::new(); usize::from(rows)], row: 0, column: 0, pictures: 0 };
        Terminal { child, to, from, screen, rest: Vec::new() }
    }

    /// Types keys.
    ///
    /// # Panics
    /// When the program has ended.
    pub fn keys(&mut self, keys: &str) {
        self.to.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// The screen's text after so many further pictures were drawn whole (a picture ends in the last row).
    ///
    /// # Panics
    /// When the program ends before.
    pub fn pictures(&mut self, more: u64) -> String {
        let wanted = self.screen.pictures + more;
        while self.screen.pictures < wanted {
            assert!(self.read(), "the program has ended:\n{}", self.screen.text());
        }
        self.screen.text()
    }

    /// The first picture from now on that a condition holds of.
    ///
    /// # Panics
    /// When it holds of none of the next hundred.
    pub fn until(&mut self, condition: impl Fn(&str) -> bool) -> String {
        for _ in 0..100 {
            let text = self.pictures(1);
            if condition(&text) {
                return text;
            }
        }
        panic!("no picture of a hundred is as expected; the last one:\n{}", self.screen.text());
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn end(mut self) -> ExitStatus {
        while self.read() {}
        self.child.wait().expect("its status")
    }

    /// Reads what the program wrote; false at its end.
    fn read(&mut self) -> bool {
        let mut octets = [0; 4096];
        // The end of the last program on a terminal is an error (EIO) for its other side.
        let n = self.from.read(&mut octets).unwrap_or(0);
        // Up to the end of a picture at a time, so that none is seen half drawn.
        self.rest.extend_from_slice(&octets[..n]);
        let taken = self.screen.take(&self.rest);
        self.rest.drain(..taken);
        n > 0
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Screen {
    /// Draws what came; how many octets of it were whole.
    fn take(&mut self, octets: &[u8]) -> usize {
        let mut at = 0;
        while let Some(&first) = octets.get(at) {
            let taken = match first {
                0x1b => self.sequence(&octets[at..]),
                b'\r' => {
                    self.column = 0;
                    1
                }
                b'\n' => {
                    self.row += 1;
                    1
                }
                _ => self.character(&octets[at..]),
            };
            if taken == 0 {
                break;
            }
            at += taken;
        }
        at
    }

    fn character(&mut self, octets: &[u8]) -> usize {
        let length = match octets[0] {
            0..0x80 => 1,
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        let Some(character) = octets.get(..length) else { return 0 };
        if let Some(row) = self.rows.get_mut(self.row) {
            if row.len() <= self.column {
                row.resize(self.column + 1, ' ');
            }
            row[self.column] =
                std::str::from_utf8(character).ok().and_then(|c| c.chars().next()).unwrap_or('?');
        }
        self.column += 1;
        length
    }

    fn sequence(&mut self, octets: &[u8]) -> usize {
        if octets.len() < 2 {
            return 0;
        }
        if octets[1] != b'[' {
            return 2;
        }
        let Some(end) = octets[2..].iter().position(|b| (0x40..=0x7e).contains(b)) else { return 0 };
        let words = String::from_utf8_lossy(&octets[2..2 + end]).into_owned();
        let mut numbers = words.split(';').map(|word| word.parse::<usize>().unwrap_or(1).max(1));
        match octets[2 + end] {
            b'H' => {
                self.row = numbers.next().unwrap_or(1) - 1;
                self.column = numbers.next().unwrap_or(1) - 1;
            }
            b'K' => {
                let column = self.column;
                if let Some(row) = self.rows.get_mut(self.row) {
                    row.truncate(column);
                }
                self.pictures += u64::from(self.row + 1 == self.rows.len());
            }
            b'J' => {
                for row in self.rows.iter_mut().skip(self.row) {
                    row.clear();
                }
            }
            _ => {}
        }
        end + 3
    }

    fn text(&self) -> String {
        self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_over_is_gone() {
        let mut screen = Screen { rows: vec![Vec::new(); 3], row: 0, column: 0, pictures: 0 };
        let first =
            "\x1b[?1049h\x1b[Hlive 10 MB\x1b[K\r\n\u{2588}\u{2588} leak\x1b[K\r\n\x1b[J\x1b[3;1Hq quit\x1b[K";
        assert_eq!(screen.take(first.as_bytes()), first.len());
        assert_eq!(
            (screen.text().as_str(), screen.pictures),
            ("live 10 MB\n\u{2588}\u{2588} leak\nq quit\n", 1)
        );
        let second = "\x1b[Hlive\x1b[K\r\n\x1b[J\x1b[3;1Hq\x1b[K";
        // A sequence that is cut waits for its end.
        assert_eq!(screen.take(&second.as_bytes()[..second.len() - 1]), second.len() - 3);
        assert_eq!(screen.take(b"\x1b[K"), 3);
        assert_eq!((screen.text().as_str(), screen.pictures), ("live\n\nq\n", 2));
    }
}
