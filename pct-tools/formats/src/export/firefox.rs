//! The Firefox Profiler's processed format, version 47
//! (<https://github.com/firefox-devtools/profiler/blob/main/src/types/profile.js>). It was only checked against its
//! schema.

use super::json;
use super::threads::{events, thread_name};
use pct_profile::model::{Cell, FrameId, Id, ObjectKind, StackId};
use pct_profile::{Language, Profile};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The octets of the JSON file.
pub fn write(profile: &Profile, cells: &[Cell]) -> Vec<u8> {
    let hz = profile.processes.iter().map(|p| p.hz).max().filter(|hz| *hz > 0).unwrap_or(1000);
    let threads: Vec<Value> = events(profile, cells)
        .into_iter()
        .enumerate()
        .map(|(i, (thread, events))| {
            let mut t = Tables::default();
            let (mut stacks, mut times, mut weights) = (Vec::new(), Vec::new(), Vec::new());
            for e in &events {
                stacks.push(t.stack(profile, Some(e.stack)));
                times.push(ms(e.time_ns));
                weights.push(ms(e.weight_ns));
            }
            let process = profile.process_of(thread);
            let name = thread_name(profile, thread);
            let samples = json!({
                "weightType": "tracing-ms", "weight": weights,
                "stack": stacks, "time": times, "length": events.len(),
            });
            t.thread(profile, i == 0, &name, process, profile.threads[thread].tid, &samples)
        })
        .collect();
    let file = json!({
        "meta": {
            "interval": 1000 / hz.max(1), "startTime": ms(profile.start_realtime_ns), "processType": 0,
            "product": profile.title, "stackwalk": 1, "version": 27, "preprocessedProfileVersion": 47,
            "symbolicated": true, "markerSchema": [],
            "categories": [
                { "name": "User", "color": "yellow", "subcategories": ["Other"] },
                { "name": "Kernel", "color": "orange", "subcategories": ["Other"] },
            ],
            "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
            "importedFrom": "pct",
        },
        "libs": [], "pages": [], "threads": threads,
    });
    json::octets(file)
}

/// One thread's tables.
#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    string_ids: HashMap<String, usize>,
    stacks: Vec<(usize, Option<usize>, u8)>,
    stack_ids: HashMap<StackId, usize>,
    frames: Vec<FrameId>,
    frame_ids: HashMap<FrameId, usize>,
    functions: Vec<pct_profile::model::FunctionId>,
    function_ids: HashMap<pct_profile::model::FunctionId, usize>,
    objects: Vec<pct_profile::model::ObjectId>,
    object_ids: HashMap<pct_profile::model::ObjectId, usize>,
}

impl Tables {
    fn string(&mut self, text: &str) -> usize {
        if let Some(id) = self.string_ids.get(text) {
            return *id;
        }
        self.strings.push(text.to_owned());
        self.string_ids.insert(text.to_owned(), self.strings.len() - 1);
        self.strings.len() - 1
    }

    fn stack(&mut self, profile: &Profile, stack: Option<StackId>) -> Option<usize> {
        // callers have smaller ids: walk outwards to a known one, then inwards again
        let mut pending = Vec::new();
        let mut at = stack;
        while let Some(id) = at.filter(|id| !self.stack_ids.contains_key(id)) {
            pending.push(id);
            at = profile.stacks[id].parent;
        }
        for id in pending.into_iter().rev() {
            let node = profile.stacks[id];
            let prefix = node.parent.and_then(|p| self.stack_ids.get(&p).copied());
            let frame = intern(node.frame, &mut self.frames, &mut self.frame_ids);
            let function = profile.frames[node.frame].function;
            intern(function, &mut self.functions, &mut self.function_ids);
            let object = profile.functions[function].object;
            intern(object, &mut self.objects, &mut self.object_ids);
            let kernel = profile.objects[object].kind == ObjectKind::Kernel;
            self.stacks.push((frame, prefix, u8::from(kernel)));
            self.stack_ids.insert(id, self.stacks.len() - 1);
        }
        stack.and_then(|id| self.stack_ids.get(&id).copied())
    }

    fn thread(
        &mut self,
        profile: &Profile,
        main: bool,
        name: &str,
        process: &pct_profile::model::Process,
        tid: u32,
        samples: &Value,
    ) -> Value {
        let frames: Vec<_> = self.frames.iter().map(|f| profile.frames[*f]).collect();
        let functions = self.functions.clone();
        let names: Vec<usize> = functions.iter().map(|f| self.string(&profile.functions[*f].name)).collect();
        let objects = self.objects.clone();
        let libs: Vec<usize> = objects.iter().map(|o| self.string(profile.objects[*o].name())).collect();
        let mut file_of: HashMap<_, _> = HashMap::new();
        for f in &frames {
            if let Some(file) = f.file {
                file_of.entry(f.function).or_insert(file);
            }
        }
        let files: Vec<Option<usize>> =
            functions.iter().map(|f| file_of.get(f).map(|id| self.string(&profile.files[*id]))).collect();
        let n = frames.len();
        let nothing = |n: usize| vec![Value::Null; n];
        json!({
            "processType": "default", "processStartupTime": 0, "processShutdownTime": null, "registerTime": 0,
            "unregisterTime": null, "pausedRanges": [], "name": name, "isMainThread": main,
            "processName": process.name, "pid": process.pid.to_string(), "tid": tid, "samples": samples,
            "markers": { "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0 },
            "stackTable": {
                "frame": self.stacks.iter().map(|s| s.0).collect::<Vec<_>>(),
                "prefix": self.stacks.iter().map(|s| s.1).collect::<Vec<_>>(),
                "category": self.stacks.iter().map(|s| s.2).collect::<Vec<_>>(),
                "subcategory": vec![0; self.stacks.len()], "length": self.stacks.len(),
            },
            "frameTable": {
                "address": frames.iter().map(|f| f.address.map_or(json!(-1), |a| json!(a))).collect::<Vec<_>>(),
                "inlineDepth": frames.iter().map(|f| u8::from(f.inlined)).collect::<Vec<_>>(),
                "category": nothing(n), "subcategory": nothing(n),
                "func": frames.iter().map(|f| self.function_ids[&f.function]).collect::<Vec<_>>(),
                "nativeSymbol": nothing(n), "innerWindowID": nothing(n), "implementation": nothing(n),
                "line": frames.iter().map(|f| (f.line != 0).then_some(f.line)).collect::<Vec<_>>(),
                "column": nothing(n), "length": n,
            },
            "funcTable": {
                "isJS": functions.iter().map(|f| profile.language(*f) == Language::JavaScript).collect::<Vec<_>>(), "relevantForJS": vec![false; functions.len()], "name": names,
                "resource": functions.iter().map(|f| self.object_ids[&profile.functions[*f].object]).collect::<Vec<_>>(),
                "fileName": files,
                "lineNumber": functions.iter().map(|f| profile.functions[*f].declared.map(|d| d.1)).collect::<Vec<_>>(),
                "columnNumber": nothing(functions.len()),
                "length": functions.len(),
            },
            "resourceTable": {
                "lib": nothing(libs.len()), "name": libs, "host": nothing(libs.len()), "type": vec![1; libs.len()],
                "length": libs.len(),
            },
            "nativeSymbols": { "libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0 },
            "stringArray": self.strings,
        })
    }
}

fn intern<T: Id>(id: T, list: &mut Vec<T>, ids: &mut HashMap<T, usize>) -> usize {
    *ids.entry(id).or_insert_with(|| {
        list.push(id);
        list.len() - 1
    })
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds with fractions are what the format wants")]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
