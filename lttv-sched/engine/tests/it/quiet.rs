//! The cursor alone steps over events that nobody wants. Only the number of calls may differ.

use std::sync::{Arc, Mutex};

use lttv_engine::call::EndReason;
use lttv_engine::diagnostic::DiagnosticKind;
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::identity::TraceIdentity;
use lttv_engine::ids::OwnerId;
use lttv_engine::request::EventsRequest;
use lttv_engine::source::{
    Cursor, CursorPos, EventHead, EventId, FieldVisitor, ReadError, Scope, Source, TracefileInfo, Value,
};
use lttv_engine::synthetic::{SyntheticEvent, SyntheticFile};
use lttv_engine::time::Time;
use proptest::prelude::*;

use crate::common::*;

/// A tracefile of classes `e` and `f`, each event with its number. Steps may be negative: such times go back.
fn numbered(name: &str, steps: &[(i64, bool)]) -> SyntheticFile {
    let mut ts = 10;
    let event = |(n, (step, second)): (usize, &(i64, bool))| {
        ts += step;
        let fields = vec![("n".into(), Value::Unsigned(n as u64))];
        SyntheticEvent { ts, id: u32::from(*second), cpu: EventHead::NO_CPU, fields }
    };
    let events = steps.iter().enumerate().map(event).collect();
    SyntheticFile::new(name, None, &["e", "f"], events)
}

type Seen = Arc<Mutex<Vec<(usize, u32, u64, i64)>>>;

fn noting(seen: &Seen) -> Hook<lttv_engine::call::EventFn> {
    let to = seen.clone();
    Hook::on_event(move |call| {
        let n = call.field("n").and_then(|n| n.as_u64()).unwrap();
        to.lock().unwrap().push((call.slot(), call.head.id.0, n, call.time.ns()));
        Flow::Go
    })
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Wanted {
    All,
    SecondOfOneChannel,
    Nothing,
}

proptest! {
    #[test]
    fn what_is_stepped_over_changes_nothing_else(
        files in proptest::collection::vec(proptest::collection::vec((prop_oneof![8 => 0i64..4, 1 => -3i64..0, 1 => 5i64..40], any::<bool>()), 0..40), 1..4),
        start in prop_oneof![Just(i64::MIN), 5i64..80],
        end in proptest::option::of(5i64..120),
        count in proptest::option::of(0u64..60),
        chunk in 0usize..5,
    ) {
        let names = ["a", "b", "c"];
        let files: Vec<SyntheticFile> = files.iter().zip(names).map(|(steps, name)| numbered(name, steps)).collect();
        let serve = |wanted: Wanted| {
            let (mut engine, traceset, _) = engine(CHUNKS[chunk], &[source("quiet", files.clone())]);
            let seen = Seen::default();
            let ended: Arc<Mutex<Vec<(u64, EndReason)>>> = Arc::default();
            let to = ended.clone();
            let mut request = EventsRequest::new(OwnerId(1)).from_time(Time(start)).on_end(move |call| {
                to.lock().unwrap().push((call.delivered, call.reason.cloned().unwrap()));
                Flow::Go
            });
            request.end_time = end.map(Time);
            request.num_events = count;
            match wanted {
                Wanted::All => request.event.add(noting(&seen)).unwrap(),
                Wanted::SecondOfOneChannel => request.event_by_id.find("b", EventId(1)).add(noting(&seen)).unwrap(),
                Wanted::Nothing => {}
            }
            engine.events_request(traceset, request).unwrap();
            let done = run(&mut engine);
            let diagnostics: Vec<String> = done.diagnostics.iter().map(ToString::to_string).collect();
            let seen = seen.lock().unwrap().clone();
            let ended = ended.lock().unwrap().clone();
            (seen, ended, done.events_read, diagnostics)
        };
        let all = serve(Wanted::All);
        let some = serve(Wanted::SecondOfOneChannel);
        let none = serve(Wanted::Nothing);
        let expected: Vec<_> = all.0.iter().filter(|(slot, id, ..)| (*slot, *id) == (1, 1)).copied().collect();
        prop_assert_eq!(some.0, expected);
        prop_assert_eq!(none.0, []);
        prop_assert_eq!((&some.1, some.2, &some.3), (&all.1, all.2, &all.3));
        prop_assert_eq!((&none.1, none.2, &none.3), (&all.1, all.2, &all.3));
    }
}

/// A source whose first tracefile is unreadable after an event: reading panics there.
struct Breaking(Arc<dyn Source>, usize);

struct BreakingCursor(Box<dyn Cursor>, usize);

impl Source for Breaking {
    fn identity(&self) -> &TraceIdentity {
        self.0.identity()
    }
    fn tracefiles(&self) -> &[TracefileInfo] {
        self.0.tracefiles()
    }
    fn cursor(&self, tracefile: usize) -> Result<Box<dyn Cursor>, ReadError> {
        let steps = if tracefile == 0 { self.1 } else { usize::MAX };
        Ok(Box::new(BreakingCursor(self.0.cursor(tracefile)?, steps)))
    }
    fn time_span(&self) -> Option<(Time, Time)> {
        self.0.time_span()
    }
}

impl Cursor for BreakingCursor {
    fn head(&self) -> Option<EventHead> {
        self.0.head()
    }
    fn advance(&mut self) -> Result<Option<EventHead>, ReadError> {
        self.1 = self.1.checked_sub(1).expect("as asked");
        self.0.advance()
    }
    fn seek_time(&mut self, t: Time) -> Result<Option<EventHead>, ReadError> {
        self.0.seek_time(t)
    }
    fn seek(&mut self, pos: CursorPos) -> Result<Option<EventHead>, ReadError> {
        self.0.seek(pos)
    }
    fn pos(&self) -> CursorPos {
        self.0.pos()
    }
    fn field_in(&self, scope: Scope, name: &str) -> Option<Value<'_>> {
        self.0.field_in(scope, name)
    }
    fn visit(&self, scope: Scope, visitor: &mut dyn FieldVisitor) {
        self.0.visit(scope, visitor);
    }
}

#[test]
fn a_reader_that_panics_in_the_middle_of_a_run_ends_its_tracefile_and_no_event_is_lost_from_the_count() {
    let times: Vec<i64> = (0..100).collect();
    for chunk in CHUNKS {
        let whole = source("breaking", vec![file("a", &times), file("b", &[500, 501])]);
        let (mut engine, traceset, _) = engine(chunk, &[Arc::new(Breaking(whole, 49))]);
        let request = EventsRequest::new(OwnerId(1)).from_time(t(0));
        engine.events_request(traceset, request).unwrap();
        let done = run(&mut engine);
        // Event 49 was delivered before reading its successor failed.
        assert_eq!(done.events_read, 50 + 2, "chunks of {chunk:?}");
        assert_eq!((done.ended[0].delivered, &done.ended[0].reason), (52, &EndReason::EndOfTraceset));
        let failed = |kind: &DiagnosticKind| matches!(kind, DiagnosticKind::Unreadable(e) if e.what.contains("as asked"));
        assert_eq!(done.diagnostics.iter().filter(|d| failed(&d.kind)).count(), 1, "{:?}", done.diagnostics);
    }
}
