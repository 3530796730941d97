//! `pct mcp`: the reports for agents, over the Model Context Protocol on stdin and stdout.
//!
//! One JSON-RPC 2.0 message a line, both ways (the protocol's stdio transport). Answers are the tables that
//! people read, bounded in lines and octets; what does not fit says so. Nothing is written, nothing is
//! started, no port is opened.
//!
//! A recording is loaded once and kept until another is asked for, so that one question after another is quick.

use crate::face::Face;
use crate::foreign::same_quantity;
use crate::look::{self, Look};
use anyhow::{Context as _, Result, anyhow, bail};
use pct_profile::diff::{Compare, Diff};
use pct_profile::flat::Order;
use pct_profile::fold::Whose;
use pct_profile::load;
use pct_profile::model::Cell;
use pct_profile::text::flat::Columns;
use pct_profile::text::tree::Prune;
use pct_profile::text::{Layout, account, diff, digest, flat, json_line, tree};
use pct_profile::{By, CallTree, Flat, Pattern, Profile, Split};
use serde_json::{Map, Value, json};
use std::io::{BufRead, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr as _;

/// What can be typed after `pct mcp`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct mcp                                   for an agent's client, in a folder with recordings
  {\"command\": \"pct\", \"args\": [\"mcp\"]}     in the client's list of servers

Tools: runs, overview, functions, tree, diff. Each answer is a bounded text.")]
pub struct Args {}

/// Octets of a message at most. Questions are short.
const LONGEST_MESSAGE: u64 = 1 << 20;
/// Octets of an answer at most.
const LONGEST_ANSWER: usize = 32 << 10;
/// Lines of an answer: if none are asked for, and at most.
const USUAL_LINES: usize = 40;
const MOST_LINES: usize = 400;
/// Columns of a table: long names are cut in the middle.
const WIDTH: usize = 140;
/// The revision of the protocol that is spoken. Clients of newer ones accept it.
const PROTOCOL: &str = "2025-03-26";

/// Serves until stdin ends.
///
/// # Errors
/// When stdin or stdout fail.
pub fn run(_: &Args, _: &Face) -> Result<ExitCode> {
    serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

fn serve(questions: &mut impl BufRead, answers: &mut impl Write) -> Result<()> {
    let mut desk = Desk::default();
    loop {
        let mut line = Vec::new();
        let read = questions.by_ref().take(LONGEST_MESSAGE).read_until(b'\n', &mut line).context("stdin")?;
        if read == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && read as u64 == LONGEST_MESSAGE {
            bail!("stdin: a message of more than {LONGEST_MESSAGE} octets");
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Some(answer) = desk.answer(&line) {
            answers
                .write_all(json_line(&answer).as_bytes())
                .and_then(|()| answers.flush())
                .context("stdout")?;
        }
    }
}

/// Why a question has no answer, with JSON-RPC's number for it.
struct Refusal(i32, String);

/// What is kept between questions.
#[derive(Default)]
struct Desk {
    loaded: Option<Loaded>,
}

/// The recording that was asked about last.
struct Loaded {
    path: PathBuf,
    window: Option<(u64, u64)>,
    profile: Profile,
}

impl Loaded {
    /// Whether it answers for this path and window. One that was still being written does not: there is more by now.
    fn is(&self, path: &std::path::Path, window: Option<(u64, u64)>) -> bool {
        self.path == path && self.window == window && self.profile.account.running == 0
    }
}

impl Desk {
    /// The answer to a message; `None` for notifications, which have none.
    fn answer(&mut self, line: &[u8]) -> Option<Value> {
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(why) => return Some(refused(&Value::Null, &Refusal(-32700, format!("not JSON: {why}")))),
        };
        let id = message.get("id")?;
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            return Some(refused(id, &Refusal(-32600, "a request needs a method".into())));
        };
        let empty = Map::new();
        let params = message.get("params").and_then(Value::as_object).unwrap_or(&empty);
        Some(match self.result(method, params) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(refusal) => refused(id, &refusal),
        })
    }

    fn result(&mut self, method: &str, params: &Map<String, Value>) -> Result<Value, Refusal> {
        match method {
            "initialize" => Ok(json!({
                "protocolVersion": PROTOCOL,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "pct", "version": env!("CARGO_PKG_VERSION")},
                "instructions": "Profiles recorded by `pct run` or by another profiler. Begin with `overview`.",
            })),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": TOOLS.iter().map(Tool::described).collect::<Vec<_>>()})),
            "tools/call" => self.call(params),
            _ => Err(Refusal(-32601, format!("no method {method:?}"))),
        }
    }

    fn call(&mut self, params: &Map<String, Value>) -> Result<Value, Refusal> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let tool = TOOLS
            .iter()
            .find(|tool| tool.name == name)
            .ok_or_else(|| Refusal(-32602, format!("no tool {name:?}")))?;
        let empty = Map::new();
        let given = params.get("arguments").and_then(Value::as_object).unwrap_or(&empty);
        if let Some(unknown) = given.keys().find(|key| !tool.takes.contains(&key.as_str())) {
            return Err(Refusal(-32602, format!("{name} takes {}, not {unknown:?}", tool.takes.join(", "))));
        }
        // What a tool could not do is an answer that the agent reads, not a fault of the protocol.
        let (text, failed) = match (tool.work)(self, &Given(given)) {
            Ok(text) => (bounded(text), false),
            Err(why) => (crate::face::in_words(&crate::errors::chain(&why)), true),
        };
        Ok(json!({"content": [{"type": "text", "text": text}], "isError": failed}))
    }

    /// The recording that is asked about, and which of its cells.
    fn profile(&mut self, given: &Given<'_>) -> Result<(&mut Profile, Vec<Cell>)> {
        let look = given.parse_look()?;
        let typed: Vec<PathBuf> = given.text("path")?.map(PathBuf::from).into_iter().collect();
        let path = look::paths(&typed)?.pop().context("no recording")?;
        let window = look.window();
        let kept = self.loaded.take().filter(|kept| kept.is(&path, window));
        let loaded = match kept {
            Some(kept) => kept,
            None => {
                let profile = look::load_any_quantity_quietly(std::slice::from_ref(&path), &look.options())?;
                Loaded { path, window, profile }
            }
        };
        let profile = &mut self.loaded.insert(loaded).profile;
        let cells = look.cells(profile);
        Ok((profile, cells))
    }
}

fn refused(id: &Value, Refusal(code, message): &Refusal) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// Cuts an answer at a line's end.
fn bounded(text: String) -> String {
    if text.len() <= LONGEST_ANSWER {
        return text;
    }
    let cut = text.floor_char_boundary(LONGEST_ANSWER);
    let cut = text[..cut].rfind('\n').unwrap_or(cut);
    format!("{}\n... {} octets more; ask for fewer rows\n", &text[..cut], text.len() - cut)
}

/// The arguments of a call.
struct Given<'a>(&'a Map<String, Value>);

impl Given<'_> {
    fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => bail!("{key}: expected text, found {other}"),
        }
    }
    fn needed(&self, key: &str) -> Result<&str> {
        self.text(key)?.ok_or_else(|| anyhow!("{key} is needed"))
    }
    fn lines(&self) -> Result<usize> {
        match self.0.get("lines") {
            None | Some(Value::Null) => Ok(USUAL_LINES),
            Some(value) => value
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .map(|n| n.clamp(1, MOST_LINES))
                .ok_or_else(|| anyhow!("lines: expected a whole number, found {value}")),
        }
    }
    fn parse_look(&self) -> Result<Look> {
        let pattern =
            |key| -> Result<Option<Pattern>> { Ok(self.text(key)?.map(Pattern::from_str).transpose()?) };
        let time = |key| -> Result<Option<u64>> {
            let parsed = self.text(key)?.map(look::time).transpose();
            parsed.map_err(|why| anyhow!("{key}: {why}"))
        };
        Ok(Look {
            focus: pattern("focus")?,
            thread: pattern("thread")?,
            from: time("from")?,
            to: time("to")?,
            ..Look::default()
        })
    }
}

/// A tool, declared once: its description and its work.
struct Tool {
    name: &'static str,
    about: &'static str,
    takes: &'static [&'static str],
    work: fn(&mut Desk, &Given<'_>) -> Result<String>,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "runs",
        about: "Recordings (folders pct-NAME-PID) in the current folder, newest first.",
        takes: &["lines"],
        work: runs,
    },
    Tool {
        name: "overview",
        about: "Where the time went: hottest functions, heaviest call paths, what was lost. Begin here.",
        takes: &["path", "lines", "focus", "thread", "from", "to"],
        work: overview,
    },
    Tool {
        name: "functions",
        about: "A flat table, hottest first, by owner (the program's own functions and what they called), function, line, \
                object or thread.",
        takes: &["path", "by", "lines", "focus", "thread", "from", "to"],
        work: functions,
    },
    Tool {
        name: "tree",
        about: "A call tree: the whole, or the callers or callees of one function.",
        takes: &["path", "callers", "callees", "lines", "focus", "thread", "from", "to"],
        work: calls,
    },
    Tool {
        name: "diff",
        about: "Two recordings compared, and which differences are more than chance (*** sure, - chance).",
        takes: &["before", "after", "lines"],
        work: compare,
    },
];

impl Tool {
    fn described(&self) -> Value {
        let properties: Map<String, Value> =
            self.takes.iter().map(|key| ((*key).to_owned(), argument(key))).collect();
        let required: Vec<&str> =
            self.takes.iter().copied().filter(|key| ["before", "after"].contains(key)).collect();
        json!({
            "name": self.name,
            "description": self.about,
            "inputSchema": {"type": "object", "properties": properties, "required": required},
        })
    }
}

/// What an argument is, as JSON Schema.
fn argument(key: &str) -> Value {
    let about = match key {
        "path" => "A recording: its folder or file. The newest run in the current folder if missing.",
        "before" => "The recording before: its folder or file.",
        "after" => "The recording after: its folder or file.",
        "by" => "What a row is: owner (usual), function, line, object, thread.",
        "lines" => "Lines of the answer, 40 if missing, at most 400.",
        "focus" => "Only samples with a function on the stack that matches this regular expression.",
        "thread" => "Only threads of this id, or whose name matches this regular expression.",
        "from" => "Only from this time after the start, such as 1.5 or 200ms.",
        "to" => "Only up to this time after the start.",
        "callers" => "A function: who calls it.",
        "callees" => "A function: what it calls.",
        _ => "",
    };
    let kind = if key == "lines" { "integer" } else { "string" };
    json!({"type": kind, "description": about})
}

fn layout() -> Layout {
    // An agent asks by the names that it has read, so they must be whole.
    Layout { width: Some(WIDTH), color: false, unicode: true, wide: true }
}

fn runs(_: &mut Desk, given: &Given<'_>) -> Result<String> {
    let all = load::runs(&std::env::current_dir().context("the current folder is gone")?)?;
    let most = given.lines()?;
    let mut text = String::new();
    for run in all.iter().take(most) {
        let name = run.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        text += &format!("{}\n", pct_profile::text::table::tame(&name));
    }
    match all.len().saturating_sub(most) {
        _ if all.is_empty() => text += "no pct-NAME-PID folder here; `pct run -- COMMAND` makes one\n",
        0 => {}
        more => text += &format!("... {more} more\n"),
    }
    Ok(text)
}

fn overview(desk: &mut Desk, given: &Given<'_>) -> Result<String> {
    let lines = given.lines()?;
    let (profile, cells) = desk.profile(given)?;
    Ok(digest::digest(profile, &cells, lines, &layout()))
}

fn functions(desk: &mut Desk, given: &Given<'_>) -> Result<String> {
    let (by, split) = match given.text("by")?.unwrap_or("owner") {
        "owner" => (None, Split::Merged),
        "function" => (Some(By::Function), Split::Merged),
        "line" => (Some(By::Line), Split::Merged),
        "object" => (Some(By::Object), Split::Merged),
        "thread" => (None, Split::Thread),
        other => bail!("by: expected owner, function, line, object or thread, found {other:?}"),
    };
    let rows = given.lines()?;
    let (profile, cells) = desk.profile(given)?;
    let table = match (by, split) {
        (None, Split::Merged) => Flat::count_owners(profile, &cells, Whose::Owner, split, Order::Own),
        _ => Flat::count_cells(profile, &cells, by, split, Order::Own),
    };
    let by_thread = split == Split::Thread;
    let wanted = Columns { rows, total: !by_thread, split_system: by_thread, samples: false };
    let mut text = flat::table(profile, &table, wanted, &layout());
    if let Some(why) = account::why_nothing(profile, &cells) {
        text += &format!("{why}\n");
    }
    Ok(text)
}

fn calls(desk: &mut Desk, given: &Given<'_>) -> Result<String> {
    let lines = given.lines()?;
    let callers = given.text("callers")?.map(Pattern::from_str).transpose()?;
    let callees = given.text("callees")?.map(Pattern::from_str).transpose()?;
    let (profile, cells) = desk.profile(given)?;
    let drawn = match (&callers, &callees) {
        (Some(_), Some(_)) => bail!("callers or callees, not both"),
        (Some(of), None) => {
            CallTree::callers(profile, &cells, look::functions_named(profile, of)?, By::Function)
        }
        (None, Some(of)) => {
            CallTree::callees(profile, &cells, look::functions_named(profile, of)?, By::Function)
        }
        (None, None) => CallTree::top_down(profile, &cells, By::Function, Split::Merged),
    };
    let whole = cells.iter().map(|cell| cell.weight.cpu_ns()).sum();
    let prune = Prune { lines, ..Prune::default() };
    Ok(tree::table(profile, &drawn, whole, &prune, &layout()))
}

fn compare(_: &mut Desk, given: &Given<'_>) -> Result<String> {
    let load = |path: &Path| -> Result<(Profile, Flat)> {
        let mut profile = look::load_any_quantity_quietly(&[path.to_owned()], &look::defaults())?;
        let cells = profile.cells.clone();
        let flat = Flat::count_owners(&mut profile, &cells, Whose::Owner, Split::Merged, Order::Own);
        Ok((profile, flat))
    };
    let before_path = Path::new(given.needed("before")?);
    let (before, after) = (load(before_path)?, load(Path::new(given.needed("after")?))?);
    same_quantity((before_path, &before.0), &after.0)?;
    let compared = Diff::compare((&before.0, &before.1), (&after.0, &after.1), Compare::Seconds);
    Ok(diff::table(&compared, given.lines()?, &layout()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(questions: &str) -> Vec<Value> {
        let mut answers = Vec::new();
        serve(&mut questions.as_bytes(), &mut answers).expect("served");
        let text = String::from_utf8(answers).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn a_client_is_greeted_and_told_the_tools() {
        let answers = ask(concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":"two","method":"tools/list"}"#,
            "\n",
        ));
        assert_eq!(answers.len(), 2, "{answers:?}");
        assert_eq!(answers[0]["result"]["serverInfo"]["name"], "pct");
        assert_eq!(answers[1]["id"], "two");
        let tools = answers[1]["result"]["tools"].as_array().expect("a list");
        assert_eq!(tools.len(), TOOLS.len());
        for property in
            tools.iter().flat_map(|t| t["inputSchema"]["properties"].as_object().unwrap().values())
        {
            assert_ne!(property["description"], "");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_number() {
        let code = |question: &str| ask(&format!("{question}\n"))[0]["error"]["code"].clone();
        assert_eq!(code("{"), -32700);
        assert_eq!(code(r#"{"id":1}"#), -32600);
        assert_eq!(code(r#"{"id":1,"method":"nonsense"}"#), -32601);
        assert_eq!(code(r#"{"id":1,"method":"tools/call","params":{"name":"rm"}}"#), -32602);
        let unknown = r#"{"id":1,"method":"tools/call","params":{"name":"runs","arguments":{"x":1}}}"#;
        assert_eq!(code(unknown), -32602);
    }

    #[test]
    fn what_a_tool_cannot_do_is_an_answer() {
        for arguments in [r#"{"path":"/nonexistent"}"#, r#"{"focus":"("}"#, r#"{"lines":"many"}"#] {
            let question = format!(
                r#"{{"id":1,"method":"tools/call","params":{{"name":"overview","arguments":{arguments}}}}}"#
            );
            let answers = ask(&format!("{question}\n"));
            assert_eq!(answers[0]["result"]["isError"], true, "{answers:?}");
        }
    }

    #[test]
    fn a_message_without_an_end_is_not_read_into_memory() {
        let endless = "x".repeat(LONGEST_MESSAGE as usize + 1);
        assert!(serve(&mut endless.as_bytes(), &mut Vec::new()).is_err());
    }

    #[test]
    fn long_answers_are_cut_at_a_line() {
        let text = bounded("a line of text\n".repeat(10_000));
        assert!(text.len() < LONGEST_ANSWER + 100);
        assert!(text.ends_with("octets more; ask for fewer rows\n"), "{}", &text[text.len() - 80..]);
    }
}
