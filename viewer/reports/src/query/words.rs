//! The words of the query language. Each family of choices is one table, so that printing and parsing cannot disagree.

use pct_deep::figures::Desc;
use serde::Serialize;

/// Declares an enum whose variants each have one spelling, with `word` (print), `parse`, `ALL` and `label`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal, $label:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every choice, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word for it in a query.
            #[must_use]
            pub fn as_word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The choice that a query's word names.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }

            /// The label for it on pages.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

words! {
    /// What is counted.
    Cost {
        /// Calls of the procedure.
        Calls = "calls", "calls";
        /// Re-entries by backtracking.
        Redos = "redos", "redos";
        /// Clock ticks.
        Time = "time", "time";
        /// Call sequence numbers.
        Callseqs = "callseqs", "call sequence numbers";
        /// Memory allocations.
        Allocs = "allocs", "allocations";
        /// Words allocated.
        Words = "words", "memory";
    }
}

impl Cost {
    /// What can be known of a profile that was made of samples.
    pub const OF_SAMPLES: [Cost; 3] = [Cost::Time, Cost::Allocs, Cost::Words];

    /// The weight that a picture of this cost uses.
    #[must_use]
    pub fn weight(self, costs: &Desc) -> u64 {
        let v = match self {
            Cost::Time => costs.quanta,
            Cost::Allocs => costs.allocs,
            Cost::Words => costs.words,
            Cost::Callseqs | Cost::Calls | Cost::Redos => costs.callseqs,
        };
        u64::try_from(v).unwrap_or(0)
    }
}

words! {
    /// Which waits a page is about.
    WaitsOf {
        /// For locks.
        Locks = "locks", "for locks";
        /// For other threads' work.
        Work = "work", "for work";
    }
}

words! {
    /// Whether the cost of callees counts too.
    Incl {
        /// Own cost.
        Own = "self", "self";
        /// Own cost and that of descendants.
        Total = "both", "self and descendants";
    }
}

words! {
    /// The cost of all calls, or of an average call.
    Scope {
        /// All calls together.
        Overall = "oa", "overall";
        /// Divided by calls.
        PerCall = "pc", "per call";
    }
}

words! {
    /// The groups of a procedure's callers.
    Group {
        /// Call site.
        CallSite = "cs", "call site";
        /// Calling procedure.
        Proc = "pr", "procedure";
        /// Module of the calling procedure.
        Module = "mo", "module";
        /// Clique of the calling context.
        Clique = "cl", "clique";
    }
}

words! {
    /// Whether contour exclusion applies to caller pages.
    Contour {
        /// Apply.
        Apply = "ac", "apply contour exclusion";
        /// Do not apply.
        Ignore = "nc", "no contour exclusion";
    }
}

words! {
    /// Which time columns are shown.
    TimeFields {
        /// None.
        None = "_", "none";
        /// Clock ticks.
        Ticks = "q", "ticks";
        /// Seconds.
        Time = "t", "time";
        /// Both.
        TicksTime = "qt", "ticks and time";
        /// Seconds, also per call.
        TimePerCall = "tp", "time, per call";
        /// All of them.
        All = "qtp", "ticks, time, per call";
    }
}

words! {
    /// Which call sequence number columns are shown.
    CallseqFields {
        /// None.
        None = "_", "none";
        /// Overall.
        Overall = "s", "overall";
        /// Overall and per call.
        PerCall = "S", "overall and per call";
    }
}

words! {
    /// Which allocation columns are shown.
    AllocFields {
        /// None.
        None = "_", "none";
        /// Overall.
        Overall = "a", "overall";
        /// Overall and per call.
        PerCall = "A", "overall and per call";
    }
}

words! {
    /// Which memory columns are shown, and in what unit.
    MemFields {
        /// None.
        None = "_", "none";
        /// Words.
        Words = "w", "words";
        /// Bytes.
        Bytes = "b", "bytes";
        /// Words, also per call.
        WordsPerCall = "W", "words and per call";
        /// Bytes, also per call.
        BytesPerCall = "B", "bytes and per call";
    }
}

words! {
    /// Whether port counts are shown.
    PortFields {
        /// No.
        None = "_", "none";
        /// Yes.
        Counts = "p", "port counts";
    }
}

words! {
    /// Lines around tables.
    Boxes {
        /// Yes.
        Box = "box", "box tables";
        /// No.
        NoBox = "nobox", "unbox tables";
    }
}

words! {
    /// Shading of every other column group.
    Colour {
        /// Yes.
        Groups = "cols", "colour column groups";
        /// No.
        None = "none", "fade column groups";
    }
}

words! {
    /// Whether a call site with several callees is one row.
    Summarise {
        /// Yes.
        Sum = "sum", "yes";
        /// No: a row for each callee.
        NoSum = "nosum", "no";
    }
}

words! {
    /// Scaling of times; kept for old links, has no effect.
    TimeFormat {
        /// None.
        No = "no", "no scaling";
        /// Millions.
        Millions = "mi", "scale by millions";
        /// Thousands.
        Thousands = "th", "scale by thousands";
    }
}

words! {
    /// The key by which two profiles are matched.
    DiffWhat {
        /// Owners of time by name and module: functions with what worked for them.
        Owners = "owners", "whose time it was";
        /// Procedures by name and module.
        Procs = "procs", "procedures";
        /// Cliques by the path to them.
        Cliques = "cliques", "call contexts";
    }
}

words! {
    /// How the costs of two profiles are compared.
    DiffScale {
        /// As they are: two runs of the same work.
        Absolute = "absolute", "as they are";
        /// Shares: the newer one scaled to the total of the older one.
        Shares = "shares", "as shares of the whole";
    }
}

words! {
    /// When procedure names include their module.
    Qualify {
        /// Always.
        Always = "mqa", "always";
        /// When the module is not that of the page.
        WhenDifferent = "mqwd", "when needed";
        /// Never.
        Never = "mqn", "never";
    }
}

words! {
    /// What is done with things that were never called.
    Inactive {
        /// Left out.
        Hide = "h", "hide";
        /// Shown.
        Show = "s", "show";
    }
}

words! {
    /// Pages for those who work on the compiler or the profiler.
    Developer {
        /// Shown.
        On = "dev", "enable developer mode";
        /// Hidden.
        Off = "nodev", "disable developer mode";
    }
}

/// Parses a whole number of a query: optional sign, decimal digits, 64 bits.
#[must_use]
pub(super) fn parse_int(word: &str) -> Option<i64> {
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    word.parse().ok()
}

/// Parses a finite number in a usual decimal form.
#[must_use]
pub(super) fn parse_float(word: &str) -> Option<f64> {
    let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    if plain { word.parse().ok().filter(|x: &f64| x.is_finite()) } else { None }
}

/// Writes all of `s` except letters, digits, `-_.~!*,:` and the characters in `keep` as `%XX`.
#[must_use]
pub fn encode(s: &str, keep: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for &b in s.as_bytes() {
        let c = char::from(b);
        if b.is_ascii_alphanumeric() || "-_.~!*,:".contains(c) || (b.is_ascii() && keep.contains(c)) {
            out.push(c);
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

/// Replaces `%XX` in `s`. What is not UTF-8 or not two hexadecimal digits is left unchanged.
#[must_use]
pub fn decode(s: &str) -> String {
    if !s.contains('%') {
        return s.to_owned();
    }
    let bytes = s.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = |b: u8| char::from(b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (bytes[i], bytes.get(i + 1).copied().and_then(hex), bytes.get(i + 2).copied().and_then(hex)) {
            (b'%', Some(hi), Some(lo)) => {
                out.push(hi * 16 + lo);
                i += 3;
            }
            (b, _, _) => {
                out.push(b);
                i += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| s.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_have_an_optional_sign_and_fit_a_word() {
        assert_eq!(parse_int("+5"), Some(5));
        assert_eq!(parse_int("-5"), Some(-5));
        for bad in ["", "+", "--1", "1 ", "0x1", "99999999999999999999", "\u{0661}"] {
            assert_eq!(parse_int(bad), None, "{bad}");
        }
    }

    #[test]
    fn floats_are_finite_decimals() {
        assert_eq!(parse_float("1e+06"), Some(1e6));
        assert_eq!(parse_float("0.1"), Some(0.1));
        for bad in ["", "inf", "NaN", "1e999", "0x1p3", "-", " 1"] {
            assert_eq!(parse_float(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn encoding_is_undone_by_decoding(s in any::<String>()) {
            let e = encode(&s, "/");
            prop_assert!(e.is_ascii());
            let special = e.contains(['&', '<', '>', '"', ' ', '#', '@', '\'']);
            prop_assert!(!special);
            prop_assert_eq!(decode(&e), s);
        }
    }
}
