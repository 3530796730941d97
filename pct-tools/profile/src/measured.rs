//! Weights of a profile for people: in the unit that its [`Quantity`] says.

use crate::model::Profile;
use crate::quantity::Quantity;

impl Profile {
    /// Weights are nanoseconds of CPU time (or, by the wall clock, of running and waiting).
    #[must_use]
    pub fn is_of_cpu_time(&self) -> bool {
        self.quantity == Quantity::Processor
    }
    /// What weights are amounts of, for the head of a column: `CPU s`, `bytes`.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        if self.is_of_cpu_time() && self.by_wall_clock() { "wall s" } else { self.quantity.unit() }
    }
    /// A weight for people, without its unit.
    #[must_use]
    pub fn amount(&self, weight: u64) -> String {
        self.quantity.amount(weight)
    }
    /// A weight for people, with its unit and with what it is of: `1.20 CPU s`, `6.00 s of wall`, `12 contentions`.
    #[must_use]
    pub fn amount_in_words(&self, weight: u64) -> String {
        match &self.quantity {
            Quantity::Processor => format!("{} {}", self.amount(weight), self.unit()),
            foreign => foreign.in_words(weight),
        }
    }
}
