//! The folded context graph.
//!
//! A context is a procedure with a *creator*, the context that first called it. On the first use of (context
//! d, call site s, callee p) the **creator rule** walks d and its creators to the root: if one of them is a
//! context of p, the call leads back to it (recursion is folded); else it leads to a new context with creator
//! d.

use pct_profile::Profile;
use pct_profile::ids;
use pct_profile::memory::{MemoryAmount, MemoryCell};
use pct_profile::model::{Cell, FileId, Frame, FunctionId, Id as _, IdVec};
use pct_profile::rows::{Children, mix};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Most call edges; beyond it new contexts of a procedure are one, which is counted.
pub const MOST_EDGES: usize = 4_000_000;

ids! {
    /// Names a row of [`Graph::contexts`].
    ContextId,
    /// Names a row of [`Graph::edges`].
    EdgeId,
    /// Names a row of [`Graph::sites`].
    SiteId,
    /// Names a row of [`Graph::groups`].
    GroupId,
}

/// Which samples keep their contexts to themselves. Threads of one name are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Those of each process.
    pub processes: bool,
    /// Those of each thread.
    pub threads: bool,
}

/// A procedure: the root, a function, or what a function's contexts beyond the limit were folded into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Proc {
    /// `<program>`.
    Root,
    /// A thread or process that keeps its contexts to itself.
    Group(GroupId),
    /// A function of the profile.
    Function(FunctionId),
}

/// A call site: a place in a procedure. The root has one, without a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The procedure that calls.
    pub caller: Proc,
    /// Where in it; `None` for the root's site.
    pub place: Option<SourceLine>,
}

/// A place in code, as people see it: calls at several addresses of one line are one place, whether inlined or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// Source file.
    pub file: Option<FileId>,
    /// Source line, 0: not known.
    pub line: u32,
}

/// A context.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Its procedure.
    pub proc: Proc,
    /// The context that first called it; the root is its own.
    pub creator: ContextId,
}

/// A call edge.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// From this context
    pub caller: ContextId,
    /// through this site
    pub site: SiteId,
    /// to this one.
    pub callee: ContextId,
    /// Nanoseconds spent in the callee itself when called this way.
    pub own_ns: u64,
    /// What the callee itself allocated when called this way.
    pub own_memory: OwnMemory,
}

/// Blocks and octets, as estimated: each pair for one view of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnMemory {
    /// Allocated since the start.
    pub allocated: (f64, f64),
    /// Live at the end.
    pub live: (f64, f64),
    /// Live when most was.
    pub peak: (f64, f64),
}

impl OwnMemory {
    fn add(&mut self, more: &OwnMemory) {
        for (sum, more) in
            [(&mut self.allocated, more.allocated), (&mut self.live, more.live), (&mut self.peak, more.peak)]
        {
            sum.0 += more.0;
            sum.1 += more.1;
        }
    }
}

/// The root's site among a graph's sites.
pub const ROOT_SITE: SiteId = SiteId(0);
/// The root.
const ROOT: ContextId = ContextId(0);

/// Contexts and edges; context 0 is the root.
#[derive(Debug, Default)]
pub struct Graph {
    /// The contexts.
    pub contexts: IdVec<ContextId, Context>,
    /// The edges, in the order of their first use.
    pub edges: IdVec<EdgeId, Edge>,
    /// Call sites, in the order of their first use. The root's is the first one.
    pub sites: IdVec<SiteId, Site>,
    /// Names of the threads and processes that are kept apart.
    pub groups: IdVec<GroupId, String>,
    /// Nanoseconds whose contexts were folded because of the limit.
    pub folded_ns: u64,
    /// Finds an edge by its caller, site, and callee's procedure.
    index: Children,
    site_numbers: FxHashMap<Site, SiteId>,
    folded: FxHashMap<Proc, ContextId>,
}

impl Graph {
    /// An empty graph: the root.
    pub fn new() -> Graph {
        let mut graph = Graph::default();
        graph.contexts.push(Context { proc: Proc::Root, creator: ROOT });
        graph.site(Site { caller: Proc::Root, place: None });
        graph
    }

    /// The number of a site.
    fn site(&mut self, site: Site) -> SiteId {
        *self.site_numbers.entry(site).or_insert_with(|| self.sites.push(site))
    }

    fn find(&self, caller: ContextId, site: SiteId, callee: Proc) -> Option<EdgeId> {
        let same = |row: u32| {
            let edge = &self.edges[EdgeId(row)];
            (edge.caller, edge.site) == (caller, site) && self.contexts[edge.callee].proc == callee
        };
        self.index.find(caller.index(), || hash_of(caller, site, callee), same).map(EdgeId)
    }

    /// The edge for a call; made at its first use. True: it is beyond the limit.
    fn edge(&mut self, caller: ContextId, site: SiteId, callee: Proc, most: usize) -> (EdgeId, bool) {
        if let Some(edge) = self.find(caller, site, callee) {
            return (edge, false);
        }
        let beyond = self.edges.len() >= most;
        let context = match self.ancestor(caller, callee) {
            Some(known) => known,
            None if beyond => match self.folded.get(&callee) {
                Some(known) => *known,
                None => {
                    let made = self.context(callee, ROOT);
                    self.folded.insert(callee, made);
                    made
                }
            },
            None => self.context(callee, caller),
        };
        // beyond the limit all edges into a folded context hang under the root's site: their number is that
        // of procedures
        let (caller, site) = if beyond { (ROOT, ROOT_SITE) } else { (caller, site) };
        if beyond && let Some(edge) = self.find(caller, site, callee) {
            return (edge, beyond);
        }
        let edge = self.edges.push(Edge {
            caller,
            site,
            callee: context,
            own_ns: 0,
            own_memory: OwnMemory::default(),
        });
        let (edges, contexts) = (&self.edges, &self.contexts);
        self.index.insert(caller.index(), edge.number(), |row| {
            let edge = &edges[EdgeId(row)];
            hash_of(edge.caller, edge.site, contexts[edge.callee].proc)
        });
        (edge, beyond)
    }

    /// The creator rule: the nearest context of `proc` among `context` and its creators.
    fn ancestor(&self, context: ContextId, proc: Proc) -> Option<ContextId> {
        let mut at = context;
        loop {
            let c = self.contexts[at];
            if c.proc == proc {
                return Some(at);
            }
            if at == ROOT {
                return None;
            }
            at = c.creator;
        }
    }

    fn context(&mut self, proc: Proc, creator: ContextId) -> ContextId {
        self.contexts.push(Context { proc, creator })
    }

    /// Adds a profile's cells. At most `most` edges are made, and one more per procedure.
    pub fn add(&mut self, profile: &Profile, cells: &[Cell], most: usize) {
        self.add_below(ROOT, profile, cells, most);
    }

    /// Adds a profile's cells, those of each thread or process below a context of its own.
    pub fn add_apart(&mut self, profile: &Profile, cells: &[Cell], apart: Apart, most: usize) {
        if apart == Apart::default() {
            return self.add(profile, cells, most);
        }
        let mut parts: BTreeMap<Vec<GroupId>, Vec<Cell>> = BTreeMap::new();
        for cell in cells {
            parts.entry(self.groups_of(profile, cell, apart)).or_default().push(*cell);
        }
        for (groups, cells) in parts {
            let mut base = ROOT;
            for group in groups {
                let site = self.site(Site { caller: self.contexts[base].proc, place: None });
                let (edge, _) = self.edge(base, site, Proc::Group(group), usize::MAX);
                base = self.edges[edge].callee;
            }
            self.add_below(base, profile, &cells, most);
        }
    }

    /// The process and the thread of a cell, as far as they are kept apart.
    fn groups_of(&mut self, profile: &Profile, cell: &Cell, apart: Apart) -> Vec<GroupId> {
        names_of(profile, cell, apart).into_iter().map(|name| self.group(name)).collect()
    }

    /// The groups, of those that there are, that a cell belongs to.
    pub(crate) fn known_groups_of(&self, profile: &Profile, cell: &Cell) -> Vec<GroupId> {
        let names = names_of(profile, cell, Apart { processes: true, threads: true });
        let at = |name: &String| self.groups.iter().position(|g| g == name).map(GroupId::from_index);
        names.iter().filter_map(at).collect()
    }

    fn group(&mut self, name: String) -> GroupId {
        let known = self.groups.iter().position(|g| *g == name);
        known.map_or_else(|| self.groups.push(name), GroupId::from_index)
    }

    /// Adds what another graph of the same profile holds. A graph is the union of those of its parts, in any order: the
    /// creator rule looks at the call path only. (Beyond the limit, what is folded depends on the order.)
    pub fn merge(&mut self, other: &Graph, most: usize) {
        // an edge's caller is the root or the callee of an edge before it
        let mut mine = vec![ROOT; other.contexts.len()];
        let groups: Vec<GroupId> = other.groups.iter().map(|g| self.group(g.clone())).collect();
        let own_name = |proc: Proc| match proc {
            Proc::Group(g) => Proc::Group(groups[g.index()]),
            named => named,
        };
        let sites: Vec<SiteId> =
            other.sites.iter().map(|s| self.site(Site { caller: own_name(s.caller), ..*s })).collect();
        for edge in other.edges.iter() {
            let callee = own_name(other.contexts[edge.callee].proc);
            let site = sites[edge.site.index()];
            let (at, beyond) = self.edge(mine[edge.caller.index()], site, callee, most);
            mine[edge.callee.index()] = self.edges[at].callee;
            self.edges[at].own_ns += edge.own_ns;
            self.edges[at].own_memory.add(&edge.own_memory);
            if beyond {
                self.folded_ns += edge.own_ns;
            }
        }
        self.folded_ns += other.folded_ns;
    }

    fn add_below(&mut self, base: ContextId, profile: &Profile, cells: &[Cell], most: usize) {
        let mut own = vec![0u64; profile.stacks.len()];
        for cell in cells {
            own[cell.stack.index()] += cell.weight.cpu_ns();
        }
        let edges = self.edges_of(base, profile, &used(profile, &own), most);
        for (ns, edge) in own.into_iter().zip(edges) {
            let Some((edge, beyond)) = edge else { continue };
            self.edges[edge].own_ns += ns;
            if beyond {
                self.folded_ns += ns;
            }
        }
    }

    /// Adds what was allocated, by the same contexts. Which thread allocated is not known, so all of it is
    /// below the root.
    pub fn add_memory(&mut self, profile: &Profile, cells: &[MemoryCell], most: usize) {
        let mut own = vec![OwnMemory::default(); profile.stacks.len()];
        let mut wanted = vec![0; profile.stacks.len()];
        for cell in cells {
            let pair = |held: &MemoryAmount| (held.blocks.amount, held.bytes.amount);
            let figures = &cell.figures;
            let (allocated, live, peak) =
                (pair(&figures.allocated), pair(&figures.live), pair(&figures.peak));
            own[cell.stack.index()].add(&OwnMemory { allocated, live, peak });
            wanted[cell.stack.index()] = 1;
        }
        let edges = self.edges_of(ROOT, profile, &used(profile, &wanted), most);
        for (memory, edge) in own.iter().zip(edges) {
            if let Some((edge, _)) = edge {
                self.edges[edge].own_memory.add(memory);
            }
        }
    }

    /// The edge of each used stack below a context, made if need be, and whether it was folded because of the limit.
    fn edges_of(
        &mut self,
        base: ContextId,
        profile: &Profile,
        used: &[bool],
        most: usize,
    ) -> Vec<Option<(EdgeId, bool)>> {
        let base_site = self.site(Site { caller: self.contexts[base].proc, place: None });
        // by the caller's frame
        let mut site_of: Vec<Option<SiteId>> = vec![None; profile.frames.len()];
        // callers have smaller ids: each stack's context follows from its caller's
        let mut edges: Vec<Option<(EdgeId, bool)>> = Vec::with_capacity(profile.stacks.len());
        for (id, node) in profile.stacks.enumerate() {
            if !used[id.index()] {
                edges.push(None);
                continue;
            }
            let above = node.parent.and_then(|parent| Some((parent, edges[parent.index()]?.0)));
            let (caller, site) = match above {
                None => (base, base_site),
                Some((parent, edge)) => {
                    let frame = profile.stacks[parent].frame;
                    let site = &mut site_of[frame.index()];
                    let site = *site.get_or_insert_with(|| self.site(site_in(&profile.frames[frame])));
                    (self.edges[edge].callee, site)
                }
            };
            let callee = Proc::Function(profile.frames[node.frame].function);
            edges.push(Some(self.edge(caller, site, callee, most)));
        }
        edges
    }

    /// All time in the graph.
    pub fn total_ns(&self) -> u64 {
        self.edges.iter().map(|e| e.own_ns).sum()
    }
}

fn names_of(profile: &Profile, cell: &Cell, apart: Apart) -> Vec<String> {
    let thread = &profile.threads[cell.thread];
    let process = &profile.processes[thread.process];
    let mut names = Vec::new();
    if apart.processes {
        names.push(format!("<process {} {}>", process.pid, process.name));
    }
    if apart.threads {
        names.push(match thread.name.as_str() {
            "" => format!("<thread {}>", thread.tid),
            name => format!("<thread {name}>"),
        });
    }
    names
}

fn used(profile: &Profile, own: &[u64]) -> Vec<bool> {
    let mut used: Vec<bool> = own.iter().map(|n| *n > 0).collect();
    for (id, node) in profile.stacks.enumerate().rev() {
        if let Some(parent) = node.parent.filter(|_| used[id.index()]) {
            used[parent.index()] = true;
        }
    }
    used
}

fn hash_of(caller: ContextId, site: SiteId, callee: Proc) -> u32 {
    let callee = match callee {
        Proc::Root => u64::MAX,
        Proc::Group(group) => u64::MAX - 1 - u64::from(group.number()),
        Proc::Function(function) => u64::from(function.number()),
    };
    mix((u64::from(caller.number()) << 32) | u64::from(site.number()), callee)
}

/// The site in a caller's frame.
fn site_in(frame: &Frame) -> Site {
    Site {
        caller: Proc::Function(frame.function),
        place: Some(SourceLine { file: frame.file, line: frame.line }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_profile::model::{Builder, Object, ObjectKind, Process, Weight};
    use proptest::prelude::*;

    fn profile(lines: &[(&str, u64)]) -> Profile {
        let mut b = Builder::new(false);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "t");
        let object = b.object(Object::new("/bin/p", ObjectKind::File));
        for (stack, ns) in lines {
            let mut at = None;
            for name in stack.split(';') {
                let function = b.function(object, name);
                let frame = b.plain_frame(function);
                at = Some(b.stack(at, frame));
            }
            b.add(thread, at.unwrap(), Weight { samples: 1, user_ns: *ns, system_ns: 0 });
        }
        b.finish()
    }

    fn graph(lines: &[(&str, u64)], most: usize) -> Graph {
        let p = profile(lines);
        let mut g = Graph::new();
        g.add(&p, &p.cells, most);
        g
    }

    #[test]
    fn recursion_leads_back_to_the_context_that_it_came_from() {
        // main -> a -> b -> a -> b: contexts main, a, b, the root
        let g = graph(&[("main;a;b;a;b", 5), ("main;a", 1)], MOST_EDGES);
        assert_eq!(g.contexts.len(), 4);
        assert_eq!(g.edges.len(), 4); // root-main, main-a, a-b, b-a
        assert_eq!(g.total_ns(), 6);
    }

    #[test]
    fn the_same_function_in_two_contexts_is_two() {
        let g = graph(&[("main;a;x", 1), ("main;b;x", 2)], MOST_EDGES);
        assert_eq!(g.contexts.len(), 6);
        assert_eq!(g.total_ns(), 3);
    }

    #[test]
    fn the_order_of_samples_does_not_change_the_graph() {
        let lines = [("m;a;b;a;c;b", 1), ("m;a;c;b", 2), ("m;b;a", 3), ("m;c", 4)];
        let shape = |order: &[usize]| {
            let lines: Vec<_> = order.iter().map(|i| lines[*i]).collect();
            let p = profile(&lines);
            let mut g = Graph::new();
            g.add(&p, &p.cells, MOST_EDGES);
            let name = |proc: Proc| match proc {
                Proc::Root | Proc::Group(_) => pct_deep::native::NATIVE_ROOT.to_owned(),
                Proc::Function(f) => p.functions[f].name.clone(),
            };
            let path = |mut c: ContextId| {
                let mut names = vec![name(g.contexts[c].proc)];
                while c != ROOT {
                    c = g.contexts[c].creator;
                    names.push(name(g.contexts[c].proc));
                }
                names
            };
            let mut edges: Vec<_> =
                g.edges.iter().map(|e| (path(e.caller), path(e.callee), e.own_ns)).collect();
            edges.sort();
            edges
        };
        let first = shape(&[0, 1, 2, 3]);
        for order in [[3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            assert_eq!(shape(&order), first);
        }
    }

    #[test]
    fn a_family_that_would_explode_stays_under_the_limit_and_loses_no_time() {
        // every order of six mutually calling functions is a context of its own
        let names = ["a", "b", "c", "d", "e", "f"];
        let mut lines = Vec::new();
        let mut order = names.to_vec();
        for i in 0..720 {
            order.rotate_left(1 + i % 5);
            order.swap(i % 6, (i * 7 + 3) % 6);
            lines.push(format!("main;{}", order.join(";")));
        }
        let lines: Vec<(&str, u64)> = lines.iter().map(|l| (l.as_str(), 10)).collect();
        let g = graph(&lines, 20);
        assert!(g.edges.len() <= 20 + names.len() + 1, "{}", g.edges.len());
        assert_eq!(g.total_ns(), 7200);
        assert!(g.folded_ns > 0);
    }
    /// What a graph says, whatever the numbers of its contexts: for each edge the whole way to it by call
    /// sites, and its time.
    fn shape(g: &Graph) -> Vec<(Vec<String>, u64)> {
        let mut way: Vec<Vec<String>> = vec![Vec::new(); g.contexts.len()];
        let mut known = vec![false; g.contexts.len()];
        known[0] = true;
        let mut out = Vec::new();
        for e in g.edges.iter() {
            let callee = g.contexts[e.callee].proc;
            let mut path = way[e.caller.index()].clone();
            path.push(format!("{:?} -> {callee:?}", g.sites[e.site]));
            if !known[e.callee.index()] {
                known[e.callee.index()] = true;
                way[e.callee.index()] = path.clone();
            } else {
                // an edge back: it leads to a context that its way has met, or to one made by an edge before
                path.push(format!("back to {:?}", way[e.callee.index()]));
            }
            out.push((path, e.own_ns));
        }
        out.sort();
        out
    }

    /// A profile of threads whose stacks are made of a few functions, so that recursion and sharing abound.
    fn threads(stacks: &[Vec<(Vec<u8>, u64)>]) -> Profile {
        let mut b = Builder::new(false);
        let process = b.process(Process::default());
        let object = b.object(Object::new("/bin/p", ObjectKind::File));
        for (t, lines) in stacks.iter().enumerate() {
            let thread = b.thread(process, t as u32 + 1, &format!("t{t}"));
            for (stack, ns) in lines {
                let mut at = None;
                for (depth, f) in stack.iter().enumerate() {
                    let function = b.function(object, &format!("f{}", f % 6));
                    // two call sites in each function
                    let frame = b.frame(pct_profile::model::Frame {
                        function,
                        file: None,
                        line: u32::from(f / 6 % 2) + 1,
                        address: Some(u64::from(f % 6) * 16 + u64::from(f / 6 % 2)),
                        inlined: depth > 0 && f / 12 % 5 == 0,
                    });
                    at = Some(b.stack(at, frame));
                }
                b.add(thread, at.unwrap(), Weight { samples: 1, user_ns: *ns, system_ns: 0 });
            }
        }
        b.finish()
    }

    fn stacks() -> impl Strategy<Value = Vec<Vec<(Vec<u8>, u64)>>> {
        let stack = (proptest::collection::vec(any::<u8>(), 1..9), 1u64..1000);
        proptest::collection::vec(proptest::collection::vec(stack, 0..12), 8)
    }

    proptest! {
        #[test]
        fn the_graphs_of_eight_threads_merged_are_the_graph_of_all_stacks(
            lines in stacks(), order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle()
        ) {
            let p = threads(&lines);
            let mut whole = Graph::new();
            whole.add(&p, &p.cells, MOST_EDGES);
            let mut merged = Graph::new();
            for t in order {
                let cells: Vec<Cell> = p.cells.iter().filter(|c| c.thread.index() == t).copied().collect();
                let mut one = Graph::new();
                one.add(&p, &cells, MOST_EDGES);
                merged.merge(&one, MOST_EDGES);
            }
            prop_assert_eq!(shape(&merged), shape(&whole));
            prop_assert_eq!(merged.total_ns(), p.total().cpu_ns());
        }

        #[test]
        fn threads_apart_have_all_their_time_below_them(lines in stacks()) {
            let p = threads(&lines);
            let mut g = Graph::new();
            g.add_apart(&p, &p.cells, Apart { threads: true, processes: true }, MOST_EDGES);
            prop_assert_eq!(g.total_ns(), p.total().cpu_ns());
            // root -> process -> threads
            let used = lines.iter().filter(|l| !l.is_empty()).count();
            prop_assert_eq!(g.groups.len(), if used == 0 { 0 } else { used + 1 });
            prop_assert!(g.edges.iter().filter(|e| e.caller == ROOT).count() <= 1);
        }

        #[test]
        fn a_limit_loses_no_time_and_is_kept(lines in stacks(), most in 0usize..30) {
            let p = threads(&lines);
            let mut g = Graph::new();
            g.add(&p, &p.cells, most);
            prop_assert_eq!(g.total_ns(), p.total().cpu_ns());
            prop_assert!(g.edges.len() <= most + 6);
        }
    }
}
