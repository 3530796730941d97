//! What stand-alone pages share: one file, no requests, the look of the viewer's pages.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A narrow window leaves out where a function is, and says so. Names go on in the next line.
const NARROW: &str = "p.narrow{display:none}@media(max-width:640px){main{padding-left:8px;padding-right:8px}table.functions td,\
                      table.functions th{padding-left:5px;padding-right:5px}td.w{min-width:9em;overflow-wrap:anywhere}\
                      .pl{display:none}p.narrow{display:block}table.threads td.l,footer span{white-space:normal;overflow-wrap:anywhere}}";

/// Makes a page of these parts. All text in it went through [`maud`]'s escaping. Hidden characters except line ends
/// are escaped here, in one place for the whole page: names must not contain line ends.
#[must_use]
pub fn page(title: &str, facts: &[String], content: &Markup, script: Option<&str>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (pct_icicle::page_head(&format!("pct: {}", pct_text::visible(title)), NARROW, None, &html! {}))
            body {
                header.top {
                    span.brand { "pct" }
                    span.program { (pct_text::visible(title)) }
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
