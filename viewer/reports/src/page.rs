//! From a query to a page: report, display, text. Servers and command lines both use only this.

use crate::query::{Cmd, Prefs, PrefsIndication, Query};
use crate::render::html::{self, PageContext};
use crate::render::text::{self, TextOptions};
use crate::report::{self, Report, Window};
use crate::subject::Subject;
use crate::{display::Display, pages};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A page in one of its forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The text.
    pub body: String,
    /// Why there is no report, if there is none. The body says it too.
    pub failure: Option<String>,
}

/// A request for a page.
#[derive(Clone, Debug)]
pub struct Request {
    /// What the page is about.
    pub cmd: Cmd,
    /// Which page of a long table.
    pub page: u32,
    /// How it is shown.
    pub prefs: PrefsIndication,
}

impl Request {
    /// The request of a query.
    #[must_use]
    pub fn from_query(query: &Query) -> Request {
        Request {
            cmd: query.cmd.clone(),
            page: query.page,
            prefs: query.prefs.map_or(PrefsIndication::Default, PrefsIndication::Given),
        }
    }

    /// Parses a command as typed, with default preferences: `proc/42`, `module/list@2`, or with preferences after `&`.
    ///
    /// # Errors
    /// The text is not a command. The error says why, in words.
    pub fn parse(text: &str) -> Result<Request, String> {
        let (cmd, prefs) = text.split_once('&').unwrap_or((text, ""));
        let (parsed, page) = crate::query::parse_cmd(cmd);
        if parsed == Cmd::Menu && cmd != "menu" {
            return Err(format!(
                "`{cmd}` is no query; try menu, root/90, program_modules or top_procs/1-20/time/self/oa"
            ));
        }
        let prefs = match prefs {
            "" => PrefsIndication::Default,
            p => PrefsIndication::Given(p.parse::<Prefs>().map_err(|_| format!("`{p}` are no preferences"))?),
        };
        Ok(Request { cmd: parsed, page, prefs })
    }
}

/// The report for a request.
#[must_use]
pub fn report(subject: &Subject, request: &Request) -> Report {
    report::create(subject, &request.cmd, Window { page: request.page })
}

/// The display for a request.
#[must_use]
pub fn display(subject: &Subject, request: &Request) -> (Display, Option<String>) {
    let report = report(subject, request);
    let prefs = subject.prefs_for(&request.cmd, request.prefs);
    let display = pages::display(&report, subject, &request.cmd, request.page, &prefs);
    (display, report.failure().map(|f| f.0.clone()))
}

/// The page as HTML.
#[must_use]
pub fn html(subject: &Subject, request: &Request, place: &PageContext) -> Page {
    guarded(
        || {
            let (display, failure) = display(subject, request);
            Page { body: html::page(&display, place), failure }
        },
        |what| html::message("An exception happened", what, place),
    )
}

/// The page as text for a terminal.
#[must_use]
pub fn text(subject: &Subject, request: &Request, options: &TextOptions) -> Page {
    guarded(
        || {
            let (display, failure) = display(subject, request);
            Page { body: text::page(&display, options), failure }
        },
        |what| format!("An exception happened\n\n{what}\n"),
    )
}

/// The data of the page as JSON: `{"query": ..., "program": ..., "report": {KIND: DATA}}`; `DATA` is `{"Ok": ...}` or
/// `{"Err": "reason"}` for the kinds that can fail. Field names are those of [`crate::report`]. `measured` says what
/// the samples of a recording measured and in which unit; where that is no time, the fields called seconds are in this
/// unit.
#[must_use]
pub fn json(subject: &Subject, request: &Request) -> Page {
    guarded(
        || {
            let report = report(subject, request);
            let measured =
                subject.measured().map(|it| json!({"of": it.name(), "unit": it.unit_of_amounts()}));
            let value = json!({
                "query": crate::query::print_cmd(&request.cmd, request.page),
                "program": subject.profile.program(),
                "bytes_per_word": subject.profile.header().bytes_per_word,
                "report": report,
                "measured": measured,
                "only_time_is_known": subject.is_sampled() && subject.memory().is_none(),
                "only": subject.part.in_words().into_iter().map(|(words, _)| words).collect::<Vec<_>>(),
            });
            let body = pct_text::visible_json(&format!("{value}\n")).into_owned();
            Page { body, failure: report.failure().map(|f| f.0.clone()) }
        },
        |what| format!("{}\n", json!({"error": what})),
    )
}

/// Whatever goes wrong in making one page must not end the server. It becomes a page that says so.
fn guarded(make: impl FnOnce() -> Page, broken: impl FnOnce(&str) -> String) -> Page {
    // The closures only read the subject; its memo cells are written completely or not at all.
    match catch_unwind(AssertUnwindSafe(make)) {
        Ok(page) => page,
        Err(payload) => {
            let said = payload
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "unknown".to_owned());
            let what = format!("internal software error: {said}");
            Page { body: broken(&what), failure: Some(what) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_becomes_a_page() {
        let page = guarded(
            || panic!("<oops>"),
            |what| html::message("An exception happened", what, &PageContext::default()),
        );
        assert_eq!(page.failure.as_deref(), Some("internal software error: <oops>"));
        assert!(page.body.contains("internal software error: &lt;oops&gt;"));
    }

    #[test]
    fn typed_queries_must_be_queries() {
        assert!(Request::parse("proc/42").is_ok());
        assert_eq!(Request::parse("module/list@2").map(|r| r.page), Ok(2));
        assert!(Request::parse("menu&p-q-s-_-w/box/cols/5/20/nosum/context/nc/th/mqwd/hhh/nodev").is_ok());
        assert!(Request::parse("prok/42").is_err());
        assert!(Request::parse("proc/42&x").is_err());
    }
}
