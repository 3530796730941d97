//! The words of the query language: each family of choices is one table, so that print and parse cannot disagree.

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

            /// As written in a query.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The choice that a query's word names.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }

            /// As people read it.
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

words! {
    /// Whether the cost of what was called counts too.
    Incl {
        /// Own cost.
        Own = "self", "self";
        /// Own cost and that of descendants.
        Total = "both", "self and descendants";
    }
}

words! {
    /// Whole cost or cost of an average call.
    Scope {
        /// All calls together.
        Overall = "oa", "overall";
        /// Divided by calls.
        PerCall = "pc", "per call";
    }
}

words! {
    /// By what the callers of a procedure are grouped.
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
    /// What two profiles are matched by.
    DiffWhat {
        /// Procedures by name and module.
        Procs = "procs", "procedures";
        /// Cliques by the way to them.
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
    /// When procedure names carry their module.
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
    /// What happens to things that were never called.
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

/// A whole number as queries write it: optional sign, decimal digits, 64 bits.
#[must_use]
pub(super) fn parse_int(word: &str) -> Option<i64> {
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    word.parse().ok()
}

/// A finite number in a usual decimal form.
#[must_use]
pub(super) fn parse_float(word: &str) -> Option<f64> {
    let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    if plain { word.parse().ok().filter(|x: &f64| x.is_finite()) } else { None }
}

/// `s` with everything but letters, digits and `-_.~!*,:` and what `keep` names as `%XX`.
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

/// `s` with `%XX` replaced; unchanged where that is not UTF-8 or not two hexadecimal digits.
#[must_use]
pub fn decode(s: &str) -> String {
    if !s.contains('%') {
        return s.to_owned();
    }
    let bytes = s.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = |b: u8| char::from(b).to_digit(16);
        match (bytes[i], bytes.get(i + 1).copied().and_then(hex), bytes.get(i + 2).copied().and_then(hex)) {
            (b'%', Some(hi), Some(lo)) => {
                out.push((hi * 16 + lo) as u8);
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
