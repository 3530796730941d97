//! How the numbers of system calls are written down, for each processor.

/// Numbers of the system calls that we make, each with a name, and all of them.
macro_rules! numbers {
    ($($name:ident = $number:literal;)*) => {
        $(pub(crate) const $name: usize = $number;)*
        pub(crate) const ALL: &[usize] = &[$($number),*];
    };
}
pub(crate) use numbers;
