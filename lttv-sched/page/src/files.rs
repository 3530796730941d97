//! What is seen as files: samples of the window in formats of other tools, events as lines of JSON, pictures.

use std::sync::Arc;

use pct_server::answer::Stream;
use serde_json::json;

use crate::board::Board;
use crate::events::{EventRow, Listed};
use crate::html::{event_list, workbench};
use crate::picture;
use crate::store::Store;
use crate::view::{BadAddress, View, number, parts};
use crate::windows::FileFormat;

/// Events of a piece of a list.
const PIECE: usize = 20_000;

/// A file for an address: `as` says which, `r` which of the recordings it is of.
///
/// # Errors
/// The address makes no sense, or a filter in it.
pub(crate) fn file(store: &Arc<Store>, query: &str) -> Result<Stream, BadAddress> {
    let view = View::parse(query, store.span())?;
    let (mut what, mut at) = (String::new(), 0_usize);
    for (key, text) in parts(query) {
        match key {
            "as" => what = text,
            "r" => at = number(key, &text)?,
            _ => {}
        }
    }
    let recording = || {
        let mut recordings = store.traces().filter_map(|shown| shown.recording.as_ref());
        recordings.nth(at).ok_or_else(|| BadAddress(format!("r={at}: there is no such recording here")))
    };
    let samples = |format| {
        let recording = recording()?;
        let window = workbench::window_of(store, &view, recording);
        recording.windows.file(&window, format).map_err(BadAddress)
    };
    match &*what {
        "folded" => Ok(whole("text/plain; charset=utf-8", samples(FileFormat::Folded)?)),
        "pprof" => Ok(whole("application/octet-stream", samples(FileFormat::Pprof)?)),
        "jsonl" => Ok(whole("application/jsonl", samples(FileFormat::JsonLines)?)),
        "archive" => {
            let (from, to) = view.window();
            let pieces = recording()?.windows.archive(from, to).map_err(BadAddress)?;
            Ok(Stream { content_type: "application/octet-stream", pieces })
        }
        "flame" => {
            let recording = recording()?;
            let window = workbench::window_of(store, &view, recording);
            let svg = workbench::flame_file(recording, &window, &view).map_err(BadAddress)?;
            Ok(whole("image/svg+xml", svg.into_bytes()))
        }
        "lanes" => {
            let board = Board::from_store(store, &view);
            Ok(whole("image/svg+xml", picture::standing_alone(store, &board, &view).into_bytes()))
        }
        "events" => Ok(events(store.clone(), view)),
        other => {
            let expected = "expected archive, folded, pprof, jsonl, flame, lanes or events";
            Err(BadAddress(format!("as={other}: {expected}")))
        }
    }
}

fn whole(content_type: &'static str, bytes: Vec<u8>) -> Stream {
    Stream { content_type, pieces: Box::new(std::iter::once(bytes)) }
}

/// All events of the window, asked for piece by piece while they are sent.
fn events(store: Arc<Store>, view: View) -> Stream {
    let mut next = Some((view.window().0, 0));
    let pieces = std::iter::from_fn(move || {
        let (from, skip) = next.take()?;
        let ask = event_list::events_ask(&store, &view, (from, skip), PIECE);
        let Listed { rows, next: after, is_whole } = store.events(&ask);
        next = after;
        let names: Vec<&str> = store.traces().map(|shown| &*shown.name).collect();
        let mut lines: String = rows.iter().map(|row| line(row, &names)).collect();
        if !is_whole {
            lines += "{\"error\":\"this took too long; events may be missing\"}\n";
        }
        Some(lines.into_bytes())
    });
    Stream { content_type: "application/jsonl", pieces: Box::new(pieces) }
}

fn line(row: &EventRow, names: &[&str]) -> String {
    let trace = names.get(row.trace).copied().unwrap_or("");
    let line = json!({
        "ns": row.time, "trace": trace, "of": row.of, "cpu": row.cpu, "tid": row.thread, "event": row.name, "fields": row.fields,
    });
    format!("{}\n", pct_text::visible_json(&line.to_string()))
}
