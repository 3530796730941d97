//! pprof: profile.proto, <https://github.com/google/pprof/blob/main/proto/profile.proto>, gzip'd or not.
//!
//! A sample has a value of each sample type. One type is read: the one that was asked for, else the file's
//! `default_sample_type`, else the last one, as the format says. Values keep their unit (`types`). One below 0 means
//! that the file holds differences, which are refused. Indices without a target are counted and left out; frames are
//! dropped where the file asks for it (`prune`).

mod prune;
mod stacks;
mod tables;
mod types;

use super::kinds;
use super::problem::Problem;
use pct_num::count;
use pct_profile::model::Profile;
use stacks::Build;
use tables::Tables;
use types::{Choice, SampleTypes};

pub(super) fn read(bytes: &[u8], sample_type: Option<&str>) -> Result<Profile, Problem> {
    let tables = Tables::parse(bytes).map_err(|problem| kinds::not_pprof(bytes, problem))?;
    let types = SampleTypes::from_tables(&tables)?;
    let choice = types.choose(sample_type)?;
    if tables.samples.is_empty() {
        return Err(Problem {
            place: "the whole file".into(),
            problem: "a pprof file without samples".into(),
        });
    }
    let mut build = Build::new(&tables, &choice);
    for sample in &tables.samples {
        build.sample(sample)?;
    }
    finish(build, &tables, &types, &choice)
}

fn finish(
    build: Build<'_>,
    tables: &Tables<'_>,
    types: &SampleTypes,
    choice: &Choice<'_>,
) -> Result<Profile, Problem> {
    let counts = build.counts();
    if counts.with_stack == 0 || counts.zeros + counts.short == tables.samples.len() as u64 {
        let problem = if counts.short == tables.samples.len() as u64 {
            "no sample in it has as many values as there are sample types".to_owned()
        } else if counts.with_stack == 0 {
            "no sample with a stack in it".to_owned()
        } else {
            format!("{} is 0 in all samples{}", choice.words(), types.others(choice, "; also in the file: "))
        };
        return Err(Problem { place: "the whole file".into(), problem });
    }
    let mut profile = build.finish();
    profile.quantity = choice.quantity();
    profile.start_realtime_ns = tables.time_ns;
    let account = &mut profile.account;
    account.elapsed_ns = (tables.duration_ns > 0).then_some(tables.duration_ns);
    let others = types.others(choice, "also in the file: ");
    if !others.is_empty() {
        account.note(format!("{} is shown; {others} (--type NAME shows it)", choice.words()));
    }
    if let Some(at) = tables.broken {
        account.note_gap(format!("octet {at}: cut short or damaged; what is before it was read"));
    }
    account.lose("whose values are not as many as the file's sample types", counts.short, 0);
    if counts.dangling > 0 {
        let references = count(counts.dangling, "reference", "references");
        account.note_gap(format!("{references} to locations or functions that are not in the file"));
    }
    if counts.without_stack > 0 {
        let samples = count(counts.without_stack, "sample", "samples");
        account.note(format!("{samples} without a stack, shown as [no stack]"));
    }
    for why in counts.bad_patterns {
        account.note(why);
    }
    Ok(profile)
}
