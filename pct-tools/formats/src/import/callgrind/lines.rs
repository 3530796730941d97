//! The lines of a file, as sums by function and line.

use super::super::problem::Problem;
use rustc_hash::FxHashMap;

/// What tells a function from others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct FunctionKey<'t> {
    pub(super) object: &'t str,
    pub(super) file: &'t str,
    pub(super) name: &'t str,
}

/// A line of a function, which inlining may have taken from another file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Line<'t> {
    pub(super) function: usize,
    pub(super) file: &'t str,
    /// From 1; 0 = unknown.
    pub(super) line: u32,
}

/// A call of a function from a line of another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Call<'t> {
    pub(super) caller: usize,
    pub(super) file: &'t str,
    pub(super) line: u32,
    pub(super) callee: usize,
}

/// How often a call was made, and what it cost in all, by event.
#[derive(Clone, Default, Debug)]
pub(super) struct Made {
    pub(super) times: u64,
    pub(super) costs: Vec<i64>,
}

/// A whole file.
#[derive(Default)]
pub(super) struct File<'t> {
    pub(super) creator: &'t str,
    pub(super) command: Option<String>,
    /// Name and unit of the costs, as our own files have them.
    pub(super) sample_type: Option<(&'t str, &'t str)>,
    pub(super) events: Vec<&'t str>,
    pub(super) functions: Vec<FunctionKey<'t>>,
    /// What lines cost without calls, by event.
    pub(super) own: FxHashMap<Line<'t>, Vec<i64>>,
    pub(super) calls: FxHashMap<Call<'t>, Made>,
    /// What the file says is the sum, by event; empty if it does not.
    pub(super) totals: Vec<u64>,
}

impl<'t> File<'t> {
    /// Reads all lines.
    pub(super) fn parse(text: &'t str) -> Result<Self, Problem> {
        let mut parser = Parser::default();
        for (at, line) in text.lines().enumerate() {
            parser.line(line.trim_end()).map_err(|problem| Problem {
                place: format!("line {}", at + 1),
                problem: format!("{problem} (it seems to be callgrind's or cachegrind's file)"),
            })?;
        }
        if !parser.totals.is_empty() {
            parser.file.totals = parser.totals;
        }
        Ok(parser.file)
    }

    /// Whether `pct export` wrote it.
    pub(super) fn is_ours(&self) -> bool {
        self.creator.starts_with("pct ")
    }
}

/// Names by their numbers, of one kind: a name is written once, then `(12)` stands for it.
#[derive(Default)]
struct Names<'t>(FxHashMap<&'t str, &'t str>);

impl<'t> Names<'t> {
    fn name(&mut self, text: &'t str) -> Result<&'t str, String> {
        let number = text.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let is_number = |number: &str| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let Some((number, name)) = number.filter(|(number, _)| is_number(number)) else { return Ok(text) };
        let name = name.trim_start();
        if name.is_empty() {
            return self.0.get(number).copied().ok_or_else(|| format!("no name has the number {number}"));
        }
        self.0.insert(number, name);
        Ok(name)
    }
}

/// What the line that follows belongs to.
#[derive(Default)]
enum Next {
    #[default]
    Cost,
    /// The cost of a call that was made so often.
    Call(u64),
    /// The place that a jump starts from, without a cost.
    Jump,
}

#[derive(Default)]
struct Parser<'t> {
    file: File<'t>,
    functions: FxHashMap<FunctionKey<'t>, usize>,
    objects: Names<'t>,
    files: Names<'t>,
    names: Names<'t>,
    /// How many numbers say where a line is, and which of them is the line.
    positions: Option<(usize, usize)>,
    at: Vec<u64>,
    object: &'t str,
    /// The file of the function, and that of its lines that follow.
    function_file: &'t str,
    line_file: &'t str,
    function: Option<usize>,
    callee_object: Option<&'t str>,
    callee_file: Option<&'t str>,
    callee: Option<usize>,
    next: Next,
    /// `totals:` of parts, which count; `summary:` is taken where there are no such lines.
    totals: Vec<u64>,
}

impl<'t> Parser<'t> {
    fn line(&mut self, line: &'t str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
            return self.numbers(line);
        }
        let end = line.find(['=', ':']).ok_or_else(|| unknown(line))?;
        let (key, value) = (&line[..end], line[end + 1..].trim());
        if line.as_bytes()[end] == b'=' { self.named(key, value) } else { self.head(key, value) }
    }

    fn head(&mut self, key: &str, value: &'t str) -> Result<(), String> {
        match key {
            "creator" => self.file.creator = value,
            "cmd" => self.file.command = Some(value.to_owned()),
            "desc" => {
                let ours = value.strip_prefix("pct sample type: ").and_then(|rest| rest.rsplit_once(" in"));
                let ours = ours.map(|(name, unit)| (name, unit.trim()));
                self.file.sample_type = ours.or(self.file.sample_type);
            }
            "positions" => {
                let words: Vec<&str> = value.split_whitespace().collect();
                let line = words.iter().position(|word| *word == "line");
                self.positions = Some((words.len().max(1), line.unwrap_or(usize::MAX)));
            }
            "events" => {
                let events: Vec<&str> = value.split_whitespace().collect();
                if !self.file.events.is_empty() && self.file.events != events {
                    return Err("other events than in the part before".into());
                }
                self.file.events = events;
            }
            "totals" => sum(&mut self.totals, value)?,
            "summary" => sum(&mut self.file.totals, value)?,
            "version" | "pid" | "part" | "thread" | "event" | "trigger" | "timerange" | "flags" => {}
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    fn named(&mut self, key: &str, value: &'t str) -> Result<(), String> {
        match key {
            "ob" => self.object = self.objects.name(value)?,
            "fl" => {
                self.function_file = self.files.name(value)?;
                self.line_file = self.function_file;
            }
            "fi" | "fe" => self.line_file = self.files.name(value)?,
            // Where jumps lead, which cost nothing.
            "jfi" => drop(self.files.name(value)?),
            "jfn" => drop(self.names.name(value)?),
            "fn" => {
                let name = self.names.name(value)?;
                (self.callee_object, self.callee_file) = (None, None);
                let key = FunctionKey { object: self.object, file: self.function_file, name };
                self.function = Some(self.id(key));
            }
            "cob" => self.callee_object = Some(self.objects.name(value)?),
            "cfi" | "cfl" => self.callee_file = Some(self.files.name(value)?),
            "cfn" => {
                let name = self.names.name(value)?;
                let object = self.callee_object.take().unwrap_or(self.object);
                // Without a file of its own it is in that of the lines around the call, inlined ones too.
                let file = self.callee_file.take().unwrap_or(self.line_file);
                self.callee = Some(self.id(FunctionKey { object, file, name }));
            }
            "calls" => {
                let times = value.split_whitespace().next().and_then(|word| number(word).ok());
                self.next = Next::Call(times.ok_or_else(|| unknown(value))?);
            }
            "jump" | "jcnd" => self.next = Next::Jump,
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    fn id(&mut self, key: FunctionKey<'t>) -> usize {
        *self.functions.entry(key).or_insert_with(|| {
            self.file.functions.push(key);
            self.file.functions.len() - 1
        })
    }

    /// A line of numbers: where, then costs.
    fn numbers(&mut self, line: &'t str) -> Result<(), String> {
        let (places, line_at) = self.positions.unwrap_or((1, 0));
        self.at.resize(places, 0);
        let mut words = line.split_whitespace();
        for at in &mut self.at {
            let word = words.next().ok_or_else(|| format!("{places} numbers say where a line is"))?;
            *at = moved(*at, word)?;
        }
        let line = self.at.get(line_at).map_or(0, |line| u32::try_from(*line).unwrap_or(0));
        let next = std::mem::take(&mut self.next);
        if matches!(next, Next::Jump) {
            return Ok(());
        }
        let costs: Vec<i64> = words.map(cost).collect::<Result<_, _>>()?;
        if costs.len() > self.file.events.len() {
            return Err(format!("{} costs, but {} events", costs.len(), self.file.events.len()));
        }
        let function = self.function.ok_or("a cost before the first `fn=`")?;
        let file = self.line_file;
        match next {
            Next::Call(times) => {
                let callee = self.callee.take().ok_or("a call without `cfn=`")?;
                let call = Call { caller: function, file, line, callee };
                let made = self.file.calls.entry(call).or_default();
                made.times = made.times.saturating_add(times);
                add(&mut made.costs, &costs)
            }
            Next::Cost | Next::Jump => {
                add(self.file.own.entry(Line { function, file, line }).or_default(), &costs)
            }
        }
    }
}

fn unknown(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    format!("{start:?} is no line of that format")
}

/// A decimal number, or a hexadecimal one behind `0x`.
fn number(word: &str) -> Result<u64, String> {
    let read = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    read.map_err(|_| format!("{word:?} is no number"))
}

fn cost(word: &str) -> Result<i64, String> {
    let cost = word.parse().ok().filter(|_| !word.starts_with('+'));
    cost.ok_or_else(|| format!("{word:?} is no cost"))
}

/// A place that may be given as the distance from the one before.
fn moved(from: u64, word: &str) -> Result<u64, String> {
    let outside = || format!("{word:?} leads below 0 or beyond 64 bits");
    if word == "*" {
        return Ok(from);
    }
    if let Some(distance) = word.strip_prefix('+') {
        return from.checked_add(number(distance)?).ok_or_else(outside);
    }
    if let Some(distance) = word.strip_prefix('-') {
        return from.checked_sub(number(distance)?).ok_or_else(outside);
    }
    number(word)
}

fn add(sums: &mut Vec<i64>, costs: &[i64]) -> Result<(), String> {
    sums.resize(sums.len().max(costs.len()), 0);
    for (sum, cost) in sums.iter_mut().zip(costs) {
        *sum = sum.checked_add(*cost).ok_or("the costs add up to more than 64 bits hold")?;
    }
    Ok(())
}

fn sum(sums: &mut Vec<u64>, words: &str) -> Result<(), String> {
    for (at, word) in words.split_whitespace().enumerate() {
        let Ok(value) = word.parse::<u64>() else { return Ok(()) };
        sums.resize(sums.len().max(at + 1), 0);
        sums[at] = sums[at].saturating_add(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places_are_written_short() {
        let text = "events: Ir\nfl=(1) a.c\nfn=(1) main\n10 5\n+2 7\ncfn=(2) (below main)\ncalls=3 0\n* 90\nfn=(2)\n-2 1\n";
        let file = File::parse(text).ok().expect("a file");
        assert_eq!(file.functions.iter().map(|f| f.name).collect::<Vec<_>>(), ["main", "(below main)"]);
        let own = |function, line| file.own[&Line { function, file: "a.c", line }].clone();
        assert_eq!((own(0, 10), own(0, 12), own(1, 10)), (vec![5], vec![7], vec![1]));
        let (call, made) = file.calls.iter().next().expect("a call");
        assert_eq!((call.caller, call.line, call.callee, made.times, made.costs[0]), (0, 12, 1, 3, 90));
    }

    #[test]
    fn lines_that_do_not_fit_are_refused_by_their_number() {
        for (text, word) in [
            ("events: Ir\nfn=a\n1 2 3\n", "line 3"),
            ("events: Ir\n1 2\n", "before the first"),
            ("events: Ir\nfn=(3)\n", "no name has the number 3"),
            ("events: Ir\nfn=a\ncalls=1 0\n1 2\n", "without `cfn=`"),
            ("events: Ir\nfn=a\n-1 2\n", "below 0"),
            ("events: Ir\nfn=a\n1 x\n", "no cost"),
            ("events: Ir\nfn=a\n1 +5\n", "no cost"),
            ("events: Ir\nfn=a\n1 *\n", "no cost"),
            ("events: Ir\nfn=a\nhello\n", "no line of that format"),
            ("events: Ir\nevents: Dr\n", "other events"),
        ] {
            let problem = File::parse(text).err().expect(text);
            assert!(
                format!("{}: {}", problem.place, problem.problem).contains(word),
                "{text}: {}",
                problem.problem
            );
        }
    }
}
