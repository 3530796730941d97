//! One function of code that a program made, and when it was written down.

/// One made function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitFunction {
    /// First address.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// As the program wrote it.
    pub name: String,
    /// Lines by address, ascending: (address, line, index into the map's files).
    pub lines: Vec<(u64, u32, u32)>,
    /// When it was written.
    pub written: Written,
}

/// When an entry of a map was written, nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// It was not there at this time.
    pub after: u64,
    /// It was there at this time.
    pub by: u64,
}

/// At a time that is not known.
impl Default for Written {
    fn default() -> Self {
        Written { after: 0, by: u64::MAX }
    }
}
