//! The stacks of a recording as a picture.

use super::ctx::Ctx;
use crate::display::{Display, Item, Picture, PictureNode, format};
use crate::query::{Cmd, Cost};
use crate::report::flame::FlameReport;

pub(super) fn display(ctx: &Ctx<'_>, r: &FlameReport) -> Display {
    let mut d = Display::new("All stacks");
    d.items.push(picture(ctx, r, 400, true));
    d.crumbs = ctx.crumbs(vec![ctx.link(Cmd::Flame, "flame graph")]);
    d.controls = vec![ctx.general_controls()];
    d
}

/// The picture, with this many levels.
pub(super) fn picture(ctx: &Ctx<'_>, r: &FlameReport, levels: u32, large: bool) -> Item {
    let measured = ctx.measured();
    let click = if large { "zoom, with Ctrl to go to the function" } else { "go to the function" };
    let mut caption = format!("width: {}; a callee lies below its caller; click to {click}", measured.name());
    if r.left_out > 0 {
        caption.push_str(&format!("; {} small branches left out", format::count(r.left_out)));
    }
    Item::Picture(Picture {
        caption,
        unit: measured.unit(),
        seconds: measured.is_time(),
        compares: None,
        zooms: large,
        levels,
        nodes: r
            .nodes
            .iter()
            .map(|n| PictureNode {
                parent: n.parent,
                name: super::tree::shown_name(ctx, &n.name),
                total: n.total_ns,
                before: 0,
                group: ctx.group_of(n.ps),
                link: Some(Cmd::Proc(i64::from(n.ps))),
            })
            .collect(),
        groups: Some(ctx.subject.colours().weights(&ctx.subject.profile, Cost::Time)),
        palette: Some(ctx.subject.colours().palette().clone()),
        here: None,
        large,
    })
}
