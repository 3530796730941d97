//! OTLP profiles: `ProfilesData` of OpenTelemetry's protocol, `profiles.proto` of `v1development` as of
//! version 1.9, which has a table of stacks. The schema is still changing, so this is behind the feature `otlp`.
//!
//! All tables are shared, and their first row has a zero value, so that index 0 means "unknown". A resource is a
//! process.

use super::strings::Strings;
use crate::export::pprof::groups;
use crate::protobuf::Message;
use pct_profile::Profile;
use pct_profile::model::{Cell, FrameId, Id, ObjectKind, Process, StackId};
use std::collections::HashMap;

/// The octets of the file: an unpacked message. Each process says its id and command line.
pub fn write(profile: &Profile, cells: &[Cell]) -> Vec<u8> {
    write_with(profile, cells, &|process| {
        vec![
            ("service.name", text(&process.name)),
            ("process.pid", number(u64::from(process.pid))),
            ("process.command_line", text(&process.command.join(" "))),
        ]
    })
}

/// The same with these attributes for each process, and nothing else of it.
pub fn write_of(profile: &Profile, cells: &[Cell], attributes: &[(&'static str, &str)]) -> Vec<u8> {
    write_with(profile, cells, &|_| attributes.iter().map(|(key, value)| (*key, text(value))).collect())
}

/// Keys and values.
type Attributes = Vec<(&'static str, Vec<u8>)>;

fn write_with(profile: &Profile, cells: &[Cell], attributes: &dyn Fn(&Process) -> Attributes) -> Vec<u8> {
    let mut t = Tables::default();
    t.strings.id("");
    t.attributes.push(Vec::new());
    let mut out = Message::default();
    let hz = profile.processes.iter().map(|p| p.hz).max().unwrap_or(0);
    for (id, process) in profile.processes.enumerate() {
        let mut inner = Message::default();
        inner.bytes(1, &value_type(&mut t.strings));
        let mut any = false;
        for cell in cells.iter().filter(|c| profile.threads[c.thread].process == id) {
            any = true;
            let mut sample = Message::default();
            sample.number(1, t.stack(profile, cell.stack));
            let thread = &profile.threads[cell.thread];
            let attributes = [
                t.attribute("thread.id", &number(u64::from(thread.tid))),
                t.attribute("thread.name", &text(&thread.name)),
            ];
            sample.packed(2, &attributes);
            sample.packed(4, &[cell.weight.cpu_ns()]);
            inner.bytes(2, &sample.0);
        }
        if !any {
            continue;
        }
        inner.fixed(3, profile.start_realtime_ns.saturating_add(process.start_ns));
        inner.number(4, profile.account.elapsed_ns.unwrap_or(0));
        inner.bytes(5, &value_type(&mut t.strings));
        inner.number(6, 1_000_000_000u64.checked_div(hz).unwrap_or(0));
        let mut scope = Message::default();
        scope.bytes(1, b"pct");
        scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
        let mut scoped = Message::default();
        scoped.bytes(1, &scope.0);
        scoped.bytes(2, &inner.0);
        let mut resource = Message::default();
        for (key, value) in attributes(process) {
            let mut pair = Message::default();
            pair.bytes(1, key.as_bytes());
            pair.bytes(2, &value);
            resource.bytes(1, &pair.0);
        }
        let mut of_process = Message::default();
        of_process.bytes(1, &resource.0);
        of_process.bytes(2, &scoped.0);
        out.bytes(1, &of_process.0);
    }
    out.bytes(2, &t.finish(profile).0);
    out.0
}

#[derive(Default)]
struct Tables {
    strings: Strings,
    stacks: Vec<Vec<u64>>,
    stack_ids: HashMap<StackId, u64>,
    locations: Vec<Vec<FrameId>>,
    location_ids: HashMap<Vec<FrameId>, u64>,
    attributes: Vec<Vec<u8>>,
    attribute_ids: HashMap<Vec<u8>, u64>,
}

impl Tables {
    fn stack(&mut self, profile: &Profile, stack: StackId) -> u64 {
        if let Some(id) = self.stack_ids.get(&stack) {
            return *id;
        }
        let mut rows = Vec::new();
        for group in groups(profile, stack) {
            let next = self.locations.len() as u64 + 1;
            rows.push(*self.location_ids.entry(group).or_insert_with_key(|group| {
                self.locations.push(group.clone());
                next
            }));
        }
        self.stacks.push(rows);
        self.stack_ids.insert(stack, self.stacks.len() as u64);
        self.stacks.len() as u64
    }

    fn attribute(&mut self, key: &str, value: &[u8]) -> u64 {
        let mut m = Message::default();
        m.number(1, self.strings.id(key));
        m.bytes(2, value);
        if let Some(id) = self.attribute_ids.get(&m.0) {
            return *id;
        }
        let id = self.attributes.len() as u64;
        self.attributes.push(m.0.clone());
        self.attribute_ids.insert(m.0, id);
        id
    }

    fn finish(mut self, profile: &Profile) -> Message {
        let mut out = Message::default();
        out.bytes(1, &[]);
        for object in profile.objects.iter() {
            let mut m = Message::default();
            // Addresses are offsets in the object's file.
            m.number(2, if object.kind == ObjectKind::File { u64::MAX >> 1 } else { 0 });
            m.number(4, self.strings.id(&object.path));
            if let Some(id) = &object.build_id {
                let id = self.attribute("process.executable.build_id.gnu", &text(id));
                m.packed(5, &[id]);
            }
            out.bytes(1, &m.0);
        }
        out.bytes(2, &[]);
        for group in &self.locations {
            let mut m = Message::default();
            if let Some(outer) = group.last().map(|f| &profile.frames[*f]) {
                m.number(1, profile.functions[outer.function].object.index() as u64 + 1);
                m.number(2, outer.address.unwrap_or(0));
            }
            for frame in group.iter().map(|f| &profile.frames[*f]) {
                let mut line = Message::default();
                line.number(1, frame.function.index() as u64 + 1);
                line.number(2, u64::from(frame.line));
                m.bytes(3, &line.0);
            }
            out.bytes(2, &m.0);
        }
        let files: HashMap<_, _> =
            profile.frames.iter().filter_map(|f| Some((f.function, f.file?))).collect();
        out.bytes(3, &[]);
        for (id, function) in profile.functions.enumerate() {
            let mut m = Message::default();
            let name = self.strings.id(&function.name);
            m.number(1, name);
            m.number(2, name);
            let file = function.declared.map(|d| d.0).or_else(|| files.get(&id).copied());
            m.number(3, file.map_or(0, |f| self.strings.id(&profile.files[f])));
            m.number(4, function.declared.map_or(0, |d| u64::from(d.1)));
            out.bytes(3, &m.0);
        }
        out.bytes(4, &[]);
        for text in self.strings.list() {
            out.bytes(5, text.as_bytes());
        }
        for attribute in &self.attributes {
            out.bytes(6, attribute);
        }
        out.bytes(7, &[]);
        for rows in &self.stacks {
            let mut m = Message::default();
            m.packed(1, rows);
            out.bytes(7, &m.0);
        }
        out
    }
}

fn value_type(strings: &mut Strings) -> Vec<u8> {
    let mut m = Message::default();
    m.number(1, strings.id("cpu"));
    m.number(2, strings.id("nanoseconds"));
    m.0
}

/// A text value.
fn text(text: &str) -> Vec<u8> {
    let mut m = Message::default();
    m.bytes(1, text.as_bytes());
    m.0
}

/// A whole-number value.
fn number(n: u64) -> Vec<u8> {
    let mut m = Message::default();
    m.number(3, n);
    m.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::parse;
    use crate::protobuf::{Fields, Value, numbers};
    use std::path::Path;

    fn each(bytes: &[u8], field: u64) -> Vec<&[u8]> {
        Fields::new(bytes)
            .filter_map(|(f, v)| match v {
                Value::Bytes(b) if f == field => Some(b),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn tables_begin_with_nothing_and_weights_are_all_there() {
        let p = parse(b"main;work;leaf 3\nmain;work 2\n", Path::new("x")).unwrap();
        let bytes = write(&p, &p.cells);
        let dictionary = each(&bytes, 2)[0];
        for table in [1, 2, 3, 4, 5, 6, 7] {
            assert_eq!(each(dictionary, table)[0], b"", "table {table}");
        }
        assert_eq!(each(dictionary, 7).len(), 3);
        let profile = each(each(each(&bytes, 1)[0], 2)[0], 2)[0];
        let weights: u64 =
            each(profile, 2).iter().map(|s| numbers(Value::Bytes(each(s, 4)[0])).iter().sum::<u64>()).sum();
        assert_eq!(weights, p.total().cpu_ns());
    }
}
