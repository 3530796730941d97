//! Locks of languages, which their runtimes make of conditions and semaphores.

/// A lock of a language.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LanguageLock {
    /// Of `synchronized` in Java.
    JavaMonitor,
    /// A `ReentrantLock` or `ReentrantReadWriteLock`.
    JavaLock,
    /// A `Lock` or `RLock` of Python's `threading`.
    PythonLock,
    /// The lock of Python's interpreter, without which no thread runs Python.
    Gil,
}

impl LanguageLock {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JavaMonitor => "Java monitor",
            Self::JavaLock => "Java lock",
            Self::PythonLock => "Python lock",
            Self::Gil => "Python's GIL",
        }
    }
}
