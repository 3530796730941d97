//! Machine code as text: objdump lists the functions that samples fell into.
//!
//! Functions that lie near each other are listed by one objdump, which reads the symbols of the whole object first.

use anyhow::{Context as _, Result, bail};
use pct_symbols::{CodeAddr, ObjectInfo, Symbolizer, image_of};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A function's instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeOf {
    /// What objdump calls it; empty where the object has no symbols.
    pub(crate) name: String,
    /// Where it lies in the file.
    pub(crate) offset: u64,
    /// Addresses as the linker wrote them, and the text of each instruction.
    pub(crate) instructions: Vec<(u64, String)>,
}

impl CodeOf {
    /// The address of what lies at this place of the file, if that is in the function.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let (first, last) = (self.instructions.first()?.0, self.instructions.last()?.0);
        let address = offset.checked_sub(self.offset)?.checked_add(first)?;
        (address <= last).then_some(address)
    }
}

/// Longest function that is listed, in lines.
const MOST_INSTRUCTIONS: usize = 20_000;

/// Functions so near to each other are listed by one objdump: to list what lies between takes less than to start
/// another one.
const NEAR: u64 = 256 << 10;

/// Listed after the last sample where nothing says where the function ends.
const MARGIN: u64 = 64;

/// The functions of an object that have samples at these file offsets.
///
/// # Errors
/// When the file cannot be read, or is not the one that was sampled: its code is another by now.
pub(super) fn of_object(info: ObjectInfo, offsets: impl Iterator<Item = u64> + Clone) -> Result<Vec<CodeOf>> {
    let image = image_of(&info).map_err(anyhow::Error::msg)?;
    let path = image.path();
    let mut symbols = Symbolizer::default();
    let object = symbols.add(info);
    symbols.resolve(offsets.clone().map(|offset| (object, CodeAddr::Pc(offset))));
    // Start of the function to its place in the file and its last sample, as image addresses.
    let mut starts: BTreeMap<u64, Wanted> = BTreeMap::new();
    for offset in offsets {
        let Some(address) = image.address_of_offset(offset) else { continue };
        let into = symbols.offset_in_function(object, CodeAddr::Pc(offset)).unwrap_or(0);
        let new = Wanted { offset: offset.saturating_sub(into), last: address };
        let wanted = starts.entry(address.saturating_sub(into)).or_insert(new);
        wanted.last = wanted.last.max(address);
    }
    let mut found = Vec::new();
    while let Some((&first, _)) = starts.first_key_value() {
        let group = take_group(&mut starts);
        let before = found.len();
        disassemble(path, &group, &mut found)?;
        if found.len() == before {
            bail!("objdump shows nothing at 0x{first:x}");
        }
    }
    Ok(found)
}

/// A function that is to be listed.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// Of its start.
    offset: u64,
    /// Address of the last sample in it.
    last: u64,
}

/// Takes the first function and those that follow it near each other.
fn take_group(starts: &mut BTreeMap<u64, Wanted>) -> BTreeMap<u64, Wanted> {
    let mut end = starts.first_key_value().map_or(0, |(start, _)| *start);
    let mut after = None;
    for (&start, wanted) in starts.iter() {
        if start > end.saturating_add(NEAR) {
            after = Some(start);
            break;
        }
        end = end.max(wanted.last);
    }
    let rest = after.map(|after| starts.split_off(&after)).unwrap_or_default();
    std::mem::replace(starts, rest)
}

fn disassemble(path: &Path, group: &BTreeMap<u64, Wanted>, found: &mut Vec<CodeOf>) -> Result<()> {
    let Some((&first, _)) = group.first_key_value() else { return Ok(()) };
    let mut child = Command::new("objdump")
        .args(["-d", "-C", "--no-show-raw-insn", "-w"])
        .arg(format!("--start-address=0x{first:x}"))
        .arg("--")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("objdump (package binutils) cannot be started")?;
    let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(|out| out.split(b'\n'));
    let mut listing = Listing { group, found, open: None, symbol: None };
    let mut read = Ok(());
    for line in lines {
        let line = match line {
            Ok(line) => String::from_utf8_lossy(&line).into_owned(),
            Err(why) => {
                read = Err(why.into());
                break;
            }
        };
        if !listing.list_line(&line) {
            break;
        }
    }
    listing.close();
    let _ = child.kill();
    let _ = child.wait();
    read
}

/// What objdump prints, line by line.
struct Listing<'a> {
    group: &'a BTreeMap<u64, Wanted>,
    found: &'a mut Vec<CodeOf>,
    /// The function that is being listed, and where to stop where no symbol says it.
    open: Option<(CodeOf, Option<u64>)>,
    /// The symbol that the next instructions belong to.
    symbol: Option<String>,
}

impl Listing<'_> {
    /// Takes a line; false: everything was listed.
    fn list_line(&mut self, line: &str) -> bool {
        if line.ends_with(">:") {
            self.close();
            let name = line.split_once(" <").map_or("", |(_, name)| name.trim_end_matches(">:"));
            self.symbol = Some(name.to_owned());
            return true;
        }
        let Some((address, text)) = line.trim_start().split_once(':') else { return true };
        let Ok(address) = u64::from_str_radix(address, 16) else { return true };
        if let Some(wanted) = self.group.get(&address) {
            self.close();
            // A section's name stands where no symbol is near.
            let symbol = self.symbol.as_deref().filter(|name| !name.starts_with('.'));
            let until = if symbol.is_some() { None } else { Some(wanted.last.saturating_add(MARGIN)) };
            let name = symbol.unwrap_or_default().to_owned();
            self.open = Some((CodeOf { name, offset: wanted.offset, instructions: Vec::new() }, until));
        }
        if let Some((code, until)) = &mut self.open {
            if code.instructions.len() >= MOST_INSTRUCTIONS || until.is_some_and(|until| address > until) {
                self.close();
            } else {
                code.instructions.push((address, text.trim().replace('\t', " ")));
            }
        }
        self.open.is_some() || self.group.keys().next_back().is_some_and(|last| address < *last)
    }

    fn close(&mut self) {
        if let Some((code, _)) = self.open.take() {
            self.found.push(code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions that are listed of objdump's output, where samples lie at these starts and last addresses.
    fn listed(output: &str, wanted: &[(u64, u64)]) -> Vec<(String, Vec<u64>)> {
        let group = wanted.iter().map(|&(start, last)| (start, Wanted { offset: start, last })).collect();
        let mut found = Vec::new();
        let mut listing = Listing { group: &group, found: &mut found, open: None, symbol: None };
        for line in output.lines() {
            if !listing.list_line(line) {
                break;
            }
        }
        listing.close();
        found
            .into_iter()
            .map(|code| (code.name, code.instructions.iter().map(|(address, _)| *address).collect()))
            .collect()
    }

    const THREE: &str = "\nprog:     file format elf64\n\n0000000000000010 <one>:\n  10:\tnop\n  11:\tret\n\n\
                         0000000000000020 <two>:\n  20:\tret\n\n0000000000000030 <three>:\n  30:\tnop\n  31:\tret\n";

    #[test]
    fn functions_between_are_left_out_and_what_follows_the_last_is_not_read() {
        let all = listed(THREE, &[(0x10, 0x11), (0x30, 0x30)]);
        assert_eq!(all, [("one".to_owned(), vec![0x10, 0x11]), ("three".to_owned(), vec![0x30, 0x31])]);
        assert_eq!(listed(THREE, &[(0x20, 0x20)]), [("two".to_owned(), vec![0x20])]);
    }

    #[test]
    fn without_symbols_a_listing_ends_soon_after_the_last_sample() {
        let mut text = "0000000000001000 <.text>:\n".to_owned();
        (0x1000..0x1200).for_each(|at| text += &format!("  {at:x}:\tnop\n"));
        let found = listed(&text, &[(0x1010, 0x1020), (0x1100, 0x1100)]);
        let ends: Vec<_> = found.iter().map(|(name, at)| (name.as_str(), at[0], at[at.len() - 1])).collect();
        assert_eq!(ends, [("", 0x1010, 0x1060), ("", 0x1100, 0x1140)]);
    }

    #[test]
    fn far_functions_are_listed_apart() {
        let wanted = |start: u64| (start, Wanted { offset: 0, last: start + 10 });
        let mut starts: BTreeMap<u64, Wanted> = [0, 100, 100 + NEAR, 101 + 2 * NEAR + 10].map(wanted).into();
        let first = take_group(&mut starts);
        assert_eq!(first.keys().copied().collect::<Vec<_>>(), [0, 100, 100 + NEAR]);
        assert_eq!(starts.len(), 1);
        assert_eq!(take_group(&mut starts).len(), 1);
        assert!(starts.is_empty());
    }

    #[test]
    fn a_place_in_the_file_is_an_address_of_the_function_or_none() {
        let code = CodeOf {
            name: String::new(),
            offset: 0x100,
            instructions: vec![(0x4100, "nop".into()), (0x4104, "ret".into())],
        };
        assert_eq!(code.address_of(0x104), Some(0x4104));
        assert_eq!(
            (code.address_of(0xff), code.address_of(0x105), code.address_of(u64::MAX)),
            (None, None, None)
        );
    }
}
