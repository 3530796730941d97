//! What a program is called: for its file's name and for the options that choose programs.
//!
//! The file is named as `pct report` titles the process: an interpreter with its script; a program that was called by
//! another name than its executable's (redis-server is a link to redis-check-rdb, ls one to busybox) by that name.
//! Options choose programs by their executables.
//!
//! Signal safety: system calls.

use crate::process::session::{Seed, last_part};
use crate::sys;
use crate::sys::text::{Buf, matches};

/// What a file's header and name say of the program.
#[derive(Debug)]
pub(crate) struct Names {
    /// Path of the executable.
    pub(crate) exe: Buf<1024>,
    /// What the program was called by, or an interpreter and its script.
    pub(crate) name: Buf<64>,
}

/// Finds the executable's path and name, and the script's. (Not at start: most processes end without a file.)
pub(crate) fn names(seed: &Seed) -> Names {
    let exe = executable();
    let mut name = Buf::new();
    let known = seed.name.bytes();
    name.push(if known.is_empty() { name_of(seed, &exe) } else { known });
    if name.bytes().is_empty() {
        name.push(b"program");
    }
    if is_interpreter(name.bytes()) {
        if let Some(with_script) = scripts_name(seed, name.bytes()) {
            name = with_script;
        }
    } else if let Some(called) = called_by(seed.called(), first_threads_name) {
        name.clear();
        name.push(called);
    }
    Names { exe, name }
}

#[cold]
#[inline(never)]
fn executable() -> Buf<1024> {
    let mut buffer = [0u8; 1024];
    let mut path = Buf::new();
    if let Ok(exe) = sys::readlink(sys::c(c"/proc/thread-self/exe"), &mut buffer) {
        path.push(exe.strip_suffix(b" (deleted)").unwrap_or(exe));
    }
    path
}

/// Without /proc it is what the program was called by, so that its file has a name.
fn name_of<'a>(seed: &'a Seed, exe: &'a Buf<1024>) -> &'a [u8] {
    if exe.bytes().is_empty() { seed.called() } else { last_part(exe.bytes()) }
}

#[cold]
#[inline(never)]
pub(super) fn find(seed: &mut Seed) {
    let exe = executable();
    let mut name = Buf::new();
    name.push(name_of(seed, &exe));
    seed.name = name;
}

/// Programs whose first argument without a dash is what the user thinks of as the program.
const INTERPRETERS: &[&[u8]] = &[
    b"python*", b"perl*", b"ruby*", b"bash", b"dash", b"sh", b"zsh", b"ksh*", b"node", b"nodejs", b"php*",
    b"lua*", b"guile*", b"awk", b"gawk", b"mawk",
];

fn is_interpreter(name: &[u8]) -> bool {
    INTERPRETERS.iter().any(|pattern| matches(pattern, name))
}

/// `python3-script.py`: an interpreter is named with its script.
fn scripts_name(seed: &Seed, name: &[u8]) -> Option<Buf<64>> {
    let script = seed.argv.bytes().split(|b| *b == 0).nth(1).map(last_part).unwrap_or(&[]);
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'+');
    if script.is_empty() || script.starts_with(b"-") || script.len() > 40 || !script.iter().all(plain) {
        return None;
    }
    let mut full = Buf::<64>::new();
    full.push(name).push(b"-").push(script);
    (!full.is_cut()).then_some(full)
}

/// The name that the program was called by, if `title`, the last part of its first argument, tells it. A program
/// may have put a title of its own there, which may begin with its name (`redis-server *:6379`): the kernel named
/// the first thread so at exec, in at most 15 octets.
fn called_by(title: &[u8], first_thread: impl FnOnce() -> Buf<16>) -> Option<&[u8]> {
    if is_plain_name(title) {
        return Some(title);
    }
    let first = title.split(|byte| *byte == b' ').next().filter(|first| is_plain_name(first))?;
    (first.get(..first.len().min(15)) == Some(first_thread().bytes())).then_some(first)
}

/// Whether this is a program's name, not a title that the program gave itself.
fn is_plain_name(word: &[u8]) -> bool {
    let is_name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+');
    word.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && word.iter().all(is_name_byte)
}

fn first_threads_name() -> Buf<16> {
    let mut buffer = [0u8; 16];
    let mut name = Buf::new();
    if let Ok(text) = sys::read_file(sys::c(c"/proc/self/comm"), &mut buffer) {
        name.push(text.strip_suffix(b"\n").unwrap_or(text));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_the_program_and_a_title_only_if_the_kernel_knows_its_first_word() {
        let called = |title: &str| {
            let first_thread = || {
                let mut name = Buf::new();
                name.push(b"redis-server");
                name
            };
            called_by(title.as_bytes(), first_thread)
                .map(|name| String::from_utf8(name.to_vec()).expect("text"))
        };
        assert_eq!(called("redis-server").as_deref(), Some("redis-server"));
        assert_eq!(called("other").as_deref(), Some("other"));
        assert_eq!(called("redis-server *:6379").as_deref(), Some("redis-server"));
        for title in
            ["waits for work", "nginx: worker process", "-zsh", "", " ", "..", "a/b", "redis-server:"]
        {
            assert_eq!(called(title), None, "{title:?}");
        }
    }
}
