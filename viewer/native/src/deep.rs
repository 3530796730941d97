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
use std::collections::{BTreeMap, BTreeSet};

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
    if graph.edges.is_empty() {
        return Err(NativeError::Empty);
    }
    let procs: Vec<Proc> =
        graph.contexts.iter().map(|c| c.proc).collect::<BTreeSet<_>>().into_iter().collect();
    let proc_index = |p: Proc| procs.binary_search(&p).expect("every context's procedure is in the list");
    // sites in the order of their procedures and places, with the procedures that they lead to
    let mut sites: BTreeMap<Site, BTreeSet<Proc>> = BTreeMap::new();
    sites.entry(Site { caller: Proc::Root, place: None }).or_default();
    for edge in &graph.edges {
        sites.entry(edge.site).or_default().insert(graph.contexts[edge.callee as usize].proc);
    }
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
    let mut out = Nodes { b: &mut b, profile };
    let mut sites_of: Vec<Vec<CssId>> = vec![Vec::new(); procs.len()];
    let mut kinds: Vec<SiteKind> = Vec::new();
    for (i, (site, callees)) in sites.iter().enumerate() {
        let kind = out.site(CssId::at(i), site, callees, &proc_index)?;
        kinds.push(kind);
        sites_of[proc_index(site.caller)].push(CssId::at(i));
    }
    for (i, proc) in procs.iter().enumerate() {
        out.procedure(PsId::at(i), *proc, &sites_of[i])?;
    }
    let site_index: BTreeMap<Site, usize> = sites.keys().enumerate().map(|(i, s)| (*s, i)).collect();
    let mut edges_of: Vec<BTreeMap<usize, Vec<CsdId>>> = vec![BTreeMap::new(); graph.contexts.len()];
    for (i, edge) in graph.edges.iter().enumerate() {
        let own = Own { quanta: i64::try_from(edge.own_ns).unwrap_or(i64::MAX), ..Own::default() };
        b.csd(CsdId::at(i), PdId::at(edge.callee as usize), &own)?;
        edges_of[edge.caller as usize].entry(site_index[&edge.site]).or_default().push(CsdId::at(i));
    }
    let none = Vec::new();
    for (i, context) in graph.contexts.iter().enumerate() {
        let proc = proc_index(context.proc);
        let slots: Vec<Slot<'_>> = sites_of[proc]
            .iter()
            .map(|css| {
                let csds = edges_of[i].get(&css.index()).unwrap_or(&none);
                match kinds[css.index()] {
                    SiteKind::Normal => Slot::Normal(csds.first().copied()),
                    kind => Slot::Multi { kind, csds },
                }
            })
            .collect();
        b.pd(PdId::at(i), PsId::at(proc), &slots, &[])?;
    }
    Ok(b.finish()?)
}

struct Nodes<'a> {
    b: &'a mut Builder,
    profile: &'a Profile,
}

impl Nodes<'_> {
    fn text(&mut self, text: &str) -> Result<StrId, DeepError> {
        self.b.string(no_nul(text).as_bytes())
    }

    fn site(
        &mut self,
        id: CssId,
        site: &Site,
        callees: &BTreeSet<Proc>,
        index: &impl Fn(Proc) -> usize,
    ) -> Result<SiteKind, DeepError> {
        let empty = self.text("")?;
        let kind = match (site.place, callees.first()) {
            (None, _) => CssKind::Callback,
            (Some(_), Some(only)) if callees.len() == 1 => {
                CssKind::Normal { callee: PsId::at(index(*only)), type_subst: empty }
            }
            _ => CssKind::HigherOrder,
        };
        let file = self.file_of(site.caller)?;
        let line = site.place.map_or(0, |p| p.line);
        let path = self.b.path(b"")?;
        self.b.css(id, Css { kind, file, line, path })?;
        Ok(kind.kind())
    }

    fn procedure(&mut self, id: PsId, proc: Proc, sites: &[CssId]) -> Result<(), DeepError> {
        let (name, module) = match proc {
            Proc::Root => ("<program>".to_owned(), String::new()),
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
        let file = self.file_of(proc)?;
        let line = match proc {
            Proc::Root => 0,
            Proc::Function(f) => {
                let lines = self.profile.frames.iter().filter(|x| x.function == f && x.line != 0);
                lines.map(|x| x.line).min().unwrap_or(0)
            }
        };
        self.b.ps(id, ProcStatic { label, file, line, in_interface: true }, sites, &[], &[])
    }

    fn file_of(&mut self, proc: Proc) -> Result<StrId, DeepError> {
        let path = match proc {
            Proc::Root => "",
            Proc::Function(f) => {
                let file = self.profile.frames.iter().find(|x| x.function == f && x.file.is_some());
                file.and_then(|x| x.file).map_or("", |id| self.profile.files[id].as_str())
            }
        };
        let path = path.to_owned();
        self.text(&path)
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
    fn an_empty_recording_is_said() {
        let p = Profile::default();
        assert!(matches!(deep(&p, &Graph::new()), Err(NativeError::Empty)));
    }
}
