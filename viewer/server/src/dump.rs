//! `mdprof_dump`: prints a data file as text, before any preprocessing; with `--derived` the derived figures.
//!
//! ```text
//! SECTION PROFILING STATS:
//!
//!         program_name = ./mandelbrot
//!         max_csd = 211
//!         ...
//! SECTION CALL SITE DYNAMICS:
//! csd1:
//!         csd_caller = pd-1
//! ```
//! Lines of a node begin with a tab. The callers of CSDs and the containers of CSSs are not in the file: -1.

use pct_text::complain;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use pct_deep::{
    Compensation, Coverage, CssKind, DeepData, Own, PdId, PointKind, PsId, Slot, open, read_file,
};

use pct_text::Visible;

use crate::derived;
use crate::program::Program;

const PROGRAM: Program = Program {
    name: "mdprof_dump",
    usage: "\
usage: mdprof_dump [options] [file]

Prints the contents of a deep profiling data file (default: Deep.data).

options:
  -D, --dump-options WHAT   print only these tables: csd, pd, css, ps; may be repeated; all: each
  -r, --restrict            leave out procedures and call sites that no context uses
      --derived             print all figures after preprocessing: one JSON object a line for each
                            procedure, call site, module and clique
      --compat-compensation with --derived: compensate recursion as the original viewer does
  -h, --help                print this
  -V, --version             print the version

example: mdprof_dump --derived Deep.data | jq 'select(.ps) | [.label, .own.callseqs]'",
};

/// Which tables and which nodes to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpOptions {
    /// Call site dynamics.
    pub csd: bool,
    /// Procedure dynamics.
    pub pd: bool,
    /// Call site statics.
    pub css: bool,
    /// Procedure statics.
    pub ps: bool,
    /// Only procedures that have contexts, and their call sites.
    pub restrict: bool,
}

impl DumpOptions {
    /// Everything.
    pub const ALL: Self = Self { csd: true, pd: true, css: true, ps: true, restrict: false };
    const NONE: Self = Self { csd: false, pd: false, css: false, ps: false, restrict: false };
}

/// The whole program: reads its arguments, prints, and returns the exit code.
pub fn main() -> ExitCode {
    PROGRAM.run(run)
}

fn run(mut parser: lexopt::Parser) -> Result<ExitCode, lexopt::Error> {
    use lexopt::prelude::*;
    let mut tables = DumpOptions::NONE;
    let (mut restrict, mut derived, mut rule) = (false, false, Compensation::Exact);
    let mut file = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(PROGRAM.help()),
            Short('V') | Long("version") => return Ok(PROGRAM.version()),
            Short('D') | Long("dump-options") => match parser.value()?.string()?.as_str() {
                "csd" => tables.csd = true,
                "pd" => tables.pd = true,
                "css" => tables.css = true,
                "ps" => tables.ps = true,
                "all" => tables = DumpOptions::ALL,
                other => return Err(format!("`{other}` is not one of csd, pd, css, ps, all").into()),
            },
            Short('r') | Long("restrict") => restrict = true,
            Long("derived") => derived = true,
            Long("compat-compensation") => rule = Compensation::Compat,
            Value(name) if file.is_none() => file = Some(PathBuf::from(name)),
            _ => return Err(arg.unexpected()),
        }
    }
    if tables == DumpOptions::NONE {
        tables = DumpOptions::ALL;
    }
    tables.restrict = restrict;
    let file = file.unwrap_or_else(|| "Deep.data".into());
    let out = &mut BufWriter::new(io::stdout().lock());
    let written = if derived {
        open(&file, rule).map(|profile| derived::print(&profile, out))
    } else {
        read_file(&file).map(|data| print(&data, tables, out))
    };
    Ok(match written {
        Ok(written) => PROGRAM.finish(written.and_then(|()| out.flush())),
        Err(mut error) => {
            // The name is printed once.
            error.file = None;
            complain!("mdprof_dump: Cannot read {}: {error}", file.display());
            ExitCode::FAILURE
        }
    })
}

/// Prints a profile's data.
///
/// # Errors
/// The writer's.
pub fn print(data: &DeepData, options: DumpOptions, out: &mut impl Write) -> io::Result<()> {
    stats(data, out)?;
    let mut used_ps = vec![!options.restrict; data.ps_count()];
    let mut used_css = vec![!options.restrict; data.css_count()];
    if options.restrict {
        for pd in data.pds() {
            let ps = data.pd_ps(pd);
            if !std::mem::replace(&mut used_ps[ps.number() as usize - 1], true) {
                for css in data.sites(ps) {
                    used_css[css.number() as usize - 1] = true;
                }
            }
        }
    }
    if options.csd {
        csds(data, out)?;
    }
    if options.pd {
        pds(data, out)?;
    }
    if options.css {
        csss(data, &used_css, out)?;
    }
    if options.ps {
        pss(data, &used_ps, out)?;
    }
    Ok(())
}

fn stats(data: &DeepData, out: &mut impl Write) -> io::Result<()> {
    let header = data.header();
    writeln!(out, "SECTION PROFILING STATS:\n")?;
    writeln!(out, "\tprogram_name = {}", Visible(&data.program()))?;
    writeln!(out, "\tmax_csd = {}", data.csd_count())?;
    writeln!(out, "\tmax_css = {}", data.css_count())?;
    writeln!(out, "\tmax_pd  = {}", data.pd_count())?;
    writeln!(out, "\tmax_ps  = {}", data.ps_count())?;
    writeln!(out, "\tticks_per_sec = {}", header.ticks_per_second)?;
    writeln!(out, "\tinstrument_quanta = {}", header.instrument_quanta)?;
    writeln!(out, "\tuser_quanta = {}", header.user_quanta)?;
    writeln!(out, "\tnum_callseqs = {}", header.callseqs)?;
    writeln!(out, "\tword_size   = {}", header.bytes_per_word)?;
    writeln!(out, "\tcanonical = {}", if header.canonical { "yes" } else { "no" })?;
    writeln!(out, "\tcompression = none")?;
    let coverage = match header.coverage {
        Coverage::None => "no_coverage_data",
        Coverage::Static => "static_coverage_data",
        Coverage::Dynamic => "dynamic_coverage_data",
    };
    writeln!(out, "\tcoverage_data_type = {coverage}\n")?;
    writeln!(out, "INITIAL ROOT:\n\tinitial root = {}\n", data.root())
}

fn csds(data: &DeepData, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "SECTION CALL SITE DYNAMICS:\n")?;
    for csd in data.csds() {
        writeln!(out, "csd{csd}:")?;
        writeln!(out, "\tcsd_caller = pd-1")?;
        writeln!(out, "\tcsd_callee = pd{}", data.csd_callee(csd))?;
        own(&data.csd_own(csd), out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn own(own: &Own, out: &mut impl Write) -> io::Result<()> {
    const NAMES: [&str; 8] = ["exits", "fails", "redos", "excps", "quanta", "callseqs", "allocs", "words"];
    if own.calls() != 0 {
        writeln!(out, "\tcalls = {}", own.calls())?;
    }
    for (name, value) in NAMES.into_iter().zip(own.as_array()) {
        if value != 0 {
            writeln!(out, "\t{name} = {value}")?;
        }
    }
    Ok(())
}

fn pds(data: &DeepData, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "SECTION PROC DYNAMICS:\n")?;
    for pd in data.pds() {
        let ps = data.pd_ps(pd);
        writeln!(out, "pd{pd}:")?;
        writeln!(out, "\tpd_proc_static = {ps} ({})", Visible(&data.qualified_name(ps)))?;
        for (k, slot) in data.slots(pd).enumerate() {
            match slot {
                Slot::Normal(csd) => {
                    let csd = csd.map_or("0".to_owned(), |c| c.to_string());
                    writeln!(out, "\tpd_site[{k}] = normal(csd{csd})")?;
                }
                Slot::Multi { .. } => writeln!(out, "\tpd_site[{k}] = multi")?,
            }
        }
        pd_points(data, pd, ps, out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn pd_points(data: &DeepData, pd: PdId, ps: PsId, out: &mut impl Write) -> io::Result<()> {
    let counts = data.pd_coverage(pd);
    if counts.len() > 0 {
        writeln!(out, "\tCoverage points:")?;
    }
    for (point, count) in data.points(ps).iter().zip(counts) {
        writeln!(out, "\t\t{}: {count}", point_name(data, point))?;
    }
    Ok(())
}

fn point_name(data: &DeepData, point: &pct_deep::CoveragePoint) -> String {
    let kind = match point.kind {
        PointKind::After => "after",
        PointKind::BranchArm => "branch arm",
    };
    format!("{kind} `{}`", data.path(point.path))
}

fn csss(data: &DeepData, used: &[bool], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "SECTION CALL SITE STATICS:\n")?;
    for id in data.csss().filter(|id| used[id.number() as usize - 1]) {
        let css = data.css(id);
        writeln!(out, "css{id}:")?;
        writeln!(out, "\tcss_container = ps-1")?;
        writeln!(out, "\tcss_slot_num = -1")?;
        writeln!(out, "\tcss_file_name = {}", Visible(&data.text(css.file)))?;
        writeln!(out, "\tcss_line_num = {}", css.line)?;
        writeln!(out, "\tcss_goal_path = {}", data.path(css.path))?;
        match css.kind {
            CssKind::Normal { callee, type_subst } => {
                writeln!(out, "\tcss_kind = normal_call({callee}, {:?})", data.text(type_subst))?;
            }
            CssKind::Special => writeln!(out, "\tcss_kind = special_call")?,
            CssKind::HigherOrder => writeln!(out, "\tcss_kind = higher_order_call")?,
            CssKind::Method => writeln!(out, "\tcss_kind = method_call")?,
            CssKind::Callback => writeln!(out, "\tcss_kind = callback")?,
        }
        writeln!(out)?;
    }
    Ok(())
}

fn pss(data: &DeepData, used: &[bool], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "SECTION PROC STATICS:\n")?;
    for id in data.pss().filter(|id| used[id.number() as usize - 1]) {
        let ps = data.ps(id);
        let (raw, refined) = (data.raw_name(id), data.qualified_name(id));
        writeln!(out, "ps{id}:")?;
        writeln!(out, "\tps_id = {}", Visible(&raw))?;
        writeln!(out, "\tps_decl_module = {}", Visible(&data.ps_module_name(id)))?;
        if refined != raw {
            writeln!(out, "\tps_refined_id = {}", Visible(&refined))?;
        }
        writeln!(out, "\tlocation = {}:{}", Visible(&data.text(ps.file)), ps.line)?;
        writeln!(out, "\tin_interface = {}", if ps.in_interface { "yes" } else { "no" })?;
        writeln!(out, "\tnot_zeroed")?;
        for (k, css) in data.sites(id).iter().enumerate() {
            writeln!(out, "\tps_site[{k}]: css{css}")?;
        }
        let points = data.points(id);
        if !points.is_empty() {
            writeln!(out, "\tCoverage points:")?;
        }
        let counts = data.ps_own_coverage(id);
        for (k, point) in points.iter().enumerate() {
            match counts.and_then(|c| c.get(k)) {
                Some(count) => writeln!(out, "\t\t{}: {count}", point_name(data, point))?,
                None => writeln!(out, "\t\t{}", point_name(data, point))?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_deep::synthetic::{Params, generate};

    fn text(options: DumpOptions) -> String {
        let data = generate(&Params { contexts: 50, procs: 30, ..Params::default() }).unwrap();
        let mut out = Vec::new();
        print(&data, options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn all_sections_come_in_order() {
        let text = text(DumpOptions::ALL);
        let sections: Vec<&str> = text
            .lines()
            .filter(|l| l.ends_with(':') && l.chars().next().is_some_and(char::is_uppercase))
            .collect();
        assert_eq!(
            sections,
            [
                "SECTION PROFILING STATS:",
                "INITIAL ROOT:",
                "SECTION CALL SITE DYNAMICS:",
                "SECTION PROC DYNAMICS:",
                "SECTION CALL SITE STATICS:",
                "SECTION PROC STATICS:"
            ]
        );
        for line in [
            "\tprogram_name = ./synthetic",
            "\tcanonical = yes",
            "\tcoverage_data_type = dynamic_coverage_data",
            "\tinitial root = 1",
            "csd1:",
            "\tcsd_caller = pd-1",
            "\tcsd_callee = pd2",
            "\tpd_proc_static = 1 (Mercury runtime.Mercury runtime/0-0)",
            "\tpd_site[0] = multi",
            "css1:",
            "\tcss_kind = callback",
            "ps1:",
        ] {
            assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
        }
    }

    #[test]
    fn no_name_of_a_file_steers_the_terminal() {
        let hostile = "evil\u{1b}[2J\u{202e}";
        let data = generate(&Params { contexts: 20, procs: 5, ..Params::default() }).unwrap();
        let mut octets = pct_deep::to_octets(&data, pct_deep::Version::V9).unwrap();
        // The name of the program comes first: its length, its octets.
        let at = octets.windows(11).position(|w| w == b"./synthetic").unwrap();
        octets[at - 1] = u8::try_from(hostile.len()).unwrap();
        octets.splice(at..at + 11, hostile.bytes());
        let mut out = Vec::new();
        print(&pct_deep::read(&octets).unwrap(), DumpOptions::ALL, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("program_name = evil\\u{1b}[2J\\u{202e}\n"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']));
    }

    #[test]
    fn restricting_leaves_out_what_no_context_uses() {
        let count =
            |text: &str, what: &str| text.lines().filter(|l| l.starts_with(what) && l.ends_with(':')).count();
        let all = text(DumpOptions::ALL);
        let some = text(DumpOptions { restrict: true, ..DumpOptions::ALL });
        assert_eq!(count(&all, "pd"), count(&some, "pd"));
        assert!(count(&all, "ps") > count(&some, "ps"));
        assert!(count(&all, "css") > count(&some, "css"));
    }

    #[test]
    fn only_the_tables_asked_for_are_printed() {
        let text = text(DumpOptions { pd: true, ..DumpOptions::NONE });
        assert!(text.contains("SECTION PROC DYNAMICS:"));
        assert!(
            !text.contains("SECTION PROC STATICS:") && !text.contains("css1:") && !text.contains("csd1:")
        );
    }
}
