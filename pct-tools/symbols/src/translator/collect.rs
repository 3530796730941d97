//! Puts lines together to answers.

use std::collections::VecDeque;

/// Where an answer ends.
pub(super) enum AnswerEnd {
    After(usize),
    Sentinel(Vec<String>),
}

/// Puts lines together to answers.
pub(super) struct Collect<'a> {
    pub(super) end: AnswerEnd,
    pub(super) answers: &'a mut [Option<Vec<String>>],
    /// The address whose answer is being collected.
    pub(super) next: usize,
    pub(super) open: VecDeque<String>,
    pub(super) lines: usize,
}

impl Collect<'_> {
    /// Adds a line. Returns false if there were too many.
    pub(super) fn line(&mut self, text: String) -> bool {
        self.lines += 1;
        self.open.push_back(text);
        if self.next == self.answers.len() {
            return false;
        }
        match &self.end {
            AnswerEnd::After(n) => {
                if self.open.len() == *n {
                    self.answers[self.next] = Some(self.open.drain(..).collect());
                    self.next += 1;
                }
            }
            AnswerEnd::Sentinel(end) => {
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

    /// Whether there are lines that belong to no address.
    pub(super) fn surplus(&self) -> bool {
        self.next == self.answers.len() && !self.open.is_empty()
    }
}

/// Parses an answer of the addr2line kind: pairs of function and `file:line`, innermost first. None for answers of
/// another form.
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
