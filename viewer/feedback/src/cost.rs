//! Costs of goals: how often they are executed and what that costs, in call sequence counts (section 8.1).

/// Why the analysis of a procedure stops, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Abort {
    /// The costs of its branches are unknown (as for conditions with several solutions), so it gets no candidates.
    Unsuited(String),
    /// The profile contradicts itself or the program representation, so nothing in it is reliable.
    Contradiction(String),
}

impl Abort {
    /// A contradiction.
    pub(crate) fn contradiction(text: impl Into<String>) -> Self {
        Self::Contradiction(text.into())
    }
    /// The text.
    pub fn text(&self) -> &str {
        let (Self::Unsuited(text) | Self::Contradiction(text)) = self;
        text
    }
}

/// The cost of a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    /// Never executed.
    Dead,
    /// This many executions without cost.
    Trivial(i64),
    /// This many executions, and their total cost.
    Total(i64, f64),
    /// This many executions, and the cost of each.
    PerCall(i64, f64),
}

impl Cost {
    /// A cost of zero: dead or trivial.
    pub fn none(calls: i64) -> Self {
        if calls == 0 { Self::Dead } else { Self::Trivial(calls) }
    }
    /// How often it is executed.
    pub fn calls(self) -> i64 {
        match self {
            Self::Dead => 0,
            Self::Trivial(n) | Self::Total(n, _) | Self::PerCall(n, _) => n,
        }
    }
    /// The cost of all executions.
    pub fn total(self) -> f64 {
        match self {
            Self::Dead | Self::Trivial(_) => 0.0,
            Self::Total(_, total) => total,
            Self::PerCall(n, each) => n as f64 * each,
        }
    }
    /// The average cost of one execution.
    pub fn per_call(self) -> f64 {
        match self {
            Self::Dead | Self::Trivial(_) | Self::Total(0, _) | Self::PerCall(0, _) => 0.0,
            Self::Total(n, total) => total / n as f64,
            Self::PerCall(_, each) => each,
        }
    }
    fn is_real(self) -> bool {
        matches!(self, Self::Total(..) | Self::PerCall(..))
    }
    /// The cost of this goal followed by another one.
    ///
    /// # Errors
    /// A cost without executions.
    pub fn then(self, next: Self) -> Result<Self, Abort> {
        Ok(match (self, next) {
            (Self::Dead, next) => next,
            (this, Self::Dead | Self::Trivial(_)) => this,
            (this, next) => {
                let total = if this.is_real() { this.total() + next.total() } else { next.total() };
                if this.is_real() && this.calls() == 0 && total != 0.0 {
                    return Err(Abort::contradiction(format!("a cost of {total} without calls")));
                }
                Self::Total(this.calls(), total)
            }
        })
    }
    /// The cost of one of two goals, with `calls` executions in total.
    ///
    /// # Errors
    /// The calls of the two do not add up.
    pub fn branch(calls: i64, a: Self, b: Self) -> Result<Self, Abort> {
        if calls == 0 {
            return Ok(Self::Dead);
        }
        if (a, b) == (Self::Dead, Self::Dead) || a.calls().checked_add(b.calls()) != Some(calls) {
            return Err(Abort::Unsuited(format!(
                "branches called {} and {} times of {calls}",
                a.calls(),
                b.calls()
            )));
        }
        let with_calls = |cost: Self| match cost {
            Self::Total(_, total) => Self::Total(calls, total),
            Self::PerCall(_, each) => Self::PerCall(calls, each),
            Self::Dead | Self::Trivial(_) => Self::Trivial(calls),
        };
        Ok(match (a.is_real(), b.is_real()) {
            (false, false) => Self::Trivial(calls),
            (true, false) => with_calls(a),
            (false, true) => with_calls(b),
            (true, true) => Self::Total(calls, a.total() + b.total()),
        })
    }
    /// The cost of the same goal with another number of executions, each with the same cost (section 8.5).
    ///
    /// # Errors
    /// It is dead, or has a cost without executions.
    pub fn recount(self, calls: i64) -> Result<Self, Abort> {
        match self {
            Self::Dead => Err(Abort::Unsuited("recounting a dead goal".to_owned())),
            Self::Trivial(_) => Ok(Self::Trivial(calls)),
            Self::Total(0, total) if total != 0.0 => {
                Err(Abort::contradiction(format!("a cost of {total} without calls")))
            }
            real => Ok(Self::PerCall(calls, real.per_call())),
        }
    }
}

/// The cost of goals executed one after the other (section 8.3): `goals` has each one's cost and how often it succeeds;
/// `calls` is the number of executions if there are no goals.
///
/// # Errors
/// As [`Cost::then`].
pub fn sequence(goals: impl DoubleEndedIterator<Item = (Cost, i64)>, calls: i64) -> Result<Cost, Abort> {
    let mut rest = None;
    for (cost, after) in goals.rev() {
        rest = Some(cost.then(rest.unwrap_or_else(|| Cost::none(after)))?);
    }
    Ok(rest.unwrap_or_else(|| Cost::none(calls)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_adds_up_for_the_calls_of_the_first() {
        let cost = Cost::Total(10, 500.0).then(Cost::PerCall(5, 20.0)).unwrap();
        assert_eq!(cost, Cost::Total(10, 600.0));
        assert_eq!(cost.per_call(), 60.0);
        assert_eq!(Cost::Trivial(4).then(Cost::Total(2, 8.0)), Ok(Cost::Total(4, 8.0)));
        assert_eq!(Cost::Dead.then(Cost::Trivial(3)), Ok(Cost::Trivial(3)));
        assert_eq!(Cost::PerCall(3, 2.0).then(Cost::Dead), Ok(Cost::PerCall(3, 2.0)));
        assert!(Cost::Total(0, 1.0).then(Cost::Total(1, 1.0)).is_err());
    }

    #[test]
    fn branches_share_the_calls() {
        assert_eq!(Cost::branch(0, Cost::Dead, Cost::Dead), Ok(Cost::Dead));
        assert_eq!(Cost::branch(7, Cost::Trivial(3), Cost::Trivial(4)), Ok(Cost::Trivial(7)));
        assert_eq!(Cost::branch(7, Cost::Total(3, 9.0), Cost::Trivial(4)), Ok(Cost::Total(7, 9.0)));
        assert_eq!(Cost::branch(7, Cost::Dead, Cost::PerCall(7, 2.0)), Ok(Cost::PerCall(7, 2.0)));
        assert_eq!(Cost::branch(7, Cost::Total(3, 9.0), Cost::PerCall(4, 2.0)), Ok(Cost::Total(7, 17.0)));
        assert!(Cost::branch(7, Cost::Trivial(3), Cost::Trivial(3)).is_err());
    }

    #[test]
    fn recounting_keeps_the_cost_of_a_call() {
        assert_eq!(Cost::Total(4, 100.0).recount(3), Ok(Cost::PerCall(3, 25.0)));
        assert_eq!(Cost::Trivial(4).recount(0), Ok(Cost::Trivial(0)));
        assert!(Cost::Dead.recount(1).is_err());
    }

    #[test]
    fn sequences_fold_from_the_right() {
        assert_eq!(sequence([].into_iter(), 5), Ok(Cost::Trivial(5)));
        assert_eq!(sequence([].into_iter(), 0), Ok(Cost::Dead));
        let goals = [(Cost::Trivial(8), 8), (Cost::Total(8, 80.0), 8), (Cost::Total(8, 8.0), 8)];
        assert_eq!(sequence(goals.into_iter(), 8), Ok(Cost::Total(8, 88.0)));
    }
}
