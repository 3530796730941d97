//! Batches as profiles to a server: one request for each service, version and minute.
//!
//! A batch lies in the spool as a root of tables of its own, so a profile is an answer that [`crate::ask`] gives.
//!
//! Servers cannot tell a profile that comes twice. So it is noted on disk that a request begins, before it does. A
//! request that was noted, and of which nobody knows whether it arrived (the shipper was killed, the connection
//! broke), is not repeated: its time is counted as *unsure*. A server that certainly has not got it gets it again
//! later. What a server refuses is lost, and counted.
//!
//! Invariant: of each batch, accepted + lost + unsure is the sum of its rows.

use super::config::{Config, Outcome, Steps};
use super::receiver::Receiver;
use super::spool::{Batch, Spool};
use super::state::{Pushed, State};
use super::sum::Sum;
use crate::ask::{Answer, Part, ask_with};
use crate::http;
use crate::questions::Which;
use crate::{INTERVAL_S, root};
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

/// How far a batch was pushed; in its folder.
const NAME: &str = "pushed.json";

/// How far a batch was pushed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// The first of the manifest's sums that is not done.
    next: usize,
    /// A request for it was begun, and no answer was noted.
    begun: bool,
    /// Where the time of those before went.
    sums: Pushed,
}

impl Progress {
    fn read(batch: &Batch) -> Result<Self> {
        let path = batch.folder.join(NAME);
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| path.display().to_string()),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(why) => Err(why).with_context(|| path.display().to_string()),
        }
    }

    fn write(&self, batch: &Batch, step: Steps<'_>) -> Result<()> {
        root::replace_file(&batch.folder.join(NAME), &serde_json::to_vec(self)?, step)
    }
}

/// Pushes what of a batch was not pushed. Gives where its time went.
///
/// # Errors
/// When the server does not take it now, or nobody knows whether it took the last profile: then the rest waits.
pub(super) fn push(
    batch: &Batch,
    receiver: &Receiver,
    outcome: &mut Outcome,
    step: Steps<'_>,
) -> Result<Pushed> {
    let mut progress = Progress::read(batch)?;
    while let Some(sum) = batch.manifest.sums.get(progress.next) {
        let answer = profile_of(batch, receiver, sum)?;
        let ns = answer.profile.total().cpu_ns();
        let mut broken = None;
        if progress.begun {
            progress.sums.unsure_ns += ns;
            outcome.unsure_ns += ns;
        } else if !answer.profile.cells.is_empty() {
            progress.begun = true;
            progress.write(batch, step)?;
            let sent = receiver.send(&answer.profile, sum);
            step("a request was answered");
            match sent {
                http::Outcome::Accepted(_) => progress.sums.accepted_ns += ns,
                http::Outcome::Refused(why) => {
                    progress.sums.lost_ns += ns;
                    outcome.lost_ns += ns;
                    outcome.add_problem(format!("refused, so it is lost: {why}"));
                }
                http::Outcome::Later(why) => {
                    progress.begun = false;
                    progress.write(batch, step)?;
                    bail!(why);
                }
                // Of a server that hangs no more than one profile a pass becomes unsure.
                http::Outcome::Unsure(why) => {
                    progress.sums.unsure_ns += ns;
                    outcome.unsure_ns += ns;
                    broken = Some(why);
                }
            }
        }
        // What was lost before it came here was told when the recording was taken.
        progress.sums.lost_ns += u64::try_from(answer.lost_ns).unwrap_or(0);
        progress = Progress { next: progress.next + 1, begun: false, ..progress };
        progress.write(batch, step)?;
        if let Some(why) = broken {
            bail!("{why} (it may have arrived, so it is not sent again)");
        }
    }
    Ok(progress.sums)
}

/// The profile of one of a batch's sums.
fn profile_of(batch: &Batch, receiver: &Receiver, sum: &Sum) -> Result<Answer> {
    let interval_us = INTERVAL_S * 1_000_000;
    let which = Which {
        service: Some(sum.service.clone()),
        release: Some(sum.version.clone()),
        host: Some(sum.host.clone()),
        env: Some(sum.env.clone()),
        kind: sum.kind.clone(),
        from: Some(sum.ts),
        to: Some(sum.ts.saturating_add(interval_us)),
        ..Which::default()
    };
    let mut answer = ask_with(&batch.root(), &which, &[Part::Service], receiver.names);
    if let Some(problem) = answer.problems.pop() {
        bail!("the spool is damaged: {problem}");
    }
    answer.profile.start_realtime_ns = u64::try_from(sum.ts).unwrap_or(0).saturating_mul(1000);
    answer.profile.account.elapsed_ns = u64::try_from(interval_us * 1000).ok();
    Ok(answer)
}

/// Drops the oldest batches until the limits are kept, and counts what of them was not pushed.
///
/// # Errors
/// What the system says.
pub(super) fn drop_batches(
    config: &Config,
    now_ns: u64,
    state: &mut State,
    spool: &mut Spool,
    outcome: &mut Outcome,
    step: Steps<'_>,
) -> Result<()> {
    let limits = config.limits;
    while let Some(batch) = spool.batches.first() {
        let is_old = now_ns.saturating_sub(batch.manifest.made_ns) > limits.age_ns;
        if !is_old && spool.bytes() <= limits.bytes {
            break;
        }
        let progress = Progress::read(batch)?;
        let mut sums = progress.sums;
        for (nth, sum) in batch.manifest.sums.iter().enumerate().skip(progress.next) {
            let ns = u64::try_from(sum.ns).unwrap_or(0);
            if nth == progress.next && progress.begun {
                sums.unsure_ns += ns;
                outcome.unsure_ns += ns;
            } else {
                sums.lost_ns += ns;
                outcome.lost_ns += ns;
            }
        }
        state.finish_batch(&batch.manifest, sums);
        state.write(&config.state, step)?;
        spool.remove_first(step)?;
    }
    Ok(())
}
