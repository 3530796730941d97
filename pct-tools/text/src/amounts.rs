//! Amounts of what another profiler's file measures: a sample type has a name and a unit, both of the file's choice.

const SAMPLES: &str = "samples";
const COUNT: &str = "count";

/// What stands behind an amount: `bytes of live`, `contentions`, `of cpu (count)`, `of fuel (no unit given)`.
#[must_use]
pub fn behind_amount(name: &str, unit: &str) -> String {
    let (link, words) = link_and_words(name, unit);
    format!("{link}{words}")
}

/// The head of a column of amounts: `bytes of live`, `contentions`, `cpu (count)`, `fuel (no unit given)`.
#[must_use]
pub fn head_of_amounts(name: &str, unit: &str) -> String {
    link_and_words(name, unit).1
}

/// What links a number to the words, and the words.
fn link_and_words(name: &str, unit: &str) -> (&'static str, String) {
    match unit {
        "" => ("of ", format!("{name} (no unit given)")),
        unit if unit == name => ("", name.to_owned()),
        // A plural, as most names of counts are: contentions, cycles:u.
        COUNT if name.split(':').next().is_some_and(|noun| noun.ends_with('s')) => ("", name.to_owned()),
        COUNT => ("of ", format!("{name} (count)")),
        unit => ("", format!("{unit} of {name}")),
    }
}

/// Whether the amounts are numbers of samples.
#[must_use]
pub fn counts_samples(name: &str, unit: &str) -> bool {
    unit == SAMPLES || (unit == COUNT && name == SAMPLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_names_its_unit_and_what_it_is_of() {
        for (name, unit, words) in [
            ("live", "bytes", ["", "bytes of live"]),
            ("locks", "count", ["", "locks"]),
            ("cycles:u", "count", ["", "cycles:u"]),
            ("Ir", "count", ["of ", "Ir (count)"]),
            ("cycles", "samples", ["", "samples of cycles"]),
            ("cycles", "cycles", ["", "cycles"]),
            ("fuel", "", ["of ", "fuel (no unit given)"]),
        ] {
            assert_eq!(behind_amount(name, unit), words.concat());
            assert_eq!(head_of_amounts(name, unit), words[1]);
        }
    }

    #[test]
    fn numbers_of_samples_are_told_by_unit_or_name() {
        assert!(counts_samples("cycles", "samples") && counts_samples("samples", "count"));
        assert!(!counts_samples("samples", "bytes") && !counts_samples("locks", "count"));
    }
}
