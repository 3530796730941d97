//! What pages that stand alone have in common: one file, no request, the look of the viewer's pages.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A page of these parts. All text in it went through [`maud`]'s escaping; hidden characters are written out here, in one
/// place for all of it.
#[must_use]
pub fn page(title: &str, facts: &[String], content: &Markup, script: Option<&str>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { "pct: " (title) }
                style { (PreEscaped(pct_icicle::SHEET)) }
            }
            body {
                header.top {
                    span.brand { "pct" }
                    span.program { (title) }
                    span.facts { @for fact in facts { span { (fact) } } }
                }
                main { (content) }
                @if let Some(script) = script { script { (PreEscaped(script)) } }
            }
        }
    };
    pct_text::visible_lines(&page.into_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_and_names_are_no_markup() {
        let name = "<script>alert('x')</script>&\"\u{202e}";
        let page = page(name, &[name.to_owned()], &html! { td title=(name) { (name) } }, None);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{page}");
        assert!(!page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
        assert!(page.contains("title=\"&lt;script&gt;alert("), "{page}");
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
