//! Pictures as HTML: the SVG with its legend.

use super::html::Renderer;
use crate::display::{Compared, Picture, TimePicture, format};
use crate::query::Incl;
use maud::{Markup, PreEscaped, html};

impl Renderer<'_> {
    pub(super) fn picture(&self, picture: &Picture) -> Markup {
        let Some(root) = picture.nodes.first() else { return html! {} };
        let mut tree = pct_icicle::Tree::new(&root.name);
        let mut ids = vec![tree.root()];
        let mut own: Vec<u64> = picture.nodes.iter().map(|n| n.total).collect();
        let mut before: Vec<u64> = picture.nodes.iter().map(|n| n.before).collect();
        for (i, node) in picture.nodes.iter().enumerate().skip(1) {
            let parent = node.parent.min(i - 1);
            own[parent] = own[parent].saturating_sub(node.total);
            before[parent] = before[parent].saturating_sub(node.before);
            let id = tree.push(ids[parent], &node.name);
            ids.push(id);
        }
        for (i, node) in picture.nodes.iter().enumerate() {
            tree.add(ids[i], own[i]);
            if picture.compares.is_some() {
                tree.add_base(ids[i], before[i]);
            }
            if let Some(group) = &node.group {
                tree.set_group(ids[i], group);
            }
            if let Some(cmd) = &node.link {
                tree.set_link(ids[i], &self.href(cmd, 1, self.prefs.as_ref()));
            }
        }
        if let Some(weights) = &picture.groups {
            tree.set_group_weights(weights.clone());
        }
        if let Some(palette) = &picture.palette {
            tree.set_palette(palette.clone());
        }
        if let Some(here) = picture.here.and_then(|i| ids.get(i)) {
            tree.mark(*here);
        }
        let options = pct_icicle::Options {
            unit: picture.unit.clone(),
            direction: pct_icicle::Direction::Icicle,
            order: pct_icicle::Order::Weight,
            click: if picture.zooms { pct_icicle::Click::Zoom } else { pct_icicle::Click::Link },
            row: if picture.large { 18 } else { 17 },
            min_width: if picture.large { 0.3 } else { 1.0 },
            frame: picture.large,
            nonce: self.place.nonce.clone(),
            max_depth: picture.levels,
            weight: if picture.seconds { seconds_of } else { pct_icicle::Options::default().weight },
            diff: picture.compares.map(|c| match c.incl {
                Incl::Own => pct_icicle::DiffBy::Own,
                Incl::Total => pct_icicle::DiffBy::Total,
            }),
            drawn: match picture.compares {
                Some(Compared { draws_older: true, .. }) => pct_icicle::Drawn::Before,
                _ => pct_icicle::Drawn::After,
            },
            normalize: false,
            ..pct_icicle::Options::default()
        };
        html! {
            figure.picture {
                (PreEscaped(pct_icicle::svg(&tree, &options)))
                @if !options.frame {
                    ul.legend {
                        @for key in pct_icicle::legend(&tree, &options) {
                            li {
                                @if let Some(colour) = key.colour {
                                    svg.key width="12" height="12" aria-hidden="true" {
                                        rect width="12" height="12" fill=(colour) {}
                                    }
                                    " "
                                }
                                (key.label)
                            }
                        }
                    }
                }
                figcaption { (picture.caption) }
            }
        }
    }

    /// What was spent when.
    pub(super) fn time_picture(&self, picture: &TimePicture) -> Markup {
        let mut areas = picture.areas.clone();
        for (slice, link) in areas.slices.iter_mut().zip(&picture.links) {
            slice.link = Some(self.address(link));
        }
        let dragged = picture.dragged.as_ref();
        html! {
            figure.picture data-from=[dragged.map(|d| d.ends.0)] data-to=[dragged.map(|d| d.ends.1)]
                data-range=[dragged.map(|d| d.link.1)] data-link=[dragged.map(|d| self.address(&d.link.0))] {
                (PreEscaped(areas.svg()))
                figcaption { (picture.caption) }
            }
        }
    }
}

/// Nanoseconds as seconds.
fn seconds_of(ns: u64) -> String {
    format::float(ns as f64 / 1e9, 3)
}
