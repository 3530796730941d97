//! When a recording's time was spent. Deep.data has no place for it: it is known where the recording itself is viewed.

/// What was spent when, in columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverTime {
    /// Begin of the first column, nanoseconds since 1970.
    pub begin_realtime_ns: u64,
    /// Length of a column in nanoseconds.
    pub column_ns: u64,
    /// Number of columns.
    pub columns: usize,
    /// What each group spent, the group that spent most first.
    pub groups: Vec<GroupOverTime>,
}

/// What the functions of a language, or of an object, spent when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOverTime {
    /// The language of interpreted functions, or the object that others are in.
    pub name: String,
    /// What was spent in each column: nanoseconds, or whatever is measured.
    pub spent: Vec<u64>,
}
