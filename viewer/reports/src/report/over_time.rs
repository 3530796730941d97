//! When a recording's time was spent.

use pct_deep::native::Recorded;
use pct_deep::over_time::{GroupOverTime, OverTime};
use serde::Serialize;

/// Data of the picture of what was spent when.
#[derive(Clone, Debug, Serialize)]
pub struct OverTimeReport {
    /// Begin of the first column, nanoseconds since 1970.
    pub begin_realtime_ns: u64,
    /// Length of a column in nanoseconds.
    pub column_ns: u64,
    /// Number of columns.
    pub columns: usize,
    /// Start of the recording, nanoseconds since 1970.
    pub start_realtime_ns: u64,
    /// The part of the time that the profile is of, if it is not of the whole: nanoseconds since the start.
    pub window: Option<(u64, u64)>,
    /// What each language or object spent, the one that spent most first.
    pub groups: Vec<GroupRow>,
}

/// What a language or an object spent when.
#[derive(Clone, Debug, Serialize)]
pub struct GroupRow {
    /// Its name; empty for all that are not listed.
    pub name: String,
    /// Nanoseconds in each column. Divided by the length of a column: the number of CPUs in use, by the wall clock the
    /// number of threads.
    pub spent_ns: Vec<u64>,
}

/// Groups that are listed. The rest are one.
const GROUPS: usize = 10;

/// The report. `None`: it is not known what was spent when.
#[must_use]
pub fn create(recorded: &Recorded) -> Option<OverTimeReport> {
    let OverTime { begin_realtime_ns, column_ns, columns, groups } = recorded.over_time.as_ref()?;
    let (listed, rest) = groups.split_at(groups.len().min(GROUPS));
    let row = |group: &GroupOverTime| GroupRow { name: group.name.clone(), spent_ns: group.spent.clone() };
    let mut rows: Vec<GroupRow> = listed.iter().map(row).collect();
    if !rest.is_empty() {
        let sum =
            |column: usize| rest.iter().fold(0_u64, |sum, group| sum.saturating_add(group.spent[column]));
        rows.push(GroupRow { name: String::new(), spent_ns: (0..*columns).map(sum).collect() });
    }
    Some(OverTimeReport {
        begin_realtime_ns: *begin_realtime_ns,
        column_ns: *column_ns,
        columns: *columns,
        start_realtime_ns: recorded.start_realtime_ns,
        window: recorded.window,
        groups: rows,
    })
}

impl OverTimeReport {
    /// Length of all columns together in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.column_ns.saturating_mul(self.columns as u64)
    }

    /// Begin of a column in nanoseconds since the start of the recording. The first one may begin a little earlier.
    #[must_use]
    pub fn since_start(&self, column: usize) -> i64 {
        let begin = self.begin_realtime_ns.saturating_add(self.column_ns.saturating_mul(column as u64));
        begin.cast_signed().saturating_sub(self.start_realtime_ns.cast_signed())
    }

    /// How much was in use in some columns on average: CPUs, by the wall clock threads.
    #[must_use]
    pub fn busy(&self, columns: std::ops::Range<usize>) -> f64 {
        let length = self.column_ns as f64 * columns.len() as f64;
        let spent = self.groups.iter().map(|group| group.spent(columns.clone()));
        if length > 0.0 { spent.sum::<f64>() / length } else { 0.0 }
    }
}

impl GroupRow {
    /// Nanoseconds in some columns.
    #[must_use]
    pub fn spent(&self, columns: std::ops::Range<usize>) -> f64 {
        self.spent_ns[columns].iter().map(|ns| *ns as f64).sum()
    }
}
