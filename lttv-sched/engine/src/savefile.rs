//! Saved states as bytes, for a cache beside the trace, so that what a pass has computed once need not be computed
//! again tomorrow.
//!
//! The engine does no I/O: it returns bytes and accepts bytes. They contain a key that the caller forms from the
//! content of the trace (sizes, times, first bytes...). If the key or the version differs or a byte is damaged, they
//! are refused.
//!
//! ```text
//! "LTTVSAVE"  version u32  key: length u32, bytes  module: length u32, bytes
//! interval u64  tracefiles u32  states u32
//!   each state: event u64, time i64
//!     each tracefile: 0, or 1 with position 4 x u64 and order time i64
//!     snapshot: length u32, bytes (the model's own)
//! checksum u64: FNV-1a of all before
//! ```
//!
//! All numbers are little-endian.

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::engine::{CommandError, Engine};
use crate::ids::TraceId;
use crate::module::{ModuleError, guarded};
use crate::position::Entry;
use crate::source::CursorPos;
use crate::state::{SavedState, SavedStates, StateModel};
use crate::time::Time;
use crate::trace::ModuleStatus;

const MAGIC: &[u8; 8] = b"LTTVSAVE";
const VERSION: u32 = 1;

/// FNV-1a, 64 bits. It guards against damage, not malice: everything that is read is checked anyway.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Engine {
    /// The saved states of a module that is ready, as bytes. None if it is not ready or its model has no file format.
    pub fn export_states(&self, trace: TraceId, module: &str, key: &[u8]) -> Option<Vec<u8>> {
        let open = self.traces.get(&trace)?;
        let saved = open.data.saved.get(module).filter(|saved| saved.is_complete())?;
        let implementation = self.modules.get(module)?.1;
        let model = guarded("its model", || implementation.model(&open.source)).ok()??;
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        put_bytes(&mut out, key)?;
        put_bytes(&mut out, module.as_bytes())?;
        out.extend(saved.interval().to_le_bytes());
        out.extend(u32::try_from(open.source.tracefiles().len()).ok()?.to_le_bytes());
        out.extend(u32::try_from(saved.states().len()).ok()?.to_le_bytes());
        for state in saved.states() {
            out.extend(state.event.to_le_bytes());
            out.extend(state.time.ns().to_le_bytes());
            for entry in &state.entries {
                out.push(u8::from(entry.is_some()));
                if let Some(entry) = entry {
                    entry.pos.0.iter().for_each(|word| out.extend(word.to_le_bytes()));
                    out.extend(entry.key.ns().to_le_bytes());
                }
            }
            put_bytes(&mut out, &model.encode(&state.snapshot)?)?;
        }
        let sum = checksum(&out);
        out.extend(sum.to_le_bytes());
        Some(out)
    }

    /// Reads saved states from bytes and marks the module ready, without reading the trace. Only for modules whose
    /// result is their saved states. Returns true if they were accepted. Bytes that are damaged or of another trace,
    /// module or version are ignored with a diagnostic.
    ///
    /// # Errors
    /// There is no such trace or module, or it has no model.
    pub fn import_states(
        &mut self,
        trace: TraceId,
        module: &str,
        key: &[u8],
        bytes: &[u8],
    ) -> Result<bool, CommandError> {
        let limit = self.config.most_saved_states;
        let open = self.traces.get_mut(&trace).ok_or(CommandError::NoTrace)?;
        let (name, implementation) =
            self.modules.get(module).ok_or_else(|| ModuleError::Unknown(module.into()))?;
        let model = guarded("its model", || implementation.model(&open.source))
            .map_err(|why| ModuleError::Failed(module.into(), why))?
            .ok_or_else(|| CommandError::NoModel(module.into()))?;
        let waits = open.background.queued().any(|queued| queued == name);
        if open.data.status(module) != ModuleStatus::Absent || waits {
            return Ok(false);
        }
        match read(bytes, key, module, open.source.tracefiles().len(), limit, model.as_ref()) {
            Ok(saved) => {
                let name: Arc<str> = name.clone();
                open.data.saved.insert(name.clone(), saved);
                open.data.show_saved(&name);
                open.data.set_status(&name, ModuleStatus::Ready);
                Ok(true)
            }
            Err(why) => {
                let kind = DiagnosticKind::SavedStates(why);
                self.diagnostics.push(Diagnostic { trace: Some(trace), tracefile: None, kind });
                Ok(false)
            }
        }
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    out.extend(u32::try_from(bytes.len()).ok()?.to_le_bytes());
    out.extend(bytes);
    Some(())
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn read_octets(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("byte {}: {count} bytes expected, the end found", self.at))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.read_octets(N)?;
        taken.try_into().map_err(|_| "a short read".to_string())
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn time(&mut self) -> Result<Time, String> {
        Ok(Time(i64::from_le_bytes(self.array()?)))
    }

    fn text(&mut self) -> Result<&'a [u8], String> {
        let length = self.u32()?;
        self.read_octets(length as usize)
    }
}

fn read(
    bytes: &[u8],
    key: &[u8],
    module: &str,
    tracefiles: usize,
    limit: usize,
    model: &dyn StateModel,
) -> Result<SavedStates, String> {
    let body = bytes.len().checked_sub(8).ok_or("too short")?;
    let mut reader = Reader { bytes: &bytes[..body], at: 0 };
    if reader.read_octets(8)? != MAGIC {
        return Err("not a file of saved states".into());
    }
    let version = reader.u32()?;
    if version != VERSION {
        return Err(format!("version {version}, expected {VERSION}"));
    }
    if bytes[body..] != checksum(&bytes[..body]).to_le_bytes() {
        return Err("damaged: the checksum is wrong".into());
    }
    if reader.text()? != key {
        return Err("of another trace, or the trace has changed".into());
    }
    if reader.text()? != module.as_bytes() {
        return Err("of another module".into());
    }
    let interval = reader.u64()?;
    let count = reader.u32()?;
    if count as usize != tracefiles {
        return Err(format!("of {count} tracefiles, the trace has {tracefiles}"));
    }
    let states = reader.u32()?;
    let mut saved = SavedStates::new(interval, limit.max(states as usize));
    let mut last: Option<(u64, Time)> = None;
    for _ in 0..states {
        let (event, time) = (reader.u64()?, reader.time()?);
        if last.is_some_and(|(e, t)| event <= e || time < t) {
            return Err(format!("byte {}: states are not in order", reader.at));
        }
        last = Some((event, time));
        let mut entries = Vec::new();
        for _ in 0..tracefiles {
            entries.push(match reader.array()? {
                [0] => None,
                [1] => {
                    let pos = CursorPos([reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?]);
                    Some(Entry { pos, key: reader.time()? })
                }
                [other] => return Err(format!("byte {}: {other} where 0 or 1 was expected", reader.at)),
            });
        }
        let snapshot = model.decode(reader.text()?).ok_or("a state that its model does not understand")?;
        saved.push(SavedState { event, time, entries: entries.into(), snapshot });
    }
    if reader.at != body {
        return Err(format!("byte {}: more follows than expected", reader.at));
    }
    saved.finish();
    Ok(saved)
}
