//! Chooses colours: by name and kind, or by difference.
//!
//! Every frame colour is light enough for black text at a contrast of 4.5 or more, in both light and dark pages.

/// What a node is, which decides its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Hint {
    /// A warm tone chosen by the name: equal names have equal colours.
    #[default]
    Auto,
    /// Not a function (a thread, a process, "elsewhere"): grey.
    Other,
    /// A share, 0 (pale) to 1 (strong).
    Heat(f32),
    /// A function in a picture of memory: a green tone chosen by the name, so that nobody takes it for one of time.
    Memory,
}

/// A colour as `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl std::fmt::Display for Rgb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// A number that chooses a name's colour: FNV-1a, folded. It is the same in every picture and every run.
#[must_use]
pub fn name_hash(name: &str) -> u32 {
    let fnv =
        name.bytes().fold(0x811c_9dc5_u32, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193));
    fnv ^ fnv >> 15
}

/// Which of 64 shades a name gets, and which of 32.
pub(crate) fn shade(name: &str) -> (u8, u8) {
    let h = name_hash(name);
    ((h & 63) as u8, ((h >> 8) & 31) as u8)
}

/// The colour of a node by its hint and name.
#[must_use]
pub fn node_colour(hint: Hint, name: &str) -> Rgb {
    let (a, b) = shade(name);
    match hint {
        Hint::Auto => Rgb(235 + b / 2, 130 + a + a / 2, 60 + b * 2),
        Hint::Other => Rgb(190 + b, 190 + b, 194 + b),
        Hint::Heat(x) => heat(x),
        Hint::Memory => Rgb(104 + b * 2, 188 + a / 2, 120 + a),
    }
}

/// Pale yellow (0) to red (1).
#[must_use]
pub fn heat(share: f32) -> Rgb {
    let x = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two numbers of 0 to 255"
    )]
    let lerp = |from: f32, to: f32| (from + (to - from) * x.sqrt()) as u8;
    Rgb(lerp(252.0, 240.0), lerp(240.0, 110.0), lerp(205.0, 80.0))
}

/// Blue (less) over near white (no change) to red (more); `x` is -1 to 1.
#[must_use]
pub fn difference(x: f64) -> Rgb {
    let x = if x.is_finite() { x.clamp(-1.0, 1.0) } else { 0.0 };
    let strength = x.abs().sqrt();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two numbers of 0 to 255"
    )]
    let fade = |to: f64| (245.0 - (245.0 - to) * strength) as u8;
    if x >= 0.0 { Rgb(245, fade(95.0), fade(80.0)) } else { Rgb(fade(105.0), fade(150.0), 245) }
}

/// A colour and its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The colour; `None`: several things, which have their own.
    pub colour: Option<Rgb>,
    /// Its meaning.
    pub label: String,
}

/// Relative luminance, 0 to 1, as the Web Content Accessibility Guidelines 2.2 define it.
#[cfg(test)]
pub(crate) fn luminance(c: Rgb) -> f64 {
    let f = |v: u8| {
        let v = f64::from(v) / 255.0;
        if v <= 0.03928 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * f(c.0) + 0.7152 * f(c.1) + 0.0722 * f(c.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn black_text_is_readable_on_every_colour() {
        let hints =
            [Hint::Auto, Hint::Other, Hint::Heat(0.0), Hint::Heat(1.0), Hint::Heat(f32::NAN), Hint::Memory];
        for hint in hints {
            for i in 0..500 {
                let c = node_colour(hint, &format!("name{i}"));
                let contrast = (luminance(c) + 0.05) / 0.05;
                assert!(contrast > 4.5, "{hint:?} {c} {contrast}");
            }
        }
        for i in -10..=10 {
            let c = difference(f64::from(i) / 10.0);
            assert!((luminance(c) + 0.05) / 0.05 > 4.5, "{c}");
        }
    }
}
