//! The graph as a deep profile's data.
//!
//! | node | what it is here |
//! |---|---|
//! | procedure | a function of an object; its module is the object's name |
//! | call site | a line of a function and whom it calls there: as people see it, however many addresses call |
//! | context, edge | those of the graph; quanta are the samples' weights, everything else is 0 |
//!
//! The root is `<program>` with one callback site, below which the ways in are: main, the threads' start functions.

use crate::graph::{Edge, EdgeId, Graph, GroupId, Proc, ROOT_SITE, Site, SiteId};
use crate::measured::measured;
use pct_deep::native::{Allocated, NATIVE_ROOT};
use pct_deep::{
    Builder, Counts, Coverage, CsdId, Css, CssId, CssKind, DeepData, DeepError, Header, Id, Own, PdId,
    PredOrFunc, ProcLabel, ProcStatic, PsId, SiteKind, Slot, StrId, Strings,
};
use pct_num::round_to_sum;
use pct_profile::Profile;
use pct_profile::model::{FileId, FunctionId, Id as _};
use rustc_hash::FxHashMap;

/// Why no deep profile could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// There is nothing in it.
    #[error("the recording has no samples, so there is nothing to show")]
    Empty,
    /// A table is too large for the format.
    #[error(transparent)]
    Deep(#[from] DeepError),
}

/// Blocks and octets of an edge in a view of memory.
fn blocks_and_octets(memory: Allocated, edge: &Edge) -> (f64, f64) {
    match memory {
        Allocated::All => edge.own_memory.allocated,
        Allocated::Live => edge.own_memory.live,
        Allocated::Peak => edge.own_memory.peak,
    }
}

/// Octets of a machine word.
const WORD: f64 = 8.0;

/// The data of a graph. The same graph gives the same data.
///
/// # Errors
/// When the graph is empty, or too large for the format.
pub fn deep(profile: &Profile, graph: &Graph) -> Result<DeepData, NativeError> {
    deep_and_procs(profile, graph, Allocated::All).map(|(data, _)| data)
}

/// The same, and which procedure each of the data's procedures is.
///
/// # Errors
/// As [`deep`].
pub fn deep_and_procs(
    profile: &Profile,
    graph: &Graph,
    memory: Allocated,
) -> Result<(DeepData, Vec<Proc>), NativeError> {
    if graph.edges.is_empty() {
        return Err(NativeError::Empty);
    }
    let (procs, proc_of) = procedures(profile, graph);
    let (sites, site_of) = call_sites(graph, &proc_of);
    let mut strings = Strings::default();
    let program = strings.intern(no_nul(&profile.title).as_bytes()).ok_or(NativeError::Empty)?;
    let counts = Counts {
        csd: number_of(graph.edges.len()),
        css: number_of(sites.len()),
        pd: number_of(graph.contexts.len()),
        ps: number_of(procs.len()),
    };
    let header = Header {
        version: 9,
        program,
        bytes_per_word: 8,
        canonical: false,
        coverage: Coverage::None,
        ticks_per_second: measured(profile).quanta_per_unit(),
        instrument_quanta: 0,
        user_quanta: graph.total_ns(),
        callseqs: 0,
        root: PdId::at(0),
    };
    let mut b = Builder::new(header, strings, counts)?;
    let mut out = Nodes { b: &mut b, profile, graph, declared: declarations(profile) };
    let mut sites_of: Vec<Vec<CssId>> = vec![Vec::new(); procs.len()];
    let mut kinds: Vec<SiteKind> = Vec::new();
    for (i, call) in sites.iter().enumerate() {
        let site = &graph.sites[call.site];
        kinds.push(out.site(CssId::at(i), site, call.callee)?);
        sites_of[proc_of.number_of(site.caller)].push(CssId::at(i));
    }
    for (i, proc) in procs.iter().enumerate() {
        out.procedure(PsId::at(i), *proc, &sites_of[i])?;
    }
    // Whole numbers whose sums are those of the estimates.
    let blocks: Vec<f64> = graph.edges.iter().map(|edge| blocks_and_octets(memory, edge).0).collect();
    let words: Vec<f64> = graph.edges.iter().map(|edge| blocks_and_octets(memory, edge).1 / WORD).collect();
    let (blocks, words) = (round_to_sum(&blocks), round_to_sum(&words));
    for (i, edge) in graph.edges.iter().enumerate() {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let quanta = signed(edge.own_ns);
        let own = Own { quanta, allocs: signed(blocks[i]), words: signed(words[i]), ..Own::default() };
        b.csd(CsdId::at(i), PdId::at(edge.callee.index()), &own)?;
    }
    let (starts, mut edges) = edges_by_caller(graph);
    let site = |edge: &EdgeId| site_of[edge.index()];
    for at in starts.windows(2) {
        let mine = &mut edges[at[0]..at[1]];
        if mine.len() > 1 {
            mine.sort_unstable_by_key(|edge| (site(edge), *edge));
        }
    }
    let csds: Vec<CsdId> = edges.iter().map(|edge| CsdId::at(edge.index())).collect();
    let mut slots: Vec<Slot<'_>> = Vec::new();
    for (i, context) in graph.contexts.iter().enumerate() {
        let proc = proc_of.number_of(context.proc);
        let end = starts[i + 1];
        let mut at = starts[i];
        slots.clear();
        for css in &sites_of[proc] {
            let from = at;
            while at < end && site(&edges[at]) == *css {
                at += 1;
            }
            slots.push(match kinds[css.index()] {
                SiteKind::Normal => Slot::Normal(csds[from..at].first().copied()),
                kind => Slot::Multi { kind, csds: &csds[from..at] },
            });
        }
        b.pd(PdId::at(i), PsId::at(proc), &slots, &[])?;
    }
    Ok((b.finish()?, procs))
}

/// Numbers of procedures in the data.
struct ProcNumbers {
    groups: Vec<Option<usize>>,
    functions: Vec<Option<usize>>,
}

impl ProcNumbers {
    /// That of a procedure of the graph.
    fn number_of(&self, proc: Proc) -> usize {
        let number = match proc {
            Proc::Root => Some(0),
            Proc::Group(group) => self.groups[group.index()],
            Proc::Function(function) => self.functions[function.index()],
        };
        number.expect("every procedure of the graph has a number")
    }
}

/// The graph's procedures in their order, and their places in it.
fn procedures(profile: &Profile, graph: &Graph) -> (Vec<Proc>, ProcNumbers) {
    let mut numbers = ProcNumbers {
        groups: vec![None; graph.groups.len()],
        functions: vec![None; profile.functions.len()],
    };
    for context in graph.contexts.iter() {
        match context.proc {
            Proc::Root => {}
            Proc::Group(group) => numbers.groups[group.index()] = Some(0),
            Proc::Function(function) => numbers.functions[function.index()] = Some(0),
        }
    }
    let mut procs = vec![Proc::Root];
    for (i, number) in numbers.groups.iter_mut().enumerate().filter(|(_, n)| n.is_some()) {
        *number = Some(procs.len());
        procs.push(Proc::Group(GroupId::from_index(i)));
    }
    for (i, number) in numbers.functions.iter_mut().enumerate().filter(|(_, n)| n.is_some()) {
        *number = Some(procs.len());
        procs.push(Proc::Function(FunctionId::from_index(i)));
    }
    (procs, numbers)
}

/// A call site of the data: one of the graph's, and the procedure that it calls. The places without a line,
/// below which the ways in are, call several.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CallSite {
    site: SiteId,
    callee: Option<PsId>,
}

/// The call sites in the order of their procedures and places, and that of each edge as a number of this order.
fn call_sites(graph: &Graph, proc_of: &ProcNumbers) -> (Vec<CallSite>, Vec<CssId>) {
    let site_of = |site: SiteId, callee: Proc| {
        let several = graph.sites[site].place.is_none();
        CallSite { site, callee: (!several).then(|| PsId::at(proc_of.number_of(callee))) }
    };
    let mut numbers: FxHashMap<CallSite, usize> = FxHashMap::default();
    let mut sites = vec![CallSite { site: ROOT_SITE, callee: None }];
    numbers.insert(sites[0], 0);
    let found: Vec<usize> = graph
        .edges
        .iter()
        .map(|edge| {
            let site = site_of(edge.site, graph.contexts[edge.callee].proc);
            *numbers.entry(site).or_insert_with(|| {
                sites.push(site);
                sites.len() - 1
            })
        })
        .collect();
    let mut order: Vec<usize> = (0..sites.len()).collect();
    order.sort_unstable_by_key(|at| {
        let CallSite { site, callee } = sites[*at];
        (graph.sites[site], callee)
    });
    let mut place = vec![CssId::at(0); sites.len()];
    for (i, at) in order.iter().enumerate() {
        place[*at] = CssId::at(i);
    }
    let sorted = order.iter().map(|at| sites[*at]).collect();
    (sorted, found.into_iter().map(|at| place[at]).collect())
}

/// The edges in the order of their callers, and where those of each context begin, and of the one after the last.
fn edges_by_caller(graph: &Graph) -> (Vec<usize>, Vec<EdgeId>) {
    let mut starts = vec![0; graph.contexts.len() + 1];
    for edge in graph.edges.iter() {
        starts[edge.caller.index() + 1] += 1;
    }
    for i in 1..starts.len() {
        starts[i] += starts[i - 1];
    }
    let mut next = starts.clone();
    let mut edges: Vec<EdgeId> = graph.edges.ids().collect();
    for (id, edge) in graph.edges.enumerate() {
        let at = &mut next[edge.caller.index()];
        edges[*at] = id;
        *at += 1;
    }
    (starts, edges)
}

/// Where each function is declared; where that is not known, the file of its frames, and 0 for the line.
fn declarations(profile: &Profile) -> Vec<Option<(FileId, u32)>> {
    let mut out: Vec<Option<(FileId, u32)>> = profile.functions.iter().map(|f| f.declared).collect();
    for frame in profile.frames.iter() {
        let known = &mut out[frame.function.index()];
        if known.is_none() {
            *known = frame.file.map(|file| (file, 0));
        }
    }
    out
}

struct Nodes<'a> {
    b: &'a mut Builder,
    profile: &'a Profile,
    graph: &'a Graph,
    declared: Vec<Option<(FileId, u32)>>,
}

impl Nodes<'_> {
    fn text(&mut self, text: &str) -> Result<StrId, DeepError> {
        self.b.string(no_nul(text).as_bytes())
    }

    fn site(&mut self, id: CssId, site: &Site, callee: Option<PsId>) -> Result<SiteKind, DeepError> {
        let empty = self.text("")?;
        let kind = match callee {
            None => CssKind::Callback,
            Some(callee) => CssKind::Normal { callee, type_subst: empty },
        };
        let file = match site.place.and_then(|p| p.file) {
            Some(file) => self.profile.files[file].clone(),
            None => self.declaration(site.caller).0,
        };
        let file = self.text(&file)?;
        let line = site.place.map_or(0, |p| p.line);
        let path = self.b.path(b"")?;
        self.b.css(id, Css { kind, file, line, path })?;
        Ok(kind.kind())
    }

    fn procedure(&mut self, id: PsId, proc: Proc, sites: &[CssId]) -> Result<(), DeepError> {
        let (name, module) = match proc {
            Proc::Root => (NATIVE_ROOT.to_owned(), String::new()),
            Proc::Group(group) => (self.graph.groups[group].clone(), String::new()),
            Proc::Function(f) => {
                let function = &self.profile.functions[f];
                (function.name.clone(), self.profile.objects[function.object].name().to_owned())
            }
        };
        // names that readers would take apart
        let name = match name.starts_with("TypeSpecOf__") || name.starts_with("IntroducedFrom__") {
            true => format!(" {name}"),
            false => name,
        };
        let module = self.text(&module)?;
        let label = ProcLabel::Ordinary {
            kind: PredOrFunc::Pred,
            decl_module: module,
            def_module: module,
            name: self.text(&name)?,
            arity: 0,
            mode: 0,
        };
        let (file, line) = self.declaration(proc);
        let file = self.text(&file)?;
        self.b.ps(id, ProcStatic { label, file, line, in_interface: true }, sites, &[], &[])
    }

    fn declaration(&self, proc: Proc) -> (String, u32) {
        let Proc::Function(f) = proc else { return (String::new(), 0) };
        self.declared[f.index()]
            .map_or((String::new(), 0), |(file, line)| (self.profile.files[file].clone(), line))
    }
}

fn no_nul(text: &str) -> String {
    text.replace('\0', "")
}

fn number_of(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::MOST_EDGES;
    use pct_deep::{Compensation, Version, read, to_octets};
    use pct_profile::model::{Builder as ProfileBuilder, Object, ObjectKind, Process, Weight};

    fn profile() -> Profile {
        let mut b = ProfileBuilder::new(false);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "t");
        for (object, lines) in [
            ("/bin/p", ["main;a;b;a 7", "main;b 5", "main;a;c 11"]),
            ("/lib/x.so", ["start;w 3", "start;w;v 2", "start 1"]),
        ] {
            let object = b.object(Object::new(object, ObjectKind::File));
            for line in lines {
                let (stack, ns) = line.rsplit_once(' ').unwrap();
                let mut at = None;
                for name in stack.split(';') {
                    let function = b.function(object, name);
                    let frame = b.plain_frame(function);
                    at = Some(b.stack(at, frame));
                }
                b.add(thread, at.unwrap(), Weight { samples: 1, user_ns: ns.parse().unwrap(), system_ns: 0 });
            }
        }
        b.finish()
    }

    #[test]
    fn the_file_reads_back_and_its_sums_are_the_samples() {
        let p = profile();
        let mut g = Graph::new();
        g.add(&p, &p.cells, MOST_EDGES);
        let data = deep(&p, &g).unwrap();
        let octets = to_octets(&data, Version::V9).unwrap();
        let again = to_octets(&deep(&p, &g).unwrap(), Version::V9).unwrap();
        assert_eq!(octets, again, "the same recording gives the same octets");
        let back = read(&octets).unwrap();
        let read = pct_deep::Profile::new(back, Compensation::Exact).unwrap();
        assert_eq!(read.root_total().quanta, 29);
        let main = read.pss().find(|ps| read.text_of_name(*ps) == "main").unwrap();
        let f = read.ps_figures(main);
        assert_eq!(f.own.total(&f.desc).quanta, 23);
        // a is on the stack for 7 + 11, recursion counted once
        let a = read.pss().find(|ps| read.text_of_name(*ps) == "a").unwrap();
        let f = read.ps_figures(a);
        assert_eq!(f.own.total(&f.desc).quanta, 18);
    }

    #[test]
    fn procedures_are_where_they_are_declared_not_where_samples_fell() {
        let mut b = ProfileBuilder::new(false);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "t");
        let object = b.object(Object::new("/bin/p", ObjectKind::File));
        let (source, header) = (b.file("/src/a.c"), b.file("/src/a.h"));
        let (known, unknown) = (b.function(object, "known"), b.function(object, "unknown"));
        b.declare(known, header, 3);
        b.declare(known, source, 9);
        for function in [known, unknown] {
            let address = Some(u64::from(function.number()));
            let frame =
                pct_profile::model::Frame { function, file: Some(source), line: 20, address, inlined: false };
            let frame = b.frame(frame);
            let stack = b.stack(None, frame);
            b.add(thread, stack, Weight { samples: 1, user_ns: 5, system_ns: 0 });
        }
        let p = b.finish();
        let mut g = Graph::new();
        g.add(&p, &p.cells, MOST_EDGES);
        let data = deep(&p, &g).unwrap();
        let place = |name: &str| {
            let ps = data.pss().find(|ps| data.text_of_name(*ps) == name).unwrap();
            (data.text(data.ps(ps).file).into_owned(), data.ps(ps).line)
        };
        assert_eq!(place("known"), ("/src/a.h".to_owned(), 3));
        assert_eq!(place("unknown"), ("/src/a.c".to_owned(), 0));
    }

    #[test]
    fn calls_at_several_addresses_of_a_line_are_one_call_site_for_each_callee() {
        let mut b = ProfileBuilder::new(false);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "t");
        let object = b.object(Object::new("/bin/p", ObjectKind::File));
        let source = b.file("/src/a.c");
        let caller = b.function(object, "caller");
        for (callee, address) in [("x", 16), ("x", 32), ("y", 48), ("x", 64)] {
            let callee = b.function(object, callee);
            let frame = pct_profile::model::Frame {
                function: caller,
                file: Some(source),
                line: 20,
                address: Some(address),
                inlined: false,
            };
            let frame = b.frame(frame);
            let above = b.stack(None, frame);
            let frame = b.plain_frame(callee);
            let stack = b.stack(Some(above), frame);
            b.add(thread, stack, Weight { samples: 1, user_ns: 5, system_ns: 0 });
        }
        let p = b.finish();
        let mut g = Graph::new();
        g.add(&p, &p.cells, MOST_EDGES);
        let read = pct_deep::Profile::new(deep(&p, &g).unwrap(), Compensation::Exact).unwrap();
        let ps = read.pss().find(|ps| read.text_of_name(*ps) == "caller").unwrap();
        let sites: Vec<(u32, String, i64)> = read
            .sites(ps)
            .iter()
            .map(|&css| {
                let callee = read.css(css).kind.callee().expect("one callee");
                (read.css(css).line, read.text_of_name(callee).into(), read.ps_figures(callee).own.quanta)
            })
            .collect();
        assert_eq!(sites, [(20, "x".to_owned(), 15), (20, "y".to_owned(), 5)]);
        // and as many contexts: the root, caller, x, y
        assert_eq!(read.pds().len(), 4);
    }

    #[test]
    fn an_empty_recording_is_said() {
        let p = Profile::default();
        assert!(matches!(deep(&p, &Graph::new()), Err(NativeError::Empty)));
    }
}
