//! `mdprof_cgi`: pages of a deep profile through a web server, with a server process that keeps the profile in memory.
//!
//! ```text
//! request -> client: parse, check the file, want pipe -> mutex -> to-server pipe alive?
//!              yes: send the request, release the mutex, wait for the name of the response file, print it
//!              no:  start a server that inherits the mutex: it loads, makes the pipe, releases; then as above
//! server:    read a request -> make the page on a thread of its own -> read the next one
//!            page done -> response file -> its name into the client's want pipe
//!            until idle too long or told to quit
//! ```
//!
//! Why it survives the death of any of these processes at any moment:
//! - the mutex is an advisory lock: the kernel releases it with the last process that holds it. The server holds it
//!   itself while it loads, so that the death of the client that started it causes no second load;
//! - a server is alive exactly while a process has its pipe open for reading. A waiting client watches the same pipe,
//!   and asks again when the last reader is gone;
//! - each client has its own pipe (its want file) for the answer. So answers cannot be mixed up, a server never waits
//!   for a client, and a want file without a reader is stale;
//! - a message is one line, no longer than what a pipe accepts in one piece.
//!
//! In reading order: `settings`, [`names`] (the private directory, names in it), [`mutex`], [`message`],
//! [`client`], [`serve`], `pages`.

pub mod client;
pub mod message;
pub mod mutex;
pub mod names;
mod pages;
mod print;
pub mod serve;
mod settings;
mod wait;

use crate::answer::{Form, Response};
use crate::program::Program;
pub use print::cgi_text;
pub use settings::{Settings, idle_of};

use client::Asked;
use pct_deep::Contexts;
use pct_reports::query::{Cmd, Prefs, Query, parse_cmd, print};
use pct_reports::render::html::{self, PageContext};
use print::printed;
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;

const PROGRAM: Program = Program {
    name: "mdprof_cgi",
    usage: "usage: mdprof_cgi [options] FILE.data   (prints one page and starts a server for the file)

As a CGI program it takes everything from the environment: QUERY_STRING is COMMAND&PREFERENCES&FILE or only FILE.

  -r, --root               begin with the root clique
  -m, --modules            begin with the modules
  -C, --clique N           begin with clique N
  -p, --proc N             begin with procedure N
  -c, --canonical-clique   one context for each procedure of a clique; see docs/merging.md
  -q, --quit               end the server of the file
  -t, --timeout MINUTES    the server ends when idle for so long (30; 0: never)
  -s, --server-process     start a server (the default); --no-server-process: only answer
      --no-detach-process  stay in the foreground as long as the server that this starts lives
  -d, --debug              keep the last request and answer in the directory of the pipes, and say where
      --decode, --decode-cmd, --decode-prefs   say how each line of standard input is understood
  -h, --help   -V, --version

environment: MDPROF_ROOTS    colon list of directories; files elsewhere are refused
             MDPROF_TIMEOUT  idle minutes of a new server (30; 0: never)
             MDPROF_COMPAT   1: compensate for recursion as the original viewer does
             MDPROF_CANONICAL 1: one context for each procedure of a clique, as -c
             MDPROF_WAIT     seconds that a request waits at most (50: Apache itself gives up after 60)
             MDPROF_QUERY    seconds that one page may take before its reader is told to come back (40)
             MDPROF_POST     0: quit, restart and timeout by GET do not ask first (crawlers follow links)
             MDPROF_TELLS    1: what is no profile is refused with the reason, which tells which files there are
             XDG_RUNTIME_DIR where the pipes are; without it /var/tmp/mdprof-UID

example: http://localhost/cgi-bin/mdprof_cgi?/home/me/run/Deep.data",
};

/// The whole program: as CGI if `QUERY_STRING` is set, otherwise by its arguments.
pub fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // A web server may pass parts of a query as arguments, but then QUERY_STRING is set too.
    if let Some(query) = std::env::var_os("QUERY_STRING") {
        return as_cgi(&query.to_string_lossy());
    }
    if args.next().is_some_and(|a| a == serve::FLAG) {
        return serve::main(args);
    }
    PROGRAM.run(command_line)
}

fn as_cgi(query: &str) -> ExitCode {
    let var = |name: &str| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
    let script = var("SCRIPT_NAME")
        .filter(|s| s.starts_with('/') && !s.starts_with("//"))
        .unwrap_or_else(|| "/cgi-bin/mdprof_cgi".into());
    let method = var("REQUEST_METHOD").unwrap_or_default();
    let head = method == "HEAD";
    let Some(form) = Form::of_path(&var("PATH_INFO").unwrap_or_default()) else {
        return finish(
            Err(Response::plain(404, "There is no such form of a page; /json and /text are.")),
            head,
        );
    };
    let settings = Settings::from_env();
    if settings.post
        && method != "POST"
        && let Ok(parsed) = Query::parse(query)
        && parsed.cmd.is_control()
    {
        return finish(Err(confirmation(&parsed, script, form)), head);
    }
    let asked = Asked { query: query.to_owned(), form, script };
    finish(client::answer(&asked, &settings, head).map_err(|r| r.in_form(form)), head)
}

/// The page that asks the reader to confirm a change of the server. The other forms have no button, so they refuse.
fn confirmation(query: &Query, script: String, form: Form) -> Response {
    if form != Form::Html {
        return Response::plain(405, "What changes the server has to be asked for by POST.").in_form(form);
    }
    let place = PageContext { script: Some(script), file: query.file.clone(), ..PageContext::default() };
    let what = match query.cmd {
        Cmd::Quit => "End the server of this file?",
        Cmd::Restart => "Read the file again?",
        _ => "Change how long the server of this file may be idle?",
    };
    Response::page(Form::Html, html::confirm(what, &query.cmd, &place))
}

/// Prints the result. If the web server has gone away meanwhile, that is not an error.
fn finish(result: Result<ExitCode, Response>, head: bool) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(response) => {
            let _ = printed(&response, head);
            if response.status == 200 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

fn command_line(mut parser: lexopt::Parser) -> Result<ExitCode, lexopt::Error> {
    use lexopt::prelude::*;
    // A user with a command line can see the files anyway.
    let mut settings = Settings { tells: true, ..Settings::from_env() };
    let (mut root, mut modules, mut quit, mut clique, mut proc) = (false, false, false, 0i64, 0i64);
    let mut files = Vec::new();
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(PROGRAM.help()),
            Short('V') | Long("version") => return Ok(PROGRAM.version()),
            Long("decode") => {
                return Ok(decode(|l| Query::parse(l).map_or_else(|e| e.to_string(), |q| format!("{q:?}"))));
            }
            Long("decode-cmd") => return Ok(decode(|l| format!("{:?}", parse_cmd(l)))),
            Long("decode-prefs") => {
                return Ok(decode(|l| {
                    l.parse::<Prefs>().map_or_else(|_| "no preferences".into(), |p| format!("{p:?}"))
                }));
            }
            Short('r') | Long("root") => root = true,
            Short('m') | Long("modules") => modules = true,
            Short('q') | Long("quit") => quit = true,
            Short('C') | Long("clique") => clique = parser.value()?.parse()?,
            Short('p') | Long("proc") => proc = parser.value()?.parse()?,
            Short('t') | Long("timeout") => {
                settings.idle = idle_of(&parser.value()?.to_string_lossy())
                    .ok_or("--timeout: minutes from 0 to a week are wanted")?;
            }
            Short('s') | Long("server-process" | "detach-process") => settings.server = true,
            Long("no-server-process") => settings.server = false,
            Long("no-detach-process") => settings.detach = false,
            Short('d') | Long("debug") => settings.debug = true,
            Short('c') | Long("canonical-clique") => settings.reading.contexts = Contexts::Canonical,
            // Links are relative and records bounded, so these options have no effect.
            Long(
                "localhost"
                | "no-localhost"
                | "record-startup"
                | "no-record-startup"
                | "record-loop"
                | "no-record-loop"
                | "write-query-string"
                | "no-write-query-string",
            ) => {}
            Value(file) => files.push(file),
            _ => return Err(arg.unexpected()),
        }
    }
    let [file] = &files[..] else { return Err("exactly one data file is wanted".into()) };
    let cmd = match () {
        () if root => "root/no".parse().unwrap_or(Cmd::Menu),
        () if modules => Cmd::ProgramModules,
        () if clique > 0 => format!("clique/{clique}").parse().unwrap_or(Cmd::Menu),
        () if proc > 0 => format!("proc/{proc}").parse().unwrap_or(Cmd::Menu),
        () if quit => Cmd::Quit,
        () => Cmd::Menu,
    };
    let asked = Asked {
        query: print(&cmd, 1, None, &file.to_string_lossy()),
        form: Form::Html,
        script: "/cgi-bin/mdprof_cgi".into(),
    };
    Ok(finish(client::answer(&asked, &settings, false), false))
}

fn decode(explain: impl Fn(&str) -> String) -> ExitCode {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return ExitCode::FAILURE };
        if let Err(e) = writeln!(io::stdout(), "{}", explain(&line)) {
            return PROGRAM.finish(Err(e));
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_its_status_first_and_its_length() {
        let text = String::from_utf8(cgi_text(&Response::plain(404, "no"))).expect("text");
        assert!(text.starts_with("Status: 404 Not Found\r\nContent-Type: text/plain"));
        assert!(text.contains("\r\nContent-Length: 3\r\n") && text.ends_with("\r\n\r\nno\n"));
    }
}
