//! The style that all pages share: those of the viewer, and those that stand alone (`pct report --html`,
//! `pct annotate --html`).

/// The style sheet: colours (light, dark), type, tables, the bar on top.
pub const SHEET: &str = include_str!("sheet.css");

/// The class of a cell by its share of the whole, 0 to 1; the empty class below about half a per cent.
#[must_use]
pub fn heat_class(share: f64) -> &'static str {
    const HEAT: [&str; 10] = ["", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"];
    // Square root: one per cent is visible, a hundred is full.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9.2")]
    let level = (share.clamp(0.0, 1.0).sqrt() * 9.0 + 0.2) as usize;
    HEAT[level.min(9)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_grows_with_the_share() {
        assert_eq!([0.0, 0.01, 0.25, 1.0, 7.0].map(heat_class), ["", "h1", "h4", "h9", "h9"]);
        assert_eq!(heat_class(f64::NAN), "");
        for class in 1..=9 {
            assert!(SHEET.contains(&format!(".h{class}{{")), "{class}");
        }
    }
}
