//! What keys change of the picture, and the line that says which keys there are.

use crate::term;
use pct_profile::Pattern;
use pct_profile::text::table::tame;

/// What is on the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Page {
    /// Functions; of memory the lines that allocate.
    Functions,
    /// Threads; of memory processes.
    Parts,
    /// The tree of calls.
    Calls,
}

/// The state that keys change.
pub(super) struct View {
    pub(super) page: Page,
    pub(super) paused: bool,
    /// What is typed behind `/`, while it is typed.
    pub(super) typing: Option<String>,
    pub(super) search: Option<Pattern>,
    pub(super) last_s: u32,
    /// Of memory: ranked by what grows, not by what is live.
    pub(super) by_growth: bool,
}

impl View {
    /// The picture at first: functions of the last seconds.
    pub(super) fn new(last_s: u32) -> Self {
        Self { page: Page::Functions, paused: false, typing: None, search: None, last_s, by_growth: false }
    }
}

/// What a key does; `false` = quit.
pub(super) fn press(view: &mut View, key: u8) -> bool {
    const ESCAPE: u8 = 0x1b;
    if let Some(text) = &mut view.typing {
        match key {
            b'\r' | b'\n' => {
                view.search = Pattern::parse(text).ok().filter(|pattern| !pattern.as_str().is_empty());
                view.typing = None;
            }
            ESCAPE => view.typing = None,
            0x7f | 0x08 => drop(text.pop()),
            term::CTRL_C => return false,
            key if key.is_ascii_graphic() || key == b' ' => text.push(char::from(key)),
            _ => {}
        }
        return true;
    }
    match key {
        b'q' | b'Q' | term::CTRL_C => return false,
        b'f' => view.page = Page::Functions,
        b't' => view.page = Page::Parts,
        b'c' => view.page = Page::Calls,
        b'g' => view.by_growth = !view.by_growth,
        b'p' | b' ' => view.paused = !view.paused,
        b'/' => view.typing = Some(String::new()),
        ESCAPE => view.search = None,
        b'+' => view.last_s = (view.last_s * 2).min(3600),
        b'-' => view.last_s = (view.last_s / 2).max(1),
        _ => {}
    }
    true
}

/// The last line: what is typed, or what can be. `pages` says which keys change what is shown.
pub(super) fn footer(view: &View, pages: &str) -> String {
    match (&view.typing, &view.search) {
        (Some(text), _) => format!("/{text}_"),
        (None, Some(pattern)) => {
            format!("only stacks with /{}/   escape: all   q quit", tame(pattern.as_str()))
        }
        (None, None) => format!(
            "{pages}  p {}  / search  +- {} s  q quit",
            if view.paused { "go on" } else { "pause" },
            view.last_s
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_the_view() {
        let mut v = View::new(5);
        assert!(press(&mut v, b't') && v.page == Page::Parts);
        assert!(press(&mut v, b'/'));
        for key in *b"ma(q" {
            assert!(press(&mut v, key));
        }
        assert!(press(&mut v, 0x7f) && press(&mut v, 0x7f) && press(&mut v, b'\r'));
        assert_eq!(v.search.as_ref().map(Pattern::as_str), Some("ma"));
        assert!(press(&mut v, 0x1b) && v.search.is_none());
        assert!(press(&mut v, b'p') && v.paused);
        assert!(press(&mut v, b'g') && v.by_growth);
        assert!(press(&mut v, b'g') && !v.by_growth);
        assert!(!press(&mut v, b'q'));
        assert!(!press(&mut View::new(5), 3));
    }
}
