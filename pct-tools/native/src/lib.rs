//! Deep profiles of native programs, from stack samples.
//!
//! ```text
//! Profile (stacks, cells) --graph--> folded context graph --deep---> DeepData      \
//!                         --facts--> shares, tree of stacks, lines, account        -> Made
//! ```
//!
//! [`graph`] folds recursion by the creator rule, which is a pure function of the call path: so graphs of threads, processes
//! and runs merge by plain union, whatever the order. [`mod@deep`] decides the kinds of call sites and makes the data; [`facts`]
//! is what the recording knows beyond it, also for the `.native` file beside the data.
//!
//! The unit of quanta is the nanosecond, so that the sum of quanta is the sum of the samples' weights, exactly.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod deep;
pub mod facts;
pub mod graph;
pub mod reading;

pub use deep::{NativeError, deep};
pub use graph::{Apart, Graph};

use pct_deep::native::Recorded;
use pct_deep::{Compensation, DeepData, DeepError};
use pct_profile::Profile;
use pct_profile::model::Cell;

/// A deep profile made of a recording.
#[derive(Debug)]
pub struct Made {
    /// The data.
    pub data: DeepData,
    /// What the recording knows beyond it.
    pub recorded: Recorded,
}

/// Makes a deep profile of these cells, with at most `most` call edges and one more per procedure.
///
/// # Errors
/// When there is no sample, or a table is too large for the format.
pub fn make(profile: &Profile, cells: &[Cell], apart: Apart, most: usize) -> Result<Made, NativeError> {
    std::thread::scope(|scope| {
        let stacks = scope.spawn(|| facts::stacks(profile, cells));
        let mut graph = Graph::new();
        graph.add_apart(profile, cells, apart, most);
        let (data, procs) = deep::deep_and_procs(profile, &graph)?;
        let stacks = stacks.join().expect("walking stacks does not panic");
        let recorded = facts::facts(profile, cells, &graph, &procs, stacks);
        Ok(Made { data, recorded })
    })
}

impl Made {
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
