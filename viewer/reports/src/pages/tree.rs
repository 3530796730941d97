//! The tree of cliques as a picture.

use super::ctx::Ctx;
use crate::display::{Display, Item, Picture, PictureNode, format};
use crate::query::{Cmd, Cost, Qualify};
use crate::report::tree::{TreeReport, overview as overview_of, strip};
use pct_deep::CliqueId;
use pct_deep::measured::Measured;

fn unit_of(ctx: &Ctx<'_>, cost: Cost) -> String {
    match (cost, ctx.subject.measured()) {
        (Cost::Time, Some(measured)) => measured.unit(),
        _ => unit(cost).to_owned(),
    }
}

fn unit(cost: Cost) -> &'static str {
    match cost {
        Cost::Time => "ticks",
        Cost::Allocs => "allocations",
        Cost::Words => "words",
        Cost::Callseqs | Cost::Calls | Cost::Redos => "call sequence numbers",
    }
}

fn picture(ctx: &Ctx<'_>, r: &TreeReport, caption: String, large: bool) -> Picture {
    Picture {
        caption,
        unit: unit_of(ctx, r.cost),
        seconds: r.cost == Cost::Time && ctx.subject.measured().is_some_and(Measured::is_time),
        compares: None,
        zooms: false,
        levels: 1000,
        nodes: r
            .nodes
            .iter()
            .map(|n| PictureNode {
                parent: n.parent,
                name: if ctx.prefs.qualify == Qualify::Always {
                    format!("{}.{}", n.module, n.name)
                } else {
                    shown_name(ctx, &n.name)
                },
                total: n.total,
                before: 0,
                group: group_of(ctx, n.clique),
                link: Some(Cmd::Clique(i64::from(n.clique))),
            })
            .collect(),
        groups: Some(ctx.subject.colours().weights(&ctx.subject.profile, r.cost)),
        palette: Some(ctx.subject.colours().palette().clone()),
        here: (!large).then_some(r.here),
        large,
    }
}

/// What the colour of a clique's frame stands for: that of the procedure that enters it.
fn group_of(ctx: &Ctx<'_>, clique: u32) -> Option<String> {
    let profile = &ctx.subject.profile;
    let clique = profile.clique_id(i64::from(clique))?;
    ctx.group_of(profile.pd_ps(profile.clique_entry_pd(clique)).number())
}

pub(super) fn display(ctx: &Ctx<'_>, r: &TreeReport) -> Display {
    let top = &r.nodes[0];
    let is_native = ctx.subject.profile.is_native();
    let is_root = top.clique == ctx.subject.profile.root_clique().number();
    let mut d = Display::new(match is_native {
        _ if is_root => "All calls, recursion folded".to_owned(),
        true => format!("All below {}", shown_name(ctx, &top.name)),
        false => format!("All below clique {}: {}", top.clique, top.name),
    });
    let mut caption = format!("width: {} with descendants", unit_of(ctx, r.cost));
    if r.left_out > 0 {
        caption.push_str(&format!("; {} small branches left out", format::count(r.left_out)));
    }
    d.items.push(Item::Picture(picture(ctx, r, caption, true)));
    let clique = i64::from(top.clique);
    d.crumbs = ctx.crumbs(vec![
        ctx.link(
            Cmd::Clique(clique),
            if is_native { shown_name(ctx, &top.name) } else { format!("clique {clique}") },
        ),
        ctx.link(ctx.cmd.clone(), if is_native { "picture" } else { "icicle" }),
    ]);
    d.controls = vec![ctx.tree_controls(top.clique), ctx.qualify_controls(), ctx.general_controls()];
    d
}

/// A name as pictures show it.
pub(super) fn shown_name(ctx: &Ctx<'_>, name: &str) -> String {
    if ctx.subject.profile.is_native() { format::short_name(name) } else { name.to_owned() }
}

/// The strip at the top of a clique's page.
pub(super) fn strip_of(ctx: &Ctx<'_>, clique: CliqueId) -> Item {
    let r = strip(ctx.subject, clique, ctx.tree_cost());
    let widest = r.nodes.first().map_or(0, |n| n.total);
    let narrow = r.nodes.get(r.here).is_some_and(|n| n.total.saturating_mul(1000) < widest);
    let word = if ctx.subject.profile.is_native() { "call" } else { "clique" };
    let here = if narrow {
        format!("this {word} is too narrow to be seen")
    } else {
        format!("the outlined one is this {word}")
    };
    let caption = format!("width: {} with descendants; {here}", unit_of(ctx, r.cost));
    Item::Picture(picture(ctx, &r, caption, false))
}

/// The upper part of the whole tree, for the menu.
pub(super) fn overview(ctx: &Ctx<'_>, root: CliqueId, cost: Cost) -> Item {
    let r = overview_of(ctx.subject, root, cost);
    let caption = format!("the program by {}, with descendants; click to go there", unit_of(ctx, r.cost));
    Item::Picture(Picture { here: None, ..picture(ctx, &r, caption, false) })
}
