//! Made-up programs: procedures with bodies, executed and recorded as the run-time system would.
//!
//! Each call of a procedure has a number that decides what it does: which arm of a switch is taken, whether a test
//! succeeds, when recursion ends. Executing a program gives a deep profile whose counts agree with its bodies. Encoding
//! the bodies gives the program representation beside it. So tests know what an analysis must find, and benches can
//! have programs of any size.

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
    /// The profile is larger than its tables can be.
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
