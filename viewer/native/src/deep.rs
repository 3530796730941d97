//! The graph as a deep profile's data.
//!
//! | node | what it is here |
//! |---|---|
//! | procedure | a function of an object; its module is the object's name |
//! | call site | a place in a function; of kind normal when all its calls lead to one procedure, else higher order |
//! | context, edge | those of the graph; quanta are nanoseconds, everything else is 0 |
//!
//! The root is `<program>` with one callback site, below which the ways in are: main, the threads' start functions.

use crate::graph::{Graph, Proc, Site};
use pct_deep::{
    Builder, Counts, Coverage, CsdId, Css, CssId, CssKind, DeepData, DeepError, Header, Id, Own, PdId,
    PredOrFunc, ProcLabel, ProcStatic, PsId, SiteKind, Slot, StrId, Strings,
};
use pct_profile::Profile;
use pct_profile::model::{FileId, Id as _};
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

/// Ticks of a second: quanta are nanoseconds.
pub const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// The data of a graph. The same graph gives the same data.
///
/// # Errors
/// When the graph is empty, or too large for the format.
pub fn deep(profile: &Profile, graph: &Graph) -> Result<DeepData, NativeError> {
    deep_and_procs(profile, graph).map(|(data, _)| data)
}

/// The same, and which procedure each of the data's procedures is.
///
/// # Errors
/// As [`deep`].
pub fn deep_and_procs(profile: &Profile, graph: &Graph) -> Result<(DeepData, Vec<Proc>), NativeError> {
    if graph.edges.is_empty() {
        return Err(NativeError::Empty);
    }
    let mut procs: Vec<Proc> = graph.contexts.iter().map(|c| c.proc).collect();
    procs.sort_unstable();
    procs.dedup();
    let proc_index: FxHashMap<Proc, usize> = procs.iter().enumerate().map(|(i, p)| (*p, i)).collect();
    // sites in the order of their procedures and places, with the procedures that they lead to
    let mut calls: Vec<(Site, Proc)> =
        graph.edges.iter().map(|e| (e.site, graph.contexts[e.callee as usize].proc)).collect();
    calls.push((Site { caller: Proc::Root, place: None }, Proc::Root));
    calls.sort_unstable();
    calls.dedup();
    let sites: Vec<&[(Site, Proc)]> = calls.chunk_by(|a, b| a.0 == b.0).collect();
    let mut strings = Strings::default();
    let program = strings.intern(no_nul(&profile.title).as_bytes()).ok_or(NativeError::Empty)?;
    let counts = Counts {
        csd: number(graph.edges.len()),
        css: number(sites.len()),
        pd: number(graph.contexts.len()),
        ps: number(procs.len()),
    };
    let header = Header {
        version: 9,
        program,
        bytes_per_word: 8,
        canonical: false,
        coverage: Coverage::None,
        ticks_per_second: TICKS_PER_SECOND,
        instrument_quanta: 0,
        user_quanta: graph.total_ns(),
        callseqs: 0,
        root: PdId::at(0),
    };
    let mut b = Builder::new(header, strings, counts)?;
    let mut out = Nodes { b: &mut b, profile, graph, declared: declarations(profile) };
    let mut sites_of: Vec<Vec<CssId>> = vec![Vec::new(); procs.len()];
    let mut kinds: Vec<SiteKind> = Vec::new();
    let mut site_index: FxHashMap<Site, usize> = FxHashMap::default();
    for (i, calls) in sites.iter().enumerate() {
        let site = calls[0].0;
        let callees: Vec<usize> = calls.iter().map(|c| proc_index[&c.1]).collect();
        kinds.push(out.site(CssId::at(i), &site, &callees)?);
        sites_of[proc_index[&site.caller]].push(CssId::at(i));
        site_index.insert(site, i);
    }
    for (i, proc) in procs.iter().enumerate() {
        out.procedure(PsId::at(i), *proc, &sites_of[i])?;
    }
    // the edges of a context, by site
    let mut edges: Vec<(u32, usize, CsdId)> = Vec::with_capacity(graph.edges.len());
    for (i, edge) in graph.edges.iter().enumerate() {
        let own = Own { quanta: i64::try_from(edge.own_ns).unwrap_or(i64::MAX), ..Own::default() };
        b.csd(CsdId::at(i), PdId::at(edge.callee as usize), &own)?;
        edges.push((edge.caller, site_index[&edge.site], CsdId::at(i)));
    }
    edges.sort_unstable();
    let csds: Vec<CsdId> = edges.iter().map(|e| e.2).collect();
    let mut at = 0;
    for (i, context) in graph.contexts.iter().enumerate() {
        let proc = proc_index[&context.proc];
        let slots: Vec<Slot<'_>> = sites_of[proc]
            .iter()
            .map(|css| {
                let from = at;
                while edges.get(at).is_some_and(|e| (e.0 as usize, e.1) == (i, css.index())) {
                    at += 1;
                }
                match kinds[css.index()] {
                    SiteKind::Normal => Slot::Normal(csds[from..at].first().copied()),
                    kind => Slot::Multi { kind, csds: &csds[from..at] },
                }
            })
            .collect();
        b.pd(PdId::at(i), PsId::at(proc), &slots, &[])?;
    }
    Ok((b.finish()?, procs))
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

    fn site(&mut self, id: CssId, site: &Site, callees: &[usize]) -> Result<SiteKind, DeepError> {
        let empty = self.text("")?;
        let kind = match (site.place, callees) {
            (None, _) => CssKind::Callback,
            (Some(_), &[only]) => CssKind::Normal { callee: PsId::at(only), type_subst: empty },
            _ => CssKind::HigherOrder,
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
            Proc::Root => ("<program>".to_owned(), String::new()),
            Proc::Group(group) => (self.graph.groups[group as usize].clone(), String::new()),
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

fn number(n: usize) -> u32 {
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
            let object = b.object(Object { path: object.into(), build_id: None, kind: ObjectKind::File });
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
        let object = b.object(Object { path: "/bin/p".into(), build_id: None, kind: ObjectKind::File });
        let (source, header) = (b.file("/src/a.c"), b.file("/src/a.h"));
        let (known, unknown) = (b.function(object, "known"), b.function(object, "unknown"));
        b.declare(known, header, 3);
        b.declare(known, source, 9);
        for function in [known, unknown] {
            let address = Some(function.index() as u64);
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
    fn an_empty_recording_is_said() {
        let p = Profile::default();
        assert!(matches!(deep(&p, &Graph::new()), Err(NativeError::Empty)));
    }
}
