//! `pct run`: a program under the sampler, unharmed, and a table at its end.
//!
//! Stdout belongs to the program. Whatever keeps pct from profiling is one line on stderr, and the program runs on
//! without it. `args` is what can be typed, `start` what the program is started with; `held` is for programs
//! that cannot be preloaded, `continuous` for those that are sampled for weeks, `ending` for the account and
//! the table.

mod args;
mod continuous;
mod ending;
mod held;
mod start;

use args::sensible;
pub use args::{Args, Clock, Follow, Interpreted, Java, Mode, On, Stack};

use crate::errors::chain;
use crate::face::Face;
use crate::inherited;
use crate::launch::bound::Bound;
use crate::launch::check::{self, Obstacle};
use crate::launch::controller::{Controller, End, Work};
use crate::launch::elsewhere::Elsewhere;
use crate::launch::hand_over;
use crate::launch::spare::Spare;
use crate::launch::spawn::{self, Folder, Started};
use crate::launch::{FAILED, apart, maps, objects};
use crate::runlib;
use anyhow::{Context as _, Result};
use pct_profile::load::run::{Info, stolen_ns};
use pct_profile::load::status;
use start::{environment, not_executed};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

/// NAME of the run's folder: the command's last part, without what a shell would mind.
fn short_name(command: &OsStr) -> OsString {
    let last = Path::new(command).file_name().unwrap_or(command);
    let kept: String = String::from_utf8_lossy(last.as_bytes())
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._+".contains(c) { c } else { '_' })
        .take(40)
        .collect();
    kept.trim_start_matches('.').to_owned().into()
}

fn folder(args: &Args) -> Folder {
    let absolute = match &args.out {
        Some(dir) => std::path::absolute(dir).map(Folder::Given),
        None => std::env::current_dir()
            .map(|here| Folder::Named { within: here, name: short_name(&args.command[0]) }),
    };
    absolute.unwrap_or_else(|_| {
        Folder::Nowhere(
            "the current folder was removed, so there is no place for the data (--out names one)".into(),
        )
    })
}

/// Runs the program.
///
/// # Errors
/// Only when no program could be started at all.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    sensible(args)?;
    inherited::survive_file_size_limits();
    let mut found = check::find(&args.command[0]).and_then(|file| check::inspect(&file));
    let carried = match args {
        Args { alloc: Some(_), .. } => runlib::ALLOC_SAMPLER,
        Args { wait: true, .. } => runlib::WAITS_SAMPLER,
        _ => runlib::SAMPLER,
    };
    let library = match runlib::path_of(carried) {
        Ok(path) => Some(path),
        Err(why) => {
            face.warn(format_args!("{}; the program runs unprofiled", chain(&why)));
            None
        }
    };
    if args.continuous {
        return continuous::run(args, found.as_ref(), library.as_deref(), face);
    }
    let said = args.alloc.is_some() && start::say_who_serves_memory(found.as_ref(), face);
    let began = Instant::now();
    let stolen_before = stolen_ns();
    let started_realtime_ns = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let outside = held::from_outside(args, found.as_ref());
    let fixed = held::static_program(found.as_ref());
    let hold = outside.is_some() || fixed && library.is_some();
    // from outside what the program starts is looked at too, so nothing is preloaded
    let controls = found.as_ref().is_some_and(|found| found.obstacle == Some(Obstacle::Controls));
    let preload = library.as_deref().filter(|_| outside.is_none() && !controls);
    // Before the program's first word: who sees it can still stop it.
    let told = found.as_ref().filter(|found| outside.is_none() && found.cannot_be_sampled());
    if let Some(found) = told {
        face.warn(found);
    }
    let told = told.is_some();
    let unrecorded = match args {
        Args { wait: true, .. } => Some("--wait: the program's waits"),
        Args { alloc: Some(_), .. } if !said => Some("--alloc: the program's allocations"),
        _ => None,
    };
    if let Some(unrecorded) = unrecorded {
        let why = match (outside, preload) {
            (Some(_), _) => Some("it is sampled from outside"),
            _ if fixed => Some("it is statically linked"),
            (None, None) => Some("it cannot load pct's library"),
            (None, Some(_)) => None,
        };
        if let Some(why) = why {
            face.warn(format_args!("{unrecorded} are not recorded: {why}"));
        }
    }
    let mut spare = library.as_ref().filter(|_| outside.is_none() && !controls).and_then(|_| Spare::make());
    if preload.is_some() {
        objects::make_file();
    }
    let tracer = held::tracer(args);
    let environment = |dir: Option<&Path>| environment(args, preload, dir, spare.as_ref(), tracer);
    let control = hold.then(|| -> Work<'_> {
        Box::new(|held, folder| match outside {
            Some(clock) => held::watch(args, held, folder, clock, face),
            None => held::enter(args, held, folder, spare.as_ref()),
        })
    });
    let place = folder(args);
    let told_before = match &place {
        Folder::Given(folder) => status::told_octets(folder),
        _ => 0,
    };
    let started = match spawn::start(&args.command, &place, environment, control) {
        Ok(started) => started,
        Err(why) => {
            face.warn(format_args!("{}; the program runs unprofiled", chain(&why)));
            spare.take().into_iter().for_each(Spare::discard);
            Err(spawn::become_unprofiled(&args.command)?)
        }
    };
    let mut started = match started {
        Ok(started) => started,
        Err(failed) => {
            spare.into_iter().for_each(Spare::discard);
            return Ok(not_executed(args, found.as_ref().filter(|_| !told), failed.errno, face));
        }
    };
    if let Some(why) = &started.trouble {
        face.warn(format_args!("{why}; the program runs unprofiled"));
    }
    if let Some(folder) = started.folder.as_deref().filter(|_| preload.is_some() && !fixed)
        && let Some(settings) = held::hand_over(args, folder)
    {
        match Controller::beside(|| hand_over::sample(folder, told_before, settings, face)) {
            Ok(controller) => started.hand_over = Some(controller),
            Err(why) => face.warn(format_args!("{why}; what cannot be sampled from inside is not sampled")),
        }
    }
    let ask_java = args.java != Some(Java::Off);
    let maps = started.folder.as_deref().and_then(|folder| maps::Watch::begin(folder, ask_java));
    if let Some(why) = started.no_controller.take().filter(|_| started.folder.is_some()) {
        face.warn(format_args!("{why}; the program runs unprofiled"));
    }
    let bound = started.folder.as_deref().map(|folder| Bound::new(folder, args.limit_run.unwrap_or(2 << 30)));
    let keep_bound = || {
        let _ = bound.as_ref().map(Bound::enforce);
    };
    let look = started.folder.clone().zip(preload);
    let mut elsewhere = look.map(|(folder, library)| Elsewhere::new(library, &folder));
    let mut looks = 0_u64;
    let aside = |started: &mut Started| {
        say_end_of(started.controller.as_mut().and_then(Controller::news), face);
        say_end_of_hand_over(started.hand_over.as_mut().and_then(Controller::news), face);
        elsewhere.iter_mut().for_each(|elsewhere| elsewhere.note_processes(started.pid.as_raw()));
        looks += 1;
        if looks.is_multiple_of(4) {
            keep_bound();
        }
    };
    let let_go = |started: &mut Started| {
        say_end_of(started.controller.as_mut().and_then(Controller::close), face);
        say_end_of_hand_over(started.hand_over.as_mut().and_then(Controller::end), face);
    };
    let ended = spawn::wait(&mut started, aside, let_go);
    let ended = ended.context("waiting for the program")?;
    let mut maps = maps.and_then(maps::Watch::end);
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    if let Some(folder) = started.folder.as_deref().filter(|_| library.is_some()) {
        let close = || {
            // what came since the last look
            keep_bound();
            if let Some(Err(why)) = maps.as_mut().map(|maps| maps.copy(folder)) {
                face.warn(format_args!("names of code made at run time are not kept: {why}"));
            }
            match maps.as_mut().map_or(Ok(&[][..]), |maps| maps.copy_objects(folder)) {
                Ok(remarks) => remarks.iter().for_each(|line| face.warn(line)),
                Err(why) => {
                    face.warn(format_args!("programs or libraries that were deleted are not kept: {why}"));
                }
            }
            for line in maps.iter().flat_map(maps::Watched::java_without_names) {
                face.hint(line);
            }
            if let Some(Err(why)) = spare.take().map(|spare| spare.collect(folder)) {
                face.warn(format_args!("{why}"));
            }
            // nothing stood in the way of a controller that did its work
            if started.controller.as_ref().is_some_and(Controller::did_its_work) {
                found.iter_mut().for_each(|found| found.obstacle = None);
            }
            let obstacle = found.as_ref().filter(|found| found.obstacle.is_some());
            let info = Info {
                command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
                pid: u32::try_from(started.pid.as_raw()).unwrap_or(0),
                started_realtime_ns,
                elapsed_ns,
                user_ns: ended.user_ns,
                system_ns: ended.system_ns,
                stolen_ns: stolen_ns().saturating_sub(stolen_before),
                status: ended.status.ok().map(i64::from),
                signal: ended.status.err().map(i64::from),
                obstacle: obstacle.map(ToString::to_string),
                attached: false,
                alloc: Some(args.alloc.is_some()),
                runs: 1,
            };
            let kind = ending::Kind {
                is_fixed: fixed && outside.is_none(),
                told,
                never_loaded: elsewhere.as_ref().is_some_and(Elsewhere::never_loaded),
            };
            if let Err(why) = ending::close(args, folder, found.as_ref(), &ended, info, kind, face) {
                face.warn(chain(&why));
            }
        };
        if let Err(why) = apart::run(close) {
            face.warn(format_args!(
                "the report of this run failed ({why}); what was recorded is in {}",
                folder.display()
            ));
        }
    }
    Ok(match ended.status {
        Ok(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(FAILED)),
        Err(signal) => ExitCode::from(spawn::die_by(signal)),
    })
}

/// One line about a controller that did not come to the end of its work.
fn say_end_of(controller: Option<End>, face: &Face) {
    match controller {
        None | Some(End::Done) => {}
        Some(End::Refused(why)) => face.warn(format_args!("{why}; the program runs unprofiled")),
        Some(End::Died(how)) => face.warn(format_args!(
            "the process that sampled from outside did not come to its end ({how}); what the program did from then on is not sampled"
        )),
    }
}

/// One line about the end of who takes over what cannot be sampled from inside, if it came too early.
fn say_end_of_hand_over(controller: Option<End>, face: &Face) {
    if let Some(End::Refused(why) | End::Died(why)) = controller {
        face.warn(format_args!(
            "the process that samples from outside what cannot be sampled from inside did not come to its end ({why})"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_are_tame() {
        assert_eq!(short_name(OsStr::new("./a b;c")), "a_b_c");
        assert_eq!(short_name(OsStr::new("/usr/bin/python3.11")), "python3.11");
    }
}
