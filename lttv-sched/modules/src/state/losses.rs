//! What losses leave in doubt: from the begin of a loss on, what a CPU is said to do may be wrong, until a
//! switch after the end of the loss says anew who runs there.
//!
//! A loss is of one tracefile, and so of its CPU; one without a CPU puts all of them in doubt. Tracefiles
//! without any event that changes the state put nothing in doubt.

use std::sync::Arc;

use lttv_engine::source::Source;
use lttv_engine::time::Time;

use super::kind::kind_of;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Gap {
    from: Time,
    to: Time,
    cpu: Option<u32>,
}

/// The losses of a trace that put its states in doubt. Cheap to copy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Losses(Option<Arc<[Gap]>>);

impl Losses {
    /// Those of a source.
    pub fn from_source(source: &dyn Source) -> Losses {
        let infos = source.tracefiles();
        let tells = |tracefile: usize| {
            let info = infos.get(tracefile)?;
            info.classes.iter().any(|class| kind_of(&class.name).is_some()).then_some(info.cpu)
        };
        let lost = source.losses().into_iter();
        let mut gaps: Vec<Gap> = lost
            .filter(|loss| loss.to != Time::UNTIMED)
            .filter_map(|loss| {
                Some(Gap { from: loss.from.min(loss.to), to: loss.to, cpu: tells(loss.tracefile)? })
            })
            .collect();
        gaps.sort_by_key(|gap| (gap.from, gap.to));
        Losses((!gaps.is_empty()).then(|| gaps.into()))
    }

    fn of_cpu(&self, cpu: u32) -> impl Iterator<Item = &Gap> {
        let all = self.0.iter().flat_map(|gaps| gaps.iter());
        all.filter(move |gap| gap.cpu.is_none_or(|of| of == cpu))
    }

    /// When the first loss of a CPU began that began in [from, to) and was not over before `from`.
    pub fn between(&self, cpu: u32, from: Time, to: Time) -> Option<Time> {
        self.of_cpu(cpu).find(|gap| gap.from < to && gap.to >= from).map(|gap| gap.from.max(from))
    }

    /// Since when what was known of a CPU at `known` (its last certain word) is in doubt at `now`, if it is.
    pub(super) fn since(&self, cpu: u32, known: Option<Time>, now: Time) -> Option<Time> {
        let open = |gap: &&Gap| gap.from < now && known.is_none_or(|known| known <= gap.to);
        self.of_cpu(cpu).find(open).map(|gap| gap.from)
    }
}
