//! What an address says: the range that is seen, what is selected, which pictures are shown of it. Text and back.

use std::fmt::{self, Write as _};

use lttv_engine::time::Time;
use lttv_modules::timeline::tile::TileId;

use crate::windows::{Filters, Transform, TransformKind};

/// A lane: index of its trace, and its number there. Written `2.17`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LaneRef {
    /// Index of the trace.
    pub trace: usize,
    /// Number of the lane.
    pub lane: usize,
}

impl fmt::Display for LaneRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.trace, self.lane)
    }
}

impl std::str::FromStr for LaneRef {
    type Err = ();
    fn from_str(text: &str) -> Result<LaneRef, ()> {
        let (trace, lane) = text.split_once('.').ok_or(())?;
        Ok(LaneRef { trace: trace.parse().map_err(drop)?, lane: lane.parse().map_err(drop)? })
    }
}

/// What is shown of the selected range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tab {
    /// Flame graph and table of functions.
    #[default]
    Flame,
    /// What a thread called when.
    Chart,
    /// The same with the heaviest of each function's callees on the left.
    Heavy,
    /// The flame graph with the functions that ran at its root.
    Inverted,
    /// The callers of the chosen function above it, and what it calls below.
    Sandwich,
    /// The call tree as a table that opens in place.
    Tree,
    /// Source lines and instructions of the chosen function.
    Source,
    /// Statistics of traces.
    Statistics,
    /// List of events.
    Events,
    /// What the thread of the chosen lane was doing, state by state.
    States,
    /// What threads waited for.
    Waits,
}

impl Tab {
    /// All of them with their words in addresses and on the page.
    pub const ALL: [(Tab, &'static str, &'static str); 11] = [
        (Tab::Flame, "flame", "flame graph"),
        (Tab::Chart, "chart", "stack chart"),
        (Tab::Heavy, "heavy", "left-heavy"),
        (Tab::Inverted, "inverted", "inverted"),
        (Tab::Sandwich, "sandwich", "sandwich"),
        (Tab::Tree, "tree", "call tree"),
        (Tab::Source, "source", "source"),
        (Tab::Waits, "waits", "waits"),
        (Tab::Statistics, "stats", "statistics"),
        (Tab::Events, "events", "events"),
        (Tab::States, "states", "states"),
    ];

    /// Whether it shows samples, which only recordings have.
    pub(crate) fn is_of_samples(self) -> bool {
        !matches!(self, Tab::Statistics | Tab::Events | Tab::States | Tab::Waits)
    }

    /// The word in addresses.
    pub fn as_word(self) -> &'static str {
        Tab::ALL.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }
}

/// By what the table of functions is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FunctionOrder {
    /// What they own.
    #[default]
    Owner,
    /// What was spent in their own machine code.
    Leaf,
    /// What they spent with all that they called.
    Total,
}

impl FunctionOrder {
    /// All of them with their words in addresses and on the page, and what these mean.
    pub const ALL: [(FunctionOrder, &'static str, &'static str); 3] = [
        (
            FunctionOrder::Owner,
            "self",
            "time in the function, and in what worked for it: libraries, runtime, kernel",
        ),
        (FunctionOrder::Leaf, "leaf", "time in the function's own machine code"),
        (FunctionOrder::Total, "total", "time in it and in everything that it called"),
    ];
}

/// What is seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// First time, ns.
    pub from: i64,
    /// End.
    pub to: i64,
    /// The selected range, if one is: what is below the lanes is about it, else about all that is seen.
    pub selection: Option<(i64, i64)>,
    /// The lane that is looked at alone.
    pub lane: Option<LaneRef>,
    /// What is shown of the range.
    pub tab: Option<Tab>,
    /// All lanes are shown, not the busiest only.
    pub all: bool,
    /// Where the list of events begins: a time, and events at that time before it.
    pub at: Option<(i64, u64)>,
    /// Only events with this in their name.
    pub name: String,
    /// Which samples are counted.
    pub filters: Filters,
    /// What is done with their stacks, in this order.
    pub transforms: Vec<Transform>,
    /// The chosen function; empty: none.
    pub function: String,
    /// What is searched for; empty: nothing.
    pub search: String,
    /// The time of the hit that was gone to.
    pub hit: Option<i64>,
    /// How small the branches of the call tree are that are shown: 0 is the usual, up to [`MOST_DETAIL`].
    pub detail: u32,
    /// Order of the table of functions.
    pub by: FunctionOrder,
}

/// From this one on the call tree shows every branch.
pub const MOST_DETAIL: u32 = 5;

/// The tiles of a level that a view shows.
pub fn tiles_of(view: &View, level: u32) -> impl Iterator<Item = TileId> {
    let (first, last) = (TileId::holding(Time(view.from), level), TileId::holding(Time(view.to - 1), level));
    (first.index()..=last.index()).filter_map(move |index| TileId::new(level, index))
}

/// A part of an address that has no meaning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadAddress(pub String);

/// The parts of a query, decoded.
pub fn parts(query: &str) -> impl Iterator<Item = (&str, String)> {
    query.split('&').filter(|part| !part.is_empty()).map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (key, decoded(value))
    })
}

fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let hex = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        let byte = match byte {
            b'+' => b' ',
            b'%' => {
                let mut ahead = bytes.clone();
                match (hex(ahead.next()), hex(ahead.next())) {
                    (Some(high), Some(low)) => {
                        bytes = ahead;
                        u8::try_from(high * 16 + low).unwrap_or(b'?')
                    }
                    _ => b'%',
                }
            }
            byte => byte,
        };
        out.push(byte);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A text as a part of an address.
pub fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(char::from(byte)),
            byte => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// A number of an address.
///
/// # Errors
/// The text is not a number, or out of the range of `T`.
pub fn number<T: std::str::FromStr>(key: &str, text: &str) -> Result<T, BadAddress> {
    text.parse().map_err(|_| BadAddress(format!("{key}={text}: expected a whole number in its limits")))
}

/// Shortest range that is seen, ns.
const SHORTEST: i64 = 100;
/// Longest text that is searched for.
const LONGEST_NAME: usize = 200;
/// Longest name of a function or an object.
const LONGEST_FUNCTION: usize = 4000;
/// Most transforms.
const MOST_TRANSFORMS: usize = 20;

fn short(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}

/// `merge:NAME` as a transform.
fn transform(text: &str) -> Result<Transform, BadAddress> {
    let (word, name) = text.split_once(':').unwrap_or((text, ""));
    let kind = TransformKind::ALL.iter().find(|row| row.1 == word).map(|row| row.0);
    match kind.filter(|_| !name.is_empty()) {
        Some(kind) => Ok(Transform { kind, name: name.chars().take(LONGEST_FUNCTION).collect() }),
        None => {
            Err(BadAddress(format!("x={text}: expected focus:, ignore:, merge:, recursion: or object:NAME")))
        }
    }
}

impl View {
    /// Whether all of a span is seen.
    pub(crate) fn is_whole(&self, span: (i64, i64)) -> bool {
        self.from <= span.0 && self.to >= span.1
    }

    /// Everything.
    pub fn whole(span: (i64, i64)) -> View {
        let (from, to) = span;
        View {
            from,
            to,
            selection: None,
            lane: None,
            tab: None,
            all: false,
            at: None,
            name: String::new(),
            filters: Filters::default(),
            transforms: Vec::new(),
            function: String::new(),
            search: String::new(),
            hit: None,
            detail: 0,
            by: FunctionOrder::default(),
        }
    }

    /// What a query says; what it does not say is that of the whole `span`.
    ///
    /// # Errors
    /// A part makes no sense.
    pub fn parse(query: &str, span: (i64, i64)) -> Result<View, BadAddress> {
        let mut view = View::whole(span);
        let (mut a, mut b) = (None, None);
        for (key, text) in parts(query) {
            match key {
                "from" => view.from = number(key, &text)?,
                "to" => view.to = number(key, &text)?,
                "a" => a = Some(number(key, &text)?),
                "b" => b = Some(number(key, &text)?),
                "lane" => {
                    let lane =
                        text.parse().map_err(|()| BadAddress(format!("lane={text}: expected 0.12")))?;
                    view.lane = Some(lane);
                }
                "tab" => view.tab = Tab::ALL.iter().find(|row| row.1 == text).map(|row| row.0),
                "all" => view.all = text == "1",
                "at" => {
                    let (time, skip) = text.split_once('.').unwrap_or((&text, "0"));
                    view.at = Some((number(key, time)?, number(key, skip)?));
                }
                "name" => view.name = short(&text),
                "x" if view.transforms.len() >= MOST_TRANSFORMS => {
                    return Err(BadAddress(format!("x: at most {MOST_TRANSFORMS}")));
                }
                "x" => view.transforms.push(transform(&text)?),
                "fn" => view.function = text.chars().take(LONGEST_FUNCTION).collect(),
                "q" => view.search = short(&text),
                "hit" => view.hit = Some(number(key, &text)?),
                "by" => {
                    let known = FunctionOrder::ALL.iter().find(|row| row.1 == text);
                    view.by = known.map(|row| row.0).unwrap_or_default();
                }
                "detail" => view.detail = number::<u32>(key, &text)?.min(MOST_DETAIL),
                word => {
                    if let Some(filter) = view.filters.by_word(word) {
                        *filter = short(&text);
                    }
                }
            }
        }
        if view.to.checked_sub(view.from).is_none_or(|width| width <= 0) {
            return Err(BadAddress("from must be before to, and less than 292 years".into()));
        }
        view.to = view.to.max(view.from.saturating_add(SHORTEST));
        // One end alone: up to the end of the span, or from its begin.
        let ends = (a.is_some() || b.is_some()).then(|| (a.unwrap_or(span.0), b.unwrap_or(span.1)));
        view.selection = ends.map(|(a, b): (i64, i64)| (a.min(b), a.max(b))).filter(|(a, b)| a < b);
        Ok(view)
    }

    /// The query that says it.
    pub fn query(&self) -> String {
        let mut out = format!("from={}&to={}", self.from, self.to);
        if let Some((a, b)) = self.selection {
            let _ = write!(out, "&a={a}&b={b}");
        }
        if let Some(lane) = self.lane {
            let _ = write!(out, "&lane={lane}");
        }
        if let Some(tab) = self.tab {
            let _ = write!(out, "&tab={}", tab.as_word());
        }
        if self.all {
            out.push_str("&all=1");
        }
        if let Some((time, skip)) = self.at {
            let _ = write!(out, "&at={time}.{skip}");
        }
        if !self.name.is_empty() {
            let _ = write!(out, "&name={}", encoded(&self.name));
        }
        for (word, _, text) in self.filters.rows().iter().filter(|row| !row.2.is_empty()) {
            let _ = write!(out, "&{word}={}", encoded(text));
        }
        for transform in &self.transforms {
            let _ = write!(out, "&x={}:{}", transform.kind.as_word(), encoded(&transform.name));
        }
        if !self.function.is_empty() {
            let _ = write!(out, "&fn={}", encoded(&self.function));
        }
        if !self.search.is_empty() {
            let _ = write!(out, "&q={}", encoded(&self.search));
        }
        if let Some(hit) = self.hit {
            let _ = write!(out, "&hit={hit}");
        }
        if self.detail > 0 {
            let _ = write!(out, "&detail={}", self.detail);
        }
        if let Some(row) = FunctionOrder::ALL.iter().skip(1).find(|row| row.0 == self.by) {
            let _ = write!(out, "&by={}", row.1);
        }
        out
    }

    /// The range that the pictures below the lanes are about.
    pub fn window(&self) -> (i64, i64) {
        self.selection.unwrap_or((self.from, self.to))
    }

    /// Width of what is seen, ns.
    pub fn width(&self) -> i64 {
        self.to.saturating_sub(self.from).max(1)
    }

    /// The same with another range: `part` of the width from `begin` of it on, both in eighths.
    #[must_use]
    pub fn moved(&self, begin: i64, part: i64) -> View {
        let eighth = (self.width() / 8).max(1);
        let from = self.from.saturating_add(eighth.saturating_mul(begin));
        let to = from.saturating_add(eighth.saturating_mul(part).max(SHORTEST));
        View { from, to, ..self.clone() }
    }

    /// The same, moved into a span as far as it fits.
    #[must_use]
    pub fn clamped(&self, span: (i64, i64)) -> View {
        let width = self.width().min(span.1.saturating_sub(span.0)).max(SHORTEST);
        let from = self.from.clamp(span.0, span.1.saturating_sub(width).max(span.0));
        View { from, to: from.saturating_add(width), ..self.clone() }
    }
}

/// The address of a view, from any page of the timeline.
pub(crate) fn link(view: &View) -> String {
    format!("tl?{}", view.query())
}

/// The link that chooses a function; without script it leads to its callers and callees.
pub(crate) fn choose(view: &View, name: &str) -> String {
    let chosen = View { function: String::new(), tab: Some(Tab::Sandwich), ..view.clone() };
    format!("{}&fn={}", link(&chosen), encoded(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_what_they_are_made_of() {
        let view = View {
            from: -5,
            to: 1_795_295_131_094_746_936,
            selection: Some((7, 9)),
            lane: Some(LaneRef { trace: 1, lane: 12 }),
            tab: Some(Tab::Events),
            all: true,
            at: Some((8, 2)),
            name: "a b&c=%/é".into(),
            filters: Filters { thread: "7".into(), function: "^f|g$".into(), ..Filters::default() },
            transforms: vec![
                Transform { kind: TransformKind::Merge, name: "ns::f<a, b>(int)".into() },
                Transform { kind: TransformKind::Object, name: "libc.so.6".into() },
            ],
            function: "operator&&".into(),
            search: "ret = -1".into(),
            hit: Some(-3),
            detail: 2,
            by: FunctionOrder::Total,
        };
        assert_eq!(View::parse(&view.query(), (0, 1)), Ok(view));
        let whole = View::whole((10, 2000));
        assert_eq!(View::parse("", (10, 2000)), Ok(whole.clone()));
        assert_eq!(View::parse(&whole.query(), (0, 1)), Ok(whole));
    }

    #[test]
    fn senseless_addresses_are_errors_not_pictures() {
        for query in [
            "from=x",
            "from=5&to=5",
            "from=9&to=1",
            "to=99999999999999999999",
            "lane=7",
            "at=x.1",
            "x=merge",
            "x=f:g",
        ] {
            assert!(View::parse(query, (0, 1000)).is_err(), "{query}");
        }
        let all = format!("from={}&to={}", i64::MIN, i64::MAX);
        assert!(View::parse(&all, (0, 1000)).is_err());
        assert_eq!(View::parse("a=5&b=5", (0, 1000)).map(|view| view.selection), Ok(None));
    }
}
