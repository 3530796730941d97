//! The lines around every table: what was measured, and what was accounted for and lost.

use super::numbers::{count, in_words, seconds, share, thousands};
use crate::account::Spent;
use crate::language::Language;
use crate::latency::Latency;
use crate::model::{Account, Cell, LOST, Loss, Profile, Spoken, Weight};
use std::collections::{BTreeMap, BTreeSet};

/// One line: total, processes, threads, samples, rate, clock.
#[must_use]
pub fn headline(profile: &Profile) -> String {
    let total = profile.sampled();
    if !profile.is_of_cpu_time() {
        let amount = profile.amount_in_words(total.cpu_ns());
        let whose = if profile.quantity.is_number_of_samples() {
            processes_and_threads(profile)
        } else {
            headline_without_time(profile, &profile.cells)
        };
        return format!("{amount} in {whose}");
    }
    let sampled = (total.user_ns, total.system_ns);
    let wall = profile.by_wall_clock();
    let used = profile.account.used.filter(|_| !wall && !left_alone(profile, total)).unwrap_or(sampled);
    let (first, second) = if wall { ("running", "waiting") } else { ("user", "system") };
    let parts = format!(" ({} {first}, {} {second})", seconds(used.0), seconds(used.1));
    format!(
        "{} {} in {}{}, {}",
        seconds(used.0.saturating_add(used.1)),
        profile.unit(),
        processes_and_threads(profile),
        if profile.tells_system_time() { parts.as_str() } else { "" },
        samples_and_clock(profile),
    )
}

/// The headline of these cells without its times, for pages that have the time of the samples beside it: two figures
/// that differ by what was lost would puzzle there. Of a part of the profile, processes without a sample in it are not
/// counted.
#[must_use]
pub fn headline_without_time(profile: &Profile, cells: &[Cell]) -> String {
    if cells.len() == profile.cells.len() && profile.account.outside_window.is_none() {
        return format!("{}, {}", processes_and_threads(profile), samples_and_clock(profile));
    }
    let sampled = cells.iter().filter(|cell| profile.is_sampled(cell.stack));
    let threads: BTreeSet<_> = sampled.map(|cell| cell.thread).collect();
    let processes: BTreeSet<_> = threads.iter().map(|thread| profile.threads[*thread].process).collect();
    let samples: u64 = cells.iter().map(|cell| cell.weight.samples).sum();
    format!(
        "{}, {}, {}{}",
        count(processes.len() as u64, "process", "processes"),
        count(threads.len() as u64, "thread", "threads"),
        count(samples, "sample", "samples"),
        clock(profile).unwrap_or_default()
    )
}

/// Threads that have samples.
#[must_use]
pub fn sampled_threads(profile: &Profile) -> u64 {
    let mut threads: Vec<bool> = vec![false; profile.threads.len()];
    for cell in profile.cells.iter().filter(|cell| profile.is_sampled(cell.stack)) {
        if let Some(seen) = threads.get_mut(crate::model::Id::index(cell.thread)) {
            *seen = true;
        }
    }
    threads.into_iter().filter(|seen| *seen).count() as u64
}

fn processes_and_threads(profile: &Profile) -> String {
    let threads = sampled_threads(profile);
    let processes = count(profile.sampled_processes(), "process", "processes");
    format!("{processes}, {}", count(threads, "thread", "threads"))
}

fn samples_and_clock(profile: &Profile) -> String {
    // Other profilers' files may not say how many samples are behind their values.
    if profile.total().samples == 0 && profile.is_sampled_without_number() {
        return "number of samples not known".into();
    }
    count(profile.total().samples, "sample", "samples") + &clock(profile).unwrap_or_default()
}

fn clock(profile: &Profile) -> Option<String> {
    // What is in no sample has no clock.
    let mut clocked = profile.processes.iter().filter(|process| process.hz != 0);
    let first = clocked.next()?;
    let words = clock_in_words(&first.clock);
    let asked = match first.hz_asked {
        0 => String::new(),
        asked if asked == first.hz => String::new(),
        asked => format!("{} asked; ", thousands(asked)),
    };
    let same = clocked.all(|p| p.clock == first.clock && p.hz == first.hz);
    let more = if same { "" } else { "; others differ" };
    Some(format!(" at {} Hz ({asked}{words}{more})", thousands(first.hz)))
}

/// A clock's name as people read it.
#[must_use]
pub fn clock_in_words(name: &str) -> &str {
    match name {
        "perf" => "perf task clock",
        "sigtrap" => "perf task clock, synchronous",
        "thread" => "CPU timer per thread",
        "itimer" => "one CPU timer per process",
        "itimer-virtual" => "one user-time timer per process",
        "itimer-real" => "wall-clock timer",
        "wall" => "wall clock, from outside",
        "ptrace" => "from outside",
        other => other,
    }
}

/// The closing line of a table of latency: how long something ran, between which bounds, and how many threads at once.
#[must_use]
pub fn latency(latency: &Latency) -> String {
    let shown: u64 = latency.by_parallelism.values().sum();
    let several = |n: u32| if n == 1 { "one thread alone".to_owned() } else { format!("{n} threads") };
    let mut classes: Vec<String> = latency
        .by_parallelism
        .iter()
        .filter(|(_, ns)| **ns >= shown / 200)
        .map(|(n, ns)| format!("{} {}", several(*n), share(*ns, shown)))
        .collect();
    if classes.is_empty() {
        classes.push("nothing ran".into());
    }
    let mut line =
        format!("latency: {} s are shown; something ran for {} s", seconds(shown), seconds(latency.most_ns));
    // Samples do not tell short turns from short bursts; say so when it matters.
    if latency.least_ns < latency.most_ns - latency.most_ns / 100 {
        line += &format!(" at most, {} s at least", seconds(latency.least_ns));
    }
    line + "; at once: " + &classes.join(", ")
}

/// The closing lines: accounted, lost, cut, hidden by filters, notes.
#[must_use]
pub fn closing(profile: &Profile, shown: &[Cell]) -> Vec<String> {
    let account = &profile.account;
    let mut lines = vec![accounted(profile, profile.sampled())];
    let whole = account.whole_stacks;
    let cut: u64 = account.cut_stacks.iter().map(|loss| loss.samples).sum();
    if cut > 0 {
        let all = whole.saturating_add(cut);
        lines.push(format!(
            "{} of {} stacks whole ({}); {} cut: {}",
            thousands(whole),
            thousands(all),
            share(whole, all),
            thousands(cut),
            causes(&account.cut_stacks)
        ));
    }
    lines.extend(account.languages.iter().flat_map(spoken));
    lines.extend(after_filtering(profile, shown));
    if account.uncertain > 0 {
        lines.push(format!(
            "{} while the mapped code was changing: their functions are uncertain",
            count(account.uncertain, "count fell", "counts fell")
        ));
    }
    if account.running > 0 {
        lines.push(format!("{} still running", count(account.running, "process is", "processes are")));
    }
    lines.extend(stolen(account));
    lines.extend(account.notes.iter().map(|note| format!("note: {}", in_words(note))));
    lines.iter().map(|line| pct_text::visible(line).into_owned()).collect()
}

/// How much of the profile filters leave, where they leave something out.
#[must_use]
pub fn after_filtering(profile: &Profile, shown: &[Cell]) -> Option<String> {
    let total = profile.total();
    let shown: Weight = shown.iter().map(|cell| cell.weight).sum();
    (shown != total).then(|| {
        format!(
            "shown: {} of {} ({}) after filtering",
            profile.amount(shown.cpu_ns()),
            profile.amount_in_words(total.cpu_ns()),
            share(shown.cpu_ns(), total.cpu_ns())
        )
    })
}

/// What the machine's host took, where it is more than a fiftieth of what was used: by so much samples and the
/// kernel's CPU time may differ.
fn stolen(account: &Account) -> Option<String> {
    let (user, system) = account.used?;
    let is_noticeable = account.stolen_ns > user.saturating_add(system) / 50;
    is_noticeable.then(|| {
        format!(
            "note: the host of this virtual machine took {} s of its processors meanwhile; samples may count a part of it, \
             the kernel's CPU time does not",
            seconds(account.stolen_ns)
        )
    })
}

/// Where the time went, as seen from the interpreted languages of the recording, in one line; `None` where it says
/// nothing of one.
#[must_use]
pub fn languages(profile: &Profile) -> Option<String> {
    let rows: Vec<&Spoken> =
        profile.account.languages.iter().filter(|row| row.spent != Spent::default()).collect();
    let whole = profile.sampled().cpu_ns();
    let part = |weight: Weight, words: String| {
        let told = share(weight.cpu_ns(), whole);
        (told != share(0, 1)).then(|| format!("{words} {told}"))
    };
    let of_language = |row: &&Spoken| {
        let (name, spent) = (row.language.name(), row.spent);
        let lock = match row.language {
            Language::Python => "waiting for the GIL",
            _ => "waiting for the interpreter's lock",
        };
        let parts = [
            part(spent.inside, format!("in {name}")),
            part(spent.native, format!("in C called from {name}")),
            part(spent.lock, lock.to_owned()),
            part(spent.compiling, "compiling".to_owned()),
            part(spent.garbage, "garbage collector".to_owned()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let within = |spent: Spent| [spent.inside, spent.native, spent.lock, spent.compiling, spent.garbage];
    let outside = match rows[..] {
        [] => return None,
        [only] => part(only.spent.outside, format!("outside of {}", only.language.name())),
        _ => {
            let spoken: Weight = rows.iter().flat_map(|row| within(row.spent)).sum();
            let rest = Weight { user_ns: whole.saturating_sub(spoken.cpu_ns()), ..Weight::ZERO };
            part(rest, "outside of these".to_owned())
        }
    };
    let told: Vec<String> = rows.iter().map(of_language).filter(|words| !words.is_empty()).collect();
    let separator = if rows.len() > 1 { "; " } else { ", " };
    let all = told.into_iter().chain(outside).collect::<Vec<_>>().join(separator);
    (!all.is_empty()).then_some(all)
}

/// What is missing of a language's frames.
fn spoken(row: &Spoken) -> Vec<String> {
    let name = row.language.name();
    let mut lines = Vec::new();
    if row.nameless && row.spent.garbage.cpu_ns() == 0 {
        lines.push(format!(
            "note: the {name} interpreter is stripped: what its garbage collector took counts as in {name}"
        ));
    }
    let flawed: u64 = row.flawed.iter().map(|loss| loss.samples).sum();
    if flawed > 0 {
        let all = row.whole.saturating_add(flawed);
        lines.push(format!(
            "{name} frames whole in {} of {} samples ({}); {} not: {}",
            thousands(row.whole),
            thousands(all),
            share(row.whole, all),
            thousands(flawed),
            causes(&row.flawed)
        ));
    }
    lines
}

/// Whether far more was sampled than the kernel counted: it counts a process when somebody waits for its end,
/// and what is left alone (daemons, children of those that were killed) never.
fn left_alone(profile: &Profile, total: Weight) -> bool {
    let account = &profile.account;
    account.used.is_some_and(|(user, system)| {
        total.exceeds(user.saturating_add(system).saturating_add(account.stolen_ns))
    })
}

/// What is less than half a millisecond would be told as 0.000 s.
const LEAST_TOLD_NS: u64 = 500_000;

fn accounted(profile: &Profile, total: Weight) -> String {
    let account = &profile.account;
    let alone = left_alone(profile, total);
    // What files say of their processes is as old as their last note: one that ended by _exit wrote none.
    let stale = account.used.is_none() && account.used_by_files_ns.is_some_and(|used| total.exceeds(used));
    let used = account.used.map(|(user, system)| user.saturating_add(system)).or(account.used_by_files_ns);
    // what threads waited nobody counts but we
    let used = used.filter(|_| !profile.by_wall_clock() && !stale);
    let mut line = match used {
        Some(used) => {
            let mut line = if alone {
                format!(
                    "accounted {} CPU s ({} in processes that were waited for)",
                    seconds(total.cpu_ns()),
                    seconds(used)
                )
            } else {
                format!("accounted {} of {} CPU s", seconds(total.cpu_ns()), seconds(used))
            };
            if account.without_sample > 0 {
                line += &format!(
                    "; {} without a sample: {} s",
                    count(account.without_sample, "process", "processes"),
                    seconds(account.without_sample_ns)
                );
            }
            line
        }
        None => format!("accounted {}", profile.amount_in_words(total.cpu_ns())),
    };
    let lost_ns: u64 = account.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.ns));
    let causes_of_gap = unsampled(profile);
    let gap = match causes_of_gap.iter().map(|(_, ns)| ns).sum() {
        0 => used.unwrap_or(0).saturating_sub(total.cpu_ns().saturating_add(lost_ns)),
        sum => sum,
    };
    // A smaller gap is not told. (The kernel's own account may go by ticks, of up to 10 ms.)
    let is_noticeable = |ns: u64| ns > used.unwrap_or(0) / 100 && ns > 10_000_000;
    let noticeable = is_noticeable(gap);
    if noticeable {
        let words = causes_of_gap.iter().filter(|(_, ns)| *ns >= LEAST_TOLD_NS);
        let words: Vec<String> = words.map(|(name, ns)| format!("{name} {}", seconds(*ns))).collect();
        let words = if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) };
        line += &format!("; {} s in no sample{words}", seconds(gap));
    }
    if account.losses.is_empty() {
        // A figure that closes is no proof where somebody said that something is missing.
        if !noticeable && account.gaps_told == 0 && account.unreadable == 0 {
            line += "; nothing lost";
        }
    } else {
        let lost: u64 = account.losses.iter().map(|loss| loss.samples).sum();
        let worth = if is_noticeable(lost_ns) { format!(" ({} s)", seconds(lost_ns)) } else { String::new() };
        line += &format!("; {}{worth} lost: {}", count(lost, "sample", "samples"), causes(&account.losses));
    }
    line
}

/// The causes of time that is in no sample, the largest first, in brackets, without samples that were lost. Empty where
/// the kernel's sum is not known.
fn unsampled(profile: &Profile) -> Vec<(&str, u64)> {
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for cell in profile.cells.iter().filter(|cell| !profile.is_sampled(cell.stack)) {
        *causes.entry(&profile.functions[profile.leaf(cell.stack)].name).or_default() += cell.weight.cpu_ns();
    }
    let mut causes: Vec<_> = causes.into_iter().filter(|(name, _)| *name != LOST).collect();
    causes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    causes
}

fn causes(rows: &[Loss]) -> String {
    let mut rows: Vec<&Loss> = rows.iter().collect();
    rows.sort_by_key(|loss| std::cmp::Reverse(loss.samples));
    let words: Vec<String> =
        rows.iter().map(|loss| format!("{} {}", thousands(loss.samples), loss.cause)).collect();
    words.join(", ")
}

/// What stands above tables: the headline, and where the time went as seen from interpreted languages.
#[must_use]
pub fn heading(profile: &Profile) -> Vec<String> {
    let mut lines = vec![headline(profile)];
    lines.extend(languages(profile));
    lines
}

/// The closing lines with what else stands above tables: for pages, and for what has nothing above it.
#[must_use]
pub fn for_pages(profile: &Profile, shown: &[Cell]) -> Vec<String> {
    let mut lines = closing(profile, shown);
    if let Some(languages) = languages(profile) {
        lines.insert(1, languages);
    }
    lines
}

/// Why there is nothing to show, when there is nothing.
#[must_use]
pub fn why_nothing(profile: &Profile, shown: &[Cell]) -> Option<String> {
    if !shown.is_empty() {
        return None;
    }
    let account = &profile.account;
    if !profile.cells.is_empty() {
        return Some("nothing to show: the filters leave no sample".into());
    }
    let lost: u64 = account.losses.iter().map(|loss| loss.samples).sum();
    if let Some((samples, last_ns)) = account.outside_window {
        return Some(format!(
            "nothing to show: the chosen time holds none of {}, the last of which is at {} s",
            count(samples, "sample", "samples"),
            seconds(last_ns)
        ));
    }
    Some(match account.used.map(|(user, system)| user + system).or(account.used_by_files_ns) {
        _ if lost > 0 => format!("nothing to show: all samples were lost: {}", causes(&account.losses)),
        Some(used) if !account.notes.is_empty() => {
            format!("nothing to show: no sample in {} CPU s; the notes say more", seconds(used))
        }
        // At any usual rate dozens were due.
        Some(used) if used > 200_000_000 => {
            format!("nothing to show: no sample in {} CPU s, and no process said why", seconds(used))
        }
        Some(used) => format!("nothing to show: no sample in {} CPU s (try a higher --hz)", seconds(used)),
        None => "nothing to show: no sample was recorded".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::folded;

    fn profile(samples: u64, used_ns: u64) -> Profile {
        let mut profile = folded(&format!("main {samples}"));
        profile.account.used = Some((used_ns, 0));
        profile
    }

    #[test]
    fn time_that_the_machines_host_took_is_told_and_explains_samples() {
        let mut stolen = profile(1000, 500_000_000);
        stolen.account.stolen_ns = 600_000_000;
        let lines = closing(&stolen, &stolen.cells);
        assert_eq!(lines[0], "accounted 1.00 of 0.50 CPU s; nothing lost");
        assert!(
            lines[1].starts_with("note: the host of this virtual machine took 0.60 s of its"),
            "{lines:?}"
        );
        // A hundredth is less than samples are wrong by.
        let mut little = profile(1000, 1_010_000_000);
        little.account.stolen_ns = 10_000_000;
        assert_eq!(closing(&little, &little.cells).len(), 1);
    }

    #[test]
    fn what_is_in_no_sample_has_no_clock_that_differs() {
        let mut profile = profile(10, 10_000_000);
        let process = |hz| crate::model::Process { clock: "sigtrap".into(), hz, ..Default::default() };
        for id in profile.processes.ids() {
            profile.processes[id] = process(997);
        }
        profile.processes.push(crate::model::Process::default());
        assert!(
            headline(&profile).ends_with("at 997 Hz (perf task clock, synchronous)"),
            "{}",
            headline(&profile)
        );
        profile.processes.push(process(250));
        assert!(headline(&profile).ends_with("; others differ)"), "{}", headline(&profile));
    }

    #[test]
    fn more_samples_than_the_kernel_counted_are_of_processes_that_nobody_waited_for() {
        let first = |p: &Profile| closing(p, &p.cells).remove(0);
        assert_eq!(first(&profile(1000, 1_010_000_000)), "accounted 1.00 of 1.01 CPU s; nothing lost");
        // Within what chance does.
        assert_eq!(first(&profile(100, 80_000_000)), "accounted 0.10 of 0.080 CPU s; nothing lost");
        let daemon = profile(5000, 1_630_000_000);
        assert_eq!(
            first(&daemon),
            "accounted 5.00 CPU s (1.63 in processes that were waited for); nothing lost"
        );
        assert!(headline(&daemon).starts_with("5.00 CPU s"), "{}", headline(&daemon));
    }

    #[test]
    fn several_languages_share_one_line_and_one_outside() {
        let mut mixed = profile(1000, 1_000_000_000);
        assert_eq!(languages(&mixed), None);
        let ms = |ms: u64| Weight { samples: ms, user_ns: ms * 1_000_000, system_ns: 0 };
        let python = mixed.account.spoken(Language::Python);
        python.spent = Spent { inside: ms(200), native: ms(100), outside: ms(700), ..Spent::default() };
        let told = languages(&mixed);
        assert_eq!(
            told.as_deref(),
            Some("in Python 20.0%, in C called from Python 10.0%, outside of Python 70.0%")
        );
        let script = mixed.account.spoken(Language::JavaScript);
        // A share of less than is shown is left out.
        let (inside, outside) = (ms(300), Weight { user_ns: 699_999_000, ..ms(700) });
        let garbage = Weight { user_ns: 1000, ..Weight::ZERO };
        script.spent = Spent { inside, garbage, outside, ..Spent::default() };
        assert_eq!(
            languages(&mixed).as_deref(),
            Some(
                "in Python 20.0%, in C called from Python 10.0%; in JavaScript 30.0%; outside of these 40.0%"
            )
        );
    }

    #[test]
    fn what_was_lost_has_a_cause_and_is_not_told_as_another_one() {
        let first = |p: &Profile| closing(p, &p.cells).remove(0);
        let mut wrapped = profile(100, 4_000_000_000);
        wrapped.account.lose("overwritten by wrap", 3900, 3_900_000_000);
        assert_eq!(
            first(&wrapped),
            "accounted 0.10 of 4.00 CPU s; 3,900 samples (3.90 s) lost: 3,900 overwritten by wrap"
        );
    }

    #[test]
    fn nothing_is_called_lost_for_nothing_where_a_note_tells_of_a_gap() {
        let tells: [fn(&mut crate::model::Account); 2] =
            [|account| account.gaps_told = 1, |account| account.unreadable = 1];
        for tell in tells {
            let mut cut = profile(1000, 1_010_000_000);
            tell(&mut cut.account);
            assert_eq!(closing(&cut, &cut.cells)[0], "accounted 1.00 of 1.01 CPU s");
        }
    }

    #[test]
    fn files_that_were_last_written_long_before_the_end_say_nothing_of_the_sum() {
        let mut profile = profile(960, 0);
        (profile.account.used, profile.account.used_by_files_ns) = (None, Some(140_000_000));
        assert_eq!(closing(&profile, &profile.cells)[0], "accounted 0.96 CPU s; nothing lost");
        profile.account.used_by_files_ns = Some(950_000_000);
        assert_eq!(closing(&profile, &profile.cells)[0], "accounted 0.96 of 0.95 CPU s; nothing lost");
    }
}
