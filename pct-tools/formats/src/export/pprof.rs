//! pprof: profile.proto, gzip'd. <https://github.com/google/pprof/blob/main/proto/profile.proto> has the field numbers.
//!
//! There is one location for each address with its own stack frame. Inlined calls are further lines of it, innermost
//! first.

mod memory;

pub use memory::write as write_memory;

use super::strings::Strings;
use crate::protobuf::Message;
use flate2::Compression;
use flate2::write::GzEncoder;
use pct_profile::flat::Order;
use pct_profile::model::{Cell, FrameId, Id, ObjectId, ObjectKind, StackId};
use pct_profile::text::table::tame;
use pct_profile::{By, Flat, Profile, Split};
use std::collections::HashMap;
use std::io::Write as _;

/// The octets of a `.pb.gz` file of samples: their number, where it is known, and what the profile measures.
pub fn write(profile: &Profile, cells: &[Cell]) -> Vec<u8> {
    let measured = profile.quantity.sample_type();
    let counted =
        measured != ("samples", "count") && (profile.is_of_cpu_time() || profile.total().samples > 0);
    let types: Vec<_> = counted.then_some(("samples", "count")).into_iter().chain([measured]).collect();
    let mut out = Writer::new(profile, &types);
    for cell in cells {
        let thread = &profile.threads[cell.thread];
        let process = profile.process_of(cell.thread);
        let labels = [
            ("thread", Label::Text(&thread.name)),
            ("tid", Label::Number(u64::from(thread.tid))),
            ("pid", Label::Number(u64::from(process.pid))),
        ];
        let values = [cell.weight.samples, cell.weight.cpu_ns()];
        out.sample(cell.stack, if counted { &values } else { &values[1..] }, &labels);
    }
    let hz = profile.processes.iter().map(|p| p.hz).max().unwrap_or(0);
    let period = 1_000_000_000u64.checked_div(hz).unwrap_or(0);
    out.finish(measured, period, measured.0)
}

/// A label of a sample.
#[derive(Clone, Copy)]
enum Label<'a> {
    Text(&'a str),
    Number(u64),
}

/// A file being written: samples first, then the tables that they refer to.
struct Writer<'p> {
    profile: &'p Profile,
    strings: Strings,
    out: Message,
    locations: HashMap<Vec<FrameId>, u64>,
    order: Vec<Vec<FrameId>>,
}

impl<'p> Writer<'p> {
    /// `types` are the names and units of each sample's values.
    fn new(profile: &'p Profile, types: &[(&str, &str)]) -> Self {
        let mut strings = Strings::default();
        strings.id("");
        let mut out = Message::default();
        for (kind, unit) in types {
            out.bytes(1, &value_type(&mut strings, kind, unit));
        }
        Self { profile, strings, out, locations: HashMap::new(), order: Vec::new() }
    }

    fn sample(&mut self, stack: StackId, values: &[u64], labels: &[(&str, Label<'_>)]) {
        let mut ids: Vec<u64> = Vec::new();
        for group in groups(self.profile, stack) {
            let next = self.locations.len() as u64 + 1;
            ids.push(*self.locations.entry(group).or_insert_with_key(|group| {
                self.order.push(group.clone());
                next
            }));
        }
        let mut m = Message::default();
        m.packed(1, &ids);
        m.packed(2, values);
        for (key, value) in labels {
            let mut l = Message::default();
            l.number(1, self.strings.id(key));
            match value {
                Label::Text(text) => l.number(2, self.strings.id(text)),
                Label::Number(number) => l.number(3, *number),
            }
            m.bytes(3, &l.0);
        }
        self.out.bytes(2, &m.0);
    }

    fn finish(self, period_type: (&str, &str), period: u64, default: &str) -> Vec<u8> {
        let Self { profile, mut strings, mut out, order, .. } = self;
        // Readers take the first mapping for the program ("File:").
        let program = program(profile);
        let libraries = profile.objects.ids().filter(|id| Some(*id) != program);
        for id in program.into_iter().chain(libraries) {
            let object = &profile.objects[id];
            let mut m = Message::default();
            m.number(1, id.index() as u64 + 1);
            // addresses are offsets in the object's file
            m.number(3, if object.kind == ObjectKind::File { u64::MAX >> 1 } else { 0 });
            m.number(5, strings.id(&object.path));
            m.number(6, strings.id(object.build_id.as_deref().unwrap_or("")));
            for has in 7..=10 {
                m.number(has, 1);
            }
            out.bytes(3, &m.0);
        }
        for (i, group) in order.iter().enumerate() {
            out.bytes(4, &location(profile, i as u64 + 1, group));
        }
        let files: HashMap<_, _> =
            profile.frames.iter().filter_map(|f| Some((f.function, f.file?))).collect();
        for (id, function) in profile.functions.enumerate() {
            let mut m = Message::default();
            let name = strings.id(&tame(&function.name));
            m.number(1, id.index() as u64 + 1);
            m.number(2, name);
            m.number(3, name);
            let file = function.declared.map(|d| d.0).or_else(|| files.get(&id).copied());
            m.number(4, file.map_or(0, |f| strings.id(&profile.files[f])));
            m.number(5, function.declared.map_or(0, |d| u64::from(d.1)));
            out.bytes(5, &m.0);
        }
        let period_type = value_type(&mut strings, period_type.0, period_type.1);
        let default = strings.id(default);
        for text in strings.list() {
            out.bytes(6, text.as_bytes());
        }
        out.number(9, profile.start_realtime_ns);
        out.number(10, profile.account.elapsed_ns.unwrap_or(0));
        out.bytes(11, &period_type);
        out.number(12, period);
        out.number(14, default);
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        // writing into memory cannot fail
        let _ = gz.write_all(&out.0);
        gz.finish().unwrap_or_default()
    }
}

fn value_type(strings: &mut Strings, kind: &str, unit: &str) -> Vec<u8> {
    let mut m = Message::default();
    m.number(1, strings.id(kind));
    m.number(2, strings.id(unit));
    m.0
}

/// The object that is the program: among those that are no library, the one through which most time passed.
fn program(profile: &Profile) -> Option<ObjectId> {
    let objects = Flat::count_cells(profile, &profile.cells, Some(By::Object), Split::Merged, Order::Total);
    // A program that only allocated has no samples of time.
    let mentioned = profile.objects.ids().map(pct_profile::Label::Object);
    let labels = objects.rows.iter().filter_map(|row| row.label).chain(mentioned);
    labels.filter_map(|label| label.object(profile)).find(|id| {
        let object = &profile.objects[*id];
        object.kind == ObjectKind::File && !object.name().contains(".so")
    })
}

/// A stack as groups of frames, innermost group first: a group is one stack frame with the calls inlined into it.
pub(super) fn groups(profile: &Profile, stack: StackId) -> Vec<Vec<FrameId>> {
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for (id, frame) in profile.outwards(stack) {
        group.push(profile.stacks[id].frame);
        if !frame.inlined {
            groups.push(std::mem::take(&mut group));
        }
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}

fn location(profile: &Profile, id: u64, group: &[FrameId]) -> Vec<u8> {
    let mut m = Message::default();
    m.number(1, id);
    if let Some(outer) = group.last().map(|f| &profile.frames[*f]) {
        m.number(2, profile.functions[outer.function].object.index() as u64 + 1);
        m.number(3, outer.address.unwrap_or(0));
    }
    for frame in group.iter().map(|f| &profile.frames[*f]) {
        let mut line = Message::default();
        line.number(1, frame.function.index() as u64 + 1);
        line.number(2, u64::from(frame.line));
        m.bytes(4, &line.0);
    }
    m.0
}
