//! What ranges of a recording spent where: the answers to the timeline page, counted from the same profile
//! and by the same views as `pct report` counts.

use crate::commands::{annotate, sources};
use lttv_page::recording::{Sample, Samples};
use lttv_page::windows::{
    CallNode, ChartSize, ChartedCall, FileFormat, FunctionRow, ListedLine, Listing, Listings, Pieces,
    SampledTime, StackChart, TransformKind, Trees,
};
use lttv_page::{Window, WindowSums, Windows};
use pct_formats::Format;
use pct_profile::calls_over_time::{CallsOverTime, Columns, StackSpan, calls_over_time};
use pct_profile::cut::{self, CutRecording, Range};
use pct_profile::flat::Order;
use pct_profile::fold::{Owners, Whose};
use pct_profile::model::{Cell, FunctionId, Id as _, StackId, ThreadId, Weight};
use pct_profile::select::{stacks_through, timed_weight};
use pct_profile::text::table::tame;
use pct_profile::tree::NodeId;
use pct_profile::{By, CallTree, Filter, Flat, Label, Pattern, Profile, Split, Transform, Transformed};
use pct_reports::sources::Sources;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A profile that answers.
pub(super) struct Counted {
    profile: Profile,
    /// The samples of each thread; the profile has none in order of time.
    samples: Vec<Arc<Samples>>,
    /// Which source files pages may show.
    sources: Sources,
    /// Code and sources beside the recording.
    copies: annotate::copies::Copies,
    /// The lists of transforms that were asked for last, the latest at the end.
    transformed: Mutex<Vec<Prepared>>,
    /// Whose time each stack is.
    owners: OnceLock<Owners>,
    path: PathBuf,
    /// The files of the recording.
    files: Vec<PathBuf>,
}

/// A list of transforms and what it makes of the profile.
type Prepared = (Vec<lttv_page::windows::Transform>, Arc<Transformed>);

/// Whether threads with one stack have a cell each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadCells {
    /// They have; files tell threads apart.
    Apart,
    /// One cell for each stack, of the first thread that counts. Pictures and tables are sums of all threads.
    Together,
}

/// Transformed profiles that are kept.
const KEPT: usize = 4;

impl Counted {
    /// The profile of the recording at `path`, which was read from these files.
    pub(super) fn new(
        profile: Profile,
        samples: Vec<Arc<Samples>>,
        (path, files): (&Path, &[PathBuf]),
    ) -> Counted {
        let sources = sources::of_recording(path, &profile);
        let copies = annotate::copies::Copies::beside(&[path.to_owned()]);
        Counted {
            profile,
            samples,
            sources,
            copies,
            transformed: Mutex::default(),
            owners: OnceLock::new(),
            path: path.to_owned(),
            files: files.to_vec(),
        }
    }

    fn filter(&self, window: &Window) -> Result<Filter, String> {
        let pattern = |text: &str| match text {
            "" => Ok(None),
            text => Pattern::parse(text).map(Some).map_err(|why| why.to_string()),
        };
        Ok(Filter {
            focus: pattern(&window.filters.function)?,
            ignore: None,
            object: pattern(&window.filters.object)?,
            thread: pattern(&window.filters.thread)?,
            process: pattern(&window.filters.process)?,
            window: None,
        })
    }

    /// For each thread whether a window counts it.
    fn is_counted(&self, window: &Window, filter: &Filter) -> Vec<bool> {
        let listed = |at: usize| window.threads.as_ref().is_none_or(|threads| threads.contains(&at));
        let of_thread = |thread| Cell { thread, stack: StackId::from_index(0), weight: Weight::ZERO };
        let mut cells: Vec<Cell> = self.profile.threads.ids().map(of_thread).collect();
        let (thread, process) = (filter.thread.clone(), filter.process.clone());
        Filter { thread, process, ..Filter::default() }.keep(&self.profile, &mut cells);
        let mut counted = vec![false; self.profile.threads.len()];
        cells.iter().map(|cell| cell.thread.index()).for_each(|at| counted[at] = listed(at));
        counted
    }

    /// The cells of a window as they were recorded.
    fn cells(&self, window: &Window, threads: ThreadCells) -> Result<Vec<Cell>, String> {
        let filter = self.filter(window)?;
        let counted = self.is_counted(window, &filter);
        let mut cells = Vec::new();
        let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        let cell = |thread, (stack, (samples, ns)): (u32, (u64, u64))| {
            let stack = stack_id(stack);
            Cell { thread, stack, weight: timed_weight(&self.profile, stack, samples, ns) }
        };
        let mut first = None;
        for (at, samples) in self.samples.iter().enumerate().filter(|(at, _)| counted[*at]) {
            first = first.or(Some(ThreadId::from_index(at)));
            for sample in samples.from_time(window.from_ns).take_while(|s| s.time_ns < window.to_ns) {
                let sum = sums.entry(sample.stack).or_default();
                *sum = (sum.0 + 1, sum.1.saturating_add(sample.weight_ns));
            }
            if threads == ThreadCells::Apart {
                cells.extend(sums.drain().map(|sum| cell(ThreadId::from_index(at), sum)));
            }
        }
        if let Some(thread) = first {
            cells.extend(sums.drain().map(|sum| cell(thread, sum)));
        }
        cells.sort_unstable_by_key(|cell| (cell.thread, cell.stack));
        // Which threads count is decided already.
        Filter { thread: None, process: None, ..filter }.keep(&self.profile, &mut cells);
        Ok(cells)
    }

    /// The threads of which a stack chart is made, first the one that ran most: all those that were asked for, or it
    /// alone.
    fn charted(&self, window: &Window, filter: &Filter) -> Result<Vec<usize>, String> {
        // Time that they ran, and time by the clock, which may have waits.
        let mut time: FxHashMap<usize, (u64, u64)> = FxHashMap::default();
        for cell in self.cells(window, ThreadCells::Apart)? {
            let (ns, ran) = (cell.weight.cpu_ns(), !self.profile.is_blocked(self.profile.leaf(cell.stack)));
            let sum = time.entry(cell.thread.index()).or_default();
            *sum = (sum.0.saturating_add(if ran { ns } else { 0 }), sum.1.saturating_add(ns));
        }
        let busiest = time.into_iter().max_by_key(|(at, time)| (*time, Reverse(*at))).map(|(at, _)| at);
        let Some(busiest) = busiest else { return Ok(Vec::new()) };
        let counted = self.is_counted(window, filter);
        let asked = window.threads.iter().flatten().copied();
        let others = asked.filter(|at| *at != busiest && counted.get(*at) == Some(&true));
        Ok([busiest].into_iter().chain(others).collect())
    }

    /// The stacks among these that a filter lets through, as a window sees them.
    fn seen_as(
        &self,
        stacks: FxHashSet<u32>,
        filter: &Filter,
        transformed: Option<&Transformed>,
    ) -> FxHashMap<u32, StackId> {
        let weight = Weight { samples: 1, ..Weight::ZERO };
        let thread = ThreadId::from_index(0);
        let mut cells: Vec<Cell> =
            stacks.into_iter().map(|stack| Cell { thread, stack: stack_id(stack), weight }).collect();
        Filter { thread: None, process: None, ..filter.clone() }.keep(&self.profile, &mut cells);
        let seen = |cell: Cell| {
            let stack = transformed.map_or(Some(cell.stack), |of| of.stack(cell.stack))?;
            Some((u32::try_from(cell.stack.index()).ok()?, stack))
        };
        cells.into_iter().filter_map(seen).collect()
    }

    /// The samples of all threads in [from, to), in order of time, each with the place of its thread.
    fn in_order(
        &self,
        (from, to): (i64, i64),
        wanted: impl Fn(usize, Sample) -> bool,
    ) -> Vec<(usize, Sample)> {
        let mut all = Vec::new();
        for (at, samples) in self.samples.iter().enumerate() {
            let inside = samples.from_time(from).take_while(|sample| sample.time_ns < to);
            all.extend(inside.filter(|sample| wanted(at, *sample)).map(|sample| (at, sample)));
        }
        all.sort_by_key(|(_, sample)| sample.time_ns);
        all
    }

    /// The profile as a window sees it; none: as it is.
    fn transformed(&self, window: &Window) -> Option<Arc<Transformed>> {
        if window.transforms.is_empty() {
            return None;
        }
        let lock = || self.transformed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|(list, _)| *list == window.transforms) {
            return Some(known.clone());
        }
        let list: Vec<Transform> = window.transforms.iter().map(transform).collect();
        let made = Arc::new(Transformed::apply(&self.profile, &list));
        let mut kept = lock();
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((window.transforms.clone(), made.clone()));
        Some(made)
    }

    /// Calls `count` with the profile and the cells that a window shows.
    fn with<T>(
        &self,
        window: &Window,
        threads: ThreadCells,
        count: impl FnOnce(&Profile, &[Cell]) -> T,
    ) -> Result<T, String> {
        let cells = self.cells(window, threads)?;
        Ok(match self.transformed(window) {
            Some(transformed) => count(&transformed.profile, &transformed.cells(&cells)),
            None => count(&self.profile, &cells),
        })
    }

    /// A line of JSON for each sample of the window that its filters let through.
    fn json_lines(&self, window: &Window) -> Result<Vec<u8>, String> {
        let shown: std::collections::HashSet<_> =
            self.cells(window, ThreadCells::Apart)?.iter().map(|cell| (cell.thread, cell.stack)).collect();
        let is_shown =
            |at: usize, sample: Sample| shown.contains(&(ThreadId::from_index(at), stack_id(sample.stack)));
        let mut out = Vec::new();
        for (at, sample) in self.in_order((window.from_ns, window.to_ns), is_shown) {
            out.extend_from_slice(self.json_line(ThreadId::from_index(at), sample).as_bytes());
            out.push(b'\n');
        }
        Ok(out)
    }

    fn json_line(&self, thread: ThreadId, sample: Sample) -> String {
        let profile = &self.profile;
        let (thread, process) = (&profile.threads[thread], profile.process_of(thread));
        let outwards = profile.outwards(stack_id(sample.stack));
        let mut stack: Vec<String> =
            outwards.map(|(_, frame)| tame(&profile.functions[frame.function].name)).collect();
        stack.reverse();
        let of_cpu = profile.is_of_cpu_time() && !profile.by_wall_clock();
        json!({
            "ns": sample.time_ns, "pid": process.pid, "tid": thread.tid, "thread": tame(&thread.name),
            (if of_cpu { "cpu_ns" } else { "weight_ns" }): sample.weight_ns, "stack": stack,
        })
        .to_string()
    }
}

/// The stack that a sample of the page names: it has the numbers of the profile.
fn stack_id(stack: u32) -> StackId {
    StackId::from_index(usize::try_from(stack).unwrap_or(usize::MAX))
}

fn transform(typed: &lttv_page::windows::Transform) -> Transform {
    let name = typed.name.clone();
    match typed.kind {
        TransformKind::Focus => Transform::Focus(name),
        TransformKind::Ignore => Transform::Ignore(name),
        TransformKind::Merge => Transform::Merge(name),
        TransformKind::Recursion => Transform::Recursion(name),
        TransformKind::Object => Transform::Object(name),
    }
}

/// A tree as a list, each node right after its caller or after all below its heavier sibling.
fn nodes(profile: &Profile, tree: &CallTree) -> Vec<CallNode> {
    let mut out: Vec<CallNode> = Vec::with_capacity(tree.nodes.len());
    let mut place_of: Vec<usize> = vec![0; tree.nodes.len()];
    // A function is in many nodes: its name is made once.
    let mut names: FxHashMap<Label, (Arc<str>, Arc<str>)> = FxHashMap::default();
    tree.walk(|id: NodeId, _| {
        let node = &tree.nodes[id];
        place_of[id.index()] = out.len();
        let (name, object) = names.entry(node.label).or_insert_with(|| {
            let object = node.label.function(profile).map(|function| profile.group(function));
            (node.label.name(profile).into(), object.unwrap_or_default().into())
        });
        out.push(CallNode {
            parent: node.parent.map(|parent| place_of[parent.index()]),
            name: name.clone(),
            object: object.clone(),
            own_ns: node.own.cpu_ns(),
            ends_ns: node.ends.cpu_ns(),
            total_ns: node.total.cpu_ns(),
        });
        true
    });
    out
}

fn trees(profile: &Profile, cells: &[Cell], wanted: &Trees) -> Vec<Vec<CallNode>> {
    let named = |name: &str| {
        let name = name.to_owned();
        move |id| profile.functions[id].name == name
    };
    let trees = match wanted {
        Trees::None => Vec::new(),
        Trees::Calls => vec![CallTree::top_down(profile, cells, By::Function, Split::Merged)],
        Trees::Inverted => vec![CallTree::bottom_up(profile, cells, By::Function, Split::Merged)],
        Trees::Sandwich(name) => vec![
            CallTree::callers(profile, cells, named(name), By::Function),
            CallTree::callees(profile, cells, named(name), By::Function),
        ],
    };
    trees.iter().map(|tree| nodes(profile, tree)).collect()
}

/// The table of functions: what each owns, has itself, and has with what it calls.
fn functions(profile: &Profile, cells: &[Cell], owners: &Owners) -> Vec<FunctionRow> {
    let count = |cells: &[Cell]| {
        Flat::count_cells(profile, cells, Some(By::Function), Split::Merged, Order::Own).rows
    };
    let time = |weight: Weight| SampledTime { ns: weight.cpu_ns(), samples: weight.samples };
    let by_leaf = count(cells);
    let by_owner = count(&owners.give(&owners.with_own_work(profile, cells), Whose::Owner));
    let mut rows: FxHashMap<Label, FunctionRow> = FxHashMap::default();
    // What a runtime does for itself has a row by owner alone.
    for (found, is_leaf) in
        by_leaf.iter().map(|row| (row, true)).chain(by_owner.iter().map(|row| (row, false)))
    {
        let Some(label) = found.label else { continue };
        let row = rows.entry(label).or_insert_with(|| {
            let object = label.function(profile).map(|id| profile.functions[id].object);
            FunctionRow {
                name: label.name(profile),
                object: object.map(|id| profile.objects[id].name().to_owned()).unwrap_or_default(),
                owned: SampledTime::default(),
                leaf: SampledTime::default(),
                total: time(found.total),
            }
        });
        *(if is_leaf { &mut row.leaf } else { &mut row.owned }) = time(found.own);
    }
    rows.into_values().collect()
}

fn sums(profile: &Profile, cells: &[Cell], owners: &Owners, wanted: &Trees) -> WindowSums {
    let all: Weight = cells.iter().map(|cell| cell.weight).sum();
    WindowSums {
        samples: all.samples,
        cpu_ns: all.cpu_ns(),
        functions: functions(profile, cells, owners),
        trees: trees(profile, cells, wanted),
    }
}

impl Windows for Counted {
    fn samples(&self, from_ns: i64, to_ns: i64) -> u64 {
        let counts =
            self.samples.iter().map(|s| s.count_before(to_ns).saturating_sub(s.count_before(from_ns)));
        counts.sum::<usize>() as u64
    }

    fn sums(&self, window: &Window, wanted: &Trees) -> Result<WindowSums, String> {
        // Compilers and collectors are known by their threads.
        let cells = self.cells(window, ThreadCells::Apart)?;
        Ok(match self.transformed(window) {
            Some(of) => sums(&of.profile, &of.cells(&cells), &Owners::from_profile(&of.profile), wanted),
            None => {
                let owners = self.owners.get_or_init(|| Owners::from_profile(&self.profile));
                sums(&self.profile, &cells, owners, wanted)
            }
        })
    }

    fn stack_chart(&self, window: &Window, size: ChartSize) -> Result<Option<StackChart>, String> {
        let filter = self.filter(window)?;
        let threads = self.charted(window, &filter)?;
        let Some(&thread) = threads.first() else { return Ok(None) };
        let transformed = self.transformed(window);
        let profile = transformed.as_ref().map_or(&self.profile, |of| &of.profile);
        // A sample stands for time before it: that of one behind the range may lie in it.
        let spans = || {
            let samples = threads.iter().filter_map(|at| self.samples.get(*at));
            samples.flat_map(|samples| samples.spans(window.from_ns, window.to_ns))
        };
        let stacks = spans().map(|span| span.sample.stack).collect();
        let seen = self.seen_as(stacks, &filter, transformed.as_deref());
        let spans = spans().filter_map(|span| {
            let stack = *seen.get(&span.sample.stack)?;
            Some(StackSpan { from_ns: span.from_ns, to_ns: span.to_ns, stack })
        });
        let columns = Columns {
            from_ns: window.from_ns,
            to_ns: window.to_ns,
            count: size.columns,
            levels: size.levels,
            calls: size.calls,
        };
        let found = calls_over_time(profile, columns, spans);
        let mut names: FxHashMap<FunctionId, (Arc<str>, Arc<str>)> = FxHashMap::default();
        let calls = found.calls.iter().map(|call| {
            let (name, object) = names.entry(call.function).or_insert_with(|| {
                (profile.functions[call.function].name.as_str().into(), profile.group(call.function).into())
            });
            let (name, object) = (name.clone(), object.clone());
            ChartedCall { parent: call.parent, name, object, from_ns: call.from_ns, to_ns: call.to_ns }
        });
        let calls = calls.collect();
        let CallsOverTime { columns, filled, mixed, cut, .. } = found;
        Ok(Some(StackChart { thread, calls, columns, filled, mixed, cut }))
    }

    fn listings(&self, window: &Window, function: &str) -> Result<Listings, String> {
        let cells = self.cells(window, ThreadCells::Together)?;
        let near = annotate::near(&self.profile, &cells, function, &self.sources, &self.copies);
        let line = |row: annotate::Row| ListedLine {
            own_ns: row.own.cpu_ns(),
            total_ns: row.total.cpu_ns(),
            place: row.place,
            text: row.text,
        };
        let listing = |found: annotate::Listing| Listing {
            title: found.title,
            has_totals: found.totals,
            lines: found.rows.into_iter().map(line).collect(),
        };
        Ok(Listings {
            listings: near.listings.into_iter().map(listing).collect(),
            remarks: near.remarks,
            own_ns: near.sum.0.cpu_ns(),
            total_ns: near.sum.1.cpu_ns(),
            whole_ns: cells.iter().map(|cell| cell.weight.cpu_ns()).sum(),
        })
    }

    fn file(&self, window: &Window, format: FileFormat) -> Result<Vec<u8>, String> {
        let format = match format {
            FileFormat::Folded => Format::Folded,
            FileFormat::Pprof => Format::Pprof,
            FileFormat::JsonLines => return self.json_lines(window),
        };
        self.with(window, ThreadCells::Apart, |profile, cells| pct_formats::export(profile, cells, format))
    }

    fn archive_name(&self) -> Option<&'static str> {
        let is_folder = cut::becomes_folder(&self.path, &self.files)?;
        Some(if is_folder { "part.tar" } else { "part.pct" })
    }

    fn archive(&self, from_ns: i64, to_ns: i64) -> Result<Pieces, String> {
        let time = |ns: i64| u64::try_from(ns).unwrap_or(0);
        let start_ns = self.profile.start_realtime_ns;
        let range = Range { from_ns: time(from_ns), to_ns: time(to_ns), start_ns };
        if self.archive_name().is_none() {
            return Err(format!("{}: a part of it cannot be saved as a recording", self.path.display()));
        }
        let cut = CutRecording::open(&self.path, &self.files, range);
        let pieces = cut.map_err(|why| crate::errors::chain(&why.into()))?.pieces();
        // A file that cannot be read on leaves what is saved cut short, which its reader will say.
        Ok(Box::new(pieces.map_while(Result::ok)))
    }

    fn hits(&self, pattern: &str, most: usize) -> Result<(Vec<(i64, usize)>, u64), String> {
        let pattern = Pattern::parse(pattern).map_err(|why| why.to_string())?;
        let profile = &self.profile;
        let on = stacks_through(profile, |function| pattern.matches(&profile.functions[function].name));
        let is_hit = |sample: &Sample| on.get(stack_id(sample.stack).index()) == Some(&true);
        let (mut hits, mut count) = (Vec::new(), 0);
        for (at, samples) in self.samples.iter().enumerate() {
            let begin = hits.len();
            for sample in samples.iter().filter(is_hit) {
                count += 1;
                if hits.len() - begin < most {
                    hits.push((sample.time_ns, at));
                }
            }
        }
        hits.sort_by_key(|hit| hit.0);
        hits.truncate(most);
        Ok((hits, count))
    }
}
