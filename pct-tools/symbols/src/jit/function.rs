//! One function of generated code, and when the program wrote its entry.

/// A generated function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitFunction {
    /// First address.
    pub start: u64,
    /// Address behind the last one.
    pub end: u64,
    /// Name as the program wrote it.
    pub name: String,
    /// Lines by address, ascending: (address, line, index into the map's files).
    pub lines: Vec<(u64, u32, u32)>,
    /// When its entry was written.
    pub written: Written,
}

/// When an entry of a map was written. Nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// The entry did not exist at this time.
    pub after: u64,
    /// The entry existed at this time.
    pub by: u64,
}

/// The time is unknown.
impl Default for Written {
    fn default() -> Self {
        Written { after: 0, by: u64::MAX }
    }
}
