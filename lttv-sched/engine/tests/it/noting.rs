//! Modules and notifications that record how they are called.

use std::sync::{Arc, Mutex};

use lttv_engine::background::BackgroundNotify;
use lttv_engine::call::Cause;
use lttv_engine::engine::Engine;
use lttv_engine::hooks::{Flow, Hook, HookKey};
use lttv_engine::ids::{OwnerId, TraceId};
use lttv_engine::module::{Module, ModuleHooks};
use lttv_engine::source::Source;

use crate::common::*;

/// A module that records how it is called.
pub(crate) struct Noting {
    pub(crate) name: &'static str,
    pub(crate) needs: &'static [&'static str],
    pub(crate) fail_at: Option<u64>,
    pub(crate) notes: Arc<Mutex<Vec<String>>>,
}

impl Module for Noting {
    fn name(&self) -> &str {
        self.name
    }
    fn prerequisites(&self) -> &[&str] {
        self.needs
    }
    fn hooks(&self, _: &Arc<dyn Source>) -> ModuleHooks {
        let mut hooks = ModuleHooks::default();
        let border = |what: &'static str| {
            let (notes, name) = (self.notes.clone(), self.name);
            Hook::on_border(move |call| {
                let status = call.own.as_ref().map(|own| own.status(name));
                let reason = call.reason.map_or_else(String::new, |reason| format!(" {reason:?}"));
                notes.lock().unwrap().push(format!("{name} {what} {:?}{reason}", status.unwrap_or_default()));
                Flow::Go
            })
        };
        hooks.before_request.add(border("begin")).unwrap();
        hooks.hook_adder.add(border("add")).unwrap();
        hooks.hook_remover.add(border("remove")).unwrap();
        hooks.after_request.add(border("end")).unwrap();
        let (count, name, fail_at) = (Count::default(), self.name, self.fail_at);
        let key = HookKey { function: name.len() as u64, data: u64::from(name.as_bytes()[name.len() - 1]) };
        let counting = count.clone();
        hooks
            .event
            .add(Hook::event(key, 50, move |_| {
                counting.add(1);
                if fail_at == Some(counting.get()) { Flow::Fail("asked to".into()) } else { Flow::Go }
            }))
            .unwrap();
        hooks
            .hook_remover
            .add(Hook::on_border(move |call| {
                if let Some(own) = call.own.as_deref_mut() {
                    own.publish(name, Arc::new(count.get()));
                }
                Flow::Go
            }))
            .unwrap();
        hooks
    }
}

pub(crate) type Notes = Arc<Mutex<Vec<String>>>;

pub(crate) fn modules(engine: &mut Engine) -> Notes {
    let notes = Notes::default();
    let all: [(&str, &[&str], Option<u64>); 4] =
        [("state", &[], None), ("stats", &["state"], None), ("other", &[], None), ("bad", &[], Some(5))];
    for (name, needs, fail_at) in all {
        engine.register(Arc::new(Noting { name, needs, fail_at, notes: notes.clone() })).unwrap();
    }
    notes
}

pub(crate) fn take(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut notes.lock().unwrap())
}

pub(crate) type Told = Arc<Mutex<Vec<(u64, Cause)>>>;

pub(crate) fn notify(told: &Told, owner: u64, module: &str) -> BackgroundNotify {
    let to = told.clone();
    let hook = Hook::on_border(move |call| {
        to.lock().unwrap().push((call.owner.unwrap().0, call.cause.unwrap()));
        Flow::Go
    });
    BackgroundNotify::new(OwnerId(owner), module, hook)
}

pub(crate) fn told(told: &Told) -> Vec<(u64, Cause)> {
    told.lock().unwrap().clone()
}

pub(crate) fn background(chunk: Option<u64>) -> (Engine, TraceId, Notes) {
    let (mut engine, _, ids) = engine(chunk, &[worked()]);
    let notes = modules(&mut engine);
    (engine, ids[0], notes)
}

pub(crate) const OWNER: OwnerId = OwnerId(1);
