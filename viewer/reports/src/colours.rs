//! Which colour a function has in the pictures of a profile: that of its language, or of its object or module.

use crate::query::Cost;
use pct_deep::native::Recorded;
use pct_deep::{Id as _, Profile, PsId};
use pct_icicle::{GroupWeights, Palette};
use std::collections::HashMap;

/// The colours of a profile's functions.
#[derive(Debug)]
pub(crate) struct Colours {
    /// The interpreted language of each procedure, as a place in `languages`. Empty if the program has none.
    language: Vec<Option<u16>>,
    languages: Vec<String>,
    palette: Palette,
}

impl Colours {
    /// The colours by this cost of the whole profile.
    pub(crate) fn new(profile: &Profile, recorded: Option<&Recorded>, cost: Cost) -> Colours {
        let told: &[(String, Vec<u32>)] = recorded.map_or(&[], |recorded| &recorded.side.languages);
        let mut language = vec![None; if told.is_empty() { 0 } else { profile.ps_count() }];
        for (at, (_, numbers)) in (0..u16::MAX).zip(told) {
            for ps in numbers.iter().filter_map(|number| profile.ps_id(i64::from(*number))) {
                language[ps.index()] = Some(at);
            }
        }
        let languages = told.iter().map(|(name, _)| name.clone()).collect();
        let mut colours = Colours { language, languages, palette: Palette::default() };
        colours.palette = Palette::from_weights(&colours.weights(profile, cost));
        colours
    }

    /// The same with the colours of another profile, of which this one is a part.
    pub(crate) fn with_palette(self, palette: Palette) -> Colours {
        Colours { palette, ..self }
    }

    /// What the colour of a procedure stands for: a language, an object or a module. The root has none.
    pub(crate) fn group(&self, profile: &Profile, ps: PsId) -> String {
        match self.language.get(ps.index()).copied().flatten() {
            Some(at) => self.languages[usize::from(at)].clone(),
            None => profile.ps_module_name(ps).into_owned(),
        }
    }

    /// The own cost of each group in the whole profile.
    pub(crate) fn weights(&self, profile: &Profile, cost: Cost) -> GroupWeights {
        let mut of: HashMap<String, u64> = HashMap::new();
        for ps in profile.pss() {
            let weight = cost.weight(&profile.ps_own(ps).inherited());
            if weight > 0 {
                *of.entry(self.group(profile, ps)).or_default() += weight;
            }
        }
        GroupWeights { whole: cost.weight(&profile.root_total()), of: of.into_iter().collect() }
    }

    /// The colours of the groups.
    pub(crate) fn palette(&self) -> &Palette {
        &self.palette
    }
}
