//! A thread that owns an engine and takes commands over a channel.
//!
//! Between two chunks all commands that have arrived are applied. A command also ends the running chunk after the
//! current event, which changes no result. While there is nothing to do, the thread sleeps on the channel. A command's
//! closure decides where its answer goes. A client that may be slow uses an [`Outbox`], which holds back its own
//! request and no other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam::channel::{Receiver, Sender, TryRecvError, bounded, unbounded};

use crate::engine::{Budget, Engine, Progress};
use crate::request::Gate;

type Command = Box<dyn FnOnce(&mut Engine) + Send>;

/// The engine's thread has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the engine has been shut down")]
pub struct Gone;

/// Sends commands to an engine that runs in its own thread. Clones reach the same engine.
#[derive(Clone)]
pub struct Handle {
    commands: Sender<Command>,
    attention: Arc<AtomicBool>,
}

impl Handle {
    /// Sends a command that the engine applies soon, between two chunks. Does not wait for it.
    ///
    /// # Errors
    /// The engine has been shut down.
    pub fn send(&self, command: impl FnOnce(&mut Engine) + Send + 'static) -> Result<(), Gone> {
        self.commands.send(Box::new(command)).map_err(|_| Gone)?;
        // Release, after the command was queued: whoever sees the flag finds the command.
        self.attention.store(true, Ordering::Release);
        Ok(())
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    /// The engine has been shut down.
    pub fn call<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Engine) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let (answer, answers) = bounded(1);
        self.send(move |engine| {
            // If the caller is gone, nobody wants the answer.
            let _ = answer.send(command(engine));
        })?;
        answers.recv().map_err(|_| Gone)
    }
}

/// An engine that runs in its own thread. Dropping it shuts the engine down and waits for the thread.
pub struct Driver {
    handle: Option<Handle>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Engine>>,
}

impl Driver {
    /// Starts the thread. `watch` is called after each step that did something.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn spawn(engine: Engine, watch: impl FnMut(&Progress) + Send + 'static) -> std::io::Result<Driver> {
        let (commands, queue) = unbounded();
        let handle = Handle { commands, attention: engine.attention() };
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::Builder::new()
            .name("lttv-engine".into())
            .spawn(move || run(engine, &queue, &asked, watch))?;
        Ok(Driver { handle: Some(handle), stop, thread: Some(thread) })
    }

    /// A handle for sending commands.
    ///
    /// # Panics
    /// Never: the handle is only removed when the driver is shut down.
    pub fn handle(&self) -> Handle {
        self.handle.clone().expect("a driver has its handle until it is shut down")
    }

    /// Ends the thread after the running chunk and returns the engine, unless the thread panicked.
    pub fn shutdown(mut self) -> Option<Engine> {
        self.join()
    }

    fn join(&mut self) -> Option<Engine> {
        // Release, paired with Acquire in the thread's loop.
        self.stop.store(true, Ordering::Release);
        if let Some(handle) = self.handle.take() {
            // Wakes the thread if it sleeps.
            let _ = handle.send(|_| {});
        }
        self.thread.take()?.join().ok()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.join();
    }
}

fn run(
    mut engine: Engine,
    queue: &Receiver<Command>,
    stop: &AtomicBool,
    mut watch: impl FnMut(&Progress),
) -> Engine {
    loop {
        loop {
            if stop.load(Ordering::Acquire) {
                return engine;
            }
            match queue.try_recv() {
                Ok(command) => command(&mut engine),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return engine,
            }
        }
        let progress = engine.step(Budget::chunks(1));
        let did = progress.foreground_chunks + progress.background_chunks > 0;
        if did || !progress.ended.is_empty() || !progress.diagnostics.is_empty() {
            watch(&progress);
        }
        if progress.idle {
            match queue.recv() {
                Ok(command) => command(&mut engine),
                Err(_) => return engine,
            }
        }
    }
}

/// A bounded queue from an event hook to a client. When it is full, the request's gate closes. When the client
/// has taken half of its items, the gate opens and the engine is woken.
pub struct Outbox<T> {
    inner: Arc<OutboxInner<T>>,
}

struct OutboxInner<T> {
    queue: Mutex<VecDeque<T>>,
    capacity: usize,
    gate: Gate,
    handle: Handle,
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Outbox { inner: self.inner.clone() }
    }
}

impl<T: Send> Outbox<T> {
    /// A queue with a capacity of at least one. Its gate must be given to the request.
    pub fn new(capacity: usize, handle: Handle) -> Outbox<T> {
        let queue = Mutex::new(VecDeque::new());
        let inner = OutboxInner { queue, capacity: capacity.max(1), gate: Gate::new(), handle };
        Outbox { inner: Arc::new(inner) }
    }

    /// The gate that the request must have.
    pub fn gate(&self) -> Gate {
        self.inner.gate.clone()
    }

    /// For the hook: queues an item. Returns true if the queue is now full; then return [`crate::hooks::Flow::Stop`].
    #[must_use]
    pub fn push(&self, item: T) -> bool {
        let mut queue = self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(item);
        let full = queue.len() >= self.inner.capacity;
        if full {
            // Under the lock, so that `take_oldest` cannot open the gate in between.
            self.inner.gate.close();
        }
        full
    }

    /// For the client: removes and returns the oldest item, if there is one.
    pub fn take_oldest(&self) -> Option<T> {
        let mut queue = self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let item = queue.pop_front();
        if self.inner.gate.is_closed() && queue.len() <= self.inner.capacity / 2 {
            self.inner.gate.open();
            drop(queue);
            // Wakes the engine. If it is gone, nothing more will come.
            let _ = self.inner.handle.send(|_| {});
        }
        item
    }
}
