//! The head and the style that all pages share: the viewer's, the timeline's, and stand-alone ones (`pct report
//! --html`, `pct annotate --html`).

use maud::{Markup, PreEscaped, html};

/// The style sheet: colours (light, dark), type, tables, the bar at the top.
const SHEET: &str = include_str!("sheet.css");

/// The `head` element of a page: its title, the shared style, then `style`, which is the page's own, then `more`. A
/// server that allows only its own styles passes their `nonce`.
#[must_use]
pub fn page_head(title: &str, style: &str, nonce: Option<&str>, more: &Markup) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            // Prevents a request for an icon.
            link rel="icon" href="data:,";
            title { (title) }
            style nonce=[nonce] { (PreEscaped(SHEET)) (PreEscaped(style)) }
            (more)
        }
    }
}

/// The class of a cell for its share of the whole, 0 to 1; empty below about half a per cent.
#[must_use]
pub fn heat_class(share: f64) -> &'static str {
    const HEAT: [&str; 10] = ["", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"];
    // The square root makes one per cent visible; a hundred is full.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9.2")]
    let level = (share.clamp(0.0, 1.0).sqrt() * 9.0 + 0.2) as usize;
    HEAT[level.min(9)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_both_styles_and_its_title_is_no_markup() {
        let head = page_head("<b>", "b{}", Some("42"), &html! { meta name="x"; }).into_string();
        let style = head.find("<style nonce=\"42\">").expect("one style");
        assert!(head.contains("<title>&lt;b&gt;</title>"), "{head}");
        assert!(
            head[style..].contains(SHEET) && head[style..].contains("b{}</style><meta name=\"x\">"),
            "{head}"
        );
        assert!(!page_head("", "", None, &html! {}).into_string().contains("nonce"));
    }

    #[test]
    fn heat_grows_with_the_share() {
        assert_eq!([0.0, 0.01, 0.25, 1.0, 7.0].map(heat_class), ["", "h1", "h4", "h9", "h9"]);
        assert_eq!(heat_class(f64::NAN), "");
        for class in 1..=9 {
            assert!(SHEET.contains(&format!(".h{class}{{")), "{class}");
        }
    }
}
