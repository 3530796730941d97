//! Lines put together to answers.

use std::collections::VecDeque;

/// Where an answer ends.
pub(super) enum End {
    After(usize),
    Sentinel(Vec<String>),
}

/// Puts lines together to answers.
pub(super) struct Collect<'a> {
    pub(super) end: End,
    pub(super) answers: &'a mut [Option<Vec<String>>],
    /// The address whose answer is being collected.
    pub(super) next: usize,
    pub(super) open: VecDeque<String>,
    pub(super) lines: usize,
}

impl Collect<'_> {
    /// Takes a line; false: too many have come.
    pub(super) fn line(&mut self, text: String) -> bool {
        self.lines += 1;
        self.open.push_back(text);
        if self.next == self.answers.len() {
            return false;
        }
        match &self.end {
            End::After(n) => {
                if self.open.len() == *n {
                    self.answers[self.next] = Some(self.open.drain(..).collect());
                    self.next += 1;
                }
            }
            End::Sentinel(end) => {
                let answer = self.open.len().saturating_sub(end.len());
                if answer > 0 && self.open.iter().skip(answer).eq(end.iter()) {
                    self.open.truncate(answer);
                    self.answers[self.next] = Some(self.open.drain(..).collect());
                    self.next += 1;
                }
            }
        }
        true
    }

    /// Whether lines came that belong to no address.
    pub(super) fn surplus(&self) -> bool {
        self.next == self.answers.len() && !self.open.is_empty()
    }
}

/// An answer of the addr2line kind, taken apart: pairs of function and `file:line`, innermost first. None for
/// answers of another shape.
pub fn addr2line_frames(lines: &[String]) -> Option<Vec<(&str, Option<&str>, u32)>> {
    if lines.is_empty() || !lines.len().is_multiple_of(2) {
        return None;
    }
    lines
        .chunks_exact(2)
        .map(|pair| {
            let place = pair[1].split(" (discriminator ").next().unwrap_or("");
            let (file, line) = place.rsplit_once(':')?;
            let line = if line == "?" { 0 } else { line.parse().ok()? };
            Some((pair[0].as_str(), (file != "??" && !file.is_empty()).then_some(file), line))
        })
        .collect()
}
