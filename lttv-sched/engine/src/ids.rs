//! Ids that the engine assigns. Each is unique for the life of an engine and never reused.

/// Newtypes for ids, one per kind, so that they cannot be confused.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u64);
    )*};
}

ids! {
    /// An open trace.
    TraceId;
    /// A list of traces that are viewed together.
    TracesetId;
    /// An accepted events request.
    RequestId;
    /// Owner of a request. The client chooses it, and uses it to remove its requests.
    OwnerId;
}
