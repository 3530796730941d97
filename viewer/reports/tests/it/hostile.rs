//! Names from a file are only ever text: a profile in which every name is markup and controls terminals.

use pct_deep::Compensation;
use pct_reports::page::{self, Request};
use pct_reports::query::{Cmd, PrefsIndication};
use pct_reports::render::html::PageContext;
use pct_reports::render::text::TextOptions;
use pct_reports::subject::Subject;

/// A profile of two contexts, the root and a procedure that it calls back, octet by octet (version 9).
fn hostile_profile() -> Vec<u8> {
    let mut out = b"Mercury deep profiler data version 9\n".to_vec();
    let string = |out: &mut Vec<u8>, s: &str| {
        out.push(u8::try_from(s.len()).expect("short"));
        out.extend_from_slice(s.as_bytes());
    };
    string(&mut out, "</title><script>alert(1)</script>");
    out.extend_from_slice(&[8, 1, 0, 0, 0, 0, 0, 0]);
    // One edge, two call sites, two contexts, two procedures.
    for n in [1u8, 1, 2, 2] {
        out.extend_from_slice(&[n, 0, 0, 0, 0, 0, 0, 0]);
    }
    // Rate, quanta in the profiler, in the program, call sequence numbers, root.
    out.extend_from_slice(&[100, 0, 50, 1, 1]);
    // pd 1 of ps 1: one callback slot with csd 1.
    out.extend_from_slice(&[4, 1, 1, 1, 4, 1, 0]);
    // csd 1 to pd 2: exits 1, callseqs 1.
    out.extend_from_slice(&[2, 1, 2, 0x02 + 0x08, 1, 1]);
    // pd 2 of ps 2, no slots.
    out.extend_from_slice(&[4, 2, 2, 0]);
    let bad = "<img src=x onerror=alert(1)>\"'&\u{1b}[2J\u{202e}";
    for (id, name) in [(1u8, "Mercury runtime"), (2, bad)] {
        out.extend_from_slice(&[3, id, 0]);
        for _ in 0..3 {
            string(&mut out, name);
        }
        out.extend_from_slice(&[0, 0]);
        string(&mut out, name);
        out.extend_from_slice(&[1, 1]);
        if id == 1 {
            out.extend_from_slice(&[1, 1]);
        } else {
            out.push(0);
        }
    }
    // css 1: callback, no file, line 0, no path.
    out.extend_from_slice(&[1, 1, 4]);
    string(&mut out, bad);
    out.push(0);
    out.push(0);
    out
}

#[test]
fn no_name_of_a_file_becomes_markup_on_any_page() {
    let octets = hostile_profile();
    let profile = pct_deep::read::load(&octets, Compensation::Exact).expect("well formed");
    let name = profile.module_name(profile.modules().last().expect("modules")).into_owned();
    let subject = Subject::new(profile);
    let mut cmds: Vec<Cmd> = [
        "menu",
        "root/no",
        "clique/1",
        "proc/2",
        "proc_callers/2/cs/1/20/nc",
        "proc_callers/2/mo/1/20/nc",
        "program_modules",
        "top_procs/1-10/callseqs/both/oa",
        "dump_proc_static/2",
        "dump_proc_dynamic/2",
        "dump_call_site_static/1",
        "dump_call_site_dynamic/1",
        "dump_raw_clique/1",
        "clique_tree/2/callseqs",
        "clique_rc/1",
        "recursion_type_freq",
        "proc_static_coverage/2",
        "feedback",
        "feedback/2",
    ]
    .iter()
    .map(|t| t.parse().expect("a command"))
    .collect();
    cmds.extend([
        Cmd::Module(name.clone()),
        Cmd::GettersSetters(name.clone()),
        Cmd::ModuleRep(name.clone()),
        Cmd::Module("<script>".into()),
        Cmd::Search("<script>alert(1)</script>".into()),
        Cmd::Search("img".into()),
        Cmd::ProcNamed("<script>".into()),
    ]);
    for cmd in cmds {
        let request = Request { cmd: cmd.clone(), page: 1, prefs: PrefsIndication::DefaultWithAllFields };
        let place =
            PageContext { file: "<script>.data".into(), nonce: Some("n".into()), ..PageContext::default() };
        let html = page::html(&subject, &request, &place).body;
        assert!(!html.contains("<img"), "{cmd}");
        assert!(!html.contains("<script>"), "{cmd}");
        assert_eq!(html.matches("<script").count(), html.matches("<script nonce=\"n\">").count(), "{cmd}");
        let text = page::text(&subject, &request, &TextOptions::default()).body;
        assert!(!text.is_empty());
        let json = page::json(&subject, &request).body;
        serde_json::from_str::<serde_json::Value>(&json).expect("is JSON");
        for page in [html, text, json] {
            let hidden = page.find(|c| pct_text::is_hidden(c) && !matches!(c, '\n' | '\t'));
            assert_eq!(hidden, None, "{cmd}: {page:?}");
        }
    }
}
