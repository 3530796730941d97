//! Moves by a number of events instead of a time: for lists of events that scroll.

use crate::context::TracesetContext;
use crate::engine::{CommandError, Engine};
use crate::event::Event;
use crate::ids::TracesetId;
use crate::position::Position;
use crate::time::Time;

/// Decides which events count. A filter for all events always returns true.
pub type Filter<'f> = dyn FnMut(&Event<'_>) -> bool + 'f;

/// Called now and then: whether to go on. False stops the search.
pub type Check<'f> = dyn FnMut() -> bool + 'f;

/// Events between two calls of a [`Check`].
const CHECK_EVERY: u64 = 1024;

/// Size of the first step back in time if nothing better is known, in ns: one second.
pub const FIRST_OFFSET_NS: i64 = 1_000_000_000;

/// Where a move ended and how many events it passed.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The event that was reached is the next one of this position.
    pub position: Position,
    /// Events on the way that passed the filter. Fewer than requested at a border or if the check stopped the search.
    pub found: u64,
}

impl Engine {
    /// Goes forward from `from` past `n` events that pass the filter. No hook is called, and requests are not affected.
    ///
    /// # Errors
    /// There is no such traceset, or the position is of another one.
    pub fn seek_n_forward(
        &mut self,
        traceset: TracesetId,
        from: &Position,
        n: u64,
        filter: &mut Filter<'_>,
        check: &mut Check<'_>,
    ) -> Result<Moved, CommandError> {
        self.browse(traceset, |context| {
            context.seek_position(from)?;
            let found = walk(context, None, n, filter, check);
            Ok(Moved { position: context.position(), found })
        })
    }

    /// Goes back from `from` to the `n`th event before it that passes the filter. Searches back by
    /// `first_offset` ns (at least 1), then twice as far each time. No hook is called, and requests are not affected.
    ///
    /// # Errors
    /// There is no such traceset, or the position is of another one.
    pub fn seek_n_backward(
        &mut self,
        traceset: TracesetId,
        from: &Position,
        n: u64,
        first_offset: i64,
        filter: &mut Filter<'_>,
        check: &mut Check<'_>,
    ) -> Result<Moved, CommandError> {
        self.browse(traceset, |context| {
            from.check(&context.fingerprint)?;
            if n == 0 {
                return Ok(Moved { position: from.clone(), found: 0 });
            }
            let span = context.time_span();
            let end = from.time().or(span.map(|span| span.1.saturating_add(1))).unwrap_or(Time::MAX);
            let mut offset = first_offset.max(1);
            let mut stopped = false;
            loop {
                let start = end.saturating_add(offset.saturating_neg());
                let at_start = span.is_none_or(|span| start <= span.0);
                let start = if at_start { Time::MIN } else { start };
                context.seek_time(start);
                let mut going = || {
                    stopped |= !check();
                    !stopped
                };
                // The events are counted first and then walked again, so that no position is stored for events that are
                // skipped.
                let found = walk(context, Some(from), u64::MAX, filter, &mut going);
                if found >= n || at_start || stopped {
                    context.seek_time(start);
                    walk(context, Some(from), found.saturating_sub(n), filter, &mut || true);
                    skip_to_match(context, from, filter);
                    return Ok(Moved { position: context.position(), found: found.min(n) });
                }
                offset = offset.saturating_mul(2);
            }
        })
    }

    fn browse<R>(
        &mut self,
        traceset: TracesetId,
        work: impl FnOnce(&mut TracesetContext) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let traceset = self.tracesets.get_mut(&traceset).ok_or(CommandError::NoTraceset)?;
        let result = work(&mut traceset.context);
        // The models were not updated, so the next request must seek.
        traceset.context.placed = false;
        result
    }
}

/// Steps over events, up to `end`, until `n` have passed the filter. Returns how many have.
fn walk(
    context: &mut TracesetContext,
    end: Option<&Position>,
    n: u64,
    filter: &mut Filter<'_>,
    check: &mut Check<'_>,
) -> u64 {
    let (mut found, mut seen) = (0, 0u64);
    while found < n && !end.is_some_and(|end| context.is_at_or_after(end)) {
        let Some(passes) = context.with_next(|event| filter(event)) else { break };
        seen += 1;
        if seen.is_multiple_of(CHECK_EVERY) && !check() {
            break;
        }
        found += u64::from(passes);
        context.step_over();
    }
    found
}

/// Steps over events that do not pass the filter, up to `end`.
fn skip_to_match(context: &mut TracesetContext, end: &Position, filter: &mut Filter<'_>) {
    while !context.is_at_or_after(end) && context.with_next(|event| filter(event)) == Some(false) {
        context.step_over();
    }
}

impl TracesetContext {
    /// Calls `look` with the next event.
    fn with_next<R>(&self, look: impl FnOnce(&Event<'_>) -> R) -> Option<R> {
        let (_, slot) = self.merge.least()?;
        let slot = &self.slots[slot as usize];
        slot.head()?;
        Some(look(&slot.event()))
    }

    /// Advances past the next event without any hook.
    fn step_over(&mut self) {
        let Some((_, index)) = self.merge.least() else { return };
        let slot = &mut self.slots[index as usize];
        let time = slot.key;
        let result = slot.of.cursor.advance();
        slot.take_result(result, Some(time), &mut self.diagnostics);
        self.floor = Some(time);
        match slot.head() {
            Some(_) => self.merge.requeue_least(slot.key),
            None => self.merge.pop_least(),
        }
    }
}
