//! What ranges of a recording spent where: the answers to the timeline page, counted from the same profile and by the same
//! views as `pct report` counts.

use crate::commands::{annotate, sources};
use lttv_page::windows::{
    CallNode, FileFormat, FunctionRow, ListedLine, Listing, Listings, TransformKind, Trees,
};
use lttv_page::{Window, WindowSums, Windows};
use pct_formats::{Format, flame};
use pct_profile::flat::Order;
use pct_profile::model::{Cell, Id as _, StackId, TimedSample, Weight};
use pct_profile::select::stacks_through;
use pct_profile::text::table::tame;
use pct_profile::tree::NodeId;
use pct_profile::{By, CallTree, Filter, Flat, Pattern, Profile, Split, Transform, Transformed};
use pct_reports::sources::Sources;
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A profile that answers.
pub(super) struct Counted {
    profile: Profile,
    /// When its times begin, ns since 1970.
    start: i64,
    /// Which source files pages may show.
    sources: Sources,
    /// The lists of transforms that were asked for last, the latest at the end.
    transformed: Mutex<Vec<Prepared>>,
}

/// A list of transforms and what it makes of the profile.
type Prepared = (Vec<lttv_page::windows::Transform>, Arc<Transformed>);

/// Transformed profiles that are kept.
const KEPT: usize = 4;

impl Counted {
    pub(super) fn new(profile: Profile, start: i64, path: &Path) -> Counted {
        let sources = sources::of_recording(path, &profile);
        Counted { profile, start, sources, transformed: Mutex::default() }
    }

    fn since_start(&self, time: i64) -> u64 {
        u64::try_from(time.saturating_sub(self.start)).unwrap_or(0)
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
            window: Some((self.since_start(window.from_ns), self.since_start(window.to_ns))),
        })
    }

    /// The cells of a window as they were recorded.
    fn cells(&self, window: &Window) -> Result<Vec<Cell>, String> {
        let mut cells = self.filter(window)?.cells(&self.profile);
        if let Some(threads) = &window.threads {
            cells.retain(|cell| threads.contains(&cell.thread.index()));
        }
        Ok(cells)
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
        let made = Arc::new(Transformed::of(&self.profile, &list));
        let mut kept = lock();
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((window.transforms.clone(), made.clone()));
        Some(made)
    }

    /// Calls `count` with the profile and the cells that a window shows.
    fn with<T>(&self, window: &Window, count: impl FnOnce(&Profile, &[Cell]) -> T) -> Result<T, String> {
        let cells = self.cells(window)?;
        Ok(match self.transformed(window) {
            Some(transformed) => count(&transformed.profile, &transformed.cells(&cells)),
            None => count(&self.profile, &cells),
        })
    }

    /// A line of JSON for each sample of the window that its filters let through.
    fn json_lines(&self, window: &Window) -> Result<Vec<u8>, String> {
        let shown: std::collections::HashSet<_> =
            self.cells(window)?.iter().map(|cell| (cell.thread, cell.stack)).collect();
        let (from, to) = (self.since_start(window.from_ns), self.since_start(window.to_ns));
        let mut out = Vec::new();
        let first = self.profile.timeline.partition_point(|sample| sample.time_ns < from);
        let inside = self.profile.timeline[first..].iter().take_while(|sample| sample.time_ns < to);
        for sample in inside.filter(|sample| shown.contains(&(sample.thread, sample.stack))) {
            out.extend_from_slice(self.json_line(sample).as_bytes());
            out.push(b'\n');
        }
        Ok(out)
    }

    fn json_line(&self, sample: &TimedSample) -> String {
        let profile = &self.profile;
        let (thread, process) = (&profile.threads[sample.thread], profile.process_of(sample.thread));
        let outwards = profile.outwards(sample.stack);
        let mut stack: Vec<String> =
            outwards.map(|(_, frame)| tame(&profile.functions[frame.function].name)).collect();
        stack.reverse();
        json!({
            "ns": self.start.saturating_add(i64::try_from(sample.time_ns).unwrap_or(i64::MAX)),
            "pid": process.pid, "tid": thread.tid, "thread": tame(&thread.name),
            "cpu_ns": sample.weight_ns, "stack": stack,
        })
        .to_string()
    }
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
    tree.walk(|id: NodeId, _| {
        let node = &tree.nodes[id];
        place_of[id.index()] = out.len();
        let object = node.label.function(profile).map(|function| flame::group(profile, function).to_owned());
        out.push(CallNode {
            parent: node.parent.map(|parent| place_of[parent.index()]),
            name: node.label.name(profile),
            object: object.unwrap_or_default(),
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

fn sums(profile: &Profile, cells: &[Cell], wanted: &Trees) -> WindowSums {
    let table = Flat::of(profile, cells, Some(By::Function), Split::Merged, Order::Own);
    let rows = table.rows.iter().filter_map(|row| {
        let label = row.label?;
        let object = label.function(profile).map(|id| profile.functions[id].object);
        Some(FunctionRow {
            name: label.name(profile),
            object: object.map(|id| profile.objects[id].name().to_owned()).unwrap_or_default(),
            own_ns: row.own.cpu_ns(),
            total_ns: row.total.cpu_ns(),
            samples: row.own.samples,
        })
    });
    let all: Weight = cells.iter().map(|cell| cell.weight).sum();
    WindowSums {
        samples: all.samples,
        cpu_ns: all.cpu_ns(),
        functions: rows.collect(),
        trees: trees(profile, cells, wanted),
    }
}

impl Windows for Counted {
    fn sums(&self, window: &Window, wanted: &Trees) -> Result<WindowSums, String> {
        self.with(window, |profile, cells| sums(profile, cells, wanted))
    }

    fn listings(&self, window: &Window, function: &str) -> Result<Listings, String> {
        let cells = self.cells(window)?;
        let near = annotate::near(&self.profile, &cells, function, &self.sources);
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
        self.with(window, |profile, cells| pct_formats::export(profile, cells, format))
    }

    fn hits(&self, pattern: &str, most: usize) -> Result<(Vec<(i64, usize)>, u64), String> {
        let pattern = Pattern::parse(pattern).map_err(|why| why.to_string())?;
        let profile = &self.profile;
        let on = stacks_through(profile, |function| pattern.matches(&profile.functions[function].name));
        let is_hit = |stack: StackId| on[stack.index()];
        let (mut hits, mut count) = (Vec::new(), 0);
        for sample in profile.timeline.iter().filter(|sample| is_hit(sample.stack)) {
            count += 1;
            if hits.len() < most {
                let time = self.start.saturating_add(i64::try_from(sample.time_ns).unwrap_or(i64::MAX));
                hits.push((time, sample.thread.index()));
            }
        }
        Ok((hits, count))
    }
}
