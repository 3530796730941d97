//! What commands ask readers for.

/// What of a file is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted<'a> {
    /// Samples are kept in order of time if the format has an order.
    pub timeline: bool,
    /// The sample type (pprof) or event (perf.data, perf script) of this name; `None`: the file's default.
    pub sample_type: Option<&'a str>,
}
