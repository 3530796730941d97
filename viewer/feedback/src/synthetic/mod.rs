//! Made-up programs: procedures with bodies, played as the run-time system would record them.
//!
//! Each call of a procedure has a number that decides what it does: which arm of a switch is taken, whether a test
//! succeeds, when recursion ends. Playing a program gives a deep profile whose counts agree with its bodies; encoding the
//! bodies gives the program representation beside it. So tests know what an analysis has to find, and benches can have
//! programs of any size.

mod families;
mod play;
mod program;
mod rep;

use pct_deep::{Compensation, DeepError, ProcRep, Profile};

use crate::input::Input;

pub use families::{Stage, bushy, chain, forest, map_like};
pub use program::{Code, CodeKind, Outcome, Pass, Pick, Proc, Program, input, output};

impl Program {
    /// The profile of a run.
    ///
    /// # Errors
    /// More than the tables of a profile hold.
    pub fn data(&self) -> Result<pct_deep::DeepData, DeepError> {
        play::play(self)
    }
    /// The program representation, as the octets of a file.
    pub fn rep(&self) -> Vec<u8> {
        rep::encode(self)
    }
    /// Profile and bodies, ready for analysis.
    ///
    /// # Errors
    /// As [`Program::data`].
    pub fn input(&self) -> Result<Input, DeepError> {
        Ok(Input::new(Profile::new(self.data()?, Compensation::Exact)?, ProcRep::new(self.rep())?))
    }
}
