//! Room for pct itself where the stack's size is limited (`ulimit -s 64`): the limit is meant for the program.
//!
//! The other thread waits in `join` with all signals blocked, so the one that works is alone in every respect
//! that `fork` and signals care about; it has the mask that pct was started with.

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::SigSet;

/// Below this size of its stack pct takes another one.
const ENOUGH: usize = 4 << 20;

/// Calls `work` on a stack that is large enough; on this one if there is no memory for another.
pub fn with_room<T: Send>(work: fn() -> T) -> T {
    if getrlimit(Resource::RLIMIT_STACK).is_ok_and(|(soft, _)| soft >= ENOUGH as u64) {
        return work();
    }
    let before = SigSet::thread_get_mask().unwrap_or_else(|_| SigSet::empty());
    let _ = SigSet::all().thread_block();
    let done = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("pct".into()).stack_size(ENOUGH);
        let started = builder.spawn_scoped(scope, move || {
            let _ = before.thread_set_mask();
            work()
        });
        Some(started.ok()?.join())
    });
    match done {
        Some(Ok(answer)) => answer,
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => {
            let _ = before.thread_set_mask();
            work()
        }
    }
}
