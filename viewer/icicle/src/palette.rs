//! One colour for each group of functions in all pictures of a recording.
//!
//! A group's name chooses its tone, so that a library looks the same today and tomorrow. The heaviest groups of a
//! recording must differ from each other: one whose tone is taken by a heavier group moves on to the next free tone.

use crate::colour::{Rgb, name_hash, shade};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Number of tones.
pub(crate) const TONES: usize = 12;

/// Light enough for black text. Neighbours differ much, since a group moves to its neighbour.
const TONE: [Rgb; TONES] = [
    Rgb(240, 160, 92),
    Rgb(128, 180, 232),
    Rgb(240, 212, 104),
    Rgb(140, 204, 150),
    Rgb(214, 164, 222),
    Rgb(126, 208, 208),
    Rgb(238, 156, 156),
    Rgb(192, 186, 124),
    Rgb(168, 168, 236),
    Rgb(192, 220, 104),
    Rgb(236, 150, 200),
    Rgb(212, 178, 150),
];

/// Weights of groups in a whole of which a tree may be a part.
#[derive(Clone, Debug, Default)]
pub struct GroupWeights {
    /// The weight of everything.
    pub whole: u64,
    /// The weight of each group.
    pub of: Vec<(String, u64)>,
}

/// The colours of groups. Its base is the whole recording: a picture of a part has the same colours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Palette {
    /// The groups that could not have the tone that their name chose, and the one that they have.
    moved: HashMap<Box<str>, usize>,
}

fn tone_of_name(name: &str) -> usize {
    name_hash(name) as usize % TONES
}

impl Palette {
    /// The colours of groups with these weights.
    #[must_use]
    pub fn from_weights(weights: &GroupWeights) -> Palette {
        let mut heavy: Vec<(&str, u64)> = weights
            .of
            .iter()
            .map(|(name, weight)| (name.as_str(), *weight))
            .filter(|(_, weight)| *weight > 0)
            .collect();
        heavy.sort_by_key(|&(name, weight)| (Reverse(weight), name));
        let mut taken = [false; TONES];
        let mut moved = HashMap::new();
        for (name, _) in heavy.into_iter().take(TONES) {
            let wished = tone_of_name(name);
            let free = (wished..TONES).chain(0..wished).find(|tone| !taken[*tone]);
            let tone = free.unwrap_or(wished);
            taken[tone] = true;
            if tone != wished {
                moved.insert(name.into(), tone);
            }
        }
        Palette { moved }
    }

    /// The colour of a group.
    #[must_use]
    pub fn of_group(&self, group: &str) -> Rgb {
        self.lifted(group, 6)
    }

    /// The colour of a function of a group: a little lighter or darker than the group's, by its name.
    #[must_use]
    pub fn of_function(&self, group: &str, name: &str) -> Rgb {
        self.lifted(group, shade(name).0 / 5)
    }

    fn lifted(&self, group: &str, lift: u8) -> Rgb {
        let Rgb(r, g, b) = TONE[self.moved.get(group).copied().unwrap_or_else(|| tone_of_name(group))];
        Rgb(r.saturating_add(lift), g.saturating_add(lift), b.saturating_add(lift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::luminance;

    fn weights(of: &[(&str, u64)]) -> GroupWeights {
        GroupWeights {
            whole: of.iter().map(|(_, weight)| weight).sum(),
            of: of.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect(),
        }
    }

    #[test]
    fn black_text_is_readable_on_every_tone() {
        let palette = Palette::default();
        for at in 0..1000 {
            let colour = palette.of_function(&format!("group{at}"), &format!("name{at}"));
            assert!((luminance(colour) + 0.05) / 0.05 > 4.5, "{colour}");
        }
    }

    #[test]
    fn heavy_groups_differ_and_lighter_ones_do_not_move_them() {
        let names: Vec<String> = (0..TONES).map(|at| format!("lib{at}.so")).collect();
        let heavy: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 100)).collect();
        let palette = Palette::from_weights(&weights(&heavy));
        let mut colours: Vec<_> =
            names.iter().map(|name| palette.of_group(name)).map(|Rgb(r, g, b)| (r, g, b)).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), TONES);
        // What weighs less changes no colour.
        let mut more = heavy.clone();
        let light: Vec<String> = (0..100).map(|at| format!("other{at}.so")).collect();
        more.extend(light.iter().map(|name| (name.as_str(), 1)));
        let with_more = Palette::from_weights(&weights(&more));
        assert!(names.iter().all(|name| with_more.of_group(name) == palette.of_group(name)));
        // The heaviest has the colour that its name chose.
        let alone = Palette::from_weights(&weights(&[(&names[5], 1000)]));
        assert_eq!(alone, Palette::default());
    }
}
