//! What a recording says of the process that it is of: its number, its name, its command line, its clock.

use crate::model::{ObjectId, ObjectKind, Process, Profile};
use pct_format::Index;
use rustc_hash::FxHashMap;
use std::path::Path;

/// The process of a recording, and when the recording began, in nanoseconds since 1970.
pub(super) fn process_of(index: &Index<'_>, path: &Path) -> (Process, u64) {
    let header = &index.file().header();
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let command: Vec<String> = header.argv().map(lossy).collect();
    let exe = lossy(header.text(pct_format::layout::Text::Exe));
    let clock = header.clock_got().map(|clock| clock.name().to_owned()).unwrap_or_default();
    let hz = |rate: f64| pct_num::rounded(rate.min(1e9));
    let first = index.threads.iter().find(|thread| thread.tid == header.pid());
    let first = first.map(|thread| thread.name.as_str()).unwrap_or_default();
    let process = Process {
        pid: header.pid(),
        parent: Some(header.ppid()).filter(|&ppid| ppid != 0),
        name: process_name(&exe, &command, first),
        executable: exe,
        command,
        start_ns: 0,
        clock,
        hz: hz(header.rate_got_hz()),
        hz_asked: hz(header.rate_asked_hz()),
        file: path.display().to_string(),
        stands_for: 0,
    };
    (process, header.first_anchor().realtime_ns)
}

/// The executable's name; for a script `interpreter script`. A program that is called by another name than its file's
/// (redis-server is a link to redis-check-rdb, ls one to busybox) has that name, also when it gave itself a
/// title that begins with it (`redis-server *:6379`): the kernel named its first thread so at exec, in at
/// most 15 octets.
fn process_name(exe: &str, command: &[String], first_thread: &str) -> String {
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let own = match (base(exe), command.first()) {
        (name, None) => name,
        (name, Some(word)) if name.is_empty() => base(word),
        (name, Some(_)) => name,
    };
    const INTERPRETERS: [&str; 10] =
        ["python", "perl", "ruby", "node", "bash", "dash", "sh", "php", "lua", "java"];
    let stem = own.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&stem) {
        let word = command.first().map(|word| base(word)).unwrap_or_default();
        let title =
            word.split(' ').next().filter(|name| name.get(..name.len().min(15)) == Some(first_thread));
        let called = [Some(word.as_str()), title].into_iter().flatten().find(|word| is_plain_name(word));
        return called.map_or(own, str::to_owned);
    }
    // The first word that is not an option; what follows -c, -e or -m is no script.
    match command.get(1) {
        Some(word) if !word.starts_with('-') && !word.is_empty() => format!("{own} {}", base(word)),
        _ => own,
    }
}

/// Gives programs that were started by a link the name of their processes, if all of these have one name: in one table
/// a program has one name. Functions without names, which are named by their program, have it too.
pub(super) fn name_programs(profile: &mut Profile) {
    let mut names: FxHashMap<&str, Option<&str>> = FxHashMap::default();
    for process in profile.processes.iter().filter(|process| !process.executable.is_empty()) {
        // (`python3.11 app.py` is no name of the interpreter.)
        let name = Some(process.name.as_str()).filter(|name| is_plain_name(name));
        let known = names.entry(&process.executable).or_insert(name);
        if *known != name {
            *known = None;
        }
    }
    let names: Vec<Option<String>> = profile
        .objects
        .iter()
        .map(|object| {
            let name = names.get(object.path.as_str()).copied().flatten()?;
            (object.kind == ObjectKind::File && object.name() != name).then(|| name.to_owned())
        })
        .collect();
    // By object: how the names of its functions without names begin, and how they are to begin.
    let mut begins: FxHashMap<ObjectId, (String, String)> = FxHashMap::default();
    for (id, called) in profile.objects.ids().zip(names) {
        let object = &mut profile.objects[id];
        if let Some(called) = &called {
            begins.insert(id, (format!("[{}+0x", object.name()), format!("[{called}+0x")));
        }
        object.called = called;
    }
    for id in profile.functions.ids() {
        let function = &mut profile.functions[id];
        if let Some((old, new)) = begins.get(&function.object)
            && let Some(rest) = function.name.strip_prefix(old.as_str())
        {
            function.name = format!("{new}{rest}");
        }
    }
}

/// Whether a first word of a command line is a program's name, not a title that the program gave itself.
fn is_plain_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+'))
}

#[cfg(test)]
mod tests {
    use super::{name_programs, process_name};
    use crate::model::{Builder, Id as _, Object, ObjectId, ObjectKind, Process};

    #[test]
    fn scripts_are_named_by_interpreter_and_script() {
        let name = |exe: &str, command: &[&str]| {
            process_name(exe, &command.iter().map(|&w| w.to_owned()).collect::<Vec<_>>(), "redis-server")
        };
        assert_eq!(name("/usr/bin/python3.11", &["python3", "/srv/job.py", "-v"]), "python3.11 job.py");
        assert_eq!(name("/usr/bin/python3.11", &["python3", "-c", "print()"]), "python3.11");
        assert_eq!(name("/usr/bin/gzip", &["gzip", "file"]), "gzip");
        assert_eq!(name("", &["./prog"]), "prog");
        assert_eq!(name("/usr/bin/redis-check-rdb", &["/usr/bin/redis-server", "*:6379"]), "redis-server");
        assert_eq!(name("/usr/bin/redis-check-rdb", &["redis-server *:6379", "", ""]), "redis-server");
        assert_eq!(name("/usr/bin/redis-check-rdb", &["waits for work"]), "redis-check-rdb", "a title");
        assert_eq!(name("/usr/sbin/nginx", &["nginx: worker process"]), "nginx");
        assert_eq!(name("/usr/bin/zsh", &["-zsh"]), "zsh");
        assert_eq!(name("", &[]), "");
    }

    #[test]
    fn a_program_that_was_started_by_a_link_has_one_name() {
        let mut b = Builder::new(false);
        for (pid, name, executable) in [
            (1, "redis-server", "/usr/bin/redis-check-rdb"),
            (2, "redis-server", "/usr/bin/redis-check-rdb"),
            (3, "ls", "/bin/busybox"),
            (4, "cat", "/bin/busybox"),
            (5, "python3.11 app.py", "/usr/bin/python3.11"),
        ] {
            b.process(Process {
                pid,
                name: name.into(),
                executable: executable.into(),
                ..Process::default()
            });
        }
        for path in ["/usr/bin/redis-check-rdb", "/bin/busybox", "/usr/bin/python3.11", "/lib/libc.so.6"] {
            b.object(Object::new(path, ObjectKind::File));
        }
        let nameless = [(0, "[redis-check-rdb+0x10]"), (1, "[busybox+0x10]"), (0, "main")]
            .map(|(object, name)| b.function(ObjectId::from_index(object), name));
        let mut p = b.finish();
        name_programs(&mut p);
        let names = nameless.map(|function| p.functions[function].name.clone());
        assert_eq!(names, ["[redis-server+0x10]", "[busybox+0x10]", "main"]);
        let names: Vec<&str> = p.objects.iter().map(Object::name).collect();
        assert_eq!(names, ["redis-server", "busybox", "python3.11", "libc.so.6"]);
    }
}
