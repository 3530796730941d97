//! `pct annotate`: a function's source lines and instructions with their shares.
//!
//! Instructions come from `objdump -d` as a co-process, or from the copies that `pct archive --code` made.

mod code;
pub(crate) mod copies;

use crate::face::Face;
use crate::look::{self, Look};
use anyhow::{Context as _, Result, bail};
use code::CodeOf;
use copies::Copies;
use maud::{Markup, html};
use pct_formats::sheet;
use pct_icicle::heat_class;
use pct_num::percent;
use pct_profile::annotate::{Lines, instructions, lines};
use pct_profile::model::{Cell, FunctionId, Object, ObjectId, ObjectKind, Weight};
use pct_profile::text::numbers::{in_words, share};
use pct_profile::text::table::{Column, Rank, Table, tame};
use pct_profile::{Pattern, Profile};
use pct_reports::sources::Sources;
use pct_symbols::{BuildId, ObjectInfo};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    /// Write a page instead of text; - is stdout.
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

/// The functions of exactly this name. Files are shown only if `sources` may show them; what was copied beside
/// the recording goes before them.
pub(crate) fn near(
    profile: &Profile,
    cells: &[Cell],
    function: &str,
    sources: &Sources,
    copies: &Copies,
) -> Near {
    let hit = |id: FunctionId| profile.functions[id].name == function;
    let read = |file: &str| {
        if let Some(copy) = copies.source(file) {
            return read_lines(copy).map(Source::copied);
        }
        let path = sources
            .find(file)
            .ok_or_else(|| "it is not there, or lies in no folder with sources".to_owned())?;
        let opened = sources.open(&path).map_err(|why| why.to_string())?;
        read_lines(opened).map(Source::there)
    };
    let found = lines(profile, cells, hit);
    let mut remarks = copies.remarks.clone();
    let mut listings = source_listings(profile, &found, CONTEXT, &read, &mut remarks);
    listings.extend(code_listings(profile, cells, hit, copies, &mut remarks));
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
    let profile = look::load_any_quantity(&paths, &args.look.options(), face)?;
    let cells = args.look.cells(&profile);
    let wanted = Wanted::find_in(&profile, &args.function);
    let hit = |id: FunctionId| wanted.holds(&profile, id);
    let names = wanted.names(&profile)?;
    let whole: u64 = cells.iter().map(|cell| cell.weight.cpu_ns()).sum();
    let copies = Copies::beside(&paths);
    let mut remarks = copies.remarks.clone();
    let mut listings = Vec::new();
    let found = lines(&profile, &cells, hit);
    let read = |file: &str| match copies.source(file) {
        Some(copy) => read_lines(copy).map(Source::copied),
        None => read_source(file).map(Source::there),
    };
    if !args.asm {
        listings.extend(source_listings(&profile, &found, args.context, &read, &mut remarks));
    }
    if !args.source {
        listings.extend(code_listings(&profile, &cells, hit, &copies, &mut remarks));
    }
    let title = format!(
        "{names}: {} in it ({}), {} with what it calls ({})",
        profile.amount_in_words(found.sum.0.cpu_ns()),
        share(found.sum.0.cpu_ns(), whole),
        profile.amount(found.sum.1.cpu_ns()),
        share(found.sum.1.cpu_ns(), whole)
    );
    match &args.html {
        Some(file) if file.as_os_str() == "-" => face.print(&html(&title, &listings, whole, &profile))?,
        Some(file) => {
            std::fs::write(file, html(&title, &listings, whole, &profile))
                .with_context(|| format!("{}: cannot write the page", file.display()))?;
        }
        None => face.print(&text(&title, &listings, whole, face))?,
    }
    // The function that was meant may be one of those that have no name.
    if matches!(wanted, Wanted::Matching(_)) {
        remarks.extend(profile.account.without_names.iter().map(|line| in_words(line)));
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
    fn find_in(profile: &Profile, word: &'a Pattern) -> Self {
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
            (Self::Matching(pattern), 0) => Err(look::no_function(profile, pattern)),
            (Self::Matching(pattern), 21..) => {
                bail!("{} functions match {:?}; name one of them", names.len(), pattern.as_str())
            }
            _ => Ok(names.join(", ")),
        }
    }
}

/// A source file.
struct Source {
    lines: Vec<String>,
    /// It was copied beside the recording, so nobody has changed it since.
    is_copy: bool,
}

impl Source {
    fn there(lines: Vec<String>) -> Source {
        Source { lines, is_copy: false }
    }

    fn copied(lines: Vec<String>) -> Source {
        Source { lines, is_copy: true }
    }
}

fn source_listings(
    profile: &Profile,
    found: &Lines,
    context: usize,
    read: &dyn Fn(&str) -> Result<Source, String>,
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
        } else if source.as_ref().is_ok_and(|source| !source.is_copy) && is_newer(path, profile) {
            remarks.push(format!("{path} was changed after the program started; its lines may be others"));
        }
        let source = source.map(|source| source.lines).unwrap_or_default();
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

/// Whether a file was written to after the recording began. Of compiled code, the build-id says more; a
/// module has none.
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

fn open_source(path: &str) -> Result<File, String> {
    // A pipe would be waited for.
    let meta = std::fs::metadata(path).map_err(|why| why.to_string())?;
    if !meta.is_file() || meta.len() > MOST_SOURCE {
        return Err("no source file".into());
    }
    File::open(path).map_err(|why| why.to_string())
}

fn read_source(path: &str) -> Result<Vec<String>, String> {
    read_lines(open_source(path)?)
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
    copies: &Copies,
    remarks: &mut Vec<String>,
) -> Vec<Listing> {
    let mut listings = Vec::new();
    for (object, mut offsets) in by_object(profile, cells, hit) {
        let object = &profile.objects[object];
        for code in copies.code(&object.path, object.build_id.as_deref()) {
            let weights = weights_in(code, &mut offsets);
            if !weights.is_empty() {
                listings.push(listing(&object.path, code, &weights));
            }
        }
        if offsets.is_empty() {
            continue;
        }
        match code_of(object, copies, &offsets) {
            Ok(found) => {
                for code in found {
                    let weights = weights_in(&code, &mut offsets);
                    listings.push(listing(&object.path, &code, &weights));
                }
            }
            Err(why) => {
                remarks.push(format!("{}: no instructions: {}", object.path, crate::errors::chain(&why)))
            }
        }
    }
    listings
}

/// Weights of instructions by their object and their place in its file.
fn by_object(
    profile: &Profile,
    cells: &[Cell],
    hit: impl Fn(FunctionId) -> bool,
) -> BTreeMap<ObjectId, BTreeMap<u64, Weight>> {
    let mut objects: BTreeMap<ObjectId, BTreeMap<u64, Weight>> = BTreeMap::new();
    for ((object, offset), weight) in instructions(profile, cells, hit) {
        objects.entry(object).or_default().insert(offset, weight);
    }
    objects
}

/// The functions of an object that samples fell into, from its file.
///
/// # Errors
/// When the file cannot be read, or is not the one that was sampled.
fn code_of(object: &Object, copies: &Copies, offsets: &BTreeMap<u64, Weight>) -> Result<Vec<CodeOf>> {
    let build_id = object.build_id.as_deref().and_then(BuildId::parse);
    let also_try = copies.objects(Path::new(&object.path));
    let info = ObjectInfo { build_id, version: object.version, also_try, ..ObjectInfo::file(&object.path) };
    code::of_object(info, offsets.keys().copied())
}

/// Takes out of `offsets` what lies in the function: weights by address.
fn weights_in(code: &CodeOf, offsets: &mut BTreeMap<u64, Weight>) -> BTreeMap<u64, Weight> {
    let mut weights: BTreeMap<u64, Weight> = BTreeMap::new();
    offsets.retain(|&offset, &mut weight| match code.address_of(offset) {
        Some(address) => {
            *weights.entry(address).or_default() += weight;
            false
        }
        None => true,
    });
    weights
}

fn listing(path: &str, code: &CodeOf, weights: &BTreeMap<u64, Weight>) -> Listing {
    let title = match code.name.as_str() {
        "" => format!("{path}:"),
        name => format!("{} in {path}", tame(name)),
    };
    let row = |(address, text): &(u64, String)| Row {
        own: weights.get(address).copied().unwrap_or_default(),
        total: Weight::ZERO,
        place: format!("{address:x}"),
        text: tame(text),
    };
    Listing { title, rows: code.instructions.iter().map(row).collect(), totals: false }
}

/// Copies the machine code and the source files of everything that was sampled into a recording's folder. What
/// could not be copied is told by `remark`.
///
/// # Errors
/// When the recording cannot be read, or nothing can be written there.
pub(super) fn copy_beside(folder: &Path, face: &Face, remark: &mut dyn FnMut(String)) -> Result<()> {
    let profile = look::load(&[folder.to_owned()], &look::defaults(), face)?;
    let earlier = Copies::beside(&[folder.to_owned()]);
    let mut objects = Vec::new();
    for (object, mut offsets) in by_object(&profile, &profile.cells, |_| true) {
        let object = &profile.objects[object];
        // Code that was made at run time, the vdso and the kernel have no file.
        if object.kind != ObjectKind::File {
            continue;
        }
        // What was copied before stays: the file may be another one by now.
        let mut code = earlier.code(&object.path, object.build_id.as_deref()).to_vec();
        for function in &code {
            weights_in(function, &mut offsets);
        }
        if !offsets.is_empty() {
            match code_of(object, &earlier, &offsets) {
                Ok(more) => code.extend(more),
                Err(why) => {
                    remark(format!("{}: no instructions: {}", object.path, crate::errors::chain(&why)));
                }
            }
        }
        objects.push((object.path.clone(), object.build_id.clone(), code));
    }
    copies::write_code(folder, &objects)?;
    for name in profile.files.iter() {
        // Debug information names files of libraries that nobody has here: that is usual.
        let Ok(from) = open_source(name) else { continue };
        if is_newer(name, &profile) {
            remark(format!("{name} was changed after the program started; its lines may be others"));
        }
        if earlier.source(name).is_none() {
            copies::write_source(folder, name, from)?;
        }
    }
    Ok(())
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
        columns.push(Column::text("", 20));
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
            let rank =
                if row.own.is_zero() { Rank::Plain } else { Rank::from_share(row.own.cpu_ns(), whole) };
            table.row(rank, cells);
        }
        text += &table.render(&face.layout());
    }
    text
}

/// One self-contained page; heat in the cells' background.
fn html(title: &str, listings: &[Listing], whole: u64, profile: &Profile) -> String {
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
                            (weight_cell(row.own, whole, most, profile))
                            @if listing.totals { (weight_cell(row.total, whole, 0, profile)) }
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
fn weight_cell(weight: Weight, whole: u64, most: u64, profile: &Profile) -> Markup {
    let ns = weight.cpu_ns();
    html! {
        @if weight.is_zero() {
            td {}
        } @else {
            td class=(heat_class(percent(ns, most) / 100.0)) title=(profile.amount_in_words(ns)) { (share(ns, whole)) }
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
        let listings = [Listing { title: "a<b>.c".into(), rows, totals: true }];
        let page = html("<T as U>", &listings, 1_000_000_000, &Profile::default());
        assert!(
            page.contains("<h2>a&lt;b&gt;.c</h2>") && page.contains("if (a &lt; b &amp;&amp; c == "),
            "{page}"
        );
        assert!(page.contains("<td class=\"h9\" title=\"0.25 CPU s\">25.0%</td>"), "{page}");
        assert!(!page.contains("<T as") && !page.contains('\u{202e}'), "{page}");
    }
}
