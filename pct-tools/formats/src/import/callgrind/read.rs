//! A file's functions and places in the profile that is being built.

use super::super::samples::Samples;
use super::lines::{File, FunctionKey};
use pct_profile::model::{Frame, FrameId, FunctionId};

/// The profile being built.
pub(super) struct Read {
    pub(super) samples: Samples,
    /// In the order of the file's functions.
    functions: Vec<FunctionId>,
}

impl Read {
    /// All functions of the file.
    pub(super) fn new(file: &File<'_>) -> Self {
        let mut samples = Samples::new("[callgrind]", false);
        let functions = file.functions.iter().map(|key| function_of(&mut samples, key)).collect();
        Self { samples, functions }
    }

    /// A place in a function.
    pub(super) fn frame(&mut self, function: usize, file: &str, line: u32) -> FrameId {
        let file = (!matches!(file, "" | "???")).then(|| self.samples.b.file(file));
        let function = self.functions[function];
        self.samples.b.frame(Frame { function, file, line, address: None, inlined: false })
    }

    /// How often functions call each other from a line.
    pub(super) fn calls(&self, file: &File<'_>) -> Vec<((FunctionId, u32, FunctionId), u64)> {
        let mut sums = rustc_hash::FxHashMap::default();
        for (call, made) in &file.calls {
            let key = (self.functions[call.caller], call.line, self.functions[call.callee]);
            let sum: &mut u64 = sums.entry(key).or_default();
            *sum = sum.saturating_add(made.times);
        }
        sums.into_iter().collect()
    }
}

fn function_of(out: &mut Samples, key: &FunctionKey<'_>) -> FunctionId {
    let place = if matches!(key.object, "" | "???") { key.file } else { key.object };
    let (object, _) = out.place(place);
    out.function((object, None), key.name, 0)
}
