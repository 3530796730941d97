//! Enums whose values have numbers in files and names in options and reports.

/// An enum whose values have a number in the file and a name.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $number),* }

        impl $name {
            /// All values, in order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The value with this number in a file. `None`: this version does not know the number.
            #[must_use]
            pub const fn from_number(number: u64) -> Option<$name> {
                match number { $($number => Some($name::$variant),)* _ => None }
            }

            /// Its name in options and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }
    };
}
pub(crate) use numbered;
