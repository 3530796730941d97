//! Messages of the analysis (docs/feedback.md, section 13).

use std::fmt;

use pct_deep::{CliqueId, CsdId, GoalPath, ProcLabel};

use crate::report::label_name;

/// The importance of a message. It is printed at verbosities of at least its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something is wrong with the input.
    Error = 1,
    /// Something is unknown.
    Warning = 2,
    /// Something was left out.
    Notice = 3,
    /// Something was found.
    Info = 4,
}

/// The subject of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageSubject {
    /// A procedure.
    Proc(ProcLabel<String>),
    /// A goal of a procedure.
    Goal(ProcLabel<String>, GoalPath),
    /// A clique.
    Clique(CliqueId),
    /// A call.
    Csd(CsdId),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its importance.
    pub level: Level,
    /// Its subject.
    pub place: MessageSubject,
    /// The text.
    pub text: String,
}

impl Message {
    /// Whether it is printed at this verbosity.
    pub fn is_shown(&self, verbosity: i64) -> bool {
        self.level as i64 <= verbosity
    }
}

impl fmt::Display for Message {
    /// Followed by an empty line. A clique or call as the subject has no line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}:", self.level)?;
        match &self.place {
            MessageSubject::Proc(label) => writeln!(f, "  Proc: {}", label_name(label))?,
            MessageSubject::Goal(label, path) => {
                writeln!(f, "  Proc: {}", label_name(label))?;
                if path.0.is_empty() {
                    writeln!(f, "  Root goal")?;
                } else {
                    writeln!(f, "  Goal: {path}")?;
                }
            }
            MessageSubject::Clique(clique) => write!(f, "  clique {clique}")?,
            MessageSubject::Csd(csd) => write!(f, "  call site dynamic {csd}")?,
        }
        write!(f, "  {}\n\n", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_deep::PredOrFunc;

    #[test]
    fn messages_look_as_described() {
        let label = ProcLabel::Ordinary {
            kind: PredOrFunc::Pred,
            decl_module: "shop".to_owned(),
            def_module: "shop".to_owned(),
            name: "bill".to_owned(),
            arity: 3,
            mode: 0,
        };
        let show = |level, place, text: &str| Message { level, place, text: text.to_owned() }.to_string();
        assert_eq!(
            show(
                Level::Info,
                MessageSubject::Goal(label.clone(), "e;".parse().unwrap()),
                "Found 2 conjuncts above callsite threshold"
            ),
            "Info:\n  Proc: pred shop.bill/3-0\n  Goal: e;\n  Found 2 conjuncts above callsite threshold\n\n"
        );
        assert_eq!(
            show(
                Level::Warning,
                MessageSubject::Clique(CliqueId::new(7).unwrap()),
                "Cannot compute cost of recursive calls: Could not detect recursion type"
            ),
            "Warning:\n  clique 7  Cannot compute cost of recursive calls: Could not detect recursion type\n\n"
        );
        assert_eq!(
            show(Level::Notice, MessageSubject::Goal(label.clone(), GoalPath::ROOT), "x"),
            "Notice:\n  Proc: pred shop.bill/3-0\n  Root goal\n  x\n\n"
        );
        assert_eq!(
            show(Level::Error, MessageSubject::Proc(label), "x"),
            "Error:\n  Proc: pred shop.bill/3-0\n  x\n\n"
        );
        assert_eq!(
            show(Level::Warning, MessageSubject::Csd(CsdId::new(3).unwrap()), "x"),
            "Warning:\n  call site dynamic 3  x\n\n"
        );
    }
}
