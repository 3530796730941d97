//! What is seen of a recording as a part that its other pages can show.

use pct_server::library::{Part, PartFilter};

use crate::board::lane_of;
use crate::store::Store;
use crate::view::View;

/// What is seen of a recording, as the addresses of its other pages have it.
pub(super) fn part_in_address(store: &Store, view: &View) -> String {
    let start =
        store.traces().find_map(|shown| shown.recording.as_ref()).map_or(0, |recording| recording.start_ns);
    let (from, to) = view.window();
    let ns = |time: i64| u64::try_from(time.saturating_sub(start)).unwrap_or(0);
    let span = store.span();
    // What begins or ends with the span goes on beyond it.
    let from = if from <= span.0 { 0 } else { ns(from) };
    let to = if to >= span.1 { u64::MAX } else { ns(to) };
    let range = Some((from, to)).filter(|range| *range != (0, u64::MAX) && from < to);
    let tid = lane_of(store, view).and_then(|(_, lane)| lane.tid());
    let part = Part::default()
        .in_range(range)
        .with(PartFilter::Thread, &tid.map_or_else(String::new, |tid| tid.to_string()));
    let filter = |word: &str| PartFilter::ALL.into_iter().find(|filter| filter.as_word() == word);
    let typed = view.filters.rows().into_iter().filter(|row| !row.2.is_empty());
    let typed = typed.filter_map(|(word, _, text)| Some((filter(word)?, text)));
    typed.fold(part, |part, (filter, text)| part.with(filter, text)).in_address()
}
