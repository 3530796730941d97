//! `pct annotate`: a function's source lines and instructions with their shares.
//!
//! Instructions come from `objdump -d` as a co-process, which stops where the next function begins.

use crate::face::Face;
use crate::look::{self, Look};
use anyhow::{Context as _, Result, bail};
use maud::{Markup, html};
use pct_formats::sheet;
use pct_icicle::heat_class;
use pct_num::percent;
use pct_profile::annotate::{Lines, instructions, lines};
use pct_profile::model::{Cell, FunctionId, Object, ObjectId, ObjectKind, Weight};
use pct_profile::text::numbers::{seconds, share};
use pct_profile::text::table::{Align, Column, Rank, Table, tame};
use pct_profile::{Pattern, Profile};
use pct_reports::sources::Sources;
use pct_symbols::{BuildId, CodeAddr, Image, ObjectInfo, Symbolizer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What can be typed after `pct annotate`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct annotate shade_pixel                  lines, then instructions, of the newest run
  pct annotate memcpy pct-render-4711 --asm
  pct annotate app/lex.py                   all functions of a Python module
  pct annotate shade_pixel --html shade.html")]
pub struct Args {
    /// The function: its exact name, or a regular expression; or a Python file.
    #[arg(value_name = "FUNCTION")]
    pub function: Pattern,
    /// Run folders and .pct files; the newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// Only source lines.
    #[arg(long, conflicts_with = "asm")]
    pub source: bool,
    /// Only instructions.
    #[arg(long)]
    pub asm: bool,
    /// Lines shown around those that cost something.
    #[arg(short = 'C', long, value_name = "N", default_value_t = CONTEXT, allow_negative_numbers = true, value_parser = crate::look::number)]
    pub context: usize,
    /// Write a page instead of text.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

/// A listing: a title and its lines.
pub(crate) struct Listing {
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
    /// Lines have a total beside their own weight.
    pub(crate) totals: bool,
}

/// One line; no weight: it cost nothing.
pub(crate) struct Row {
    pub(crate) own: Weight,
    pub(crate) total: Weight,
    /// Line number or address.
    pub(crate) place: String,
    pub(crate) text: String,
}

/// A function from near, for a page.
pub(crate) struct Near {
    /// Source files, then instructions.
    pub(crate) listings: Vec<Listing>,
    /// What is not there and why.
    pub(crate) remarks: Vec<String>,
    /// The function's own weight, and that with what it calls.
    pub(crate) sum: (Weight, Weight),
}

/// The functions of exactly this name. Files are shown only if `sources` may show them.
pub(crate) fn near(profile: &Profile, cells: &[Cell], function: &str, sources: &Sources) -> Near {
    let hit = |id: FunctionId| profile.functions[id].name == function;
    let read = |file: &str| {
        let path = sources
            .find(file)
            .ok_or_else(|| "it is not there, or lies in no folder with sources".to_owned())?;
        let opened = sources.open(&path).map_err(|why| why.to_string())?;
        read_lines(opened)
    };
    let found = lines(profile, cells, hit);
    let mut remarks = Vec::new();
    let mut listings = source_listings(profile, &found, CONTEXT, &read, &mut remarks);
    listings.extend(code_listings(profile, cells, hit, &mut remarks));
    Near { listings, remarks, sum: found.sum }
}

/// Lines shown around those that cost something, unless another number is asked for.
const CONTEXT: usize = 3;

/// Prints it.
///
/// # Errors
/// When no profile could be read, or no function matches.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = look::paths(&args.paths)?;
    let profile = look::load(&paths, &args.look.options(), face)?;
    let cells = args.look.cells(&profile);
    let wanted = Wanted::of(&profile, &args.function);
    let hit = |id: FunctionId| wanted.holds(&profile, id);
    let names = wanted.names(&profile)?;
    let whole: u64 = cells.iter().map(|cell| cell.weight.cpu_ns()).sum();
    let mut remarks = Vec::new();
    let mut listings = Vec::new();
    let found = lines(&profile, &cells, hit);
    if !args.asm {
        listings.extend(source_listings(&profile, &found, args.context, &read_source, &mut remarks));
    }
    if !args.source {
        listings.extend(code_listings(&profile, &cells, hit, &mut remarks));
    }
    let title = format!(
        "{names}: {} CPU s in it ({}), {} with what it calls ({})",
        seconds(found.sum.0.cpu_ns()),
        share(found.sum.0.cpu_ns(), whole),
        seconds(found.sum.1.cpu_ns()),
        share(found.sum.1.cpu_ns(), whole)
    );
    match &args.html {
        Some(file) => {
            std::fs::write(file, html(&title, &listings, whole))
                .with_context(|| format!("{}: cannot write the page", file.display()))?;
        }
        None => face.print(&text(&title, &listings, whole, face))?,
    }
    for remark in remarks {
        face.hint(format_args!("note: {remark}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Which functions a word means.
enum Wanted<'a> {
    /// Those of exactly this name.
    Exact(&'a str),
    /// Those whose names match.
    Matching(&'a Pattern),
    /// Those of these modules.
    Modules(Vec<ObjectId>),
}

impl<'a> Wanted<'a> {
    fn of(profile: &Profile, word: &'a Pattern) -> Self {
        let names = || profile.functions.iter().map(|function| function.name.as_str());
        if names().any(|name| name == word.as_str()) {
            return Self::Exact(word.as_str());
        }
        let path = Path::new(word.as_str());
        let is_module = |object: &Object| {
            matches!(object.kind, ObjectKind::Module(_)) && Path::new(&object.path).ends_with(path)
        };
        let modules: Vec<ObjectId> =
            profile.objects.enumerate().filter(|(_, object)| is_module(object)).map(|(id, _)| id).collect();
        if modules.is_empty() { Self::Matching(word) } else { Self::Modules(modules) }
    }

    fn holds(&self, profile: &Profile, id: FunctionId) -> bool {
        let function = &profile.functions[id];
        match self {
            Self::Exact(name) => function.name == *name,
            Self::Matching(pattern) => pattern.matches(&function.name),
            Self::Modules(modules) => modules.contains(&function.object),
        }
    }

    /// What is annotated, in words.
    ///
    /// # Errors
    /// When it is nothing, or too much.
    fn names(&self, profile: &Profile) -> Result<String> {
        if let Self::Modules(modules) = self {
            let paths: Vec<&str> = modules.iter().map(|id| profile.objects[*id].path.as_str()).collect();
            return Ok(paths.join(", "));
        }
        let names: Vec<&str> = profile
            .functions
            .ids()
            .filter(|&id| self.holds(profile, id))
            .map(|id| profile.functions[id].name.as_str())
            .collect();
        match (self, names.len()) {
            (Self::Matching(pattern), 0) => bail!("no function {:?} in this profile", pattern.as_str()),
            (Self::Matching(pattern), 21..) => {
                bail!("{} functions match {:?}; name one of them", names.len(), pattern.as_str())
            }
            _ => Ok(names.join(", ")),
        }
    }
}

fn source_listings(
    profile: &Profile,
    found: &Lines,
    context: usize,
    read: &dyn Fn(&str) -> Result<Vec<String>, String>,
    remarks: &mut Vec<String>,
) -> Vec<Listing> {
    let mut files: BTreeMap<_, BTreeMap<u32, (Weight, Weight)>> = BTreeMap::new();
    for (&(file, line), &weights) in &found.lines {
        files.entry(file).or_default().insert(line, weights);
    }
    if files.is_empty() {
        remarks.push("no line information (built without -g, and no debug file found)".into());
    }
    let mut listings = Vec::new();
    for (file, lines) in files {
        let path = &profile.files[file];
        let source = read(path);
        if let Err(why) = &source {
            remarks.push(format!("{path}: {why}; only line numbers are shown"));
        } else if is_newer(path, profile) {
            remarks.push(format!("{path} was changed after the program started; its lines may be others"));
        }
        let source = source.unwrap_or_default();
        let mut rows = Vec::new();
        let mut shown_to = 0;
        for &line in lines.keys() {
            let line = line as usize;
            let from = line.saturating_sub(context).max(shown_to + 1);
            if shown_to > 0 && from > shown_to + 1 {
                rows.push(Row {
                    own: Weight::ZERO,
                    total: Weight::ZERO,
                    place: "...".into(),
                    text: String::new(),
                });
            }
            let to = if source.is_empty() { line } else { (line + context).min(source.len().max(line)) };
            let from = if source.is_empty() { line } else { from };
            for at in from..=to {
                let (own, total) =
                    u32::try_from(at).ok().and_then(|at| lines.get(&at)).copied().unwrap_or_default();
                let text = at.checked_sub(1).and_then(|at| source.get(at)).cloned().unwrap_or_default();
                rows.push(Row { own, total, place: if at == 0 { "?".into() } else { at.to_string() }, text });
            }
            shown_to = to.max(shown_to);
        }
        listings.push(Listing { title: path.clone(), rows, totals: true });
    }
    listings
}

/// Whether a file was written to after the recording began. Of compiled code, the build-id says more; a module has none.
fn is_newer(path: &str, profile: &Profile) -> bool {
    let of_module = |object: &Object| object.path == path && matches!(object.kind, ObjectKind::Module(_));
    let written = std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let since = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    profile.start_realtime_ns != 0
        && since.is_some_and(|at| at.as_nanos() > u128::from(profile.start_realtime_ns))
        && profile.objects.iter().any(of_module)
}

/// Larger than any source file that somebody wrote.
const MOST_SOURCE: u64 = 32 << 20;

fn read_source(path: &str) -> Result<Vec<String>, String> {
    // A pipe would be waited for.
    if !std::fs::metadata(path).map_err(|why| why.to_string())?.is_file() {
        return Err("no source file".into());
    }
    read_lines(File::open(path).map_err(|why| why.to_string())?)
}

fn read_lines(file: File) -> Result<Vec<String>, String> {
    let meta = file.metadata().map_err(|why| why.to_string())?;
    if !meta.is_file() || meta.len() > MOST_SOURCE {
        return Err("no source file".into());
    }
    let mut bytes = Vec::new();
    file.take(MOST_SOURCE).read_to_end(&mut bytes).map_err(|why| why.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).lines().map(|line| tame(&line.replace('\t', "    "))).collect())
}

fn code_listings(
    profile: &Profile,
    cells: &[Cell],
    hit: impl Fn(FunctionId) -> bool,
    remarks: &mut Vec<String>,
) -> Vec<Listing> {
    let mut objects: BTreeMap<ObjectId, BTreeMap<u64, Weight>> = BTreeMap::new();
    for ((object, offset), weight) in instructions(profile, cells, hit) {
        objects.entry(object).or_default().insert(offset, weight);
    }
    let mut listings = Vec::new();
    for (object, offsets) in objects {
        let object = &profile.objects[object];
        let path = Path::new(&object.path);
        let build_id = object.build_id.as_deref().and_then(BuildId::parse);
        match code_of(path, build_id.as_ref(), &offsets) {
            Ok(found) => listings.extend(found),
            Err(why) => {
                remarks.push(format!("{}: no instructions: {}", path.display(), crate::errors::chain(&why)))
            }
        }
    }
    listings
}

/// The functions of an object that have samples at these file offsets.
///
/// # Errors
/// When the file cannot be read, or is not the one that was sampled: its code is another by now.
fn code_of(path: &Path, sampled: Option<&BuildId>, offsets: &BTreeMap<u64, Weight>) -> Result<Vec<Listing>> {
    let image = Image::open(path)?;
    if let Some(sampled) = sampled
        && image.build_id() != Some(sampled)
    {
        let found = image.build_id().map_or_else(|| "none".to_owned(), ToString::to_string);
        bail!("the file has changed since: its build-id is {found}, {sampled} was sampled");
    }
    let mut symbols = Symbolizer::default();
    let object = symbols.add(ObjectInfo::file(path));
    symbols.resolve(offsets.keys().map(|&offset| (object, CodeAddr::Pc(offset))));
    // Start of the function (as an image address) to its instructions.
    let mut functions: BTreeMap<u64, BTreeMap<u64, Weight>> = BTreeMap::new();
    for (&offset, &weight) in offsets {
        let Some(address) = image.address_of_offset(offset) else { continue };
        let into = symbols.offset_in_function(object, CodeAddr::Pc(offset)).unwrap_or(0);
        *functions.entry(address.saturating_sub(into)).or_default().entry(address).or_default() += weight;
    }
    functions.into_iter().map(|(start, weights)| disassemble(path, start, &weights)).collect()
}

/// Longest function that is listed, in lines.
const MOST_INSTRUCTIONS: usize = 20_000;

fn disassemble(path: &Path, start: u64, weights: &BTreeMap<u64, Weight>) -> Result<Listing> {
    let last = weights.keys().next_back().copied().unwrap_or(start);
    let mut child = Command::new("objdump")
        .args(["-d", "-C", "--no-show-raw-insn", "-w"])
        .arg(format!("--start-address=0x{start:x}"))
        .arg("--")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("objdump (package binutils) cannot be started")?;
    let mut listing = Listing { title: format!("{}:", path.display()), rows: Vec::new(), totals: false };
    let mut heads = 0;
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(|out| out.split(b'\n')) {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if line.ends_with(">:") {
            heads += 1;
            if heads > 1 {
                break;
            }
            let name = line.split_once(" <").map_or("", |(_, name)| name.trim_end_matches(">:"));
            listing.title = format!("{} in {}", tame(name), path.display());
            continue;
        }
        let Some((address, text)) = line.trim_start().split_once(':') else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        // Without symbols nothing says where the function ends: stop soon after the last sample.
        if listing.rows.len() >= MOST_INSTRUCTIONS || (heads == 0 && address > last + 64) {
            break;
        }
        let own = weights.get(&address).copied().unwrap_or_default();
        let text = tame(&text.trim().replace('\t', " "));
        listing.rows.push(Row { own, total: Weight::ZERO, place: format!("{address:x}"), text });
    }
    let _ = child.kill();
    let _ = child.wait();
    if listing.rows.is_empty() {
        bail!("objdump shows nothing at 0x{start:x}");
    }
    Ok(listing)
}

fn text(title: &str, listings: &[Listing], whole: u64, face: &Face) -> String {
    let mut text = format!("{}\n", tame(title));
    for listing in listings {
        text += &format!("\n{}\n", tame(&listing.title));
        let mut columns = vec![Column::number("self")];
        if listing.totals {
            columns.push(Column::number("total"));
        }
        columns.push(Column::number(if listing.totals { "line" } else { "address" }));
        columns.push(Column { head: "", align: Align::Left, cut_to: Some(20) });
        let mut table = Table::new(columns);
        for row in &listing.rows {
            let cell =
                |weight: Weight| if weight.is_zero() { String::new() } else { share(weight.cpu_ns(), whole) };
            let mut cells = vec![cell(row.own)];
            if listing.totals {
                cells.push(cell(row.total));
            }
            cells.push(row.place.clone());
            cells.push(row.text.clone());
            let rank = if row.own.is_zero() { Rank::Plain } else { Rank::of(row.own.cpu_ns(), whole) };
            table.row(rank, cells);
        }
        text += &table.render(&face.layout());
    }
    text
}

/// One self-contained page; heat in the cells' background.
fn html(title: &str, listings: &[Listing], whole: u64) -> String {
    let content = html! {
        @for listing in listings {
            @let most = listing.rows.iter().map(|row| row.own.cpu_ns()).max().unwrap_or(0);
            h2 { (listing.title) }
            table.data.boxed {
                thead {
                    tr {
                        th { "self" }
                        @if listing.totals { th { "total" } }
                        th { (if listing.totals { "line" } else { "address" }) }
                        th.l { "text" }
                    }
                }
                tbody {
                    @for row in &listing.rows {
                        tr {
                            (weight_cell(row.own, whole, most))
                            @if listing.totals { (weight_cell(row.total, whole, 0)) }
                            td { (row.place) }
                            td.l { code { (row.text) } }
                        }
                    }
                }
            }
        }
    };
    sheet::page(title, &[], &content, None)
}

/// A share of the whole, as hot as it is beside the most; nothing where nothing was spent.
fn weight_cell(weight: Weight, whole: u64, most: u64) -> Markup {
    let ns = weight.cpu_ns();
    html! {
        @if weight.is_zero() {
            td {}
        } @else {
            td class=(heat_class(percent(ns, most) / 100.0)) title={ (seconds(ns)) " s" } { (share(ns, whole)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_a_page_is_no_markup() {
        let own = Weight { samples: 1, user_ns: 250_000_000, system_ns: 0 };
        let row = |own, text: &str| Row { own, total: own, place: "7".into(), text: text.into() };
        let rows = vec![row(own, "if (a < b && c == 'x')"), row(Weight::ZERO, "\u{202e}\"")];
        let page = html("<T as U>", &[Listing { title: "a<b>.c".into(), rows, totals: true }], 1_000_000_000);
        assert!(
            page.contains("<h2>a&lt;b&gt;.c</h2>") && page.contains("if (a &lt; b &amp;&amp; c == "),
            "{page}"
        );
        assert!(page.contains("<td class=\"h9\" title=\"0.25 s\">25.0%</td>"), "{page}");
        assert!(!page.contains("<T as") && !page.contains('\u{202e}'), "{page}");
    }
}
