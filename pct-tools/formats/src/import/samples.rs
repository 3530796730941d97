//! What a file measured, sample by sample, as the cells of a profile. Files give amounts as decimal numbers in units
//! of their own; a profile has whole numbers in ours.

use super::objects::kind_of;
use super::problem::Problem;
use super::types::SampleType;
use pct_num::{count, float, round_to_sum, rounded};
use pct_profile::model::{
    Builder, FileId, FunctionId, Object, ObjectId, ObjectKind, Process, Profile, StackId, ThreadId,
    TimedSample, Weight,
};
use pct_profile::{Language, Unit};
use rustc_hash::FxHashMap;

/// More than this adds up to more than 64 bits hold, or than tables can compare in signed numbers.
const MOST: f64 = 9.2e18;

/// One sample, or several of one stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) thread: ThreadId,
    /// `None`: the file has no stack of it.
    pub(super) stack: Option<StackId>,
    /// In the unit of its [`SampleType`].
    pub(super) amount: f64,
    /// How many samples it stands for; 0 = not known.
    pub(super) samples: u64,
    /// When, in nanoseconds since the first moment of the file, where known.
    pub(super) time_ns: Option<u64>,
}

/// The profile being built.
pub(super) struct Samples {
    pub(super) b: Builder,
    /// The object of functions that no file is named for.
    nowhere: ObjectId,
    places: FxHashMap<String, (ObjectId, Option<FileId>)>,
    all: Vec<Sample>,
}

impl Samples {
    /// An empty one; `tool` is the name in brackets of the object of functions that no file is named for.
    pub(super) fn new(tool: &str, timeline: bool) -> Self {
        let mut b = Builder::new(timeline);
        let nowhere = b.object(Object::new(tool, ObjectKind::Unknown));
        Self { b, nowhere, places: FxHashMap::default(), all: Vec::new() }
    }

    /// A process of the file.
    pub(super) fn process(&mut self, pid: u32, name: &str) -> pct_profile::model::ProcessId {
        self.b.process(Process {
            pid,
            name: name.into(),
            clock: pct_profile::model::IMPORTED.into(),
            ..Process::default()
        })
    }

    /// Where functions are that the file places in `file`: source code of a language whose modules are objects, other
    /// source code, or a program or library.
    pub(super) fn place(&mut self, file: &str) -> (ObjectId, Option<FileId>) {
        if let Some(known) = self.places.get(file) {
            return *known;
        }
        let path = file.strip_prefix("file://").unwrap_or(file);
        let place = match origin(path) {
            Origin::Nowhere => (self.nowhere, None),
            Origin::Module(language) => {
                let object = self.b.object(Object::new(path, ObjectKind::Module(language)));
                (object, Some(self.b.file(path)))
            }
            Origin::Source => (self.nowhere, Some(self.b.file(path))),
            Origin::Object => (self.b.object(Object::new(path, kind_of(path))), None),
        };
        self.places.insert(file.to_owned(), place);
        place
    }

    /// The function of this name in the object; `line` (from 1; 0 = unknown) is where it is declared.
    pub(super) fn function(
        &mut self,
        (object, file): (ObjectId, Option<FileId>),
        name: &str,
        line: u32,
    ) -> FunctionId {
        let declared = file.filter(|_| line > 0).map(|file| (file, line));
        self.b.function_at(object, if name.is_empty() { "[no name]" } else { name }, declared)
    }

    pub(super) fn add(&mut self, sample: Sample) {
        self.all.push(sample);
    }

    /// The profile, whose amounts are of `kind`.
    pub(super) fn finish(mut self, kind: &SampleType) -> Result<Profile, Problem> {
        let (amounts, fractions) = amounts(&self.all, kind)?;
        let quantity = kind.quantity();
        let mut without_stack = 0u64;
        for (sample, amount) in self.all.iter().zip(amounts) {
            if amount == 0 && sample.samples == 0 {
                continue;
            }
            without_stack += u64::from(sample.stack.is_none());
            let stack = sample.stack.unwrap_or_else(|| self.b.no_stack(self.nowhere));
            let p = self.b.profile();
            let in_kernel = quantity == pct_profile::Quantity::Processor
                && p.object_of(p.stacks[stack].frame).kind == ObjectKind::Kernel;
            let (user_ns, system_ns) = if in_kernel { (0, amount) } else { (amount, 0) };
            let thread = sample.thread;
            self.b.add(thread, stack, Weight { samples: sample.samples, user_ns, system_ns });
            if let Some(time_ns) = sample.time_ns {
                self.b.add_timed(TimedSample { time_ns, weight_ns: amount, thread, stack });
            }
        }
        let profile = self.b.profile_mut();
        profile.quantity = quantity;
        if fractions > 0 {
            let amounts = count(fractions, "amount is no whole number", "amounts are no whole numbers");
            profile.account.note(format!("{amounts}: rounded, their sum is kept"));
        }
        if without_stack > 0 {
            let samples = count(without_stack, "sample", "samples");
            profile.account.note(format!("{samples} without a stack, shown as [no stack]"));
        }
        Ok(self.b.finish())
    }
}

/// All amounts as whole numbers of our unit, and how many of them had a fraction. Times are rounded to nanoseconds, and
/// their fractions are not counted.
fn amounts(all: &[Sample], kind: &SampleType) -> Result<(Vec<u64>, u64), Problem> {
    let factor = float(kind.factor());
    let mut sum = 0.0;
    for sample in all {
        if sample.amount < 0.0 {
            return Err(kind.negative(sample.amount));
        }
        sum += sample.amount * factor;
    }
    if !(0.0..MOST).contains(&sum) {
        return Err(kind.too_large());
    }
    let fractions = all.iter().filter(|sample| (sample.amount * factor).fract() != 0.0).count() as u64;
    if fractions == 0 || *kind.unit() == Unit::Time {
        return Ok((all.iter().map(|sample| rounded(sample.amount * factor)).collect(), 0));
    }
    Ok((round_to_sum(&all.iter().map(|sample| sample.amount * factor).collect::<Vec<f64>>()), fractions))
}

/// What a file's name says of the functions in it.
#[derive(Debug, PartialEq)]
enum Origin {
    Nowhere,
    Module(Language),
    Source,
    Object,
}

/// Suffixes of the sources of languages whose modules are objects.
const MODULES: &[(&[&str], Language)] = &[
    (&["py", "pyx", "pyi"], Language::Python),
    (&["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"], Language::JavaScript),
    (&["java", "kt", "scala", "groovy"], Language::Java),
];

/// What addresses of scripts begin with that are no files.
const PAGES: &[&str] =
    &["node:", "http://", "https://", "chrome://", "chrome-extension://", "extensions::", "data:"];

/// Suffixes of other sources.
const SOURCES: &[&str] = &[
    "c", "cc", "cpp", "cxx", "c++", "C", "h", "hh", "hpp", "hxx", "inc", "rs", "go", "rb", "php", "cs", "fs",
    "hs", "lhs", "ml", "mli", "swift", "zig", "s", "S", "asm", "d", "f", "f90", "pl", "pm", "ex", "exs",
    "erl", "lua", "m", "mm", "r", "R", "jl", "nim", "v", "dart", "clj", "vb", "cu",
];

fn origin(path: &str) -> Origin {
    if path.is_empty() || path == "???" {
        return Origin::Nowhere;
    }
    if path.starts_with("<frozen ") {
        return Origin::Module(Language::Python);
    }
    if PAGES.iter().any(|start| path.starts_with(start)) {
        return Origin::Module(Language::JavaScript);
    }
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    if let Some((_, language)) = MODULES.iter().find(|(suffixes, _)| suffixes.contains(&suffix)) {
        return Origin::Module(*language);
    }
    if SOURCES.contains(&suffix) { Origin::Source } else { Origin::Object }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_tells_modules_sources_and_objects_apart() {
        for (path, want) in [
            ("", Origin::Nowhere),
            ("/srv/shop/views.py", Origin::Module(Language::Python)),
            ("<frozen importlib._bootstrap>", Origin::Module(Language::Python)),
            ("node:internal/timers", Origin::Module(Language::JavaScript)),
            ("https://example.org/", Origin::Module(Language::JavaScript)),
            ("C:\\shop\\a.ts", Origin::Module(Language::JavaScript)),
            ("/src/main.rs", Origin::Source),
            ("/usr/lib/libc.so.6", Origin::Object),
            ("/usr/bin/prog", Origin::Object),
            ("[vdso]", Origin::Object),
        ] {
            assert_eq!(origin(path), want, "{path}");
        }
    }

    #[test]
    fn amounts_keep_their_sum_and_have_a_sign_and_a_limit() {
        let of = |amount| Sample {
            thread: pct_profile::model::Id::from_index(0),
            stack: None,
            amount,
            samples: 0,
            time_ns: None,
        };
        let [ms, none] = ["milliseconds", ""].map(|unit| SampleType::new("x", unit));
        let whole =
            |numbers: &[f64], kind| amounts(&numbers.iter().map(|n| of(*n)).collect::<Vec<_>>(), kind);
        assert_eq!(whole(&[1.5, 0.25], &ms).ok(), Some((vec![1_500_000, 250_000], 0)));
        assert_eq!(whole(&[1.4, 1.4, 1.2], &none).ok(), Some((vec![2, 1, 1], 3)));
        for bad in [&[-1.0][..], &[1e300], &[9e18, 9e18]] {
            assert!(whole(bad, &none).is_err(), "{bad:?}");
        }
    }
}
