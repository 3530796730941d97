//! Names of things that the engine hands out. Each is unique for the life of an engine and never reused.

/// Numbers that name things of one kind each, and cannot be taken for one another.
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
    /// A list of traces looked at together.
    TracesetId;
    /// An accepted events request.
    RequestId;
    /// Who asked: chosen by the client, used to take back what it asked for.
    OwnerId;
}
