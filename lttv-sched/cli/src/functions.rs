//! `lttv stats --by function`: samples of recordings by the function that ran.
//!
//! The engine delivers the samples of the window that pass the filter. The names are those of `pct report`. Because of
//! this module the command depends on pct-symbols and pct-profile; the crates below it know no symbols.

use pct_text::complain;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::Event;
use lttv_engine::hooks::Flow;
use lttv_modules::threads::{SYSTEM_SAMPLE, USER_SAMPLE};
use lttv_sources::pct::REGION_INDEX;
use pct_num::thousands;
use pct_profile::load::{address_in_object, object_info};
use pct_symbols::{CallSite, CodeAddr, ObjectId, Symbolizer, system_call};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::args::{Format, StatsArgs};
use crate::filter::Filter;
use crate::output::Out;
use crate::session::Session;
use crate::times;
use crate::{head, line};

/// Where a sample was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum SampledCode {
    /// In the kernel, for the code at this PC in a region, which had these callers: the nearest first, 0 if there is
    /// none.
    System { trace: usize, region: usize, pc: u64, callers: [u64; CALLERS] },
    /// In the kernel, for code in a region that the recording lacks.
    SystemUnknown,
    /// In a region that the recording lacks.
    Unknown,
    /// At a PC in a region of the recording of this trace.
    Code { trace: usize, region: usize, pc: u64 },
}

/// Most callers that are asked for the number of a system call.
const CALLERS: usize = 4;

/// Number of samples, and the CPU time that they represent, in ns.
#[derive(Clone, Copy, Default)]
struct Samples {
    count: u64,
    ns: u64,
}

impl Samples {
    fn add(&mut self, other: Samples) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// A row of the table.
#[derive(Serialize)]
struct Row<'s> {
    kind: &'static str,
    name: &'s str,
    object: &'s str,
    samples: u64,
    cpu_ns: u64,
}

/// Shows the functions.
///
/// # Errors
/// No trace is a recording; the engine refused the request; the output cannot be written.
pub fn run(s: &mut Session, args: &StatsArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    anyhow::ensure!(
        s.recordings.iter().any(Option::is_some),
        "stats --by function: none of these traces is a recording of samples (.pct)"
    );
    let collected: Arc<Mutex<FxHashMap<SampledCode, Samples>>> = Arc::default();
    let (to, mut first) = (collected.clone(), s.first_result());
    let filtered = filter.is_some();
    let request = s.window(filter, move |event| {
        if let Some((place, samples)) = sampled(event) {
            first();
            to.lock().unwrap_or_else(PoisonError::into_inner).entry(place).or_default().add(samples);
        }
        Flow::Go
    });
    s.submit(request)?;
    s.drive(|| None);
    let collected = std::mem::take(&mut *collected.lock().unwrap_or_else(PoisonError::into_inner));
    let functions = Named::new(s, &collected).functions(collected);
    let mut rows: Vec<_> = functions.iter().collect();
    rows.sort_by_key(|(name, samples)| (std::cmp::Reverse(samples.ns), *name));
    if rows.is_empty() {
        s.say_nothing("sample", filtered);
    }
    let mut out = Out::new(s.format);
    match s.format {
        Format::Text => text(&mut out, &rows, args.rows),
        _ => {
            for ((name, object), samples) in rows {
                let (samples, cpu_ns) = (samples.count, samples.ns);
                out.row(&Row { kind: "function", name, object, samples, cpu_ns });
            }
        }
    }
    Ok(out.finish()?)
}

/// Code and weight of an event, if it is a sample.
fn sampled(event: &Event<'_>) -> Option<(SampledCode, Samples)> {
    let number = |name: &str| event.field(name)?.as_u64();
    let trace = event.trace();
    let region = || number(REGION_INDEX).and_then(|region| usize::try_from(region).ok());
    let place = match event.name() {
        SYSTEM_SAMPLE => match region() {
            Some(region) => {
                let mut callers = [0; CALLERS];
                for (at, caller) in callers.iter_mut().enumerate() {
                    // A caller that is no address of code ends the stack.
                    let Some(pc) = number(&format!("stack.{at}")) else { break };
                    *caller = pc;
                }
                SampledCode::System { trace, region, pc: number("pc")?, callers }
            }
            None => SampledCode::SystemUnknown,
        },
        USER_SAMPLE => match region() {
            Some(region) => SampledCode::Code { trace, region, pc: number("pc")? },
            None => SampledCode::Unknown,
        },
        _ => return None,
    };
    Some((place, Samples { count: 1, ns: number("weight_ns")? }))
}

/// The sampled code with the names of its functions.
struct Named {
    symbols: Symbolizer,
    found: FxHashMap<SampledCode, (ObjectId, CodeAddr)>,
    /// For code in the kernel: the address at which the program entered the kernel, and the callers, outwards.
    entered: FxHashMap<SampledCode, Vec<CallSite>>,
}

impl Named {
    fn new(s: &Session, places: &FxHashMap<SampledCode, Samples>) -> Named {
        let symbols = Symbolizer::new(options());
        let mut named = Named { symbols, found: FxHashMap::default(), entered: FxHashMap::default() };
        let mut objects: Vec<Vec<ObjectId>> = Vec::new();
        for recording in &s.recordings {
            let recording = recording.iter();
            let regions = recording.flat_map(|file| file.regions().map(|region| (region, file.ns_pid())));
            objects.push(regions.map(|(region, pid)| named.symbols.add(object_info(region, pid))).collect());
        }
        let regions: Vec<Vec<_>> =
            s.recordings.iter().map(|file| file.iter().flat_map(|file| file.regions()).collect()).collect();
        let site = |symbols: &Symbolizer, trace: usize, region: usize, pc: u64| {
            let facts = regions.get(trace)?.get(region)?;
            let object = *objects.get(trace)?.get(region)?;
            Some((object, address_in_object(&symbols.object(object).kind, facts, pc)))
        };
        // If several regions were there one after the other, it is unknown here which of them a caller was in.
        let region_of = |trace: usize, pc: u64| {
            let all = regions.get(trace)?.iter().enumerate();
            let mut holding = all.filter(|(_, region)| (region.start..region.end).contains(&pc));
            let (at, _) = holding.next()?;
            holding.next().is_none().then_some(at)
        };
        for place in places.keys() {
            match *place {
                SampledCode::Code { trace, region, pc } => {
                    if let Some((object, address)) = site(&named.symbols, trace, region, pc) {
                        named.found.insert(*place, (object, CodeAddr::Pc(address)));
                    }
                }
                SampledCode::System { trace, region, pc, callers } => {
                    let Some((object, address)) = site(&named.symbols, trace, region, pc) else { continue };
                    let mut sites = vec![CallSite { object, address: CodeAddr::Pc(address) }];
                    let callers = callers.into_iter().take_while(|caller| *caller != 0);
                    let callers =
                        callers.map_while(|pc| site(&named.symbols, trace, region_of(trace, pc)?, pc));
                    sites.extend(
                        callers.map(|(object, at)| CallSite { object, address: CodeAddr::Return(at) }),
                    );
                    named.entered.insert(*place, sites);
                }
                SampledCode::SystemUnknown | SampledCode::Unknown => {}
            }
        }
        let entered = named.entered.values().flatten().map(|site| (site.object, site.address));
        named.symbols.resolve(named.found.values().copied().chain(entered));
        named.symbols.find_system_calls(named.entered.values().map(Vec::as_slice));
        for note in named.symbols.notes() {
            complain!("lttv: {note}");
        }
        named
    }

    fn functions(&self, places: FxHashMap<SampledCode, Samples>) -> BTreeMap<(String, String), Samples> {
        let mut functions: BTreeMap<(String, String), Samples> = BTreeMap::new();
        for (place, samples) in places {
            functions.entry(self.name(place)).or_default().add(samples);
        }
        functions
    }

    /// Function and object.
    fn name(&self, place: SampledCode) -> (String, String) {
        if matches!(place, SampledCode::System { .. } | SampledCode::SystemUnknown) {
            let number = self.entered.get(&place).and_then(|sites| self.symbols.system_call(sites));
            let call = number.and_then(system_call::name);
            return (call.map_or_else(|| "[system]".into(), |name| format!("[{name}]")), "kernel".into());
        }
        let Some((object, address)) = self.found.get(&place) else {
            return ("[unknown]".into(), String::new());
        };
        let path = &self.symbols.object(*object).path;
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let frame = self.symbols.frames(*object, *address).first();
        (frame.map_or("[no name]", |frame| self.symbols.text(frame.function)).into(), file)
    }
}

/// The same options as for `pct report`. Names of big objects are cached in the same folder.
fn options() -> pct_symbols::Options {
    let folder = lttv_ctf::default_folder();
    let beside: Option<PathBuf> = folder.and_then(|folder| Some(folder.parent()?.join("symbols")));
    let cache = beside.as_ref().map(pct_symbols::Cache::new);
    pct_symbols::Options { cache, ..pct_symbols::Options::default() }
}

fn text(out: &mut Out, rows: &[(&(String, String), &Samples)], most: usize) {
    let total = rows.iter().map(|(_, samples)| samples.ns).sum::<u64>().max(1);
    let tenths = |ns: u64| u128::from(ns) * 1000 / u128::from(total);
    head!(out, "{:>10}  {:>6}  {:>10}  function (object)", "samples", "share", "CPU time");
    for ((name, object), samples) in rows.iter().take(most) {
        let (share, time) = (tenths(samples.ns), times::duration(samples.ns));
        let object = if object.is_empty() { String::new() } else { format!(" ({object})") };
        let count = thousands(samples.count);
        line!(out, "{count:>10}  {:>3}.{}%  {time:>10}  {name}{object}", share / 10, share % 10);
    }
    if rows.len() > most {
        line!(out, "{} more functions", rows.len() - most);
    }
}
