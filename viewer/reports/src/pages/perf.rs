//! The performance columns: one table of declarations from which both heads and cells are made.

use crate::display::table::{ColumnClass, Head, Sorted};
use crate::display::{Cell, Data, HeadGroup, Label, Link, LinkClass, MemUnit};
use crate::query::{
    AllocFields, CallseqFields, Cmd, Cost, CostOrder, Fields, Incl, Limit, MemFields, Order, PortFields,
    Prefs, Scope, TimeFields,
};
use crate::report::common::{Block, Perf};
use pct_deep::measured::Measured;
use pct_deep::native::Allocated;

/// The count of a port.
struct Port {
    head: &'static str,
    order: Option<Cost>,
    value: fn(&Perf) -> i64,
    help: &'static str,
}

const PORTS: &[Port] = &[
    Port {
        head: "Calls",
        order: Some(Cost::Calls),
        value: |p| p.calls,
        help: "exits + fails + exceptions - redos",
    },
    Port { head: "Exits", order: None, value: |p| p.exits, help: "returns with success" },
    Port { head: "Fails", order: None, value: |p| p.fails, help: "failures" },
    Port { head: "Redos", order: Some(Cost::Redos), value: |p| p.redos, help: "re-entries by backtracking" },
    Port { head: "Excps", order: None, value: |p| p.excps, help: "exits by exception" },
];

/// The label of a column.
enum Says {
    /// "Self" or "Total": the group's main number.
    Main,
    /// Another word.
    Word(&'static str),
}

/// A column of a cost, once for self and once for total.
struct Part {
    says: Says,
    scope: Option<Scope>,
    shown: fn(&Fields) -> bool,
    datum: fn(&Block, Memory) -> Data,
}

/// A cost with its columns.
struct Quantity {
    title: fn(&Fields) -> Option<&'static str>,
    cost: Cost,
    parts: &'static [Part],
}

/// How numbers are shown.
#[derive(Clone, Copy)]
struct Memory {
    unit: MemUnit,
    scale: f64,
    /// What times are.
    times: Times,
}

/// What the costs of time are.
#[derive(Clone, Copy)]
enum Times {
    /// Ticks of a clock, and what they stand for.
    Ticks,
    /// Seconds, of samples.
    Seconds,
    /// Samples measured something else than a time.
    Amounts,
}

impl Times {
    fn of_samples(measured: Option<&Measured>) -> Times {
        match measured {
            None => Times::Ticks,
            Some(measured) if measured.is_time() => Times::Seconds,
            Some(_) => Times::Amounts,
        }
    }
}

/// What columns need to know about the profile.
#[derive(Clone, Copy)]
pub(crate) struct Scale<'a> {
    pub(crate) bytes_per_word: u8,
    /// It was made of samples, and they measured this: calls are not known.
    pub(crate) measured: Option<&'a Measured>,
    /// What its allocations are, if it was made of samples and has any.
    pub(crate) memory: Option<Allocated>,
}

const QUANTITIES: &[Quantity] = &[
    Quantity {
        title: |f| match f.time {
            TimeFields::None => None,
            TimeFields::Ticks => Some("Clock ticks"),
            TimeFields::Time | TimeFields::TimePerCall => Some("Time"),
            TimeFields::TicksTime | TimeFields::All => Some("Clock ticks and times"),
        },
        cost: Cost::Time,
        parts: &[
            Part {
                says: Says::Main,
                scope: Some(Scope::Overall),
                shown: |f| matches!(f.time, TimeFields::Ticks | TimeFields::TicksTime | TimeFields::All),
                datum: |b, _| Data::Int(b.ticks),
            },
            Part {
                says: Says::Word("Time"),
                scope: Some(Scope::Overall),
                shown: |f| !matches!(f.time, TimeFields::Ticks),
                datum: |b, m| match m.times {
                    Times::Ticks => Data::Time(b.seconds),
                    Times::Seconds => Data::Seconds(b.seconds),
                    Times::Amounts => Data::Amount(b.seconds),
                },
            },
            Part {
                says: Says::Word("%"),
                scope: None,
                shown: |_| true,
                datum: |b, _| Data::Percent(b.ticks_share),
            },
            Part {
                says: Says::Word("/call"),
                scope: Some(Scope::PerCall),
                shown: |f| matches!(f.time, TimeFields::TimePerCall | TimeFields::All),
                datum: |b, _| Data::Time(b.seconds_per_call),
            },
        ],
    },
    Quantity {
        title: |f| (f.callseqs != CallseqFields::None).then_some("Call sequence numbers"),
        cost: Cost::Callseqs,
        parts: &[
            Part {
                says: Says::Main,
                scope: Some(Scope::Overall),
                shown: |_| true,
                datum: |b, _| Data::Int(b.callseqs),
            },
            Part {
                says: Says::Word("%"),
                scope: None,
                shown: |_| true,
                datum: |b, _| Data::Percent(b.callseqs_share),
            },
            Part {
                says: Says::Word("/call"),
                scope: Some(Scope::PerCall),
                shown: |f| f.callseqs == CallseqFields::PerCall,
                datum: |b, _| Data::Float(b.callseqs_per_call),
            },
        ],
    },
    Quantity {
        title: |f| (f.allocs != AllocFields::None).then_some("Memory allocations"),
        cost: Cost::Allocs,
        parts: &[
            Part {
                says: Says::Main,
                scope: Some(Scope::Overall),
                shown: |_| true,
                datum: |b, _| Data::Int(b.allocs),
            },
            Part {
                says: Says::Word("%"),
                scope: None,
                shown: |_| true,
                datum: |b, _| Data::Percent(b.allocs_share),
            },
            Part {
                says: Says::Word("/call"),
                scope: Some(Scope::PerCall),
                shown: |f| f.allocs == AllocFields::PerCall,
                datum: |b, _| Data::Float(b.allocs_per_call),
            },
        ],
    },
    Quantity {
        title: |f| match f.memory {
            MemFields::None => None,
            MemFields::Words | MemFields::WordsPerCall => Some("Memory words"),
            MemFields::Bytes | MemFields::BytesPerCall => Some("Memory bytes"),
        },
        cost: Cost::Words,
        parts: &[
            Part {
                says: Says::Main,
                scope: Some(Scope::Overall),
                shown: |_| true,
                datum: |b, m| Data::Memory(b.words as f64 * m.scale, m.unit, 0),
            },
            Part {
                says: Says::Word("%"),
                scope: None,
                shown: |_| true,
                datum: |b, _| Data::Percent(b.words_share),
            },
            Part {
                says: Says::Word("/call"),
                scope: Some(Scope::PerCall),
                shown: |f| matches!(f.memory, MemFields::WordsPerCall | MemFields::BytesPerCall),
                datum: |b, m| Data::Memory(b.words_per_call * m.scale, m.unit, 2),
            },
        ],
    },
];

/// The head of the columns of blocks.
pub(crate) const fn blocks_head(memory: Allocated) -> &'static str {
    match memory {
        Allocated::All => "Blocks allocated",
        Allocated::Live => "Blocks live at the end",
        Allocated::Peak => "Blocks live at the peak",
    }
}

/// The head of the columns of bytes.
pub(crate) const fn bytes_head(memory: Allocated) -> &'static str {
    match memory {
        Allocated::All => "Bytes allocated",
        Allocated::Live => "Bytes live at the end",
        Allocated::Peak => "Bytes live at the peak",
    }
}

/// The head of the columns of words.
pub(crate) const fn words_head(memory: Allocated) -> &'static str {
    match memory {
        Allocated::All => "Words allocated",
        Allocated::Live => "Words live at the end",
        Allocated::Peak => "Words live at the peak",
    }
}

/// Where a cell's number comes from.
enum Source {
    Port(fn(&Perf) -> i64),
    Own(fn(&Block, Memory) -> Data),
    Total(fn(&Block, Memory) -> Data),
}

/// The performance columns of a page.
pub(crate) struct PerfColumns {
    /// Their heads.
    pub(crate) heads: Vec<HeadGroup>,
    sources: Vec<Source>,
    memory: Memory,
}

/// A head that orders the page by a criterion. It is marked if the page has that order. A list of the first so many by
/// one cost is another list by another cost: its heads lead there.
pub(crate) fn order_head(cmd: &Cmd, prefs: &Prefs, text: &str, order: Order, class: ColumnClass) -> Head {
    let cmd = match (cmd, order) {
        (
            &Cmd::TopProcs { limit: limit @ Limit::Ranks(..), .. },
            Order::Cost(CostOrder { cost, incl, scope }),
        ) => Cmd::TopProcs { limit, cost, incl, scope },
        _ => cmd.clone(),
    };
    let link = Link {
        cmd,
        page: 1,
        prefs: Some(Prefs { order, ..*prefs }),
        label: Label::plain(text),
        class: LinkClass::Plain,
        hint: None,
        file: None,
    };
    let way = if matches!(order, Order::Cost(_)) { Sorted::Descending } else { Sorted::Ascending };
    Head { sorted: (prefs.order == order).then_some(way), ..Head::link(link, class) }
}

impl PerfColumns {
    /// The columns that the preferences ask for, with or without totals.
    pub(crate) fn new(cmd: &Cmd, prefs: &Prefs, totals: bool, by: Scale<'_>) -> PerfColumns {
        let fields = prefs.fields;
        let times = Times::of_samples(by.measured);
        let memory = match fields.memory {
            MemFields::Bytes | MemFields::BytesPerCall => {
                Memory { unit: MemUnit::Bytes, scale: f64::from(by.bytes_per_word), times }
            }
            MemFields::None | MemFields::Words | MemFields::WordsPerCall => {
                Memory { unit: MemUnit::Words, scale: 1.0, times }
            }
        };
        let unit = memory.unit;
        let mut columns = PerfColumns { heads: Vec::new(), sources: Vec::new(), memory };
        for quantity in QUANTITIES {
            let Some(title) = (quantity.title)(&fields) else { continue };
            let mut heads = Vec::new();
            for incl in if totals { &[Incl::Own, Incl::Total][..] } else { &[Incl::Own][..] } {
                for (i, part) in quantity.parts.iter().filter(|p| (p.shown)(&fields)).enumerate() {
                    // The first column of a group has the group's label.
                    let text = match (&part.says, incl) {
                        (Says::Word(w), _) if i > 0 => w,
                        (_, Incl::Own) => "Self",
                        (_, Incl::Total) => "Total",
                    };
                    heads.push(match part.scope {
                        Some(scope) => {
                            let order = Order::Cost(CostOrder { cost: quantity.cost, incl: *incl, scope });
                            order_head(cmd, prefs, text, order, ColumnClass::Number)
                        }
                        None => Head::text(text, ColumnClass::Number),
                    });
                    columns.sources.push(match incl {
                        Incl::Own => Source::Own(part.datum),
                        Incl::Total => Source::Total(part.datum),
                    });
                }
            }
            let title = match (quantity.cost, by.measured, by.memory) {
                (Cost::Time, Some(measured), _) => measured.heading(),
                (Cost::Allocs, _, Some(memory)) => blocks_head(memory).to_owned(),
                (Cost::Words, _, Some(memory)) if unit == MemUnit::Bytes => bytes_head(memory).to_owned(),
                (Cost::Words, _, Some(memory)) => words_head(memory).to_owned(),
                _ => title.to_owned(),
            };
            columns.heads.push(HeadGroup { title: Some(title), heads, coloured: true });
        }
        if fields.port == PortFields::Counts {
            let mut heads = Vec::new();
            for port in PORTS {
                let head = match port.order {
                    Some(cost) => {
                        let order = Order::Cost(CostOrder { cost, incl: Incl::Own, scope: Scope::Overall });
                        order_head(cmd, prefs, port.head, order, ColumnClass::Number)
                    }
                    None => Head::text(port.head, ColumnClass::Number),
                };
                heads.push(head.help(port.help));
                columns.sources.push(Source::Port(port.value));
            }
            columns.heads.push(HeadGroup { title: Some("Port counts".to_owned()), heads, coloured: true });
        }
        columns
    }

    /// How many columns there are.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// The cells of a row.
    pub(crate) fn cells<'a>(&'a self, perf: &'a Perf) -> impl Iterator<Item = Cell> + 'a {
        self.sources.iter().map(move |source| match source {
            Source::Port(value) => Cell::One(Data::Int(value(perf))),
            Source::Own(datum) => Cell::One(datum(&perf.own, self.memory)),
            Source::Total(datum) => match &perf.total {
                Some(total) => Cell::One(datum(total, self.memory)),
                None => Cell::Empty,
            },
        })
    }
}

/// The number by which a cost order sorts, and the tie breaker.
pub(crate) fn cost_key(perf: &Perf, order: CostOrder) -> (f64, f64) {
    let block = match (order.incl, &perf.total) {
        (Incl::Total, Some(total)) => total,
        (Incl::Own, _) | (Incl::Total, None) => &perf.own,
    };
    let overall = order.scope == Scope::Overall;
    match order.cost {
        Cost::Calls => (perf.calls as f64, 0.0),
        Cost::Redos => (perf.redos as f64, 0.0),
        Cost::Time if overall => (block.ticks as f64, block.callseqs as f64),
        Cost::Time => (block.seconds_per_call, block.callseqs_per_call),
        Cost::Callseqs if overall => (block.callseqs as f64, 0.0),
        Cost::Callseqs => (block.callseqs_per_call, 0.0),
        Cost::Allocs if overall => (block.allocs as f64, 0.0),
        Cost::Allocs => (block.allocs_per_call, 0.0),
        Cost::Words if overall => (block.words as f64, 0.0),
        Cost::Words => (block.words_per_call, 0.0),
    }
}

/// Sorts the largest first. Equal rows keep their order.
pub(crate) fn sort_by_cost<T>(rows: &mut [T], order: CostOrder, perf: impl Fn(&T) -> &Perf) {
    rows.sort_by(|a, b| {
        let (a, b) = (cost_key(perf(a), order), cost_key(perf(b), order));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
}

/// Adds a row to a sum. The sum's per-call numbers are quotients of the sums.
pub(crate) fn add(sum: &mut Perf, row: &Perf) {
    sum.calls += row.calls;
    sum.exits += row.exits;
    sum.fails += row.fails;
    sum.redos += row.redos;
    sum.excps += row.excps;
    add_block(&mut sum.own, &row.own, sum.calls);
    if let (Some(sum_total), Some(total)) = (&mut sum.total, &row.total) {
        add_block(sum_total, total, sum.calls);
    }
}

fn add_block(sum: &mut Block, row: &Block, calls: i64) {
    let per_call = |x: f64| if calls == 0 { 0.0 } else { x / calls as f64 };
    sum.ticks = sum.ticks.saturating_add(row.ticks);
    sum.ticks_share += row.ticks_share;
    sum.seconds += row.seconds;
    sum.seconds_per_call = per_call(sum.seconds);
    sum.callseqs = sum.callseqs.saturating_add(row.callseqs);
    sum.callseqs_share += row.callseqs_share;
    sum.callseqs_per_call = per_call(sum.callseqs as f64);
    sum.allocs = sum.allocs.saturating_add(row.allocs);
    sum.allocs_share += row.allocs_share;
    sum.allocs_per_call = per_call(sum.allocs as f64);
    sum.words = sum.words.saturating_add(row.words);
    sum.words_share += row.words_share;
    sum.words_per_call = per_call(sum.words as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::words_all;

    const MERCURY: Scale<'_> = Scale { bytes_per_word: 8, measured: None, memory: None };

    #[test]
    fn every_choice_of_fields_gives_as_many_heads_as_cells() {
        let perf = Perf { total: Some(Block::default()), ..Perf::default() };
        for fields in words_all::fields() {
            for totals in [false, true] {
                let prefs = Prefs { fields, ..Prefs::default_for(true) };
                let columns = PerfColumns::new(&Cmd::Menu, &prefs, totals, MERCURY);
                let heads: usize = columns.heads.iter().map(|g| g.heads.len()).sum();
                assert_eq!(heads, columns.len());
                assert_eq!(columns.cells(&perf).count(), heads);
                assert!(columns.heads.iter().all(|g| !g.heads.is_empty()), "{fields}");
            }
        }
    }

    #[test]
    fn the_order_of_columns_is_costs_before_counts_and_self_before_total() {
        let prefs = Prefs { fields: Fields::ALL, ..Prefs::default_for(true) };
        let columns = PerfColumns::new(&Cmd::Menu, &prefs, true, MERCURY);
        let texts: Vec<String> = columns
            .heads
            .iter()
            .flat_map(|g| &g.heads)
            .map(|h| crate::display::format::data(&h.data))
            .collect();
        assert_eq!(
            texts.join(" "),
            "Self Time % /call Total Time % /call Self % /call Total % /call Self % /call Total % /call \
             Self % /call Total % /call Calls Exits Fails Redos Excps"
        );
    }
}
