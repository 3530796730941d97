//! Reports to displays: selects rows, orders and names them, and adds links and controls.
//!
//! There is one module per kind of page. They read the report and the preferences. From the profile they only read what
//! decides about controls (whether times mean anything, the state of the contour file) and the names on the path to a
//! clique.

mod callers;
mod clique;
mod controls;
mod coverage;
mod ctx;
mod diff;
mod dumps;
mod feedback;
mod flame;
mod flat;
mod getters_setters;
mod menu;
mod modules;
mod over_time;
mod overview;
mod owners;
mod perf;
mod proc;
mod recordings;
mod recursion;
mod search;
mod source;
mod tabs;
mod top_procs;
mod tree;
mod var_use;
mod waits;

use crate::analysis::Failure;
use crate::display::{Banner, Chip, Display, Item, This, format};
use crate::query::{Cmd, Part, Prefs, PrefsIndication};
use crate::render::html::{CPU_SECONDS_HELP, HELP, NATIVE_HELP, WALL_SECONDS_HELP};
use crate::report::Report;
use crate::subject::Subject;
use ctx::Ctx;
use pct_deep::measured::Measured;
use pct_deep::native::Allocated;

/// The display of a report that was made for `cmd` and `page`.
#[must_use]
pub fn display(report: &Report, subject: &Subject, cmd: &Cmd, page: u32, prefs: &Prefs) -> Display {
    let ctx = Ctx { subject, cmd, page, prefs: *prefs };
    let mut display = match report {
        Report::Message(text) => {
            let mut d = Display::new(text.clone());
            if !matches!(cmd, Cmd::Quit) {
                d.controls.push(ctx.general_controls());
            }
            d
        }
        Report::Menu(r) => menu::display(&ctx, r),
        Report::Clique(r) => or_failure(&ctx, r.as_ref(), clique::display),
        Report::ProgramModules(r) => modules::display_all(&ctx, r),
        Report::Module(r) => or_failure(&ctx, r.as_ref(), modules::display),
        Report::GettersSetters(r) => or_failure(&ctx, r.as_ref(), getters_setters::display),
        Report::TopProcs(r) => or_failure(&ctx, r.as_ref(), top_procs::display),
        Report::Proc(r) => or_failure(&ctx, r.as_deref(), proc::display),
        Report::Callers(r) => or_failure(&ctx, r.as_ref(), callers::display),
        Report::DumpPs(r) => or_failure(&ctx, r.as_ref(), dumps::ps),
        Report::DumpPd(r) => or_failure(&ctx, r.as_ref(), dumps::pd),
        Report::DumpCss(r) => or_failure(&ctx, r.as_deref(), dumps::css),
        Report::DumpCsd(r) => or_failure(&ctx, r.as_deref(), dumps::csd),
        Report::DumpClique(r) => or_failure(&ctx, r.as_ref(), dumps::clique),
        Report::Search(r) => search::display(&ctx, r),
        Report::Feedback(r) => or_failure(&ctx, r.as_deref(), feedback::display),
        Report::Tree(r) => or_failure(&ctx, r.as_deref(), tree::display),
        Report::CliqueRecursion(r) => or_failure(&ctx, r.as_ref(), recursion::of_clique),
        Report::Frequencies(r) => or_failure(&ctx, r.as_deref(), recursion::frequencies),
        Report::Coverage(r) => or_failure(&ctx, r.as_ref(), coverage::display),
        Report::ModuleRep(r) => or_failure(&ctx, r.as_ref(), coverage::module),
        Report::VarUse(r) => or_failure(&ctx, r.as_deref(), var_use::display),
        Report::Flame(r) => or_failure(&ctx, r.as_ref(), flame::display),
        Report::Owners(r) => or_failure(&ctx, r.as_ref(), owners::display),
        Report::Waits(r) => or_failure(&ctx, r.as_ref(), waits::display),
        Report::Source(r) => or_failure(&ctx, r.as_ref(), source::display),
        Report::Recordings(r) => recordings::display(&ctx, r),
        Report::Diff(r) => or_failure(&ctx, r.as_deref(), diff::display),
    };
    let permalink = match report {
        Report::Proc(Ok(r)) if !matches!(cmd, Cmd::ProcNamed(_)) => Some(Cmd::ProcNamed(r.raw_name.clone())),
        _ => None,
    };
    display.items.iter_mut().for_each(leave_out_zeros);
    display.sections = ctx.sections();
    display.tabs = ctx.tabs(report);
    display.help = help(subject);
    display.banner = Some(banner(subject));
    display.chips = chips(&ctx, permalink.as_ref());
    display.this = Some(This { cmd: cmd.clone(), page, prefs: *prefs, permalink });
    display
}

/// What the page is limited to. Numbers of procedures differ from part to part, so that links lead on by name.
fn chips(ctx: &Ctx<'_>, permalink: Option<&Cmd>) -> Vec<Chip> {
    let subject = ctx.subject;
    let closable = subject.part_of_name().in_words();
    let cmd = match permalink {
        Some(by_name) => by_name,
        None if ctx.cmd.is_by_number() => &Cmd::Menu,
        None => ctx.cmd,
    };
    let chip = |(text, _): (String, Part)| {
        let rest = closable.iter().find(|(words, _)| *words == text);
        let file = rest.and_then(|(_, rest)| subject.part_named(|_| rest.clone()));
        let without = file.map(|file| ctx.link(cmd.clone(), "").into_file(file));
        Chip { text, without }
    };
    subject.part.in_words().into_iter().map(chip).collect()
}

/// What the words on pages of a profile mean.
fn help(subject: &Subject) -> Vec<(&'static str, &'static str)> {
    if !subject.profile.is_native() {
        return HELP.to_vec();
    }
    let measured = match subject.measured() {
        None | Some(Measured::Cpu) => Some(CPU_SECONDS_HELP),
        Some(Measured::Wall) => Some(WALL_SECONDS_HELP),
        // What another profiler measured, its file does not explain.
        Some(Measured::Time { .. } | Measured::Amount { .. }) => None,
    };
    measured.into_iter().chain(NATIVE_HELP.iter().copied()).collect()
}

/// The parts of a profile, as they stand at the top of its pages: their names, and what shows them.
#[must_use]
pub fn parts(subject: &Subject) -> Vec<(String, Cmd)> {
    // No part is the current one.
    let cmd = Cmd::Quit;
    let ctx = Ctx { subject, cmd: &cmd, page: 1, prefs: subject.prefs(PrefsIndication::Default) };
    let link = |item| match item {
        Item::Link(link) => Some((link.label.text, link.cmd)),
        _ => None,
    };
    ctx.sections().into_iter().filter_map(link).collect()
}

/// Removes the columns of tables in which everything is zero.
fn leave_out_zeros(item: &mut Item) {
    match item {
        Item::Table(table) => table.without_zeros(),
        Item::Columns(columns) => columns.iter_mut().flatten().for_each(leave_out_zeros),
        _ => {}
    }
}

fn banner(subject: &Subject) -> Banner {
    let header = subject.profile.header();
    let mut facts = Vec::new();
    if header.ticks_per_second > 0 && subject.times_matter() {
        let seconds = header.user_quanta as f64 / header.ticks_per_second as f64;
        // The tables add up to this: for a recording, all time that the kernel counted, including what no sample has.
        facts.push(match subject.measured() {
            Some(measured) => format::amount(measured, header.user_quanta),
            None => format!("{} s", format::float(seconds, 2)),
        });
    }
    if let (true, Some(recorded)) = (subject.is_sampled(), &subject.recorded) {
        if recorded.side.samples > 0 && !recorded.side.measured.is_number_of_samples() {
            facts.push(pct_num::count(recorded.side.samples, "sample", "samples"));
        }
        if recorded.side.running > 0 {
            facts.push("still running".to_owned());
        }
    }
    if subject.is_sampled() {
        if facts.is_empty() {
            facts.push(format!("{} ns", pct_num::thousands(header.user_quanta)));
        }
        if let Some(memory) = subject.memory() {
            let octets = subject.profile.root_total().words.saturating_mul(i64::from(header.bytes_per_word));
            let what = match memory {
                Allocated::All => "allocated",
                Allocated::Live => "live at the end",
                Allocated::Peak => "live at the peak",
            };
            facts.push(format!("{} bytes {what}", format::int(octets)));
        }
        return Banner { program: subject.profile.program().into_owned(), facts };
    }
    let whole = subject.profile.root_total();
    facts.push(format!("{} call sequence numbers", format::int(whole.callseqs)));
    facts.push(format!("{} words allocated", format::int(whole.words)));
    Banner { program: subject.profile.program().into_owned(), facts }
}

/// The page of a report, or the page that says why there is none.
fn or_failure<T: ?Sized>(
    ctx: &Ctx<'_>,
    report: Result<&T, &Failure>,
    page: impl Fn(&Ctx<'_>, &T) -> Display,
) -> Display {
    match report {
        Ok(r) => page(ctx, r),
        Err(failure) => {
            let mut d = Display::new("This page cannot be shown");
            d.items.push(Item::Warning(failure.0.clone()));
            d.items.push(Item::Link(ctx.link(Cmd::Menu, "back to the menu")));
            d.crumbs = ctx.crumbs(vec![]);
            d.controls.push(ctx.general_controls());
            d
        }
    }
}
