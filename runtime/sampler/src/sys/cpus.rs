//! The processors that are online.

use core::sync::atomic::{AtomicU32, Ordering};

use super::text::{parse_number, split_once};
use super::{Result, c, read_file};

/// The list of the CPUs that are online, as the kernel writes it.
///
/// # Errors
/// The kernel does not say: there is no /sys.
pub fn read_online(buffer: &mut [u8]) -> Result<&[u8]> {
    read_file(c(c"/sys/devices/system/cpu/online"), buffer)
}

/// How many CPUs there are: asked for once, at the first call. `None`: the kernel does not say (there is no /sys).
#[must_use]
pub fn count_online() -> Option<usize> {
    const NOT_ASKED: u32 = 0;
    const UNKNOWN: u32 = u32::MAX;
    static COUNT: AtomicU32 = AtomicU32::new(NOT_ASKED);
    let mut count = COUNT.load(Ordering::Relaxed);
    if count == NOT_ASKED {
        let mut buffer = [0u8; 512];
        let online = read_online(&mut buffer).map_or(0, |online| numbers(online).count());
        count = if online == 0 { UNKNOWN } else { online as u32 };
        COUNT.store(count, Ordering::Relaxed);
    }
    (count != UNKNOWN).then_some(count as usize)
}

/// The numbers of a list such as `0-3,8,10-11`; what is no number ends it.
pub fn numbers(list: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let list = list.trim_ascii();
    list.split(|b| *b == b',')
        .map_while(|item| {
            let (first, last) = split_once(item, b'-');
            let first = u32::try_from(parse_number(first)?).ok()?;
            let last = last.map_or(Some(first), |last| u32::try_from(parse_number(last)?).ok())?;
            Some(first..=last.min(first.saturating_add(1 << 16)))
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        let read = |list: &str| numbers(list.as_bytes()).collect::<Vec<_>>();
        assert_eq!(read("0\n"), [0]);
        assert_eq!(read("0-3\n"), [0, 1, 2, 3]);
        assert_eq!(read("0,2-3,7\n"), [0, 2, 3, 7]);
        assert_eq!(read(""), [0u32; 0]);
        assert_eq!(read("x-4"), [0u32; 0]);
        assert_eq!(read("1,x"), [1]);
        assert!(read("0-4294967295").len() <= (1 << 16) + 1);
    }
}
