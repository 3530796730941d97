//! Writes frames as SVG text.
//!
//! Geometry is in percent of the width, so that the script can adapt the picture to the window; without script the
//! `viewBox` scales it. The script finds a frame's name in its tooltip, up to the last ` (`.

use crate::colour::{self, Hint, Key};
use crate::difference::Differences;
use crate::layout::{Direction, FrameBox, layout};
use crate::legend::{Groups, legend};
use crate::options::{Click, Drawn, Options};
use crate::text::{self, escape_into, short_name};
use crate::tree::Tree;
use pct_num::thousands;
use std::collections::HashSet;
use std::fmt::Write as _;

const SCRIPT: &str = include_str!("icicle.js");
const STYLE: &str = include_str!("icicle.css");

/// Average width of a character, divided by the font size in the style sheet.
const CHAR_PX: f64 = 6.65;

/// The picture as text.
#[must_use]
pub fn svg(tree: &Tree, options: &Options) -> String {
    let mut out = String::new();
    write_svg(&mut out, tree, options);
    out
}

/// Appends the picture to `out`: one `<svg>` element without XML declaration, suitable for a file and for a page.
pub fn write_svg(out: &mut String, tree: &Tree, options: &Options) {
    let width = options.width.max(100);
    let row = options.row.max(8);
    let (totals, bases) = tree.totals();
    let min_share = (options.min_width / f64::from(width)).clamp(0.0, 1.0);
    let widths = if options.drawn == Drawn::Before { &bases } else { &totals };
    let mut plan = layout(tree, widths, options.order, min_share, options.max_depth.max(1));
    if options.diff.is_some() && !options.normalize {
        // The wider of the two pictures has the full width.
        let scale = plan.total as f64 / totals[0].max(bases[0]).max(1) as f64;
        for frame in &mut plan.frames {
            frame.x *= scale;
            frame.width *= scale;
        }
    }
    let keys = if options.frame { legend(tree, options) } else { Vec::new() };
    let key_rows = KeyRows::arrange(&keys, f64::from(width) - 20.0);
    let (top, bottom) = if options.frame { (44, 26 + 18 * key_rows.rows) } else { (0, 0) };
    let height = u64::from(plan.depth) * u64::from(row) + top + bottom;
    out.reserve(plan.frames.len() * 220 + 8192);

    let direction = if options.direction == Direction::Icicle { "icicle" } else { "flame" };
    let _ = write!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="pct-icicle {direction}" width="{width}" height="{height}" viewBox="0 0 {width} {height}" data-row="{row}" data-click="{}" role="img" aria-label=""#,
        if options.click == Click::Link { "link" } else { "zoom" },
    );
    escape_into(out, if options.title.is_empty() { direction } else { &options.title });
    out.push_str("\"><style>");
    out.push_str(STYLE);
    out.push_str("</style>");
    if options.frame {
        out.push_str(r#"<rect class="bg" width="100%" height="100%"/><text class="h" x="10" y="20">"#);
        escape_into(out, &options.title);
        out.push_str(r#"</text><text class="s sub" x="10" y="37">"#);
        escape_into(out, &options.subtitle);
        out.push_str("</text>");
    }

    let differences = options.diff.map(|by| Differences::new(tree, (&totals, &bases), by, options));
    out.push_str("<g class=\"frames\">");
    let picture =
        Picture { tree, options, groups: Groups::in_tree(tree), total: plan.total, width, row, differences };
    let mut shortened = HashSet::new();
    for frame in &plan.frames {
        let y = match options.direction {
            Direction::Icicle => u64::from(frame.depth) * u64::from(row) + top,
            Direction::Flame => (u64::from(plan.depth - 1 - frame.depth)) * u64::from(row) + top,
        };
        picture.frame(out, frame, y, &mut shortened);
    }
    out.push_str("</g>");
    if options.frame {
        key_rows.draw(out, &keys, height - bottom + 6);
        let _ = write!(out, r#"<text class="n" x="10" y="{}">"#, height - 9);
        escape_into(out, &left_out(&plan, options));
        out.push_str("</text>");
        let _ = write!(out, r#"<text class="m" x="99%" y="{}" text-anchor="end"></text>"#, height - 9);
        if options.script {
            out.push_str(
                r#"<foreignObject class="ask" x="0" y="6" width="99%" height="34"><div xmlns="http://www.w3.org/1999/xhtml"><button type="button" class="reset">reset zoom</button> <input type="search" class="find" placeholder="search (regexp)" aria-label="search the picture"/></div></foreignObject>"#,
            );
        }
    }
    if options.script {
        match &options.nonce {
            Some(nonce) => {
                out.push_str("<script nonce=\"");
                escape_into(out, nonce);
                out.push_str("\">");
            }
            None => out.push_str("<script>"),
        }
        // The script contains neither `<` nor `&`, so it is the same text in XML and in HTML.
        out.push_str(SCRIPT);
        out.push_str("</script>");
    }
    out.push_str("</svg>");
}

/// What all frames share.
struct Picture<'a> {
    tree: &'a Tree,
    options: &'a Options,
    groups: Groups,
    total: u64,
    width: u32,
    row: u32,
    differences: Option<Differences<'a>>,
}

impl<'a> Picture<'a> {
    /// Appends a frame whose upper edge is at `y`. `shortened`: the names whose short forms are written already.
    fn frame(&self, out: &mut String, frame: &FrameBox, y: u64, shortened: &mut HashSet<&'a str>) {
        let (tree, options) = (self.tree, self.options);
        let node = &tree.nodes[frame.node as usize];
        let name = &*tree.names[node.name as usize];
        let link = match node.link {
            0 => None,
            i => Some(&*tree.links[i as usize - 1]).filter(|l| is_safe_link(l)),
        };
        match link {
            Some(link) => {
                out.push_str("<a class=\"f\" href=\"");
                escape_into(out, link);
                out.push('"');
            }
            None => out.push_str("<g class=\"f\""),
        }
        // The title has the name whole. The script makes labels anew when widths change. It finds the short form of a
        // name at its first frame: a picture has many frames of one name.
        let short = short_name(name);
        if let Some(short) = short.as_ref().filter(|_| shortened.insert(name)) {
            out.push_str(" data-short=\"");
            escape_into(out, short);
            out.push('"');
        }
        out.push_str("><title>");
        escape_into(out, name);
        let at = frame.node as usize;
        out.push_str(" (");
        match &self.differences {
            Some(d) => escape_into(out, &d.words(at)),
            None => {
                let share =
                    if self.total == 0 { 0.0 } else { frame.total as f64 * 100.0 / self.total as f64 };
                out.push_str(&(options.weight)(frame.total));
                if !options.unit.is_empty() {
                    out.push(' ');
                    escape_into(out, &options.unit);
                }
                let _ = write!(out, ", {share:.2}%");
                if let Some(group) = node.group {
                    out.push_str("; ");
                    escape_into(out, &tree.groups[group as usize]);
                }
                if let Some(detail) = tree.details.get(&frame.node) {
                    out.push_str("; ");
                    escape_into(out, detail);
                }
            }
        }
        let fill = match (&self.differences, node.group) {
            (Some(d), _) => d.colour(at),
            (None, Some(group)) => self.groups.of_frame(&tree.groups[group as usize], name),
            (None, None) if frame.node == 0 && node.hint == Hint::Auto => {
                colour::node_colour(Hint::Other, name)
            }
            (None, None) => colour::node_colour(node.hint, name),
        };
        let mark = match &self.differences {
            _ if tree.marked == Some(frame.node) => " class=\"here\"",
            // What lies below such a frame is in one profile too: an outline around each would hide the picture.
            Some(d) if d.is_in_one(at) && (at == 0 || !d.is_in_one(node.parent as usize)) => " class=\"one\"",
            _ => "",
        };
        let _ = write!(
            out,
            r#")</title><rect{mark} x="{}%" y="{y}" width="{}%" height="{}" fill="{fill}"/>"#,
            Short(frame.x * 100.0),
            Short(frame.width * 100.0),
            self.row - 1,
        );
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of characters, not below 0"
        )]
        let room = ((frame.width * f64::from(self.width) - 6.0) / CHAR_PX).max(0.0) as usize;
        let label = text::label(short.as_deref().unwrap_or(name), room);
        if !label.is_empty() {
            let baseline = y + u64::from(self.row) - 5;
            let _ = write!(out, r#"<text x="{}%" dx="3" y="{baseline}">"#, Short(frame.x * 100.0));
            escape_into(out, &label);
            out.push_str("</text>");
        }
        out.push_str(if link.is_some() { "</a>" } else { "</g>" });
    }
}

/// The legend below the frames: colours and words in rows.
struct KeyRows {
    /// Row of each key, and its left edge in pixels.
    at: Vec<(u64, f64)>,
    rows: u64,
}

impl KeyRows {
    /// Arranges keys in rows of this many pixels.
    fn arrange(keys: &[Key], width: f64) -> KeyRows {
        let mut at = Vec::with_capacity(keys.len());
        let (mut row, mut x) = (0, 0.0);
        for key in keys {
            let needed = room_for(key);
            if x > 0.0 && x + needed > width {
                (row, x) = (row + 1, 0.0);
            }
            at.push((row, x));
            x += needed;
        }
        KeyRows { at, rows: if keys.is_empty() { 0 } else { row + 1 } }
    }

    /// Each key is a group of its own, which the script moves when the window is narrower.
    fn draw(&self, out: &mut String, keys: &[Key], top: u64) {
        for (key, (row, x)) in keys.iter().zip(&self.at) {
            let (x, y, room) = (Short(x + 10.0), top + row * 18, Short(room_for(key)));
            let _ = write!(out, r#"<g class="k" data-room="{room}" transform="translate({x} {y})">"#);
            if let Some(colour) = key.colour {
                let _ = write!(out, r#"<rect class="key" width="12" height="12" fill="{colour}"/>"#);
            }
            out.push_str(r#"<text class="s" x="17" y="10">"#);
            escape_into(out, &key.label);
            out.push_str("</text></g>");
        }
    }
}

/// Pixels that a key of the legend takes with its colour and the space behind it.
fn room_for(key: &Key) -> f64 {
    34.0 + CHAR_PX * key.label.chars().count() as f64
}

/// One sentence about what the picture leaves out.
fn left_out(plan: &crate::layout::Layout, options: &Options) -> String {
    let mut parts = Vec::new();
    let share = |w: u64| if plan.total == 0 { 0.0 } else { w as f64 * 100.0 / plan.total as f64 };
    if plan.narrow.0 > 0 {
        parts.push(format!(
            "{} narrower than {} px ({:.2}%)",
            thousands(plan.narrow.0),
            options.min_width,
            share(plan.narrow.1)
        ));
    }
    if plan.deep.0 > 0 {
        parts.push(format!(
            "{} deeper than {} levels ({:.2}%)",
            thousands(plan.deep.0),
            options.max_depth,
            share(plan.deep.1)
        ));
    }
    if parts.is_empty() { String::new() } else { format!("not drawn: {}", parts.join(", ")) }
}

/// Whether the address leads to a page. `javascript:` and `data:` do not.
fn is_safe_link(link: &str) -> bool {
    let scheme_end = link.find([':', '/', '?', '#']);
    match scheme_end {
        Some(i) if link.as_bytes()[i] == b':' => {
            let scheme = link[..i].to_ascii_lowercase();
            scheme == "http" || scheme == "https"
        }
        _ => !link.starts_with([' ', '\t', '\n', '\r']) && !link.chars().any(char::is_control),
    }
}

/// A number with at most 4 decimals and no trailing zeros.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, not below 0")]
        let scaled = (self.0 * 10_000.0).round().max(0.0) as u64;
        let (whole, mut part) = (scaled / 10_000, scaled % 10_000);
        write!(f, "{whole}")?;
        if part > 0 {
            let mut digits = 4;
            while part.is_multiple_of(10) {
                part /= 10;
                digits -= 1;
            }
            write!(f, ".{part:0digits$}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::DiffBy;
    use crate::palette::{GroupWeights, Palette};
    use proptest::prelude::*;

    #[test]
    fn short_numbers_have_no_idle_digits() {
        let show = |x: f64| Short(x).to_string();
        assert_eq!(show(0.0), "0");
        assert_eq!(show(100.0), "100");
        assert_eq!(show(12.5), "12.5");
        assert_eq!(show(0.00016), "0.0002");
        assert_eq!(show(3.0001), "3.0001");
    }

    #[test]
    fn the_script_is_the_same_text_in_xml_and_html() {
        assert!(!SCRIPT.contains(['<', '&']));
        assert!(!STYLE.contains(['<', '&']));
    }

    #[test]
    fn a_hostile_name_or_link_never_becomes_markup() {
        let mut t = Tree::new("<all>");
        let id = t.add_stack(["</title><script>alert(1)</script>", "\"onload=\"x\u{0}"], 3);
        t.set_link(id, "javascript:alert(1)");
        let other = t.add_stack(["ok"], 1);
        t.set_link(other, "view?clique/1&\"x");
        let s = svg(&t, &Options { script: false, title: "<b>".into(), ..Options::default() });
        assert!(!s.contains("<script"));
        assert!(!s.contains("javascript:"));
        assert!(!s.contains("<b>"));
        assert!(s.contains("view?clique/1&amp;&quot;x"));
        assert!(!s.contains('\u{0}'));
    }

    #[test]
    fn labels_of_long_names_have_no_template_arguments_and_titles_do() {
        let mut t = Tree::new("all");
        let name = "std::map<std::basic_string<char>, std::basic_string<char> >::at(int) const";
        t.add_stack(["b", name], 1);
        t.add_stack([name], 3);
        t.add_stack(["short<int>"], 1);
        let s = svg(&t, &Options { script: false, ..Options::default() });
        let long =
            "std::map&lt;std::basic_string&lt;char&gt;, std::basic_string&lt;char&gt; &gt;::at(int) const";
        let short = "std::map&lt;...&gt;::at(int) const";
        assert!(s.contains(&format!("<g class=\"f\" data-short=\"{short}\"><title>{long} (")), "{s}");
        assert_eq!(s.matches("data-short").count(), 1, "once for both frames: {s}");
        assert_eq!(s.matches(&format!(">{short}</text>")).count(), 2, "{s}");
        assert!(s.contains("<g class=\"f\"><title>short&lt;int&gt; (1,"), "{s}");
    }

    #[test]
    fn what_is_not_drawn_is_said() {
        let mut t = Tree::new("all");
        t.add_stack(["big"], 1_000_000);
        t.add_stack(["small"], 1);
        let s = svg(&t, &Options::default());
        assert!(s.contains("not drawn: 1 narrower than"), "{s}");
        assert!(!s.contains("small ("));
    }

    #[test]
    fn a_difference_is_red_where_more_and_blue_where_less() {
        let mut t = Tree::new("all");
        let a = t.add_stack(["more"], 9);
        t.add_base(a, 1);
        let b = t.add_stack(["less"], 1);
        t.add_base(b, 9);
        let s = svg(&t, &Options { diff: Some(DiffBy::Total), script: false, ..Options::default() });
        assert!(s.contains("more (9, 90.00%, before 10.00%: +80.00% of all)"), "{s}");
        assert!(s.contains("less (1, 10.00%, before 90.00%: -80.00% of all)"), "{s}");
        assert!(s.contains(&colour::difference(1.0).to_string()));
        assert!(s.contains(&colour::difference(-1.0).to_string()));
    }

    #[test]
    fn the_chosen_cost_is_what_tooltip_and_colour_say() {
        let mut t = Tree::new("all");
        let main = t.child(t.root(), "main");
        for (name, now, before) in [("same", 50, 50), ("grown", 40, 10), ("gone", 0, 90)] {
            let id = t.child(main, name);
            t.add(id, now);
            t.add_base(id, before);
        }
        let by = |diff, drawn| {
            let options =
                Options { diff: Some(diff), drawn, normalize: false, script: false, ..Options::default() };
            svg(&t, &options)
        };
        let total = by(DiffBy::Total, Drawn::After);
        assert!(total.contains("main (90, before 150: -60, -40.0%)"), "{total}");
        assert!(total.contains("grown (40, before 10: +30, +300.0%)"), "{total}");
        // There is one scale: what remains of 150 is 60 % as wide. What is gone is only in the other picture.
        assert!(total.contains(r#"width="60%""#) && !total.contains("gone ("), "{total}");
        let before = by(DiffBy::Total, Drawn::Before);
        assert!(
            before.contains(r#"gone (0, before 90: -90; only before)</title><rect class="one" x="0%""#),
            "{before}"
        );
        assert!(before.contains(r#"width="100%""#), "{before}");
        assert_eq!(t.vanished(), 90);
        // The whole program costs less, so it is blue. The legend gives the amount of the strongest colours.
        let fill = format!("fill=\"{}\"", colour::difference(-60.0 / 90.0));
        assert!(total.contains(&fill) && total.contains(">-90<") && total.contains(">+90<"), "{total}");
        let own = by(DiffBy::Own, Drawn::After);
        assert!(own.contains("main (90 with all below; itself 0, before 0: 0)"), "{own}");
    }

    #[test]
    fn only_the_first_frame_of_what_is_in_one_profile_has_an_outline() {
        let mut t = Tree::new("all");
        let both = t.add_stack(["main", "both"], 5);
        t.add_base(both, 5);
        t.add_stack(["main", "new", "below"], 3);
        let gone = t.add_stack(["main", "gone", "under"], 0);
        t.add_base(gone, 4);
        let outlined = |drawn| {
            let options = Options { diff: Some(DiffBy::Total), drawn, script: false, ..Options::default() };
            let picture = svg(&t, &options);
            let frames = picture.split("<title>").skip(1).map(str::to_owned);
            let outlined = frames.filter(|frame| frame.contains(r#"class="one""#));
            outlined.map(|frame| frame.split(' ').next().unwrap_or("").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(outlined(Drawn::After), ["new"]);
        assert_eq!(outlined(Drawn::Before), ["gone"]);
    }

    #[test]
    fn groups_have_one_colour_each_and_a_legend() {
        let mut t = Tree::new("all");
        for (i, name) in ["libc", "prog", "libm"].into_iter().enumerate() {
            let id = t.add_stack([name], 10 * (i as u64 + 1));
            t.set_group(id, name);
        }
        let keys = legend(&t, &Options::default());
        let words: Vec<&str> = keys.iter().map(|k| k.label.as_str()).collect();
        assert_eq!(words, ["libm 50.0%", "prog 33.3%", "libc 16.7%"]);
        let s = svg(&t, &Options { script: false, ..Options::default() });
        assert!(s.contains("prog 33.3%</text>") && s.contains("libm (30, 50.00%; libm)"), "{s}");
    }

    #[test]
    fn pictures_of_parts_have_the_colours_of_the_whole() {
        let weights = GroupWeights {
            whole: 1000,
            of: vec![("libc".to_owned(), 440), ("prog".to_owned(), 530), ("rare".to_owned(), 1)],
        };
        // In this part libc weighs most, but not in the whole.
        let mut t = Tree::new("all");
        for (name, weight) in [("libc", 90), ("prog", 10), ("other", 5)] {
            let id = t.add_stack([name], weight);
            t.set_group(id, name);
        }
        t.set_palette(Palette::from_weights(&weights));
        t.set_group_weights(weights.clone());
        let keys = legend(&t, &Options::default());
        let words: Vec<&str> = keys.iter().map(|k| k.label.as_str()).collect();
        assert_eq!(words, ["prog 53.0%", "libc 44.0%", "other 0.0%"]);
        let palette = Palette::from_weights(&weights);
        let colours: Vec<_> =
            ["prog", "libc", "other"].iter().map(|group| Some(palette.of_group(group))).collect();
        assert_eq!(keys.iter().map(|k| k.colour).collect::<Vec<_>>(), colours);
    }

    proptest! {
        #[test]
        fn any_tree_gives_balanced_elements(
            stacks in proptest::collection::vec((proptest::collection::vec(any::<String>(), 0..5), any::<u64>()), 0..20),
            flags in any::<[bool; 4]>(),
        ) {
            let mut t = Tree::new("all");
            for (stack, weight) in &stacks {
                let id = t.add_stack(stack.iter().map(String::as_str), *weight);
                t.add_base(id, weight / 2);
                if flags[3] { t.set_link(id, stack.last().map_or("", String::as_str)); }
            }
            let s = svg(&t, &Options {
                direction: if flags[0] { Direction::Flame } else { Direction::Icicle },
                diff: flags[1].then_some(DiffBy::Own),
                frame: flags[2],
                script: false,
                ..Options::default()
            });
            for tag in ["svg", "g", "a", "text", "title", "style"] {
                let opened = s.matches(&format!("<{tag} ")).count() + s.matches(&format!("<{tag}>")).count();
                prop_assert_eq!(opened, s.matches(&format!("</{tag}>")).count(), "{}", tag);
            }
        }
    }
}
