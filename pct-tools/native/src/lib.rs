//! Deep profiles of native programs, from stack samples.
//!
//! ```text
//! Profile (stacks, cells) --graph--> folded context graph --deep---> DeepData      \
//!                         --facts--> shares, tree of stacks, lines, account        -> Made
//! ```
//!
//! [`graph`] folds recursion by the creator rule, which is a pure function of the call path: so graphs of
//! threads, processes and runs merge by plain union, whatever the order. [`mod@deep`] decides the kinds of
//! call sites and makes the data; [`facts`] is what the recording knows beyond it, also for the `.native`
//! file beside the data.
//!
//! Quanta are the samples' weights, nanoseconds or amounts in another unit ([`mod@measured`]), so that their sums are
//! equal, exactly.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod deep;
pub mod facts;
pub mod graph;
pub mod measured;
pub mod over_time;
pub mod reading;
pub mod waits;

pub use deep::{NativeError, deep};
pub use graph::{Apart, Graph};

use pct_deep::native::{Allocated, Recorded};
use pct_deep::{Compensation, DeepData, DeepError};
use pct_profile::flat::Order;
use pct_profile::fold::{Owners, Whose};
use pct_profile::memory::MemoryCell;
use pct_profile::model::Cell;
use pct_profile::{Flat, Profile, Split};

/// A deep profile made of a recording.
#[derive(Debug)]
pub struct Made {
    /// The data. Its allocations are those since the start.
    pub data: DeepData,
    /// What the recording knows beyond it.
    pub recorded: Recorded,
    /// The same contexts and numbers with what is live, and with what was live at the peak, as their
    /// allocations; none if allocations were not sampled.
    pub sisters: Option<Sisters>,
}

/// Two more views of the same graph.
#[derive(Debug)]
pub struct Sisters {
    /// What is live at the end.
    pub live: DeepData,
    /// What was live when most was.
    pub peak: DeepData,
}

/// Makes a deep profile of these cells, with at most `most` call edges and one more per procedure.
///
/// # Errors
/// When there is no sample, or a table is too large for the format.
pub fn make(profile: &Profile, cells: &[Cell], apart: Apart, most: usize) -> Result<Made, NativeError> {
    make_with(profile, cells, &Beside::default(), apart, most)
}

/// What is known of a profile beside its cells.
#[derive(Debug, Default)]
pub struct Beside {
    /// What its allocations are: estimates in whole numbers, whose sums are exact.
    pub memory: Vec<MemoryCell>,
    /// The profile has the rows of runtimes' own work ([`add_own_work`](pct_profile::fold::add_own_work)), so that
    /// owners can be counted.
    pub has_own_work: bool,
}

/// [`make`], with what is known beside the cells.
///
/// # Errors
/// When there is no sample, or a table is too large for the format.
pub fn make_with(
    profile: &Profile,
    cells: &[Cell],
    beside: &Beside,
    apart: Apart,
    most: usize,
) -> Result<Made, NativeError> {
    std::thread::scope(|scope| {
        let stacks = scope.spawn(|| facts::stacks(profile, cells));
        let owners = scope.spawn(|| match beside.has_own_work {
            true => {
                let owners = Owners::from_profile(profile);
                Flat::count_found(profile, &owners, cells, Whose::Owner, Split::Merged, Order::Own)
            }
            false => Flat::default(),
        });
        let mut graph = Graph::new();
        graph.add_apart(profile, cells, apart, most);
        graph.add_memory(profile, &beside.memory, most);
        let (data, procs) = deep::deep_and_procs(profile, &graph, Allocated::All)?;
        let sisters = if beside.memory.is_empty() {
            None
        } else {
            let of = |view| deep::deep_and_procs(profile, &graph, view).map(|(data, _)| data);
            Some(Sisters { live: of(Allocated::Live)?, peak: of(Allocated::Peak)? })
        };
        let stacks = stacks.join().expect("walking stacks does not panic");
        let owners = owners.join().expect("counting does not panic");
        let mut recorded = facts::facts(profile, cells, &graph, &procs, stacks, &owners);
        recorded.waits = waits::waits(profile, &procs);
        recorded.over_time = over_time::over_time(profile);
        if sisters.is_some() {
            recorded.side.allocs_known = true;
            recorded.side.memory = Some(Allocated::All);
        }
        Ok(Made { data, recorded, sisters })
    })
}

impl Made {
    /// The same with another view of memory as its allocations. Without memory it stays as it is.
    #[must_use]
    pub fn with_memory(mut self, memory: Allocated) -> Made {
        let Some(sisters) = self.sisters.take() else { return self };
        match memory {
            Allocated::All => {}
            Allocated::Live => self.data = sisters.live,
            Allocated::Peak => self.data = sisters.peak,
        }
        self.recorded.side.memory = Some(memory);
        self
    }

    /// The data preprocessed, as a native program's.
    ///
    /// # Errors
    /// None for data that was made here.
    pub fn profile(self, rule: Compensation) -> Result<pct_deep::Profile, DeepError> {
        let mut profile = pct_deep::Profile::of_creator_rule(self.data, rule)?;
        profile.set_native_facts(&self.recorded.side);
        Ok(profile)
    }
}
