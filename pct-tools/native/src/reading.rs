//! A deep profile as a profile of stacks: what `pct report`, `flame`, `diff` and `export` read.
//!
//! Each context gets the stack by which it is first reached from the root, with the calling lines; the time
//! of a call lies below its own caller, also where the call leads back into a context above (recursion is
//! seen one level deep). The sum of weights is the sum of the profile's ticks. Ticks are samples, unless the
//! `.native` file beside says how many samples there were.

use crate::measured::quantity;
use pct_deep::measured::Measured;
use pct_deep::native::{MOST_OCTETS, NATIVE_ROOT, Side};
use pct_deep::{Compensation, CsdId, DeepError, Id as _, PdId};
use pct_profile::Profile;
use pct_profile::model::{Builder, Frame, FunctionId, Object, ObjectKind, Process, StackId, Weight};
use std::collections::VecDeque;
use std::path::Path;

/// What a deep profile begins with.
pub const MAGIC: &[u8] = b"Mercury deep profiler data";

/// Reads `X.data`, and `X.native` if it is there and belongs to it.
///
/// # Errors
/// The data file is damaged or cannot be read.
pub fn open(path: &Path) -> Result<Profile, DeepError> {
    let mut deep = pct_deep::open(path, Compensation::Exact)?;
    let side = side_of(path);
    if let Some(side) = &side {
        deep.set_native_facts(side);
    }
    Ok(profile_of(&deep, side.as_ref()))
}

fn side_of(path: &Path) -> Option<Side> {
    let native = path.with_extension("native");
    let meta = std::fs::metadata(&native).ok().filter(|m| m.is_file() && m.len() <= MOST_OCTETS)?;
    let text = std::fs::read(&native).ok().filter(|t| t.len() as u64 <= meta.len())?;
    let side = Side::parse(&String::from_utf8_lossy(&text)).ok()?;
    side.fits(&std::fs::read(path).ok()?).then_some(side)
}

/// The stacks of a deep profile.
#[must_use]
pub fn profile_of(deep: &pct_deep::Profile, side: Option<&Side>) -> Profile {
    let mut b = Builder::new(false);
    let process = b.process(Process {
        name: deep.program().into_owned(),
        clock: "deep profile".into(),
        ..Process::default()
    });
    let thread = b.thread(process, 0, "");
    let ticks_per_second = deep.header().ticks_per_second;
    let is_native = deep.text_of_name(deep.pd_ps(deep.root())) == NATIVE_ROOT;
    let measured = match side {
        Some(side) => side.measured.clone(),
        None if is_native => Measured::untold(ticks_per_second),
        None => Measured::Cpu,
    };
    let functions: Vec<FunctionId> = deep.pss().map(|ps| function(&mut b, deep, ps)).collect();
    let of = |pd: PdId| functions[deep.pd_ps(pd).index()];
    let whole: u64 = deep.csds().map(|csd| quanta(deep, csd)).sum();
    let mut samples = Samples { all: side.map_or(whole, |s| s.samples), whole, quanta: 0, given: 0 };
    // The stack above each context, once it is reached.
    let mut above: Vec<Option<StackId>> = vec![None; deep.pds().len()];
    let mut reached = vec![false; above.len()];
    let mut pending = VecDeque::from([deep.root()]);
    reached[deep.root().index()] = true;
    while let Some(pd) = pending.pop_front() {
        for csd in deep.csds_of_pd(pd) {
            let callee = deep.csd_callee(csd);
            let css = deep.csd_css(csd);
            let mut line = 0;
            let caller = (pd != deep.root()).then(|| {
                line = deep.css(css).line;
                let file = deep.css_file(css);
                let file = (!file.is_empty()).then(|| b.file(&file));
                let frame = b.frame(Frame { function: of(pd), file, line, address: None, inlined: false });
                b.stack(above[pd.index()], frame)
            });
            let calls = u64::try_from(deep.csd_own(csd).calls()).unwrap_or(0);
            if calls > 0 && caller.is_some() {
                let counts = &mut b.profile_mut().call_counts;
                *counts.entry((of(pd), line, of(callee))).or_default() += calls;
            }
            if !std::mem::replace(&mut reached[callee.index()], true) {
                above[callee.index()] = caller;
                pending.push_back(callee);
            }
            let own = quanta(deep, csd);
            if own > 0 {
                let frame = b.plain_frame(of(callee));
                let stack = b.stack(caller, frame);
                let user_ns = if measured.is_time() { nanoseconds(own, ticks_per_second) } else { own };
                b.add(thread, stack, Weight { samples: samples.samples_for(own), user_ns, system_ns: 0 });
            }
        }
    }
    let account = &mut b.profile_mut().account;
    account.whole_stacks = samples.given;
    if whole == 0 {
        account.note(
            "the program got no clock tick, so there is no time in its profile; `pct view` shows its calls",
        );
    }
    b.profile_mut().quantity = quantity(&measured);
    b.profile_mut().title = deep.program().into_owned();
    b.finish()
}

fn function(b: &mut Builder, deep: &pct_deep::Profile, ps: pct_deep::PsId) -> FunctionId {
    let module = deep.ps_module_name(ps).into_owned();
    let (path, kind) = match module.as_str() {
        "" => ("[unknown]".to_owned(), ObjectKind::Unknown),
        _ => (module, ObjectKind::File),
    };
    let object = b.object(Object::new(path, kind));
    let id = b.function(object, &deep.qualified_name(ps));
    let declared = deep.ps(ps);
    if declared.line > 0 {
        let file = b.file(&deep.text(declared.file));
        b.declare(id, file, declared.line);
    }
    id
}

fn quanta(deep: &pct_deep::Profile, csd: CsdId) -> u64 {
    u64::try_from(deep.csd_own(csd).quanta).unwrap_or(0)
}

/// Ticks as time; a clock of unknown rate is taken for one of 100 Hz.
fn nanoseconds(quanta: u64, ticks_per_second: u64) -> u64 {
    let rate = if ticks_per_second == 0 { 100 } else { ticks_per_second };
    u64::try_from(u128::from(quanta) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
}

/// Deals the samples out by time, so that their sum is right.
struct Samples {
    all: u64,
    whole: u64,
    quanta: u64,
    given: u64,
}

impl Samples {
    fn samples_for(&mut self, quanta: u64) -> u64 {
        self.quanta = self.quanta.saturating_add(quanta);
        let due = u128::from(self.all) * u128::from(self.quanta) / u128::from(self.whole.max(1));
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        std::mem::replace(&mut self.given, due).abs_diff(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_deep::synthetic::{Params, generate};
    use pct_profile::flat::Order;
    use pct_profile::{By, Flat, Split};

    #[test]
    fn times_samples_and_calls_are_those_of_the_deep_profile() {
        let params = Params { contexts: 3000, procs: 80, ..Params::default() };
        let deep = pct_deep::Profile::new(generate(&params).unwrap(), Compensation::Exact).unwrap();
        let p = profile_of(&deep, None);
        let whole = u64::try_from(deep.root_total().quanta).unwrap();
        let rate = deep.header().ticks_per_second;
        assert_eq!(p.total().samples, whole);
        let flat = Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Merged, Order::Own);
        for row in &flat.rows {
            let name = row.label.expect("a label").name(&p);
            let ps = deep.pss().find(|&ps| deep.qualified_name(ps) == name).expect("a procedure");
            let own = u64::try_from(deep.ps_figures(ps).own.quanta).unwrap();
            assert_eq!(row.own.samples, own, "{name}");
            assert!(row.own.user_ns.abs_diff(nanoseconds(own, rate)) <= 3000 * 10, "{name}");
        }
        let calls: u64 = deep
            .csds()
            .filter(|&csd| deep.csd_caller(csd) != deep.root())
            .map(|csd| u64::try_from(deep.csd_own(csd).calls()).unwrap_or(0))
            .sum();
        assert_eq!(p.call_counts.values().sum::<u64>(), calls);
        assert!(calls > 0 && whole > 0);
    }
}
