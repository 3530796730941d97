//! Goal paths: the position of a call or a coverage point in a procedure's body.
//!
//! Steps, each normally ended by `;`. The whole body is the empty path.
//!
//! | step | meaning | step | meaning |
//! |---|---|---|---|
//! | `cN` | Nth conjunct | `~` | inside a negation |
//! | `dN` | Nth disjunct | `q`, `q!` | inside a scope without, with a cut |
//! | `sN-M`, `sN-na` | Nth switch arm, of a type of M functors | `=` | lambda |
//! | `?` `t` `e` | condition, then, else | `r` | try |
//! | `oN` | Nth orelse alternative | `a` | main goal of an atomic goal |

use std::fmt;
use std::str::FromStr;

/// One step into a goal. Numbers count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GoalStep {
    /// Nth conjunct.
    Conj(i64),
    /// Nth disjunct.
    Disj(i64),
    /// Nth arm of a switch.
    Switch {
        /// Which arm.
        arm: i64,
        /// Number of functors of the type, if known. [`GoalPath::normalised`] removes it.
        functors: Option<i64>,
    },
    /// Condition of an if-then-else.
    Cond,
    /// Then part.
    Then,
    /// Else part.
    Else,
    /// Inside a negation.
    Neg,
    /// Inside a scope.
    Scope {
        /// Whether the scope cuts away solutions.
        cut: bool,
    },
    /// Lambda.
    Lambda,
    /// Try.
    Try,
    /// Main goal of an atomic goal.
    AtomicMain,
    /// Nth orelse alternative of an atomic goal.
    OrElse(i64),
}

/// A path of steps, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoalPath(pub Vec<GoalStep>);

/// A step that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad goal path step `{0}`")]
pub struct BadStep(pub String);

impl GoalPath {
    /// The path of the whole body.
    pub const ROOT: Self = Self(Vec::new());

    /// The path without numbers of functors. Paths are compared in this form, because paths rebuilt from procedure
    /// bodies lack these numbers.
    pub fn normalised(mut self) -> Self {
        for step in &mut self.0 {
            if let GoalStep::Switch { functors, .. } = step {
                *functors = None;
            }
        }
        self
    }
    /// The path extended by one step.
    pub fn with(&self, step: GoalStep) -> Self {
        let mut steps = Vec::with_capacity(self.0.len() + 1);
        steps.extend_from_slice(&self.0);
        steps.push(step);
        Self(steps)
    }
    /// Parses the text of a path.
    ///
    /// # Errors
    /// The first step that is not one of the table's.
    pub fn parse(text: &[u8]) -> Result<Self, BadStep> {
        let mut steps = Vec::new();
        for piece in text.split(|&b| b == b';').filter(|p| !p.is_empty()) {
            steps
                .push(parse_step(piece).ok_or_else(|| BadStep(String::from_utf8_lossy(piece).into_owned()))?);
        }
        Ok(Self(steps))
    }
    /// Whether the text is a path, without building it.
    ///
    /// # Errors
    /// As [`GoalPath::parse`].
    pub fn check(text: &[u8]) -> Result<(), BadStep> {
        match text.split(|&b| b == b';').find(|p| !p.is_empty() && parse_step(p).is_none()) {
            Some(bad) => Err(BadStep(String::from_utf8_lossy(bad).into_owned())),
            None => Ok(()),
        }
    }
}

fn parse_step(piece: &[u8]) -> Option<GoalStep> {
    let (&kind, rest) = piece.split_first()?;
    match (kind, rest) {
        (b'c', n) => Some(GoalStep::Conj(number(n)?)),
        (b'd', n) => Some(GoalStep::Disj(number(n)?)),
        (b'o', n) => Some(GoalStep::OrElse(number(n)?)),
        (b's', rest) => {
            let mut pieces = rest.split(|&b| b == b'-').filter(|p| !p.is_empty());
            let (arm, functors) = (pieces.next()?, pieces.next()?);
            if pieces.next().is_some() {
                return None;
            }
            let functors = match functors {
                b"na" => None,
                n => Some(number(n)?),
            };
            Some(GoalStep::Switch { arm: number(arm)?, functors })
        }
        (b'?', []) => Some(GoalStep::Cond),
        (b't', []) => Some(GoalStep::Then),
        (b'e', []) => Some(GoalStep::Else),
        (b'~', []) => Some(GoalStep::Neg),
        (b'q', []) => Some(GoalStep::Scope { cut: false }),
        (b'q', [b'!']) => Some(GoalStep::Scope { cut: true }),
        (b'=', []) => Some(GoalStep::Lambda),
        (b'r', []) => Some(GoalStep::Try),
        (b'a', []) => Some(GoalStep::AtomicMain),
        _ => None,
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl fmt::Display for GoalStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conj(n) => write!(f, "c{n};"),
            Self::Disj(n) => write!(f, "d{n};"),
            Self::Switch { arm, functors: Some(m) } => write!(f, "s{arm}-{m};"),
            Self::Switch { arm, functors: None } => write!(f, "s{arm}-na;"),
            Self::Cond => f.write_str("?;"),
            Self::Then => f.write_str("t;"),
            Self::Else => f.write_str("e;"),
            Self::Neg => f.write_str("~;"),
            Self::Scope { cut: false } => f.write_str("q;"),
            Self::Scope { cut: true } => f.write_str("q!;"),
            Self::Lambda => f.write_str("=;"),
            Self::Try => f.write_str("r;"),
            Self::AtomicMain => f.write_str("a;"),
            Self::OrElse(n) => write!(f, "o{n};"),
        }
    }
}

impl fmt::Display for GoalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|s| fmt::Display::fmt(s, f))
    }
}

impl FromStr for GoalPath {
    type Err = BadStep;
    fn from_str(text: &str) -> Result<Self, BadStep> {
        Self::parse(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_step_of_the_table_parses() {
        let text = "c8;d2;s1-2;s3-na;?;t;e;~;q;q!;=;r;o4;a;";
        let path: GoalPath = text.parse().unwrap();
        assert_eq!(path.0.len(), 14);
        assert_eq!(path.to_string(), text);
        assert_eq!(path.normalised().to_string(), text.replace("s1-2", "s1-na"));
    }

    #[test]
    fn a_missing_end_and_empty_steps_are_accepted() {
        assert_eq!(GoalPath::parse(b";;c1;;?").unwrap().to_string(), "c1;?;");
        assert_eq!(GoalPath::parse(b"").unwrap(), GoalPath::ROOT);
        assert_eq!(GoalPath::parse(b"s+1--2").unwrap().to_string(), "s1-2;");
    }

    #[test]
    fn other_steps_are_refused() {
        for bad in ["x", "c", "cx", "tt", "q!!", "s1", "s1-2-3", "s1-x", "c99999999999999999999"] {
            assert!(GoalPath::parse(bad.as_bytes()).is_err(), "{bad}");
            assert!(GoalPath::check(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    fn step() -> impl Strategy<Value = GoalStep> {
        prop_oneof![
            any::<i64>().prop_map(GoalStep::Conj),
            (1..9_i64).prop_map(GoalStep::Disj),
            (1..9_i64, prop::option::of(1..1_114_113_i64))
                .prop_map(|(arm, functors)| GoalStep::Switch { arm, functors }),
            Just(GoalStep::Cond),
            any::<bool>().prop_map(|cut| GoalStep::Scope { cut }),
            Just(GoalStep::Lambda),
        ]
    }

    proptest! {
        #[test]
        fn paths_print_and_parse_as_inverses(steps in prop::collection::vec(step(), 0..8)) {
            let path = GoalPath(steps);
            prop_assert_eq!(path.to_string().parse::<GoalPath>().unwrap(), path);
        }

        #[test]
        fn any_octets_parse_or_are_refused(text in prop::collection::vec(any::<u8>(), 0..30)) {
            prop_assert_eq!(GoalPath::parse(&text).is_ok(), GoalPath::check(&text).is_ok());
        }
    }
}
