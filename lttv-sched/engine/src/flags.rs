//! What a viewer keeps of a request that the engine owns: how urgent it is, a flag that ends it, and a gate that
//! holds it back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// How urgent a request is. A better class is served first; a worse one may only share what is read for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Class {
    /// On screen.
    #[default]
    Visible,
    /// Just outside the screen.
    Near,
    /// Might be wanted.
    Prefetch,
}

/// Lets a viewer's hooks end its request after the current event. Clones are the same flag.
#[derive(Clone, Default, Debug)]
pub struct StopFlag(Arc<StopInner>);

#[derive(Default, Debug)]
struct StopInner {
    set: AtomicBool,
    attention: OnceLock<Arc<AtomicBool>>,
}

impl StopFlag {
    /// A flag that is not set.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Ends the request after the current event.
    pub fn set(&self) {
        // Release, paired with Acquire in `is_set`: whoever sees the flag sees what was done before it was set.
        self.0.set.store(true, Ordering::Release);
        if let Some(attention) = self.0.attention.get() {
            attention.store(true, Ordering::Release);
        }
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    pub(crate) fn attach(&self, attention: &Arc<AtomicBool>) {
        // If requests of two engines share a flag, the second engine checks it at chunk borders only.
        let _ = self.0.attention.set(attention.clone());
    }
}

/// Lets a slow client hold back its own request and no other: a request whose gate is closed is not served. An
/// event hook that closes the gate should return [`Flow::Stop`](crate::hooks::Flow::Stop), so that no further event
/// comes.
#[derive(Clone, Default, Debug)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// An open gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Holds the request back from the next chunk on.
    pub fn close(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Lets the request go on. Step the engine again after it.
    pub fn open(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether the request is held back.
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
