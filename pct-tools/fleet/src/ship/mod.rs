//! Brings the recordings of continuous sampling into the tables of a root, or to a server ([`push`]): each once, and
//! what never arrives is counted.
//!
//! ```text
//! FOLDER/*.pct --collect--> spool/7.new --rename--> spool/7 --deliver--> ROOT/samples/...
//! ```
//!
//! A recording goes into a *batch*: the finished table files, in a folder of the spool, and a manifest that
//! says which recordings they are of. The rename that puts the batch into the spool is the moment from which
//! the recordings count as taken. Files have names by their contents, so delivering a batch again after a
//! crash writes the same files again. The rename of `state.json` is the moment from which the batch counts as
//! delivered. Killed at any instant, the next pass goes on behind the last of those renames.
//!
//! Lost time is a number in the column `lost` of rows without a stack, so every query can sum it:
//! - samples that the recordings themselves say were lost;
//! - recordings that were deleted before they were taken: the files of a process have numbers, and each says
//!   how much CPU time the process had used when it began, so a gap has a size;
//! - batches whose samples were dropped since the spool was full or they had waited too long: exactly their
//!   sums.
//!
//! Invariants: nothing is read from a file that a process may still write. A batch in the spool never
//! changes; a shorter one takes its place. Only one process works with a state (a lock).

mod collect;
mod config;
mod deliver;
mod push;
mod receiver;
mod spool;
mod state;
mod sum;

pub use collect::segment_id;
pub use config::{Config, Limits, Outcome, Steps, Target};
pub use receiver::{Protocol, ProtocolError, Receiver};

use crate::root;
use anyhow::{Context as _, Result, bail};
use std::fs::TryLockError;
use std::path::Path;

/// Takes what is new and delivers what can be delivered.
///
/// `now_ns` is the time in nanoseconds since 1970.
///
/// # Errors
/// When the state cannot be read or written, or another process ships with it. What concerns one recording or
/// the target is in [`Outcome::problems`].
pub fn pass(config: &Config, now_ns: u64, step: Steps<'_>) -> Result<Outcome> {
    root::make_folder(&config.state)?;
    let _lock = lock(&config.state)?;
    let mut outcome = Outcome::default();
    let mut state = state::State::read(&config.state, config.to.title()?)?;
    let mut spool = spool::Spool::open(&config.state, state.delivered)?;
    let mut taken = state.clone();
    for batch in &spool.batches {
        taken.add_batch(&batch.manifest);
    }
    // Delivering makes room for what is new.
    send(config, &mut state, &mut spool, &mut outcome, step)?;
    loop {
        match config.to {
            Target::Root(_) => {
                let lost_ns = spool.shrink(config.limits, now_ns, step)?;
                outcome.lost_ns = outcome.lost_ns.saturating_add(lost_ns);
            }
            Target::Receiver(_) => {
                push::drop_batches(config, now_ns, &mut state, &mut spool, &mut outcome, step)?;
            }
        }
        if spool.bytes() > config.limits.bytes {
            outcome.problems.push(format!(
                "the spool is full ({}): recordings wait in their folder",
                pct_num::bytes_binary(spool.bytes())
            ));
            break;
        }
        let Some(batch) = collect::next(config, &taken, now_ns, &mut outcome)? else { break };
        let manifest = spool.add(batch, step)?;
        taken.add_batch(&manifest);
        send(config, &mut state, &mut spool, &mut outcome, step)?;
    }
    if state.forget_deleted(&collect::listed(config)) {
        state.write(&config.state, step)?;
    }
    outcome.waiting = spool.batches.len() as u64;
    Ok(outcome)
}

/// Delivers what waits, the oldest first, until that fails.
fn send(
    config: &Config,
    state: &mut state::State,
    spool: &mut spool::Spool,
    outcome: &mut Outcome,
    step: Steps<'_>,
) -> Result<()> {
    while let Some(batch) = spool.batches.first() {
        let delivered = match &config.to {
            Target::Root(root) => deliver::deliver(batch, root, step).map(|()| state::Pushed::default()),
            Target::Receiver(receiver) => push::push(batch, receiver, outcome, step),
        };
        match delivered {
            Ok(pushed) => state.finish_batch(&batch.manifest, pushed),
            Err(why) => {
                outcome.add_problem(format!("{why:#}"));
                return Ok(());
            }
        }
        state.write(&config.state, step)?;
        spool.remove_first(step)?;
        outcome.delivered += 1;
    }
    Ok(())
}

fn lock(folder: &Path) -> Result<std::fs::File> {
    let path = folder.join("lock");
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| path.display().to_string())?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("{}: another process ships with this state", path.display()),
        Err(TryLockError::Error(why)) => Err(why).with_context(|| path.display().to_string()),
    }
}
