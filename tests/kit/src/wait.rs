//! Waiting for something to happen, instead of sleeping until it should have.

use std::time::{Duration, Instant};

/// How long a test waits for what happens soon when nothing is wrong. Only a fault meets this limit, on a crowded
/// machine too.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Time between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Calls `look` again and again until it returns something.
///
/// # Panics
/// After [`DEADLINE`], with the words `waited a minute for WHAT`.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < DEADLINE, "waited a minute for {what}");
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// [`wait_for`] a condition.
///
/// # Panics
/// As [`wait_for`].
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_until_there_is_something() {
        let mut looks = 0;
        let seen = wait_for("the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(seen, 3);
        wait_until("the truth", || true);
    }
}
