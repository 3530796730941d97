//! `mdprof_cgi` behind real web servers, on loopback ports: fifty first requests at once, servers killed between
//! requests, the end. Skipped where lighttpd or apache2 is absent.

use crate::support::{self, living_server, loads, names_in, signal, write_profile};
use pct_kit::Dice;
use pct_kit::started::end_all;
use pct_kit::wait::wait_until;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SCRIPT: &str = "/cgi-bin/mdprof_cgi";

/// A web server. If the test runs as root, the server runs as another user.
struct Web {
    root: tempfile::TempDir,
    child: Child,
    address: SocketAddr,
}

fn program(names: &[&str]) -> Option<PathBuf> {
    names.iter().map(PathBuf::from).find(|p| p.exists())
}

fn id(what: &str) -> Option<u32> {
    let out = Command::new("id").args([what, "www-data"]).output().ok()?;
    String::from_utf8(out.stdout).ok()?.trim().parse().ok()
}

impl Web {
    /// `config` gets the root directory, the address, and whether the server should change its user.
    fn start(server: &Path, arguments: &[&str], config: impl Fn(&Path, SocketAddr, bool) -> String) -> Web {
        let root = tempfile::tempdir().expect("a directory");
        let at = root.path();
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).expect("set");
        std::fs::create_dir_all(at.join("cgi-bin")).expect("made");
        std::fs::create_dir(at.join("run")).expect("made");
        std::fs::set_permissions(at.join("run"), std::fs::Permissions::from_mode(0o700)).expect("set");
        std::fs::copy(support::PROGRAM, at.join("cgi-bin/mdprof_cgi")).expect("copied");
        write_profile(&at.join("Deep.data"), 5, 3000);
        let root_user = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n");
        let other = if root_user { id("-u").zip(id("-g")) } else { None };
        if let Some((uid, gid)) = other {
            chown(at.join("run"), Some(uid), Some(gid)).expect("given");
        }
        // A loopback address of this process alone: nobody else takes the port before the server does.
        let [_, a, b, c] = std::process::id().to_be_bytes();
        let ip = Ipv4Addr::new(127, a | 128, b, c);
        let address = TcpListener::bind((ip, 0)).and_then(|l| l.local_addr()).expect("a port");
        std::fs::write(at.join("web.conf"), config(at, address, other.is_some())).expect("written");
        let log = std::fs::File::create(at.join("log")).expect("made");
        let child = Command::new(server)
            .args(arguments)
            .arg("-f")
            .arg(at.join("web.conf"))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a copy"))
            .stderr(log)
            .spawn()
            .expect("starts");
        let mut web = Web { child, address, root };
        wait_until("the web server", || {
            let ended = web.child.try_wait().expect("is asked");
            assert_eq!(
                ended,
                None,
                "{}",
                std::fs::read_to_string(web.root.path().join("log")).unwrap_or_default()
            );
            TcpStream::connect(address).is_ok()
        });
        web
    }

    /// Status line and headers, and body.
    fn get(&self, method: &str, path: &str, cmd: &str) -> (String, String) {
        let data = self.root.path().join("Deep.data");
        let mut stream = TcpStream::connect(self.address).expect("connects");
        write!(
            stream,
            "{method} {SCRIPT}{path}?{cmd}&&{} HTTP/1.0\r\nHost: localhost\r\n\r\n",
            data.display()
        )
        .expect("sends");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("receives");
        let all = String::from_utf8_lossy(&all).into_owned();
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
        (head.to_owned(), body.to_owned())
    }

    fn page(&self, cmd: &str) -> String {
        let (head, body) = self.get("GET", "", cmd);
        assert!(
            head.contains(" 200 OK") && body.trim_end().ends_with("</html>"),
            "{cmd}: {head}\n{body}\n{}",
            std::fs::read_to_string(self.root.path().join("log")).unwrap_or_default()
        );
        body
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("run/mdprof")
    }

    fn record(&self) -> String {
        names_in(&self.dir())
            .into_iter()
            .find(|n| n.starts_with("mdprof_startup_err"))
            .and_then(|n| std::fs::read_to_string(self.dir().join(n)).ok())
            .unwrap_or_default()
    }

    /// Checks what must be true behind every web server.
    fn check(&self) {
        let pages = std::thread::scope(|scope| {
            let all: Vec<_> =
                (0..50).map(|i| scope.spawn(move || self.page(&format!("proc/{}", i % 20 + 1)))).collect();
            all.into_iter().map(|t| t.join().is_ok()).filter(|ok| *ok).count()
        });
        assert_eq!(pages, 50);
        assert_eq!(loads(&self.record()), 1, "{}", self.record());
        assert!(self.page("menu").contains(SCRIPT), "links lead back");
        let (head, body) = self.get("GET", "/json", "proc/3");
        assert!(head.contains("application/json") && body.contains("\"query\":\"proc/3\""), "{head}\n{body}");
        let (head, body) = self.get("HEAD", "", "menu");
        assert!(head.contains(" 200 ") && body.is_empty(), "{head}\n{body}");
        assert!(self.get("GET", "/nothing", "menu").0.contains(" 404"));
        let mut dice = Dice::new(7);
        for round in 0..10 {
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| self.page("proc/5"));
                std::thread::sleep(Duration::from_micros(dice.below(20_000)));
                if let Some(pid) = living_server(&self.record(), &self.dir()) {
                    signal(pid, "KILL");
                }
                assert!(asked.join().is_ok(), "round {round}");
            });
            // A reader who goes away after sending the request.
            let mut gone = TcpStream::connect(self.address).expect("connects");
            let data = self.root.path().join("Deep.data");
            let _ = write!(gone, "GET {SCRIPT}?proc/6&&{} HTTP/1.0\r\n\r\n", data.display());
            drop(gone);
            self.page("proc/7");
        }
        self.page("quit");
        wait_until("the end of the server", || living_server(&self.record(), &self.dir()).is_none());
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // Both servers end their own children.
        signal(self.child.id(), "TERM");
        let _ = self.child.wait();
        end_all(self.root.path(), Some(self.child.id()));
    }
}

#[test]
fn lighttpd_serves_profiles() {
    let Some(server) = program(&["/usr/sbin/lighttpd"]) else {
        pct_kit::skip("lighttpd is absent");
        return;
    };
    let web = Web::start(&server, &["-D"], |at, address, user| {
        let (at, ip, port) = (at.display(), address.ip(), address.port());
        let who = if user { "server.username = \"www-data\"\nserver.groupname = \"www-data\"\n" } else { "" };
        format!(
            "server.modules = (\"mod_setenv\", \"mod_cgi\")\nserver.document-root = \"{at}\"\n\
             server.bind = \"{ip}\"\nserver.port = {port}\nserver.upload-dirs = (\"{at}/run\")\n{who}\
             cgi.assign = (\"/mdprof_cgi\" => \"\")\n\
             setenv.set-environment = (\"XDG_RUNTIME_DIR\" => \"{at}/run\", \"MDPROF_ROOTS\" => \"{at}\", \"MDPROF_POST\" => \"0\")\n"
        )
    });
    web.check();
}

#[test]
fn apache_serves_profiles() {
    let modules = Path::new("/usr/lib/apache2/modules");
    let Some(server) = program(&["/usr/sbin/apache2"]).filter(|_| modules.join("mod_cgid.so").exists())
    else {
        pct_kit::skip("apache2 is absent");
        return;
    };
    let web = Web::start(&server, &["-D", "FOREGROUND"], |at, address, user| {
        let (at, modules) = (at.display(), modules.display());
        let load: String = ["mpm_event", "authz_core", "alias", "env", "cgid"]
            .iter()
            .map(|m| format!("LoadModule {m}_module {modules}/mod_{m}.so\n"))
            .collect();
        let who = if user { "User www-data\nGroup www-data\n" } else { "" };
        format!(
            "ServerRoot {at}\nServerName localhost\nListen {address}\nPidFile {at}/pid\nErrorLog {at}/errors\n\
             {load}{who}DefaultRuntimeDir {at}\nScriptSock {at}/cgisock\nStartServers 1\n\
             ScriptAlias /cgi-bin/ {at}/cgi-bin/\nSetEnv XDG_RUNTIME_DIR {at}/run\nSetEnv MDPROF_ROOTS {at}\nSetEnv MDPROF_POST 0\n\
             <Directory {at}/cgi-bin>\nRequire all granted\n</Directory>\n"
        )
    });
    web.check();
}
