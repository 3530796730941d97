//! Translators as co-processes: any program that reads addresses from stdin and answers each on stdout, in order.
//!
//! There is one process per object. Both pipes are non-blocking under one `poll`, so the two sides never block each
//! other, whatever the translator buffers: pct writes when the pipe accepts data and reads when there is some. The
//! translator may even hold back everything until its input ends. Three rules say where an answer ends ([`Answers`]):
//!
//! - `Fixed(n)`: each address gets `n` lines.
//! - `Sentinel`: some get more (`addr2line -i`). After each address pct sends a *sentinel*, an address that is in no
//!   section of the object. A separate run beforehand shows the translator's answer to it. An answer has at least one
//!   line and ends where the sentinel's answer comes.
//! - `Auto`: that separate run shows how many lines an unknown address gets; `addr2line` with `-i` gets sentinels.
//!
//! A translator that dies, hangs or miscounts is an error that says so. Its answers before that are kept, except if
//! it answered *too much*: then nothing shows which line belongs to which address, and wrong names are worse than none.
//!
//! SIGPIPE must be ignored, as it is in every Rust program that did not change it.

mod answers;
mod collect;
mod converse;
mod template;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;

use pct_num::{Layout, num2str_into};

use crate::image::BuildId;
use collect::{AnswerEnd, Collect};

pub use answers::{Answers, TranslatorError};
pub use collect::addr2line_frames;
pub use template::{Template, TemplateError};

/// A translator's answers: the lines for each address, None if there are none, and why it stopped early.
#[derive(Debug)]
pub struct Translation {
    /// Answers, in the order of the addresses.
    pub answers: Vec<Option<Vec<String>>>,
    /// The error, if there was one.
    pub error: Option<TranslatorError>,
}

impl Template {
    /// Translates addresses of one object. Each is sent on a line as `0x` and hexadecimal digits.
    pub fn translate(&self, object: &Path, build_id: Option<&BuildId>, addresses: &[u64]) -> Translation {
        let mut answers: Vec<Option<Vec<String>>> = Vec::new();
        answers.resize_with(addresses.len(), || None);
        if addresses.is_empty() {
            return Translation { answers, error: None };
        }
        let error = self.run(object, build_id, addresses, &mut answers).err();
        Translation { answers, error }
    }

    fn run(
        &self,
        object: &Path,
        build_id: Option<&BuildId>,
        addresses: &[u64],
        answers: &mut [Option<Vec<String>>],
    ) -> Result<(), TranslatorError> {
        let line = self.command_line(object, build_id)?;
        let sentinel = if addresses.contains(&0) { u64::MAX } else { 0 };
        let end = match self.answers {
            Answers::Fixed(n) => AnswerEnd::After(n.max(1)),
            Answers::Sentinel | Answers::Auto => {
                let unknown = self.unknown_answer(&line, sentinel)?;
                if self.answers == Answers::Auto && !self.unrolls_inlines() {
                    AnswerEnd::After(unknown.len())
                } else {
                    AnswerEnd::Sentinel(unknown)
                }
            }
        };
        let mut input = Vec::with_capacity(addresses.len() * 20);
        for address in addresses {
            push_address(*address, &mut input);
            if matches!(end, AnswerEnd::Sentinel(_)) {
                push_address(sentinel, &mut input);
            }
        }
        let mut collect = Collect { end, answers, next: 0, open: VecDeque::new(), lines: 0 };
        let outcome = self.converse(&line, &input, |text| collect.line(text))?;
        let (answered, asked) = (collect.next, addresses.len());
        if collect.surplus() {
            let lines = collect.lines;
            collect.answers.iter_mut().for_each(|a| *a = None);
            return Err(TranslatorError::TooMany { program: self.program(), lines, asked });
        }
        if answered == asked {
            return Ok(());
        }
        let (program, stderr) = (self.program(), outcome.stderr);
        Err(match outcome.ended {
            Some(status) => {
                TranslatorError::TooFew { program, status: status.to_string(), answered, asked, stderr }
            }
            None => {
                TranslatorError::Silent { program, seconds: self.patience.as_secs(), answered, asked, stderr }
            }
        })
    }

    /// The translator's answer to an address that is in no section.
    fn unknown_answer(&self, line: &[OsString], sentinel: u64) -> Result<Vec<String>, TranslatorError> {
        let mut input = Vec::new();
        push_address(sentinel, &mut input);
        let mut lines = Vec::new();
        let outcome = self.converse(line, &input, |text| {
            lines.push(text);
            lines.len() <= 1000
        })?;
        if lines.is_empty() || lines.len() > 1000 {
            let status = outcome.ended.map_or_else(|| "silent".to_string(), |s| s.to_string());
            let (program, stderr) = (self.program(), outcome.stderr);
            return Err(TranslatorError::TooFew { program, status, answered: 0, asked: 1, stderr });
        }
        Ok(lines)
    }
}

fn push_address(address: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0x");
    num2str_into::<16>(address, Layout::BARE, out);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, addresses: &[u64], answers: Answers) -> Translation {
        let template = Template::parse(&format!("sh -c '{script}'"))
            .expect("good")
            .with_answers(answers)
            .with_patience(pct_kit::wait::DEADLINE);
        template.translate(Path::new("/dev/null"), None, addresses)
    }

    fn answered(t: &Translation) -> usize {
        t.answers.iter().flatten().count()
    }

    #[test]
    fn answers_keep_the_order_of_the_addresses() {
        let t = shell("while read a; do echo got $a; done", &[1, 0x20, 3], Answers::Auto);
        assert!(t.error.is_none(), "{:?}", t.error);
        let lines: Vec<&str> = t.answers.iter().flatten().map(|a| a[0].as_str()).collect();
        assert_eq!(lines, ["got 0x1", "got 0x20", "got 0x3"]);
    }

    #[test]
    fn nobody_waits_for_ever_whatever_the_translator_buffers() {
        // More than any pipe holds, in both directions: for a translator that answers at once with long lines, and for
        // one that reads everything before its first answer.
        let many: Vec<u64> = (1..100_000).collect();
        for program in ["cat", "sed s/$/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/", "tac"] {
            let template = Template::parse(program).expect("good").with_answers(Answers::Fixed(1));
            let t = template.translate(Path::new("/dev/null"), None, &many);
            assert!(t.error.is_none(), "{program}: {:?}", t.error);
            assert_eq!(answered(&t), many.len());
        }
    }

    #[test]
    fn sentinels_part_answers_of_any_number_of_lines() {
        // An address n gets n lines, 0 gets one that says unknown; 4 is unknown too.
        let script = r#"while read a; do case $a in 0x0|0x4) echo "??"; echo "??:0";; *) i=$(($a)); while [ $i -gt 0 ]; do echo f$i; echo a.c:$i; i=$((i-1)); done;; esac; done"#;
        let t = shell(script, &[3, 1, 4, 2], Answers::Sentinel);
        assert!(t.error.is_none(), "{:?}", t.error);
        let counts: Vec<usize> = t.answers.iter().flatten().map(Vec::len).collect();
        assert_eq!(counts, [6, 2, 2, 4]);
        let first = t.answers[0].as_ref().expect("answered");
        let frames = addr2line_frames(first).expect("pairs");
        assert_eq!(frames[0], ("f3", Some("a.c"), 3));
        assert_eq!(addr2line_frames(t.answers[2].as_ref().expect("answered")), Some(vec![("??", None, 0)]));
    }

    #[test]
    fn one_that_dies_leaves_what_it_answered() {
        let t = shell(
            "read a; echo one; read a; echo two; echo broken >&2; exit 3",
            &[1, 2, 3, 4],
            Answers::Fixed(1),
        );
        assert_eq!(answered(&t), 2);
        let text = t.error.expect("it died").to_string();
        assert!(text.contains("after 2 of 4") && text.contains("broken") && text.contains('3'), "{text}");
    }

    #[test]
    fn one_that_answers_too_much_is_not_believed() {
        let t = shell("echo banner; while read a; do echo $a; done", &[1, 2], Answers::Fixed(1));
        assert_eq!(answered(&t), 0);
        assert!(matches!(t.error, Some(TranslatorError::TooMany { .. })), "{:?}", t.error);
    }

    #[test]
    fn one_that_is_not_there_is_said() {
        let template = Template::parse("/nonexistent/translator %o").expect("good");
        let t = template.translate(Path::new("/x"), None, &[1]);
        assert!(matches!(t.error, Some(TranslatorError::Start { .. })));
        assert_eq!(t.answers, [None]);
    }
}

#[cfg(test)]
mod live {
    use super::*;

    #[test]
    fn one_that_hangs_is_stopped() {
        let template = Template::parse("sh -c 'read a; echo one; exec sleep 1000'")
            .expect("good")
            .with_answers(Answers::Fixed(1))
            .with_patience(std::time::Duration::from_millis(500));
        let t = template.translate(Path::new("/dev/null"), None, &[1, 2]);
        assert_eq!(t.answers.iter().flatten().count(), 1);
        assert!(
            matches!(t.error, Some(TranslatorError::Silent { answered: 1, asked: 2, .. })),
            "{:?}",
            t.error
        );
    }
}
