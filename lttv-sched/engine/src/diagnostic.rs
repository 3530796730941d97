//! Errors that do not end the work. Each is reported once, with its position.

use std::fmt;
use std::sync::Arc;

use crate::ids::TraceId;
use crate::source::ReadError;
use crate::time::Time;

/// One such error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The trace that it concerns, if any.
    pub trace: Option<TraceId>,
    /// Index and name of the tracefile that it concerns, if any.
    pub tracefile: Option<(usize, Arc<str>)>,
    /// What it is.
    pub kind: DiagnosticKind,
}

/// Kinds of [`Diagnostic`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// The rest of the tracefile cannot be read.
    Unreadable(ReadError),
    /// A warning of the source when the trace was opened.
    Source(ReadError),
    /// Time went back in the tracefile. Its later events are ordered by the greatest time before them. Reported once.
    TimeWentBack {
        /// Greatest time before.
        from: Time,
        /// The time that follows it.
        to: Time,
    },
    /// A background module failed.
    ModuleFailed {
        /// Its name.
        module: Arc<str>,
        /// Why.
        why: Box<str>,
    },
    /// A request that a hook asked for was refused.
    Refused(String),
    /// Saved states in a file are damaged, or of another trace or version. They were ignored.
    SavedStates(String),
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, name)) = &self.tracefile {
            write!(f, "{name}: ")?;
        }
        match &self.kind {
            DiagnosticKind::Unreadable(error) | DiagnosticKind::Source(error) => error.fmt(f),
            DiagnosticKind::TimeWentBack { from, to } => {
                write!(f, "time goes back from {from} to {to}; later events keep the order of the file")
            }
            DiagnosticKind::ModuleFailed { module, why } => write!(f, "module {module} failed: {why}"),
            DiagnosticKind::Refused(why) => write!(f, "request refused: {why}"),
            DiagnosticKind::SavedStates(why) => write!(f, "saved states ignored: {why}"),
        }
    }
}
