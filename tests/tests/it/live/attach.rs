//! `pct attach` and `pct off` on real programs under load, on and off again and again: they do their work as
//! before, and are left as they were.
//!
//! `PCT_TEST_CYCLES=500 cargo nextest run -p pct-tests --no-capture -E 'test(live::attach::)'` is the long run, which
//! prints a line for each kind of program; the default is a few cycles each.

use pct_kit::harm::{ended_with, harm, unharmed};
use pct_kit::wait::{DEADLINE, wait_for, wait_until};
use pct_tests::pct::{binary, report, seconds_in, seconds_in_kernel};
use pct_tests::victims::{Guest, children_of, go_victim, is_gone, victim, victim_with};
use pct_tests::{skip, tool_or_skip, which};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

fn cycles() -> usize {
    std::env::var("PCT_TEST_CYCLES").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

/// Ends it by SIGTERM, to which it answers with the exit status `code`; what it said.
fn ends(guest: Guest, code: i32) -> String {
    let output = guest.end();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ended_with(output.status, code, &said);
    said
}

/// [`ends`], saying just this.
fn ends_saying(guest: Guest, words: &str, code: i32) {
    let said = ends(guest, code);
    if said != words {
        harm(&format!("it said {said:?} instead of {words:?}"));
    }
}

/// [`ends`] with 5, and says how many of its calls ended with EINTR. SIGTERM may have ended one.
fn ends_without_eintr(guest: Guest, name: &str) {
    let said = ends(guest, 5);
    let eintr: u32 = said.lines().find_map(|l| l.strip_prefix("eintr ")?.parse().ok()).expect("it counts");
    if eintr > 1 {
        harm(&format!("{name}: {said}"));
    }
}

fn pct(args: &[&str]) -> Output {
    Command::new(binary()).args(args).output().expect("pct can be run")
}

fn well(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// What must be the same afterwards: of every thread the tracer and the signals that it blocks and ignores,
/// descriptors, timers, and the objects in the map. `SigCgt` too, once the sampler was there: its handler
/// stays, and does nothing.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    threads: BTreeMap<i32, Vec<String>>,
    descriptors: Option<usize>,
    timers: String,
    objects: Vec<String>,
    executable: usize,
    /// How many mappings without a name there are, and their octets; of a program that does not map by itself.
    anonymous: Option<(usize, u64)>,
}

/// What a program does by itself, so that it cannot be told from what we do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Nothing that can be seen from outside.
    Still,
    /// It allocates.
    Maps,
    /// It opens and closes descriptors, too.
    Opens,
}

fn anonymous(maps: &str) -> (usize, u64) {
    let bounds = maps.lines().filter(|l| l.split_whitespace().count() == 5).filter_map(|l| {
        let (from, to) = l.split(' ').next()?.split_once('-')?;
        Some(u64::from_str_radix(to, 16).ok()? - u64::from_str_radix(from, 16).ok()?)
    });
    bounds.fold((0, 0), |(n, sum), len| (n + 1, sum + len))
}

impl Look {
    fn at(pid: i32, habit: Habit) -> Look {
        let mut threads = BTreeMap::new();
        if is_gone(pid) {
            harm(&format!("process {pid} has ended"));
        }
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let kept = ["TracerPid:", "SigBlk:", "SigIgn:", "SigCgt:"];
            let lines = status.lines().filter(|l| kept.iter().any(|k| l.starts_with(k))).map(str::to_owned);
            let tid = task.file_name().to_string_lossy().parse().expect("a number");
            threads.insert(tid, lines.collect());
        }
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mut objects: Vec<String> =
            maps.lines().filter_map(|l| Some(l[l.find('/')?..].to_owned())).collect();
        objects.sort();
        objects.dedup();
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).ok();
        Look {
            threads,
            descriptors: descriptors.filter(|_| habit != Habit::Opens),
            timers: std::fs::read_to_string(format!("/proc/{pid}/timers")).unwrap_or_default(),
            objects,
            executable: maps.lines().filter(|l| l.contains("r-xp") && !l.contains('/')).count(),
            anonymous: (habit == Habit::Still).then(|| anonymous(&maps)),
        }
    }

    /// Looks until no thread is being born, while libc blocks all signals in it. What a program blocks for good is not
    /// meant: only glibc can block 32 and 33, which are its own, and musl leaves out just those and 34.
    fn before(pid: i32, habit: Habit) -> Look {
        const OF_GLIBC: u64 = 3 << 31;
        const BY_MUSL: u64 = 0xffff_fffc_7ffb_feff;
        let is_born = |mask: u64| mask & OF_GLIBC == 0 && mask != BY_MUSL;
        wait_for("threads to be born", || {
            let look = Look::at(pid, habit);
            look.threads.values().all(|lines| is_born(signals(lines, "SigBlk:"))).then_some(look)
        })
    }

    /// Looks until a thread that is in the sampler's handler at the moment, where all is blocked, has left it.
    fn settled(pid: i32, habit: Habit, then: &Look) -> Look {
        wait_for("threads to block the signals that they blocked before", || {
            let look = Look::at(pid, habit);
            look.blocks_as(then).then_some(look)
        })
    }

    /// The signals that its threads block are those that the same threads blocked then.
    fn blocks_as(&self, then: &Look) -> bool {
        self.threads.iter().all(|(tid, lines)| {
            then.threads.get(tid).is_none_or(|old| signals(old, "SigBlk:") == signals(lines, "SigBlk:"))
        })
    }

    /// Threads that are there in both are compared; others come and go by themselves.
    fn assert_same(mut self, mut other: Look, when: &str) {
        let both: Vec<i32> = self.threads.keys().filter(|t| other.threads.contains_key(t)).copied().collect();
        self.threads.retain(|t, _| both.contains(t));
        other.threads.retain(|t, _| both.contains(t));
        assert!(!both.is_empty());
        assert_eq!(self, other, "{when}");
    }
}

/// The signals in a line of `/proc/PID/status`.
fn signals(lines: &[String], key: &str) -> u64 {
    let line = lines.iter().find_map(|l| l.strip_prefix(key)).unwrap_or("0");
    u64::from_str_radix(line.trim(), 16).expect("a mask")
}

/// On and off for `cycles` times by `method` (empty: the one that pct chooses), the load going on. What is
/// new after the first cycle is the sampler's, with its two signals and SIGBUS; after that nothing may
/// change.
fn on_and_off(pid: i32, method: &str, habit: Habit) {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("r");
    make_enterable(folder.path());
    let (id, out) = (pid.to_string(), out.to_str().expect("UTF-8").to_owned());
    let before = Look::before(pid, habit);
    let mut after_first = None;
    let mut stopped = Vec::new();
    let mut memory_of_two = None;
    for cycle in 0..cycles() + 1 {
        let mut args = vec!["attach", "--hz", "500", "--out", &out, &id];
        if !method.is_empty() && cycle == 0 {
            args.extend(["--method", method]);
        }
        let said = well(&pct(&args));
        let ms =
            said.split("stopped for ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        stopped.push(ms.expect("it says how long"));
        well(&pct(&["off", &id]));
        if cycle == 1 {
            memory_of_two = Look::at(pid, habit).anonymous;
        }
        if after_first.is_none() {
            let now = Look::settled(pid, habit, &before);
            for (tid, lines) in &before.threads {
                let Some(since) = now.threads.get(tid) else { continue };
                for key in ["TracerPid:", "SigBlk:", "SigIgn:"] {
                    let of = |lines: &[String]| lines.iter().find(|l| l.starts_with(key)).cloned();
                    assert_eq!(of(lines), of(since), "thread {tid} after the first cycle");
                }
                let (old, new) = (signals(lines, "SigCgt:"), signals(since, "SigCgt:"));
                // beside its clocks it guards its mapping of the recording
                let clocks = new & !old & !(1 << (libc::SIGBUS - 1));
                assert!(old & !new == 0 && clocks.count_ones() <= 2, "SigCgt: {old:x}, then {new:x}");
            }
            assert_eq!(before.descriptors, now.descriptors, "descriptors");
            assert_eq!(before.timers, now.timers, "timers");
            after_first = Some(now);
        }
    }
    // each cycle has a recording of its own
    let mut first = after_first.expect("a cycle");
    let mut last = Look::settled(pid, habit, &first);
    for look in [&mut first, &mut last] {
        look.objects.retain(|o| !o.contains(".pct"));
    }
    // two recordings take turns in memory (a handler may still be in the one before), so that two cycles have
    // mapped all there is; the sampler maps its tables at the first sample, which may be in a later cycle; a
    // leak of each cycle adds up
    first.anonymous = None;
    if let (Some((count, octets)), Some((count_then, octets_then))) = (memory_of_two, last.anonymous.take()) {
        let more = octets_then.saturating_sub(octets);
        // Each thread gets a buffer at its first sample.
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        assert!(
            count_then <= count + 16 + threads && more <= 1 << 20,
            "{count} mappings, {count_then} then; {more} octets more"
        );
    }
    first.assert_same(last, "after the last cycle");
    let memory = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    assert!(!memory.contains("rwx") || !method.is_empty() || before.executable > 0, "{memory}");
    stopped.sort_by(f64::total_cmp);
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    println!(
        "{:<16} {:>4} cycles by method {:<8} stopped for {:.1} ms (median), {:.1} at most",
        name.trim(),
        stopped.len(),
        if method.is_empty() { "chosen" } else { method },
        stopped[stopped.len() / 2],
        stopped[stopped.len() - 1]
    );
}

/// A server that gave up its rights must be able to come there.
fn make_enterable(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn a_program_of_64_threads() {
    let target = Guest::started(&mut Command::new(victim("crowd.c")), "started");
    on_and_off(target.pid(), "", Habit::Still);
    let folder = tempfile::tempdir().unwrap();
    let spent = 0.5;
    target.attached(folder.path(), &["--method", "5", "--hz", "500", "--out", "outside"], spent);
    let rows = report(&folder.path().join("outside"), &["--by", "function"]);
    // much of the rest is its way into and out of sleep, and the kernel's
    assert!(seconds_in(&rows, "crowd_works") > 0.1 * spent, "{rows:?}");
    ends_saying(target, "bad 0\n", 5);
}

#[test]
fn a_program_that_waits_in_many_ways_gets_no_eintr() {
    for method in ["", "4"] {
        let target = Guest::started(Command::new(victim("waits.c")).arg("600"), "started");
        on_and_off(target.pid(), method, Habit::Still);
        ends_without_eintr(target, method);
    }
}

/// Ends it: nothing was wrong, no call was cut short (SIGTERM may end one), and it got on.
fn ends_well(target: Guest, name: &str) {
    let said = ends(target, 5);
    let last = said.lines().last().unwrap_or_default();
    if last != "bad 0 eintr 0 went on" && last != "bad 0 eintr 1 went on" {
        harm(&format!("{name}: {said}"));
    }
}

#[test]
fn programs_that_do_one_thing_each() {
    for (kind, habit) in [
        ("spin", Habit::Still),
        ("sleep", Habit::Still),
        ("read", Habit::Still),
        ("epoll", Habit::Still),
        ("futex", Habit::Still),
        ("wait", Habit::Still),
        ("malloc", Habit::Maps),
        ("vforks", Habit::Still),
    ] {
        for method in ["", "4"] {
            println!("{kind}:");
            let target = Guest::started(Command::new(victim("classes.c")).arg(kind), "started");
            on_and_off(target.pid(), method, habit);
            ends_well(target, kind);
        }
    }
}

#[test]
fn a_server_of_processes() {
    let mut command = Command::new(victim("classes.c"));
    let mut target = Guest::started(command.arg("prefork"), "started");
    let line = target.hear("workers");
    for worker in line.split_whitespace().skip(1) {
        on_and_off(worker.parse().expect("a pid"), "", Habit::Still);
    }
    on_and_off(target.pid(), "", Habit::Still);
    ends_well(target, "prefork");
}

#[test]
fn a_go_program() {
    let Some(go) = tool_or_skip("go", "a_go_program") else { return };
    let program = go_victim(&go, "busy.go", &[], "busy-go").expect("it builds");
    let target = Guest::started(&mut Command::new(&program), "started");
    let id = target.id();
    // it has handlers for every signal, so it is sampled from outside
    let refused = pct(&["attach", "--method", "4", &id]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("handles every signal"), "{said}");
    // its threads block signals and unblock them all the time
    let look = || {
        let mut look = Look::at(target.pid(), Habit::Maps);
        look.threads.values_mut().for_each(|lines| lines.retain(|l| !l.starts_with("SigBlk:")));
        look
    };
    let before = look();
    let folder = tempfile::tempdir().expect("a folder");
    for cycle in 0..cycles() {
        target.attached(folder.path(), &["--hz", "500", "--out", &cycle.to_string()], 0.1);
    }
    before.assert_same(look(), "from outside");
    ends_well(target, "go");
}

#[test]
fn static_programs_of_all_kinds() {
    let test = "static_programs_of_all_kinds";
    for (compiler, flags, name) in [
        ("cc", "-static", "waits-static"),
        ("cc", "-static-pie", "waits-static-pie"),
        ("cc", "-static -s", "waits-stripped"),
        ("musl-gcc", "-static", "waits-musl-static"),
        ("musl-gcc", "", "waits-musl"),
    ] {
        let victim = match victim_with("waits.c", &format!("{compiler} -O2 -pthread {flags}"), name) {
            Ok(victim) => victim,
            Err(why) => {
                skip(test, &why);
                continue;
            }
        };
        let target = Guest::started(Command::new(&victim).arg("600"), "started");
        on_and_off(target.pid(), "", Habit::Still);
        ends_without_eintr(target, name);
    }
}

#[test]
fn busybox_counts_on() {
    let Some(busybox) = tool_or_skip("busybox", "busybox_counts_on") else { return };
    let script = "trap 'echo counted; exit 4' TERM; echo started; i=0; while :; do i=$((i+1)); done";
    let target = Guest::started(Command::new(busybox).args(["sh", "-c", script]), "started");
    on_and_off(target.pid(), "", Habit::Maps);
    ends_saying(target, "counted\n", 4);
}

fn descriptors(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Runs `load` again and again, and `meanwhile` beside it until that is done and the load was there once.
fn under_load(load: impl Fn() + Sync, meanwhile: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // also when an attach fails: the scope waits for the load
        let end = End(&stop);
        let load = scope.spawn(|| {
            load();
            while !stop.load(Ordering::Relaxed) {
                load();
            }
        });
        meanwhile();
        drop(end);
        if let Err(why) = load.join() {
            std::panic::resume_unwind(why);
        }
    });
}

/// One round of the benchmark of redis, all of whose answers are right.
fn redis_load(benchmark: &Path, socket: &Path) {
    let mut command = Command::new(benchmark);
    command.arg("-s").arg(socket).args(["-t", "set,get,lpush", "-n", "5000", "-c", "10", "-q"]);
    let said = unharmed(&command.output().expect("the benchmark can be run"));
    if said.to_lowercase().contains("error") || !said.contains("LPUSH") {
        harm(&said);
    }
}

#[test]
fn redis_under_its_benchmark() {
    let Some(redis) = tool_or_skip("redis-server", "redis_under_its_benchmark") else { return };
    let Some(load) = tool_or_skip("redis-benchmark", "redis_under_its_benchmark") else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut server = Command::new(redis);
    server.args(["--port", "0", "--save", "", "--appendonly", "no"]).current_dir(folder.path());
    server.arg("--unixsocket").arg(&socket);
    let target = Guest::started(&mut server, "ready to accept connections");
    let before = descriptors(target.pid());
    under_load(|| redis_load(&load, &socket), || on_and_off(target.pid(), "", Habit::Opens));
    wait_until("the last connections to be closed", || descriptors(target.pid()) == before);
    on_and_off(target.pid(), "", Habit::Maps);
    let said = ends(target, 0);
    if !said.contains("bye bye") {
        harm(&said);
    }
}

/// A server is stopped in a call that a signal would cut short. The signals that the sampler's clocks have sent until
/// it is back in that call are dropped, and the clocks go on all the same.
#[test]
fn a_server_that_is_stopped_in_a_call_is_sampled_in_the_kernel() {
    let name = "a_server_that_is_stopped_in_a_call_is_sampled_in_the_kernel";
    let Some(redis) = tool_or_skip("redis-server", name) else { return };
    let Some(load) = tool_or_skip("redis-benchmark", name) else { return };
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let mut server = Command::new(&redis);
        server.args(["--port", "0", "--save", "", "--appendonly", "no"]).current_dir(folder.path());
        server.arg("--unixsocket").arg(&socket);
        let target = Guest::started(&mut server, "ready to accept connections");
        under_load(
            || redis_load(&load, &socket),
            || drop(target.attached(folder.path(), &["-o", "recording"], 1.0)),
        );
        ends(target, 0);
        let rows = report(&folder.path().join("recording"), &[]);
        // With the clock of its ticks dead no system time is seen, which is more than half.
        let seen: f64 = rows.iter().map(|row| row.cpu_seconds).sum();
        assert!(seen > 0.65, "{seen} of 1.0 s are in samples");
    }
}

/// Says at its end that the load is to stop.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn http_get(socket: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Asks nginx for its page.
fn nginx_load(socket: &Path) {
    match http_get(socket) {
        Ok(page) if page.starts_with("HTTP/1.1 200") && page.ends_with("as it should be") => {}
        wrong => harm(&format!("nginx answered {wrong:?}")),
    }
}

/// The workers of an nginx as soon as they all wait for requests. A worker that starts has the master's signals blocked
/// and sets up what it will use; it takes its name when it is done with that, and then waits.
fn nginx_workers(master: i32, count: usize) -> Vec<i32> {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    wait_for("the workers of nginx", || {
        assert!(!is_gone(master), "nginx has ended");
        let is_ready = |pid: &i32| {
            let call = read(format!("/proc/{pid}/syscall"));
            read(format!("/proc/{pid}/cmdline")).starts_with("nginx: worker process")
                && call.split(' ').next().and_then(|n| n.parse().ok()) == Some(libc::SYS_epoll_wait)
        };
        let ready: Vec<i32> = children_of(master.unsigned_abs()).into_iter().filter(is_ready).collect();
        (ready.len() == count).then_some(ready)
    })
}

#[test]
fn nginx_workers_without_rights_under_load() {
    let Some(nginx) = which("nginx") else {
        return skip("nginx_workers_without_rights_under_load", "nginx is not installed");
    };
    let folder = tempfile::tempdir().unwrap();
    make_enterable(folder.path());
    let (dir, socket) = (folder.path().display(), folder.path().join("socket"));
    let settings = format!(
        "daemon off; pid {dir}/pid; error_log {dir}/error;\nworker_processes 2;\nevents {{}}\n\
         http {{ access_log off; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; \
         uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
         server {{ listen unix:{dir}/socket; location / {{ return 200 \"as it should be\"; }} }} }}"
    );
    std::fs::write(folder.path().join("conf"), settings).unwrap();
    let mut server = Command::new(nginx);
    server.args(["-e", &format!("{dir}/error"), "-c", &format!("{dir}/conf")]);
    let target = Guest::start(&mut server);
    let workers = nginx_workers(target.pid(), 2);
    let attach_all = || {
        for worker in workers {
            on_and_off(worker, "", Habit::Opens);
        }
        on_and_off(target.pid(), "", Habit::Maps);
    };
    under_load(|| nginx_load(&socket), attach_all);
    ends(target, 0);
}

#[test]
fn python_computes_on() {
    let Some(python) = tool_or_skip("python3", "python_computes_on") else { return };
    let code = "import signal, sys\ndef f(n): return n if n < 2 else f(n-1) + f(n-2)\nbad = 0; stop = []\n\
        signal.signal(signal.SIGTERM, lambda *a: stop.append(1))\nprint('started', flush=True)\n\
        while not stop:\n  bad += f(18) != 2584\n  bad += sum(len(str(i)) for i in range(2000)) != 6890\n\
        print('bad', bad); sys.exit(6)";
    let target = Guest::started(Command::new(python).args(["-c", code]), "started");
    on_and_off(target.pid(), "", Habit::Maps);
    ends_saying(target, "bad 0\n", 6);
}

#[test]
fn node_computes_on() {
    let Some(node) = tool_or_skip("node", "node_computes_on") else { return };
    let code = "let bad = 0, n = 0; process.on('SIGTERM', () => { console.log('bad', bad); process.exit(6); });\n\
        function f(n) { return n < 2 ? n : f(n-1) + f(n-2); }\n\
        function round() { if (f(20) !== 6765) bad++; if (JSON.parse(JSON.stringify({a:[1,2,3]})).a[2] !== 3) bad++; \
        n++; setImmediate(round); } console.log('started'); round();";
    let target = Guest::started(Command::new(node).args(["-e", code]), "started");
    on_and_off(target.pid(), "", Habit::Opens);
    ends_saying(target, "bad 0\n", 6);
}

#[test]
fn a_jvm_computes_on() {
    let (Some(java), Some(javac)) = (which("java"), which("javac")) else {
        return skip("a_jvm_computes_on", "java or javac is not installed");
    };
    let folder = tempfile::tempdir().unwrap();
    let source = pct_tests::root().join("tests/victims/Busy.java");
    assert!(Command::new(javac).arg("-d").arg(folder.path()).arg(source).status().unwrap().success());
    let mut command = Command::new(java);
    // (its performance data would lie in a folder of the machine)
    command.args(["-Xmx64m", "-XX:-UsePerfData", "-cp"]).arg(folder.path()).arg("Busy");
    let target = Guest::started(&mut command, "started");
    on_and_off(target.pid(), "", Habit::Opens);
    let said = ends(target, 143);
    if !said.ends_with("bad 0\n") || said.contains("rounds 0") {
        harm(&said);
    }
}

#[test]
fn what_a_server_forks_and_executes_is_followed() {
    const ROUNDS: u32 = 6;
    let dynamic = victim("prefork.c");
    let fixed = victim_with("prefork.c", "cc -O2 -g -static", "prefork-static").ok();
    for (victim, options) in [
        (Some(&dynamic), &["--follow"][..]),
        (Some(&dynamic), &["--method", "6"]),
        (fixed.as_ref(), &["--follow"]),
    ] {
        let Some(victim) = victim else {
            skip("what_a_server_forks_and_executes_is_followed", "cc cannot link statically");
            continue;
        };
        // it begins its rounds when it is told to
        let mut server = Guest::started(Command::new(victim).arg(ROUNDS.to_string()), "started");
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("r");
        let id = server.id();
        let mut command = Command::new(binary());
        command.args(["attach", "--hz", "500", "--out", out.to_str().unwrap(), &id]).args(options);
        let mut attach = Guest::start(command.stderr(Stdio::piped()));
        // either it leaves at once, or it is the tracer and stays
        let traced = || {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            status.lines().any(|l| l.strip_prefix("TracerPid:").is_some_and(|p| p.trim() != "0"))
        };
        let leaves = options[0] == "--follow" && victim.ends_with("prefork");
        let stays = wait_for("pct attach to leave or to stay", || match attach.ended() {
            Some(status) => Some(!status.success()),
            None => (!leaves && traced()).then_some(true),
        });
        server.tell("\n");
        let server = server.wait();
        let rest = String::from_utf8_lossy(&server.stdout).into_owned();
        ended_with(server.status, 5, &rest);
        if rest != format!("rounds {ROUNDS} bad 0\n") {
            harm(&rest);
        }
        if stays {
            let ended = attach.wait();
            let told = String::from_utf8_lossy(&ended.stderr);
            assert!(
                ended.status.success() && told.contains(&format!(" and {} it made", 2 * ROUNDS)),
                "{told}"
            );
        }
        let rows = report(&out, &["--by", "function"]);
        for (function, each) in [("forked_burns", 0.05), ("executed_burns", 0.05), ("parent_burns", 0.03)] {
            let spent = each * f64::from(ROUNDS);
            let seen = seconds_in(&rows, function) + seconds_in_kernel(&rows) / 3.0;
            // some hundred samples, and what a child does before its first one
            assert!(seen > 0.5 * spent && seen < 1.25 * spent, "{options:?}: {function} {seen:.3}: {rows:?}");
        }
        // on a busy machine a child may be gone before it could be stopped from outside
        let (processes, all) = (report(&out, &["--by", "process"]).len(), 1 + 2 * ROUNDS as usize);
        assert!(
            processes == all || (stays && (all / 2..all).contains(&processes)),
            "{options:?}: {processes}"
        );
    }
}
