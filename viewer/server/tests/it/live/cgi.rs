//! `mdprof_cgi` as a web server runs it: its processes die, its files are stale, its directory is hostile.
//! `MDPROF_KILLS=500` kills more often.

use crate::support::{self, House, is_page, signal, write_profile};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use pct_kit::Dice;
use pct_kit::wait::wait_until;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

fn is_fifo(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_fifo())
}

fn wait_for_no_server(house: &House) {
    wait_until("the end of the server", || house.any_server().is_none());
}

fn wait_for_no_file(house: &House) {
    wait_until("an empty folder", || house.names().is_empty());
}

#[test]
fn fifty_first_requests_load_the_profile_once() {
    let house = House::with(3000);
    let clients: Vec<_> = (1..=50).map(|i| (i, house.start(&format!("proc/{}", i % 20 + 1)))).collect();
    for (i, client) in clients {
        let page = support::text(client.wait_with_output().expect("ends"));
        assert!(is_page(&page), "{i}: {page}");
    }
    assert_eq!(house.loads(), 1, "{}", house.record());
}

#[test]
fn whoever_is_killed_the_next_request_is_answered() {
    let kills: u64 = pct_kit::asked("MDPROF_KILLS", 40);
    let house = House::new();
    let mut dice = Dice::new(42);
    let (mut clients_killed, mut servers_killed) = (0, 0);
    for i in 0..kills {
        let mut some: Vec<_> = (0..=dice.below(3)).map(|_| house.start("proc/3")).collect();
        // A random point of its life.
        std::thread::sleep(Duration::from_micros(dice.below(30_000)));
        if dice.below(2) == 0 {
            clients_killed += 1;
            some[0].kill().expect("killed");
        } else if let Some(pid) = house.any_server() {
            servers_killed += 1;
            signal(pid, ["KILL", "TERM", "SEGV"][dice.index(3)]);
        }
        let page = house.ask("proc/4");
        assert!(is_page(&page), "round {i}: {page}\n{}", house.record());
        for (n, client) in some.into_iter().enumerate() {
            let page = support::text(client.wait_with_output().expect("ends"));
            // Clients that were not killed have their page too.
            assert!(n == 0 || is_page(&page), "round {i}, client {n}: {page}");
        }
    }
    eprintln!("{clients_killed} clients and {servers_killed} servers killed");
    house.page("quit");
    wait_for_no_server(&house);
    assert_eq!(house.names(), Vec::<String>::new());
}

#[test]
fn quit_leaves_nothing_and_loads_nothing() {
    let house = House::new();
    house.page("quit");
    assert_eq!(house.names(), Vec::<String>::new());
    house.page("menu");
    assert!(is_fifo(&house.file("mdprof_server_to").expect("is there")));
    house.page("quit");
    wait_for_no_file(&house);
}

#[test]
fn a_server_that_is_told_to_end_leaves_nothing() {
    for name in ["TERM", "INT", "HUP"] {
        let house = House::new();
        house.page("menu");
        signal(house.server().expect("serves"), name);
        wait_for_no_server(&house);
        assert_eq!(house.names(), Vec::<String>::new(), "{name}");
        house.page("menu");
    }
}

#[test]
fn an_idle_server_ends_and_leaves_nothing() {
    let house = House::new().set("MDPROF_TIMEOUT", "0.002");
    house.page("menu");
    wait_for_no_file(&house);
    // A limit set by a request applies to a server that the request starts.
    house.page("timeout/0");
    let pid = house.server().expect("serves");
    house.page("menu");
    assert_eq!(house.server(), Some(pid));
}

#[test]
fn stale_files_are_removed_and_do_not_matter() {
    let house = House::new();
    house.page("menu");
    let pid = house.server().expect("serves");
    signal(pid, "KILL");
    wait_for_no_server(&house);
    let pipe = house.file("mdprof_server_to").expect("stays");
    let response =
        house.dir().join(pipe.file_name().unwrap().to_str().unwrap().replace("server_to", "response") + "77");
    std::fs::write(&response, "old").expect("written");
    // No process has this number, because it is above Linux's maximum.
    let want = house.dir().join("mdprof_want99999999.ab");
    assert!(Command::new("mkfifo").arg(&want).status().is_ok_and(|s| s.success()));
    house.page("menu");
    assert!(!response.exists() && !want.exists(), "{:?}", house.names());
}

#[test]
fn a_file_that_is_no_pipe_is_refused_and_kept() {
    let house = House::new();
    house.page("menu");
    let pipe = house.file("mdprof_server_to").expect("is there");
    house.page("quit");
    wait_for_no_file(&house);
    std::fs::write(&pipe, "mine").expect("written");
    let page = house.ask("menu");
    assert!(page.starts_with("Status: 503") && page.contains("is not a pipe of this user"), "{page}");
    assert_eq!(std::fs::read_to_string(&pipe).expect("stays"), "mine");
}

#[test]
fn links_and_open_directories_are_refused() {
    let house = House::new();
    house.page("quit");
    let victim = house.root.path().join("victim");
    std::fs::write(&victim, "precious").expect("written");
    // Puts a link in place of each file that a request opens.
    house.page("menu");
    let names = house.names();
    house.page("quit");
    wait_for_no_file(&house);
    for name in &names {
        let path = house.dir().join(name);
        symlink(&victim, &path).expect("linked");
        let _ = house.ask("menu");
        let _ = house.ask("quit");
        wait_for_no_server(&house);
        let _ = std::fs::remove_file(&path);
        assert_eq!(std::fs::read_to_string(&victim).expect("stays"), "precious", "{name}");
    }
    std::fs::set_permissions(house.dir(), std::fs::Permissions::from_mode(0o777)).expect("set");
    assert!(house.ask("menu").starts_with("Status: 503"));
    std::fs::remove_dir_all(house.dir()).expect("removed");
    let elsewhere = house.root.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("made");
    std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o700)).expect("set");
    symlink(&elsewhere, house.dir()).expect("linked");
    assert!(house.ask("menu").starts_with("Status: 503"));
    assert_eq!(support::names_in(&elsewhere), Vec::<String>::new());
}

#[test]
fn only_profiles_under_the_roots_are_shown() {
    let house = House::new();
    let inside = house.root.path().join("inside");
    std::fs::create_dir(&inside).expect("made");
    symlink(house.data(), inside.join("Link.data")).expect("linked");
    let house = house.set("MDPROF_ROOTS", inside.to_str().expect("text"));
    for file in
        [house.data(), inside.join("Link.data"), inside.join("../Deep.data"), "/nowhere/x.data".into()]
    {
        let page = support::text(house.start_raw(&file.to_string_lossy()).wait_with_output().expect("ends"));
        assert!(page.starts_with("Status: 403"), "{page}");
    }
    write_profile(&inside.join("In.data"), 3, 100);
    let page = support::text(
        house.start_raw(&inside.join("In.data").to_string_lossy()).wait_with_output().expect("ends"),
    );
    assert!(is_page(&page), "{page}");
    let pipe = house.file("mdprof_server_to").expect("serves");
    let _ = house.start_raw(&format!("quit&&{}", inside.join("In.data").display())).wait_with_output();
    wait_until("the end of the pipe", || !pipe.exists());
}

#[test]
fn what_is_no_profile_is_a_short_text_and_starts_nothing() {
    let house = House::new();
    let other = house.root.path().join("other.data");
    std::fs::write(&other, "something else").expect("written");
    let broken = house.root.path().join("broken.data");
    let whole = std::fs::read(house.data()).expect("read");
    std::fs::write(&broken, &whole[..whole.len() / 2]).expect("written");
    let fifo = house.root.path().join("fifo.data");
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|s| s.success()));
    let long = format!("search/{}&&{}", "x".repeat(5000), house.data().display());
    for (query, status) in [
        ("", "400"),
        ("a&b&c&d", "400"),
        ("menu&&/etc/passwd", "400"),
        ("/nowhere/x.data", "404"),
        ("/dev/zero\0.data", "404"),
        (other.to_str().expect("text"), "404"),
        (fifo.to_str().expect("text"), "404"),
        (broken.to_str().expect("text"), "503"),
        (&long, "414"),
    ] {
        if query.contains('\0') {
            continue;
        }
        let output = house.start_raw(query).wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(1));
        let page = support::text(output);
        assert!(page.starts_with(&format!("Status: {status}")), "{query}: {page}");
    }
    house.page("menu");
    // Whether a file exists, what it is and whether it can be read: the answer is the same.
    let refusals: Vec<String> = ["/nowhere/x.data", other.to_str().unwrap(), fifo.to_str().unwrap()]
        .map(|file| {
            let page = support::text(house.start_raw(file).wait_with_output().expect("ends"));
            let body = page.split_once("\r\n\r\n").expect("a page").1.replace(file, "FILE");
            (body, page.lines().next().map(str::to_owned))
        })
        .map(|(body, status)| format!("{status:?} {body}"))
        .to_vec();
    assert!(refusals.iter().all(|r| *r == refusals[0]), "{refusals:?}");
    let house = house.set("MDPROF_TELLS", "1");
    let page = support::text(house.start_raw(other.to_str().unwrap()).wait_with_output().expect("ends"));
    assert!(page.contains("its first line is another one"), "{page}");
    // An error has the form of the requested page.
    let house = house.set("PATH_INFO", "/json");
    let page = support::text(house.start_raw("/nowhere/x.data").wait_with_output().expect("ends"));
    assert!(page.contains("application/json") && page.contains("{\"error\":"), "{page}");
}

#[test]
fn a_changed_file_is_noticed_and_restart_reads_it() {
    let house = House::new();
    house.page("menu");
    write_profile(&house.data(), 2, 900);
    assert!(house.page("menu").contains("has changed since it was read"));
    assert!(!house.page("restart").contains("has changed since it was read"));
    // A file that can no longer be read ends the server with its message. The next request gets it too.
    let whole = std::fs::read(house.data()).expect("read");
    std::fs::write(house.data(), &whole[..whole.len() - 40]).expect("written");
    assert!(house.ask("restart").contains("Deep.data"));
    wait_for_no_server(&house);
    assert!(house.ask("menu").starts_with("Status: 503"));
    std::fs::write(house.data(), &whole).expect("written");
    house.page("restart");
}

#[test]
fn a_server_that_does_not_answer_is_waited_for_no_longer_than_set() {
    let house = House::new();
    house.page("menu");
    let pid = house.server().expect("serves");
    signal(pid, "STOP");
    let house = house.set("MDPROF_WAIT", "1");
    let page = house.ask("menu");
    assert!(page.starts_with("Status: 503") && page.contains("in time"), "{page}");
    signal(pid, "CONT");
    house.set("MDPROF_WAIT", "60").page("menu");
}

#[test]
fn a_lock_that_is_not_released_is_waited_for_no_longer_than_set() {
    let house = House::new();
    house.page("menu");
    let house = house.set("MDPROF_WAIT", "1");
    let held = std::fs::File::open(house.file("mdprof_mutex").expect("is there")).expect("opens");
    held.lock().expect("locked");
    let page = house.ask("menu");
    assert!(page.starts_with("Status: 503") && page.contains("Try again"), "{page}");
    // The kernel releases the lock, so the next request goes on, whoever held it.
    drop(held);
    let house = house.set("MDPROF_WAIT", "60");
    house.page("menu");
    assert_eq!(house.loads(), 1);
}

#[test]
fn the_death_of_the_first_client_causes_no_second_load() {
    let house = House::with(20_000);
    let mut first = house.start("menu");
    wait_until("a server", || house.any_server().is_some());
    first.kill().expect("killed");
    let _ = first.wait();
    house.page("menu");
    assert_eq!(house.loads(), 1, "{}", house.record());
}

#[test]
fn a_server_killed_while_it_loads_is_replaced() {
    let house = House::with(20_000);
    let first = house.start("proc/2");
    wait_until("a server", || house.any_server().is_some());
    signal(house.any_server().expect("lives"), "KILL");
    let page = support::text(first.wait_with_output().expect("ends"));
    assert!(is_page(&page), "{page}");
}

#[test]
fn junk_in_the_pipe_is_ignored() {
    let house = House::new();
    house.page("menu");
    let pid = house.server();
    let pipe = house.file("mdprof_server_to").expect("is there");
    for junk in [&b"\n\n{}\n[1]\n"[..], &[0xff; 3000], b"{\"want\":\"../../x\"}\n", &[b'x'; 20_000]] {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().write(true).open(&pipe).expect("opens");
        file.write_all(junk).expect("takes it");
        file.write_all(b"\n").expect("takes it");
        house.page("menu");
    }
    assert_eq!(house.server(), pid);
}

#[test]
fn a_full_disk_is_a_clear_error_and_passes() {
    let house = House::new();
    let run = house.root.path().join("run");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k,mode=700", "none"])
        .arg(&run)
        .output()
        .is_ok_and(|o| o.status.success());
    if !mounted {
        pct_kit::skip("a small file system cannot be mounted here");
        return;
    }
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        house.page("menu");
        let pid = house.server();
        let filler = house.dir().join("filler");
        let _ = std::fs::write(&filler, vec![0u8; 1 << 20]);
        let page = house.ask("menu");
        assert!(page.starts_with("Status: 503") && page.contains("cannot be written"), "{page}");
        std::fs::remove_file(&filler).expect("removed");
        house.page("menu");
        assert_eq!(house.server(), pid, "the server survived");
        // A server that starts on a full disk gives an error or a page, nothing else, and works afterwards.
        house.page("quit");
        wait_for_no_server(&house);
        let _ = std::fs::write(&filler, vec![0u8; 1 << 20]);
        assert!(house.ask("menu").starts_with("Status: "));
        std::fs::remove_file(&filler).expect("removed");
        house.page("menu");
        house.page("quit");
        wait_for_no_server(&house);
    }));
    let _ = Command::new("umount").arg("-l").arg(&run).status();
    if let Err(e) = outcome {
        std::panic::resume_unwind(e);
    }
}

#[test]
fn forms_and_wrapper_and_command_line_give_the_same_pages() {
    let house = House::new();
    let house = house.set("PATH_INFO", "/json");
    let page = house.page("proc/3");
    assert!(page.contains("application/json") && page.contains("\"query\":\"proc/3\""), "{page}");
    let run = |program: &str, args: &[&str], query: Option<&str>| {
        let mut command = Command::new(program);
        command.env_clear().env("XDG_RUNTIME_DIR", house.root.path().join("run")).args(args);
        if let Some(q) = query {
            command.env("QUERY_STRING", q);
        }
        support::text(command.output().expect("runs"))
    };
    let data = house.data();
    let data = data.to_str().expect("text");
    let wrapped = run(env!("CARGO_BIN_EXE_mdprof"), &["--quit"], Some(data));
    assert!(is_page(&wrapped) && wrapped.contains("text/html"), "{wrapped}");
    assert!(is_page(&run(support::PROGRAM, &["--no-server-process", "-p", "3", data], None)));
    assert!(is_page(&run(support::PROGRAM, &["-q", data], None)));
    wait_for_no_server(&house);
}

#[test]
fn a_page_that_takes_long_keeps_nobody_waiting() {
    // A page of 2000 rows is not made within a microsecond, nor before the server reads the clock.
    let house = House::with(2000).set("MDPROF_QUERY", "0.000001");
    let query = "top_procs/1-2000/time/self/oa";
    let answers: Vec<String> = (0..8).map(|_| house.ask(query)).collect();
    assert!(answers.iter().any(|a| a.contains("takes long")), "{answers:?}");
    for answer in &answers {
        let known = answer.contains("takes long") || answer.contains("busy") || is_page(answer);
        assert!(known, "{answer}");
    }
    assert_eq!(house.loads(), 1, "{}", house.record());
    assert!(house.server().is_some());
    // The message that it takes long has the requested form.
    let house = house.set("PATH_INFO", "/json");
    let answers: Vec<String> = (0..8).map(|_| house.ask(query)).collect();
    for answer in &answers {
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok(), "{answer}");
    }
    assert!(answers.iter().any(|a| a.contains("{\"error\":\"This page takes long.")), "{answers:?}");
}

/// Starts a request whose page is made by a thread that does not run, because it is stopped at its first instruction.
/// None if this process may not trace the server.
fn start_a_page_that_stands_still(house: &House, query: &str) -> Option<(Child, Pid)> {
    let server = Pid::from_raw(i32::try_from(house.server().expect("serves")).expect("a process"));
    if let Err(e) = ptrace::seize(server, ptrace::Options::PTRACE_O_TRACECLONE) {
        pct_kit::skip(&format!("the server cannot be traced: {e}"));
        return None;
    }
    let client = house.start(query);
    // The server's main thread makes one thread for each page.
    let made = waitpid(server, Some(WaitPidFlag::__WALL)).expect("the server stops");
    let clone = ptrace::Event::PTRACE_EVENT_CLONE as i32;
    assert!(matches!(made, WaitStatus::PtraceEvent(_, _, event) if event == clone), "{made:?}");
    let thread = Pid::from_raw(i32::try_from(ptrace::getevent(server).expect("a number")).expect("a thread"));
    ptrace::detach(server, None).expect("the server goes on");
    waitpid(thread, Some(WaitPidFlag::__WALL)).expect("the thread is stopped");
    Some((client, thread))
}

#[test]
fn readers_have_their_pages_while_one_page_stands_still() {
    let house = House::new().set("MDPROF_QUERY", "3600");
    house.page("menu");
    let Some((mut slow, thread)) = start_a_page_that_stands_still(&house, "proc/2") else { return };
    for number in 3..12 {
        house.page(&format!("proc/{number}"));
    }
    assert!(slow.try_wait().expect("is ours").is_none(), "its page cannot be there");
    ptrace::detach(thread, None).expect("the thread goes on");
    let page = support::text(slow.wait_with_output().expect("ends"));
    assert!(is_page(&page), "{page}");
    assert_eq!(house.loads(), 1, "{}", house.record());
}

#[test]
fn what_changes_the_server_asks_first() {
    let mut house = House::new();
    house.env.retain(|(name, _)| name != "MDPROF_POST");
    house.page("menu");
    let pid = house.server().expect("serves");
    // A program that requests JSON or text gets no page with a button.
    for form in ["/json", "/text"] {
        house.env.push(("PATH_INFO".into(), form.into()));
        let refused = house.ask("quit");
        assert!(refused.starts_with("Status: 405 ") && refused.contains("by POST"), "{form}: {refused}");
        assert!(!refused.contains("text/html") && !refused.contains("<html"), "{form}: {refused}");
        house.env.pop();
    }
    let asks = house.ask("quit");
    assert!(asks.contains("method=\"post\"") && asks.contains("?quit&amp;"), "{asks}");
    house.page("menu");
    assert_eq!(house.server(), Some(pid));
    house.env.push(("REQUEST_METHOD".into(), "POST".into()));
    house.page("quit");
    wait_for_no_file(&house);
}

#[test]
fn a_server_in_the_foreground_ends_before_its_client_and_debugging_keeps_the_answer() {
    let house = House::new();
    let run = |args: &[&str]| {
        let out = Command::new(support::PROGRAM)
            .env_clear()
            .env("XDG_RUNTIME_DIR", house.root.path().join("run"))
            .args(args)
            .arg(house.data())
            .output()
            .expect("runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        support::text(out)
    };
    let page = run(&["--debug", "--proc", "2"]);
    let kept = std::fs::read_to_string(house.file("mdprof_debug_answer").expect("is there")).expect("reads");
    assert_eq!(kept, page);
    let asked =
        std::fs::read_to_string(house.file("mdprof_debug_request").expect("is there")).expect("reads");
    assert!(asked.starts_with("proc/2&"), "{asked}");
    run(&["--quit"]);
    wait_for_no_server(&house);
    assert!(is_page(&run(&["--no-detach-process", "-t", "0.002"])));
    assert_eq!(house.any_server(), None);
}
