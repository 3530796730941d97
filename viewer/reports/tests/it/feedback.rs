//! Pages about what could run in parallel, of made-up programs.

use pct_deep::Version;
use pct_feedback::synthetic::{Code, Program, Stage, chain, map_like};
use pct_reports::page::{self, Request};
use pct_reports::query::{Cmd, PrefsIndication};
use pct_reports::render::html::PageContext;
use pct_reports::render::text::TextOptions;
use pct_reports::report::Report;
use pct_reports::subject::Subject;

/// The program according to its files. `change` changes the representation.
fn subject(program: &Program, change: impl Fn(Vec<u8>) -> Option<Vec<u8>>) -> (tempfile::TempDir, Subject) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.data");
    let octets = pct_deep::to_octets(&program.data().expect("data"), Version::V9).expect("octets");
    std::fs::write(&path, octets).expect("written");
    if let Some(rep) = change(program.rep()) {
        std::fs::write(path.with_extension("procrep"), rep).expect("written");
    }
    let subject = Subject::open(&path, pct_deep::Compensation::Exact).expect("readable");
    (folder, subject)
}
fn request(cmd: Cmd) -> Request {
    Request { cmd, page: 1, prefs: PrefsIndication::Default }
}
fn text(subject: &Subject, cmd: Cmd) -> String {
    page::text(subject, &request(cmd), &TextOptions::default()).body
}
/// The number of a procedure: what calls the program is the first.
fn ps(program: &Program, name: &str) -> i64 {
    program.find(name).expect("a procedure") as i64 + 2
}

#[test]
fn a_procedure_of_many_contexts_shows_those_that_save_most() {
    let stage = |work| Stage { lead: 0, work, needs: Vec::new() };
    let program = chain(&[stage(9000), stage(9000)], 30);
    let (_folder, s) = subject(&program, Some);
    let n = ps(&program, "body");
    let Report::Feedback(Ok(r)) = page::report(&s, &request(Cmd::Feedback(Some(n)))) else {
        panic!("a report")
    };
    assert_eq!((r.candidates.len(), r.not_listed, r.not_in_text), (30, 0, 10));
    assert_eq!(r.text.matches("      Path: ").count(), 20);
    assert!(text(&s, Cmd::Feedback(Some(n))).contains("10 more, which save less, are not written out."));
    // Makes all forms.
    assert!(
        page::html(&s, &request(Cmd::Feedback(None)), &PageContext::default()).body.contains("m.body/2-0")
    );
    let json: serde_json::Value =
        serde_json::from_str(&page::json(&s, &request(Cmd::Feedback(Some(n)))).body).expect("json");
    let first = &json["report"]["feedback"]["Ok"]["candidates"][0];
    assert_eq!(first["conjuncts"], 2);
    assert_eq!(first["sequential"], 18_006.0);
    // One sparking delay and one wake-up.
    assert_eq!(first["parallel"], 11_003.0);
    // Its executions do not nest, so the saving is not a bound.
    assert_eq!(first["saving_is_bound"], false);
    assert!(!text(&s, Cmd::Feedback(Some(n))).contains("an upper bound"));
}

#[test]
fn a_program_without_or_with_a_bad_representation_says_so() {
    let program = map_like(5, 9000);
    let (_folder, s) = subject(&program, |_| None);
    let n = ps(&program, "map");
    assert!(
        text(&s, Cmd::Feedback(None))
            .contains("There is no readable procedure representation information file.")
    );
    let proc = page::html(&s, &request(Cmd::Proc(n)), &PageContext::default()).body;
    assert!(!proc.contains("?feedback"));
    let (_folder, s) = subject(&program, |rep| Some(rep[..rep.len() / 2].to_vec()));
    assert!(
        text(&s, Cmd::Feedback(None)).contains("Error reading procedure representation information file: ")
    );
}

#[test]
fn contexts_that_do_not_fit_their_bodies_are_left_out_and_named() {
    let program = map_like(5, 9000);
    // The representation of another version, whose `f` makes its call elsewhere.
    let mut other = program.clone();
    let f = other.find("f").expect("f");
    other.procs[f].body = Some(Code::scope(false, Code::call(f, &[1, 9], &[9])));
    let (_folder, s) = subject(&program, |_| Some(other.rep()));
    let page = text(&s, Cmd::Feedback(None));
    assert!(page.contains("m.f/2-0 in context "), "{page}");
    assert!(page.contains(" was left out: Counts do not add up at goal q;"), "{page}");
    // What does not depend on it is found anyway.
    assert!(page.contains("m.map/2-0  s2-na;"), "{page}");
}
