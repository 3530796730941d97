//! The language of `--filter`.
//!
//! ```text
//! or    = and { "||" and }          and = not { "&&" not }         not = "!" not | "(" or ")" | test
//! test  = name [ op value ]         op  = == != < <= > >=  (= is ==)
//! value = number | word | "text"    a word or text with * or ? matches as a pattern
//! ```
//!
//! `name`, `cpu`, `channel`, `tracefile`, `trace`, `ns` and `loglevel` belong to the event itself. Any other name is a
//! field, first of the payload, then of contexts. If an event has a field with one of those names, write `field.x` or
//! `context.x`. A test on something that an event lacks is false. A name alone tests whether the event has it.

use std::collections::BTreeSet;
use std::fmt::Write;

use lttv_engine::call::Event;
use lttv_engine::source::{EventHead, Scope, Value};

use crate::args::Usage;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(Node);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Or(Vec<Node>),
    And(Vec<Node>),
    Not(Box<Node>),
    Has(Subject),
    Test(Subject, Op, Operand),
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    Name,
    Cpu,
    Channel,
    Tracefile,
    Trace,
    Ns,
    LogLevel,
    Field(String),
    Payload(String),
    Context(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Int(i128, String),
    Float(f64, String),
    /// A text in quotes.
    Text(String),
    /// A text without quotes.
    Word(String),
}

/// Deepest nesting of parentheses and negations.
const MOST_NESTED: usize = 200;

impl Filter {
    /// Parses an expression.
    ///
    /// # Errors
    /// Where the text becomes invalid, as a line that can be shown.
    pub fn parse(text: &str) -> Result<Filter, String> {
        let tokens = tokens(text)?;
        let mut p = Parser { text, tokens: &tokens, at: 0, depth: 0 };
        let node = p.or()?;
        match p.peek() {
            None => Ok(Filter(node)),
            Some(_) => Err(p.expected("&& or ||")),
        }
    }

    /// Whether it is true for an event.
    pub fn matches(&self, event: &Event<'_>) -> bool {
        self.0.matches(&|subject| subject.value(event))
    }

    /// Whether it is true for a row of a table. The row's columns are the only valid names.
    pub fn matches_row<'r>(&self, column: impl Fn(&str) -> Option<Value<'r>>) -> bool {
        self.0.matches(&|subject| column(&subject.to_string()))
    }

    /// Checks the names that it compares against the names of the events' fields.
    ///
    /// # Errors
    /// It compares a field that no event has, or one field with another.
    pub fn check(&self, fields: &BTreeSet<String>) -> Result<(), String> {
        self.0.check(fields)
    }

    /// The names in the filter, as typed.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.0.subjects(&mut |subject| names.push(subject.to_string()));
        names
    }
}

/// Checks that a filter uses only columns of a table.
///
/// # Errors
/// It uses another name.
pub fn known_columns(filter: Option<&Filter>, columns: &[&str]) -> anyhow::Result<()> {
    for name in filter.iter().flat_map(|filter| filter.names()) {
        anyhow::ensure!(
            columns.contains(&&*name),
            Usage(format!("filter: rows here have no `{name}`; they have {}", columns.join(", ")))
        );
    }
    Ok(())
}

impl Node {
    fn matches<'v>(&self, value: &impl Fn(&Subject) -> Option<Value<'v>>) -> bool {
        match self {
            Node::Or(nodes) => nodes.iter().any(|node| node.matches(value)),
            Node::And(nodes) => nodes.iter().all(|node| node.matches(value)),
            Node::Not(node) => !node.matches(value),
            Node::Has(subject) => value(subject).is_some(),
            Node::Test(subject, op, operand) => {
                value(subject).is_some_and(|found| compare(&found, *op, operand))
            }
        }
    }

    fn check(&self, fields: &BTreeSet<String>) -> Result<(), String> {
        let (subject, operand) = match self {
            Node::Or(nodes) | Node::And(nodes) => {
                return nodes.iter().try_for_each(|node| node.check(fields));
            }
            Node::Not(node) => return node.check(fields),
            Node::Has(_) => return Ok(()),
            Node::Test(subject, _, operand) => (subject, operand),
        };
        if let Subject::Field(name) | Subject::Payload(name) | Subject::Context(name) = subject
            && let Some(unknown) =
                name.split('.').find(|part| part.parse::<usize>().is_err() && !fields.contains(*part))
        {
            return Err(format!("filter: no event here has a field `{unknown}`{}", near(unknown, fields)));
        }
        match operand {
            Operand::Word(word) if fields.contains(word) => Err(format!(
                "filter: `{subject}` is compared with the word `{word}`, which is a field here; two fields cannot be \
                 compared (a text is written \"{word}\")"
            )),
            _ => Ok(()),
        }
    }

    fn subjects(&self, each: &mut impl FnMut(&Subject)) {
        match self {
            Node::Or(nodes) | Node::And(nodes) => nodes.iter().for_each(|node| node.subjects(each)),
            Node::Not(node) => node.subjects(each),
            Node::Has(subject) | Node::Test(subject, ..) => each(subject),
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Name => f.write_str("name"),
            Subject::Cpu => f.write_str("cpu"),
            Subject::Channel => f.write_str("channel"),
            Subject::Tracefile => f.write_str("tracefile"),
            Subject::Trace => f.write_str("trace"),
            Subject::Ns => f.write_str("ns"),
            Subject::LogLevel => f.write_str("loglevel"),
            Subject::Field(name) => f.write_str(name),
            Subject::Payload(name) => write!(f, "field.{name}"),
            Subject::Context(name) => write!(f, "context.{name}"),
        }
    }
}

impl Subject {
    fn parse(word: &str) -> Subject {
        match word {
            "name" => Subject::Name,
            "cpu" => Subject::Cpu,
            "channel" => Subject::Channel,
            "tracefile" => Subject::Tracefile,
            "trace" => Subject::Trace,
            "ns" => Subject::Ns,
            "loglevel" => Subject::LogLevel,
            w => match (w.strip_prefix("field."), w.strip_prefix("context.")) {
                (Some(f), _) => Subject::Payload(f.into()),
                (_, Some(f)) => Subject::Context(f.into()),
                _ => Subject::Field(w.into()),
            },
        }
    }

    fn value<'e>(&self, e: &Event<'e>) -> Option<Value<'e>> {
        match self {
            Subject::Name => Some(Value::Text(e.name().into())),
            Subject::Cpu => (e.head.cpu != EventHead::NO_CPU).then(|| Value::Unsigned(e.head.cpu.into())),
            Subject::Channel => Some(Value::Text((&*e.info().channel).into())),
            Subject::Tracefile => Some(Value::Text((&*e.info().name).into())),
            Subject::Trace => Some(Value::Unsigned(e.trace() as u64)),
            Subject::Ns => {
                Some(Value::Signed(e.head.ts.ns())).filter(|_| e.head.ts != lttv_engine::time::Time::UNTIMED)
            }
            Subject::LogLevel => e.info().classes.get(e.head.id.0 as usize)?.log_level.map(Value::Signed),
            Subject::Field(f) => e.field(f),
            Subject::Payload(f) => e.field_in(Scope::Payload, f),
            Subject::Context(f) => [Scope::EventContext, Scope::StreamContext, Scope::PacketContext]
                .iter()
                .find_map(|s| e.field_in(*s, f)),
        }
    }
}

/// Most letters that differ between a typed name and the one that was probably meant.
const MOST_CHANGES: usize = 2;

/// The names that are similar to one, as the end of a message. Empty if no name is similar.
fn near(name: &str, fields: &BTreeSet<String>) -> String {
    let distance = |field: &String| {
        let within = field.contains(name) || (field.len() > MOST_CHANGES && name.contains(field.as_str()));
        if within { 1 } else { strsim::damerau_levenshtein(name, field) }
    };
    let mut found: Vec<(usize, &str)> = fields
        .iter()
        .map(|field| (distance(field), field.as_str()))
        .filter(|(d, _)| *d <= MOST_CHANGES)
        .collect();
    found.sort_unstable();
    match &found[..] {
        [] => String::new(),
        near => {
            let names: Vec<String> = near.iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
            format!("; there is {}", names.join(", "))
        }
    }
}

fn ordered(o: std::cmp::Ordering, op: Op) -> bool {
    match op {
        Op::Eq => o.is_eq(),
        Op::Ne => o.is_ne(),
        Op::Lt => o.is_lt(),
        Op::Le => o.is_le(),
        Op::Gt => o.is_gt(),
        Op::Ge => o.is_ge(),
    }
}

fn integer(v: &Value<'_>) -> Option<i128> {
    match v {
        Value::Unsigned(n) => Some((*n).into()),
        Value::Signed(n) => Some((*n).into()),
        Value::Bool(b) => Some((*b).into()),
        Value::Enum { value, .. } => Some(*value),
        _ => None,
    }
}

fn compare(v: &Value<'_>, op: Op, operand: &Operand) -> bool {
    let as_text = |text: &str| {
        let Some(s) = v.as_str() else { return false };
        match op {
            Op::Eq => glob(text, s),
            Op::Ne => !glob(text, s),
            op => ordered(s.cmp(text), op),
        }
    };
    match operand {
        Operand::Int(n, text) => match (integer(v), v) {
            (Some(i), _) => ordered(i.cmp(n), op),
            #[expect(clippy::cast_precision_loss, reason = "compared with a float")]
            (None, Value::Float(f)) => f.partial_cmp(&(*n as f64)).map_or(op == Op::Ne, |o| ordered(o, op)),
            _ => as_text(text),
        },
        Operand::Float(n, text) => match v.as_f64() {
            Some(f) => f.partial_cmp(n).map_or(op == Op::Ne, |o| ordered(o, op)),
            None => as_text(text),
        },
        Operand::Text(text) | Operand::Word(text) => match v {
            Value::Bool(b) if text == "true" || text == "false" => ordered(b.cmp(&(text == "true")), op),
            _ => as_text(text),
        },
    }
}

/// Whether `text` matches a pattern in which `*` stands for any text and `?` for one character.
fn glob(pattern: &str, text: &str) -> bool {
    let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut i, mut j, mut star) = (0, 0, None);
    while j < t.len() {
        match p.get(i) {
            Some('*') => {
                star = Some((i, j));
                i += 1;
            }
            Some(c) if *c == '?' || *c == t[j] => {
                i += 1;
                j += 1;
            }
            // The last star matches one character more.
            _ => match &mut star {
                Some((at, from)) => {
                    *from += 1;
                    (i, j) = (*at + 1, *from);
                }
                None => return false,
            },
        }
    }
    p[i..].iter().all(|c| *c == '*')
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Sign(&'static str),
}

const SIGNS: [&str; 12] = ["||", "&&", "==", "!=", "<=", ">=", "<", ">", "=", "!", "(", ")"];

fn tokens(text: &str) -> Result<Vec<(Token, usize)>, String> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
        } else if let Some(s) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
            out.push((Token::Sign(s), at));
            at += s.len();
        } else if c == '"' || c == '\'' {
            let end = rest[1..].find(c).ok_or_else(|| place(text, at, "a text without its closing quote"))?;
            out.push((Token::Quoted(rest[1..=end].to_string()), at));
            at += end + 2;
        } else {
            let end =
                rest.find(|c: char| c.is_whitespace() || "|&=!<>()\"'".contains(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(place(text, at, "a name, a value or an operator was expected"));
            }
            out.push((Token::Word(rest[..end].to_string()), at));
            at += end;
        }
    }
    Ok(out)
}

fn place(text: &str, at: usize, what: &str) -> String {
    let mut s = format!("filter: {what}, at character {}", text[..at].chars().count() + 1);
    let _ = write!(s, ": `{}`", &text[at..]);
    s
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [(Token, usize)],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.0)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let yes = matches!(self.peek(), Some(Token::Sign(s)) if *s == sign);
        self.at += usize::from(yes);
        yes
    }

    fn expected(&self, what: &str) -> String {
        let at = self.tokens.get(self.at).map_or(self.text.len(), |t| t.1);
        place(self.text, at, &format!("expected {what}"))
    }

    fn or(&mut self) -> Result<Node, String> {
        let mut all = vec![self.and()?];
        while self.eat("||") {
            all.push(self.and()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::Or(all) })
    }

    fn and(&mut self) -> Result<Node, String> {
        let mut all = vec![self.not()?];
        while self.eat("&&") {
            all.push(self.not()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::And(all) })
    }

    fn not(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(self.expected("less nesting"));
        }
        let node = if self.eat("!") {
            Node::Not(Box::new(self.not()?))
        } else if self.eat("(") {
            let inner = self.or()?;
            if !self.eat(")") {
                return Err(self.expected("`)`"));
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self) -> Result<Node, String> {
        let Some(Token::Word(w)) = self.peek() else { return Err(self.expected("a name")) };
        let subject = Subject::parse(w);
        self.at += 1;
        let ops = [
            ("==", Op::Eq),
            ("=", Op::Eq),
            ("!=", Op::Ne),
            ("<=", Op::Le),
            (">=", Op::Ge),
            ("<", Op::Lt),
            (">", Op::Gt),
        ];
        let Some(op) = ops.iter().find_map(|(s, op)| self.eat(s).then_some(*op)) else {
            return Ok(Node::Has(subject));
        };
        let operand = match self.peek() {
            Some(Token::Word(w)) => value(w),
            Some(Token::Quoted(t)) => Operand::Text(t.clone()),
            _ => return Err(self.expected("a value")),
        };
        self.at += 1;
        Ok(Node::Test(subject, op, operand))
    }
}

fn value(w: &str) -> Operand {
    let hex = w.strip_prefix("0x").and_then(|h| i128::from_str_radix(h, 16).ok());
    match (hex.or_else(|| w.parse().ok()), w.parse::<f64>()) {
        (Some(n), _) => Operand::Int(n, w.into()),
        (None, Ok(f)) if w.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') => {
            Operand::Float(f, w.into())
        }
        _ => Operand::Word(w.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn and_binds_tighter_than_or_and_not_tightest() {
        let f = Filter::parse("a == 1 || !b && (c != x* || d)").unwrap();
        let Node::Or(or) = f.0 else { panic!() };
        let Node::And(and) = &or[1] else { panic!() };
        assert!(matches!(and[0], Node::Not(_)) && matches!(and[1], Node::Or(_)));
    }

    #[test]
    fn what_cannot_be_understood_is_shown_with_its_place() {
        for (text, at) in
            [("a ==", 5), ("== 1", 1), ("(a", 3), ("a b", 3), ("a == 'x", 6), ("", 1), ("a & b", 3)]
        {
            let e = Filter::parse(text).expect_err(text);
            assert!(e.contains(&format!("character {at}:")), "{text}: {e}");
        }
        assert!(Filter::parse(&"(".repeat(100_000)).is_err());
    }

    #[test]
    fn fields_that_no_event_has_are_refused_with_the_near_names() {
        let fields = ["prev_tid", "next_tid", "comm", "ctx"].map(String::from).into();
        let check = |text: &str| Filter::parse(text).unwrap().check(&fields);
        assert_eq!(check("name == x && (next_tid > 5 || !nothing) && ctx.comm == a"), Ok(()));
        let near = check("prev_tdi == 5").unwrap_err();
        assert!(near.contains("no event here has a field `prev_tdi`; there is `prev_tid`"), "{near}");
        let near = check("!(tid == 5)").unwrap_err();
        assert!(near.contains("there is `next_tid`, `prev_tid`"), "{near}");
        assert!(check("ctx.other == 1").unwrap_err().ends_with("field `other`"));
        assert!(check("prev_tid == next_tid").unwrap_err().contains("two fields cannot be compared"));
        assert_eq!(check("comm == \"next_tid\""), Ok(()));
    }

    #[test]
    fn values_compare_as_what_they_are() {
        let t = |v: Value<'_>, op, text| compare(&v, op, &value(text));
        assert!(t(Value::Unsigned(u64::MAX), Op::Eq, "18446744073709551615"));
        assert!(t(Value::Unsigned(16), Op::Eq, "0x10") && t(Value::Signed(-2), Op::Lt, "-1"));
        assert!(t(Value::Float(1.5), Op::Gt, "1") && t(Value::Unsigned(2), Op::Gt, "1.5"));
        assert!(
            t(Value::Text("sched_switch".into()), Op::Eq, "sched_*")
                && t(Value::Text("4711".into()), Op::Eq, "4711")
        );
        assert!(
            t(Value::Enum { value: 3, label: Some("RED") }, Op::Eq, "RED")
                && t(Value::Enum { value: 3, label: None }, Op::Eq, "3")
        );
        assert!(t(Value::Bool(true), Op::Eq, "true") && t(Value::Bool(true), Op::Eq, "1"));
        assert!(!t(Value::Text("x".into()), Op::Eq, "y") && t(Value::Text("x".into()), Op::Ne, "y"));
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer(text in ".{0,60}") {
            let _ = Filter::parse(&text);
        }

        #[test]
        fn patterns_match_as_a_naive_matcher_says(p in "[ab*?]{0,7}", t in "[ab]{0,8}") {
            fn naive(p: &[u8], t: &[u8]) -> bool {
                match p.split_first() {
                    None => t.is_empty(),
                    Some((b'*', rest)) => (0..=t.len()).any(|i| naive(rest, &t[i..])),
                    Some((c, rest)) => !t.is_empty() && (*c == b'?' || *c == t[0]) && naive(rest, &t[1..]),
                }
            }
            prop_assert_eq!(glob(&p, &t), naive(p.as_bytes(), t.as_bytes()));
        }
    }
}
