//! Programs that set their own action for SIGTRAP while their threads are sampled by traps.

use crate::run::{Run, compiled};

/// The trap of an event that has ended still comes, in a thread that lost its processor on the way out of the kernel:
/// with the default action it would kill, and a handler of the program's would take it for its own.
#[test]
fn a_program_that_sets_its_own_action_for_traps_gets_none_of_pcts() {
    let Some(program) = compiled("traps") else { return };
    for way in ["handler", "plain", "once", "ignored", "restored", "waited"] {
        for _ in 0..8 {
            drop(Run::new(&program, &[way], "clock=sigtrap,hz=10000", |_| ()).ok());
        }
    }
}
