//! Control blocks: links that differ from the page in one respect. The current choice is text, not a link.

use super::ctx::Ctx;
use crate::analysis::contour::ContourState;
use crate::display::{Item, Link, List, ListClass};
use crate::query::{
    AllocFields, Boxes, CallseqFields, Cmd, Colour, Contour, Cost, CostOrder, Developer, Fields, Group,
    Inactive, Incl, Limit, MemFields, Order, PortFields, Prefs, Qualify, Scope, Summarise, TimeFields,
};

/// The inactive things that a page can hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hideable {
    Sites,
    Procs,
    Modules,
}

/// A block of items. Without items it is not shown.
fn block(title: &str, items: Vec<Item>) -> Item {
    Item::List(List { class: ListClass::HorizontalExceptTitle, title: Some(title.to_owned()), items })
}

fn line(title: &str, items: Vec<Item>) -> Item {
    Item::List(List { class: ListClass::Horizontal, title: Some(format!("{title}:")), items })
}

fn lines(title: &str, items: Vec<Item>) -> Item {
    Item::List(List { class: ListClass::Plain, title: Some(title.to_owned()), items })
}

impl Ctx<'_> {
    /// A link to the page with other preferences; plain text if these are the current ones.
    fn choice(&self, prefs: Prefs, label: &str) -> Item {
        if prefs == self.prefs {
            Item::Current(label.to_owned())
        } else {
            Item::Link(Link { page: self.page, ..Link::control(self.cmd.clone(), &prefs, label) })
        }
    }

    /// A link to another page with the current preferences.
    fn other(&self, cmd: Cmd, label: &str) -> Item {
        if cmd == *self.cmd {
            Item::Current(label.to_owned())
        } else {
            let prefs = self.prefs_for(&cmd);
            Item::Link(Link::control(cmd, &prefs, label))
        }
    }

    /// Controls at the end of pages with rows of figures.
    pub(crate) fn controls_of_rows(&self) -> Vec<Item> {
        vec![self.sort_controls(), self.field_controls(), self.format_controls(), self.general_controls()]
    }

    /// The same for rows of procedures, whose names may be qualified.
    pub(crate) fn controls_of_procedures(&self) -> Vec<Item> {
        let mut controls = self.controls_of_rows();
        controls.insert(1, self.qualify_controls());
        controls
    }

    pub(crate) fn general_controls(&self) -> Item {
        let link = |cmd, label, hint: &str| Item::Link(Link::control(cmd, &self.prefs, label).hint(hint));
        let items = vec![
            link(Cmd::Restart, "restart", "read the data file again"),
            link(Cmd::Quit, "quit", "stop the server of this file"),
        ];
        block("General", items)
    }

    pub(crate) fn developer_controls(&self) -> Item {
        let p = &self.prefs;
        let to = if p.developer == Developer::On { Developer::Off } else { Developer::On };
        block("Options", vec![self.choice(Prefs { developer: to, ..*p }, to.label())])
    }

    /// A title for the parts of the whole program.
    pub(crate) fn modules_title(&self) -> &'static str {
        if self.subject.profile.is_native() { "Objects" } else { "Modules" }
    }

    pub(crate) fn field_controls(&self) -> Item {
        let sampled = self.subject.is_sampled();
        if sampled && self.subject.memory().is_none() {
            return block("", Vec::new());
        }
        let with = |change: &dyn Fn(&mut Fields), label: &str| {
            let mut fields = self.prefs.fields;
            change(&mut fields);
            self.choice(Prefs { fields, ..self.prefs }, label)
        };
        if sampled {
            let allocs = [AllocFields::None, AllocFields::Overall];
            let memory = [MemFields::None, MemFields::Words, MemFields::Bytes];
            return lines(
                "Columns",
                vec![
                    line("allocations", allocs.map(|v| with(&|f| f.allocs = v, v.label())).into()),
                    line("memory", memory.map(|v| with(&|f| f.memory = v, v.label())).into()),
                ],
            );
        }
        lines(
            "Columns",
            vec![
                line(
                    "port counts",
                    PortFields::ALL.iter().map(|&v| with(&|f| f.port = v, v.label())).collect(),
                ),
                line("time", TimeFields::ALL.iter().map(|&v| with(&|f| f.time = v, v.label())).collect()),
                line(
                    "call sequence numbers",
                    CallseqFields::ALL.iter().map(|&v| with(&|f| f.callseqs = v, v.label())).collect(),
                ),
                line(
                    "allocations",
                    AllocFields::ALL.iter().map(|&v| with(&|f| f.allocs = v, v.label())).collect(),
                ),
                line("memory", MemFields::ALL.iter().map(|&v| with(&|f| f.memory = v, v.label())).collect()),
            ],
        )
    }

    pub(crate) fn format_controls(&self) -> Item {
        let p = &self.prefs;
        let colour = if p.colour == Colour::Groups { Colour::None } else { Colour::Groups };
        let boxes = if p.boxes == Boxes::Box { Boxes::NoBox } else { Boxes::Box };
        block(
            "Format",
            vec![
                self.choice(Prefs { colour, ..*p }, colour.label()),
                self.choice(Prefs { boxes, ..*p }, boxes.label()),
            ],
        )
    }

    pub(crate) fn ancestor_controls(&self) -> Item {
        let with = |n: Option<i64>, label: &str| self.choice(Prefs { ancestors: n, ..self.prefs }, label);
        let items = match self.prefs.ancestors {
            Some(n) => {
                let n = n.max(0);
                let mut items = vec![Item::Current(n.to_string())];
                if n > 0 {
                    items.push(with(Some(n / 2), "halve"));
                    items.push(with(Some(n - 1), "one less"));
                }
                items.push(with(Some(n.saturating_add(1)), "one more"));
                if n > 0 {
                    items.push(with(Some(n.saturating_mul(2)), "double"));
                }
                items.push(with(None, "unlimited"));
                items
            }
            None => {
                let mut items = vec![Item::Current("unlimited".to_owned())];
                items.extend([1, 2, 3, 5, 10].map(|n| with(Some(n), &n.to_string())));
                items
            }
        };
        block("Ancestors shown", items)
    }

    pub(crate) fn inactive_controls(&self, what: Hideable) -> Item {
        let (title, set): (_, fn(&mut Prefs, Inactive)) = match what {
            Hideable::Sites => ("call sites", |p, v| p.inactive_sites = v),
            Hideable::Procs => (self.words().procs, |p, v| p.inactive_procs = v),
            Hideable::Modules => (self.words().modules, |p, v| p.inactive_modules = v),
        };
        let mut title = format!("{title} {}", self.words().silent);
        title[..1].make_ascii_uppercase();
        let with = |v: Inactive| {
            let mut prefs = self.prefs;
            set(&mut prefs, v);
            self.choice(prefs, v.label())
        };
        block(&title, Inactive::ALL.iter().map(|&v| with(v)).collect())
    }

    pub(crate) fn qualify_controls(&self) -> Item {
        block(
            "Module qualification of names",
            [Qualify::Never, Qualify::WhenDifferent, Qualify::Always]
                .into_iter()
                .map(|v| self.choice(Prefs { qualify: v, ..self.prefs }, v.label()))
                .collect(),
        )
    }

    pub(crate) fn summarise_controls(&self) -> Item {
        block(
            "Summarise call sites of several callees",
            [Summarise::NoSum, Summarise::Sum]
                .into_iter()
                .map(|v| self.choice(Prefs { summarise: v, ..self.prefs }, v.label()))
                .collect(),
        )
    }

    pub(crate) fn sort_controls(&self) -> Item {
        let with = |order: Order, label: &str| self.choice(Prefs { order, ..self.prefs }, label);
        let by = |cost, incl, scope| Order::Cost(CostOrder { cost, incl, scope });
        let of_samples = |cost| {
            [(Incl::Own, "self"), (Incl::Total, "total")]
                .map(|(incl, label)| with(by(cost, incl, Scope::Overall), label))
        };
        let by_name = [with(Order::Name, "name"), with(Order::Context, "source")];
        if self.subject.is_sampled() && self.subject.memory().is_none() {
            return block("Order of rows", of_samples(Cost::Time).into_iter().chain(by_name).collect());
        }
        if self.subject.is_sampled() {
            let mut all = vec![line("by", by_name.into())];
            for cost in Cost::OF_SAMPLES {
                let label = if cost == Cost::Time { self.spent() } else { cost.label() };
                all.push(line(label, of_samples(cost).into()));
            }
            return lines("Order of rows", all);
        }
        let first = vec![
            with(Order::Context, "source"),
            with(Order::Name, "name"),
            with(by(Cost::Calls, Incl::Own, Scope::Overall), "calls"),
            with(by(Cost::Redos, Incl::Own, Scope::Overall), "redos"),
        ];
        let mut all = vec![line("by", first)];
        for cost in [Cost::Time, Cost::Callseqs, Cost::Allocs, Cost::Words] {
            all.push(line(
                cost.label(),
                vec![
                    with(by(cost, Incl::Own, Scope::Overall), "self"),
                    with(by(cost, Incl::Total, Scope::Overall), "total"),
                    with(by(cost, Incl::Own, Scope::PerCall), "self per call"),
                    with(by(cost, Incl::Total, Scope::PerCall), "total per call"),
                ],
            ));
        }
        lines("Order of rows", all)
    }

    pub(crate) fn top_controls(&self) -> Item {
        let &Cmd::TopProcs { limit, cost, incl, scope } = self.cmd else { return lines("", Vec::new()) };
        let to = |limit, cost, incl, scope, label: &str| {
            self.other(Cmd::TopProcs { limit, cost, incl, scope }, label)
        };
        let counts = matches!(cost, Cost::Calls | Cost::Redos);
        let mut limits: Vec<Item> = [10, 100, 1000]
            .into_iter()
            .map(|n| to(Limit::Ranks(1, n), cost, incl, scope, &format!("top {n}")))
            .collect();
        if !counts {
            limits.extend(
                [0.01, 0.1, 1.0]
                    .into_iter()
                    .map(|p| to(Limit::Percent(p), cost, incl, scope, &format!("above {p}%"))),
            );
        }
        let sampled = self.subject.is_sampled();
        let costs = if sampled { &Cost::OF_SAMPLES } else { Cost::ALL };
        let costs = costs
            .iter()
            .map(|&c| {
                // Calls and redos have no descendants, no per-call figures and no thresholds.
                if matches!(c, Cost::Calls | Cost::Redos) {
                    let limit = if matches!(limit, Limit::Ranks(..)) { limit } else { Limit::Ranks(1, 100) };
                    to(limit, c, Incl::Own, Scope::Overall, c.label())
                } else {
                    to(limit, c, incl, scope, c.label())
                }
            })
            .collect();
        let mut all = vec![line("limit", limits)];
        if !sampled || self.subject.memory().is_some() {
            all.push(line("criterion", costs));
        }
        if !counts {
            all.push(line(
                "descendants",
                Incl::ALL.iter().map(|&i| to(limit, cost, i, scope, i.label())).collect(),
            ));
            if !sampled {
                all.push(line(
                    "scope",
                    Scope::ALL.iter().map(|&s| to(limit, cost, incl, s, s.label())).collect(),
                ));
            }
        }
        lines(&format!("Top {}", self.words().procs), all)
    }

    /// Links to the callers of a procedure.
    pub(crate) fn caller_controls(&self, ps: u32) -> Item {
        let size = match self.cmd {
            Cmd::ProcCallers { size, .. } if *size > 0 => *size,
            _ => 20,
        };
        let now = match self.cmd {
            Cmd::ProcCallers { group, contour, .. } => Some((*group, *contour)),
            _ => None,
        };
        let contour = now.map_or(self.prefs.contour, |n| n.1);
        let to = |group: Group, contour: Contour, label: &str| {
            if now == Some((group, contour)) {
                return Item::Current(label.to_owned());
            }
            let cmd = Cmd::ProcCallers { ps: i64::from(ps), group, bunch: 1, size, contour };
            Item::Link(Link::control(cmd, &Prefs { contour, ..self.prefs }, label))
        };
        let mut all = vec![line(
            "grouped by",
            Group::ALL.iter().map(|&g| to(g, contour, &self.words().group(g).0)).collect(),
        )];
        if let Some((group, _)) = now {
            match &self.subject.contour {
                ContourState::None => {}
                ContourState::Unreadable(message) => all.push(Item::Text(message.clone())),
                ContourState::Readable { .. } => {
                    all.push(line(
                        "contour exclusion",
                        vec![to(group, Contour::Apply, "apply"), to(group, Contour::Ignore, "do not apply")],
                    ));
                }
            }
        }
        lines("Callers", all)
    }

    pub(crate) fn tree_controls(&self, clique: u32) -> Item {
        let sampled = self.subject.is_sampled();
        if sampled && self.subject.memory().is_none() {
            return block("", Vec::new());
        }
        block(
            "Width is",
            [Cost::Time, Cost::Callseqs, Cost::Allocs, Cost::Words]
                .into_iter()
                .filter(|c| !sampled || Cost::OF_SAMPLES.contains(c))
                .map(|c| self.other(Cmd::CliqueTree(i64::from(clique), c), c.label()))
                .collect(),
        )
    }
}
