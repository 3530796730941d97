//! A turn of the engine, which is one chunk: what it may use, and its result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::call::Commands;
use crate::diagnostic::Diagnostic;
use crate::ids::TraceId;
use crate::request::Ended;
use crate::trace::Trace;

/// What a turn may use of the engine.
pub(crate) struct Env<'a> {
    pub(crate) traces: &'a BTreeMap<TraceId, Trace>,
    pub(crate) commands: &'a mut Commands,
    /// Greatest number of events in a chunk.
    pub(crate) chunk: Option<u64>,
    pub(crate) attention: &'a Arc<AtomicBool>,
    pub(crate) diagnostics: &'a mut Vec<Diagnostic>,
    pub(crate) ended: &'a mut Vec<Ended>,
    pub(crate) hook_calls: &'a mut u64,
}

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// A chunk with this many events was served.
    Served(u64),
    /// There was nothing to do.
    Nothing,
}
