//! What is answered to which address. All stand under `tl`; the page itself is `tl?from=..&to=..`.

use pct_server::answer::{After, Answers, Form, Reply, Request, Response, Stream};
use pct_server::http::nonce;
use serde_json::json;

use crate::board::{Board, colour_of_state};
use crate::files;
use crate::html::{self, Links, PageParts};
use crate::live::{Live, Origin};
use crate::search;
use crate::states;
use crate::store::Store;
use crate::tiles::{self, TileAsk};
use crate::turns::{Question, Turns};
use crate::view::{BadAddress, View, number, parts};

use lttv_modules::timeline::lanes::STATES;
use std::sync::Arc;
use std::time::Duration;

/// The timeline of some traces, for a server.
pub struct TimelinePage {
    live: Arc<Live>,
    links: Links,
    turns: Turns,
}

/// How often a stream looks for news.
const STREAM_PERIOD: Duration = Duration::from_millis(200);
/// Looks without news after which a stream sends a comment, so that a reader that is gone is noticed.
const QUIET_LOOKS: u32 = 50;

impl TimelinePage {
    /// For these traces, which stay as they are.
    pub fn new(store: Store) -> TimelinePage {
        TimelinePage::showing(Live::fixed(store))
    }

    /// For traces that may grow or be replaced. `stamp` is what their origin said before they were opened, so that what
    /// changes meanwhile is noticed.
    pub fn following(origin: Box<dyn Origin>, store: Store, stamp: u64) -> TimelinePage {
        TimelinePage::showing(Live::following(origin, store, stamp))
    }

    fn showing(live: Live) -> TimelinePage {
        TimelinePage { live: Arc::new(live), links: Links::default(), turns: Turns::default() }
    }

    fn store(&self) -> Arc<Store> {
        self.live.now().store
    }

    /// The same with other links.
    #[must_use]
    pub fn with_links(self, links: Links) -> TimelinePage {
        TimelinePage { links, ..self }
    }

    fn page(&self, query: &str) -> Response {
        self.live.check_for_changes();
        let now = self.live.now();
        let span = now.store.span();
        let mut response = match View::parse(query, span) {
            Ok(view) => {
                let nonce = nonce();
                let frame = PageParts {
                    links: &self.links,
                    revision: now.revision,
                    is_written: now.is_written,
                    news: self.news(),
                    may_defer: !parts(query).any(|(key, _)| key == "part"),
                    nonce: &nonce,
                };
                let body = html::page(&now.store, &view, &frame);
                Response { nonce: Some(nonce), ..html_response(&body) }
            }
            Err(error) => html::message(400, &error.0),
        };
        response.fetches = true;
        response
    }

    /// What is to be said about the traces being written or changed; empty: nothing.
    fn news(&self) -> String {
        let now = self.live.now();
        match self.live.trouble() {
            Some(why) => format!(
                "What is shown here has changed on disk and cannot be read again: {why}. The page shows it as of {} s ago.",
                now.age_s()
            ),
            None if now.is_written => format!("Still being recorded; this is as of {} s ago.", now.age_s()),
            None => String::new(),
        }
    }

    /// What a page that stays open asks for now and then.
    fn state(&self) -> Response {
        self.live.check_for_changes();
        let now = self.live.now();
        let (from, to) = now.store.span();
        json_response(&json!({
            "revision": now.revision, "written": now.is_written, "news": self.news(),
            "span": [from.to_string(), to.to_string()], "events": html::events(&now.store),
        }))
    }

    fn view(&self, query: &str) -> Result<View, BadAddress> {
        View::parse(query, self.store().span())
    }

    fn fragment(
        &self,
        query: &str,
        make: impl FnOnce(&Store, &View) -> String,
    ) -> Result<Response, BadAddress> {
        let view = self.view(query)?;
        Ok(html_response(&make(&self.store(), &view)))
    }

    /// The part of the page about the range. A script says which page asks, and how often it has asked.
    fn window(&self, query: &str) -> Result<Response, BadAddress> {
        let (mut page, mut asked) = (None, None);
        for (key, text) in parts(query) {
            match key {
                "page" => page = Some(number(key, &text)?),
                "n" => asked = Some(number(key, &text)?),
                _ => {}
            }
        }
        let make = || self.fragment(query, html::range::window);
        match page.zip(asked) {
            None => make(),
            Some((page, number)) => self
                .turns
                .answer(Question { page, number }, make)
                .unwrap_or_else(|| Ok(Response::plain(410, "This page has moved on since."))),
        }
    }

    fn meta(&self) -> Response {
        let store = self.store();
        let (from, to) = store.span();
        let traces = store.traces().enumerate().map(|(id, shown)| {
            let timeline = store.timeline(id);
            let events = timeline.as_ref().map_or(0, |timeline| timeline.events().0);
            let computed_to = timeline.as_ref().map_or(from, |timeline| timeline.computed_to().ns());
            let ready = timeline.as_ref().is_some_and(|timeline| timeline.is_whole());
            let start = shown.recording.as_ref().map(|recording| recording.start_ns.to_string());
            let kind = if shown.recording.is_some() { "recording" } else { "trace" };
            json!({
                "id": id, "name": shown.name, "kind": kind, "events": events, "base": timeline.map(|t| t.base()),
                "computed_to": computed_to.to_string(), "ready": ready, "start": start,
            })
        });
        let traces: Vec<_> = traces.collect();
        let board = Board::from_store(&store, &View { all: true, ..View::whole((from, to)) });
        let lanes = board.rows.iter().map(|row| {
            json!({
                "id": row.id.to_string(), "trace": row.id.trace, "kind": row.kind.name(), "name": row.name,
                "n": row.sum.n, "w": row.sum.w, "running": row.sum.running,
            })
        });
        let lanes: Vec<_> = lanes.collect();
        let states = (0..)
            .zip(STATES)
            .map(|(key, name)| json!({"name": name, "color": colour_of_state(key).to_string()}));
        let states: Vec<_> = states.collect();
        json_response(&json!({
            "v": 1, "span": [from.to_string(), to.to_string()], "origin": store.origin().to_string(), "traces": traces,
            "lanes": lanes, "states": states, "diag": store.said(),
        }))
    }

    fn stream(&self) -> Stream {
        let store = self.store();
        let (mut before, mut quiet, mut ended) = (None, 0, false);
        let pieces = std::iter::from_fn(move || {
            loop {
                if ended {
                    return None;
                }
                if before.is_some() {
                    std::thread::sleep(STREAM_PERIOD);
                }
                let now = progress(&store);
                if before.as_ref() != Some(&now) {
                    (quiet, ended) = (0, store.is_whole());
                    let name = if ended { "ready" } else { "progress" };
                    let piece = format!("event: {name}\ndata: {now}\n\n");
                    before = Some(now);
                    return Some(piece.into_bytes());
                }
                quiet += 1;
                if quiet >= QUIET_LOOKS {
                    quiet = 0;
                    return Some(b": nothing new\n\n".to_vec());
                }
            }
        });
        Stream { content_type: "text/event-stream", pieces: Box::new(pieces) }
    }
}

/// How far the passes are, as JSON.
fn progress(store: &Store) -> String {
    let rows = (0..store.traces().len()).filter_map(|trace| {
        let timeline = store.timeline(trace)?;
        let (to, ready) = (timeline.computed_to().ns().to_string(), timeline.is_whole());
        Some(json!({"trace": trace, "computed_to": to, "events": timeline.events().0, "ready": ready}))
    });
    json!(rows.collect::<Vec<_>>()).to_string()
}

/// A page or a part of it. Hidden characters of names are written out here, in one place for all of it.
fn html_response(body: &str) -> Response {
    Response::page(Form::Html, pct_text::visible_lines(body).into_owned())
}

fn json_response(value: &serde_json::Value) -> Response {
    Response::page(Form::Json, pct_text::visible_json(&value.to_string()).into_owned())
}

impl Answers for TimelinePage {
    fn answer(&self, request: &Request<'_>) -> (Response, After) {
        match request.query {
            "quit" => (html::message(200, "The server has ended."), After::Quit),
            query => (self.page(query.strip_prefix("timeline").unwrap_or(query)), After::Serve),
        }
    }

    fn answer_path(&self, path: &str, query: &str) -> Option<Reply> {
        let made = match path {
            "/tl" | "/tl/" => Ok(self.page(query)),
            "/tl/meta" => Ok(self.meta()),
            "/tl/state" => Ok(self.state()),
            "/tl/tile" => TileAsk::parse(query).map(|ask| match tiles::tile(&self.store(), &ask) {
                Some(body) => Response::page(Form::Json, body),
                None => Response::plain(410, "This page has moved on since."),
            }),
            "/tl/names" => tiles::names(&self.store(), query).map(|names| json_response(&names)),
            "/tl/colours" => {
                tiles::colours(&self.store(), query).map(|body| Response::page(Form::Json, body))
            }
            "/tl/lanes" => self.fragment(query, html::lanes),
            "/tl/window" => self.window(query),
            "/tl/chosen" => {
                self.fragment(query, |store, view| html::workbench::chosen_bar(store, view).into_string())
            }
            "/tl/window.json" => {
                let made = self
                    .view(query)
                    .and_then(|view| html::workbench::json_of(&self.store(), &view).map_err(BadAddress));
                made.map(|value| json_response(&value))
            }
            "/tl/change" => states::change(&self.store(), query).map(|value| json_response(&value)),
            "/tl/search" => {
                self.view(query).map(|view| json_response(&search::json_of(&self.store(), &view)))
            }
            "/tl/file" => match files::file(&self.store(), query) {
                Ok(file) => return Some(Reply::Stream(file)),
                Err(error) => Err(error),
            },
            "/tl/stream" => return Some(Reply::Stream(self.stream())),
            _ => return None,
        };
        Some(Reply::Whole(made.unwrap_or_else(|error| Response::plain(400, &error.0))))
    }
}
