//! If a module panics, in whichever call, it alone fails: the engine goes on and reports it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lttv_engine::background::BackgroundNotify;
use lttv_engine::diagnostic::DiagnosticKind;
use lttv_engine::engine::{Budget, CommandError, Engine};
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::ids::OwnerId;
use lttv_engine::module::{Module, ModuleError, ModuleHooks};
use lttv_engine::source::{EventClass, Source, TracefileInfo};
use lttv_engine::state::{Snapshot, StateModel};
use lttv_engine::trace::{ModuleStatus, TraceData};

use crate::noting::*;

/// Panics in the call that it is named after.
struct Panicking(&'static str);

struct Model(&'static str);

impl StateModel for Model {
    fn classify(&mut self, _: &TracefileInfo, _: &EventClass) -> Option<u32> {
        assert_ne!(self.0, "classify", "as asked");
        Some(1)
    }
    fn apply(&mut self, _: u32, _: &lttv_engine::call::Event<'_>) {
        assert_ne!(self.0, "apply", "as asked");
    }
    fn reset(&mut self) {}
    fn snapshot(&self) -> Snapshot {
        assert_ne!(self.0, "snapshot", "as asked");
        Arc::new(())
    }
    fn restore(&mut self, _: &Snapshot) {}
    fn as_any(&self) -> &dyn std::any::Any {
        &self.0
    }
}

impl Module for Panicking {
    fn name(&self) -> &str {
        self.0
    }
    fn model(&self, _: &Arc<dyn Source>) -> Option<Box<dyn StateModel>> {
        assert_ne!(self.0, "model", "as asked");
        Some(Box::new(Model(self.0)))
    }
    fn hooks(&self, _: &Arc<dyn Source>) -> ModuleHooks {
        assert_ne!(self.0, "hooks", "as asked");
        let mut hooks = ModuleHooks::default();
        let name = self.0;
        let hook = Hook::on_border(move |_| {
            assert_ne!(name, "border", "as asked");
            Flow::Go
        });
        hooks.before_chunk_trace.add(hook).unwrap();
        hooks
    }
    fn init(&self) {
        assert_ne!(self.0, "init", "as asked");
    }
    fn destroy(&self) {
        assert_ne!(self.0, "destroy", "as asked");
    }
    fn clear(&self, _: &mut TraceData) {
        assert_ne!(self.0, "clear", "as asked");
    }
}

fn failed(engine: &mut Engine) -> Vec<String> {
    let progress = engine.step(Budget::chunks(1000));
    let kinds = progress.diagnostics.iter().map(|d| &d.kind);
    kinds
        .filter_map(|k| match k {
            DiagnosticKind::ModuleFailed { module, why } => Some(format!("{module}: {why}")),
            _ => None,
        })
        .collect()
}

#[test]
fn a_module_that_panics_fails_alone() {
    for place in ["hooks", "model", "classify", "apply", "snapshot", "border", "clear", "init", "destroy"] {
        let done = catch_unwind(AssertUnwindSafe(|| {
            let (mut engine, trace, _) = background(Some(3));
            engine.register(Arc::new(Panicking(place))).unwrap();
            engine.request(trace, "other", OwnerId(2)).unwrap();
            let told = Told::default();
            let notify: BackgroundNotify = notify(&told, 1, place);
            let asked = engine.request_and_notify(trace, notify);
            if place == "hooks" {
                let refused =
                    matches!(&asked, Err(CommandError::Module(ModuleError::Failed(m, _))) if m == "hooks");
                assert!(refused, "{asked:?}");
                assert!(failed(&mut engine).is_empty());
            } else {
                asked.unwrap();
                engine.require(place).unwrap();
                engine.release(place).unwrap();
                let mut said = failed(&mut engine);
                engine.unregister(place).unwrap();
                said.extend(failed(&mut engine));
                assert!(
                    said.iter().any(|s| s.starts_with(place) && s.contains("as asked")),
                    "{place}: {said:?}"
                );
            }
            assert_eq!(engine.status(trace, "other"), ModuleStatus::Ready, "{place}");
            engine.check().unwrap();
        }));
        done.unwrap_or_else(|_| panic!("{place}: not contained, or not told"));
    }
}
