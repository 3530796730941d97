//! Chooses one of the six methods: a pure function of plain [`Facts`].
//!
//! | method | target | controller afterwards |
//! |---|---|---|
//! | 1 | the sampler is mapped already (preloaded, linked dynamically) | leaves |
//! | 2 | dynamic, unaware: dlopen | leaves |
//! | 3 | static, linked with libpct.a | leaves |
//! | 4 | any 64-bit target: the injected blob | leaves |
//! | 5 | anything traceable, nothing injected | stays |
//! | 6 | as 5, following forks and execs | stays |

use crate::loading::Loading;
use std::fmt;

/// One of the six ways to attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// 1: the library is already mapped.
    Mapped,
    /// 2: the target's own dlopen loads the library.
    Dlopen,
    /// 3: a static program linked with libpct.a.
    Linked,
    /// 4: the position-independent blob.
    Blob,
    /// 5: nothing is injected. The controller stays and samples from outside.
    Outside,
    /// 6: as 5, following forks and execs.
    OutsideFollow,
}

impl Method {
    /// All methods, in the order of their numbers.
    pub const ALL: [Method; 6] = [
        Method::Mapped,
        Method::Dlopen,
        Method::Linked,
        Method::Blob,
        Method::Outside,
        Method::OutsideFollow,
    ];

    /// The method's number, 1 to 6.
    pub fn number(self) -> u8 {
        match self {
            Method::Mapped => 1,
            Method::Dlopen => 2,
            Method::Linked => 3,
            Method::Blob => 4,
            Method::Outside => 5,
            Method::OutsideFollow => 6,
        }
    }

    /// The method with this number.
    pub fn from_number(n: u8) -> Option<Method> {
        Method::ALL.into_iter().find(|m| m.number() == n)
    }

    /// What the method does, in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Method::Mapped => "already mapped",
            Method::Dlopen => "dlopen",
            Method::Linked => "linked statically",
            Method::Blob => "blob",
            Method::Outside => "stay outside",
            Method::OutsideFollow => "stay outside, follow forks",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "method {} ({})", self.number(), self.name())
    }
}

/// What kind of executable the target runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// 64-bit x86: what this build attaches to.
    X86_64,
    /// A 32-bit program.
    Bits32,
    /// Another machine's program (under an emulator).
    Foreign,
    /// No executable: a kernel thread, or a process that is ending.
    None,
    /// There is an executable, but pct may not read it.
    Hidden,
}

/// How the program is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// With a loader, and the C library named.
    Dynamic(Libc),
    /// Without a loader.
    Static,
    /// Without a loader, position-independent.
    StaticPie,
}

/// Whose C library a dynamic program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libc {
    /// GNU.
    Glibc,
    /// musl.
    Musl,
    /// Another C library.
    Other,
}

/// Everything about a target that the choice depends on. Read without stopping it; see `facts`.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Process id in pct's pid namespace.
    pub pid: i32,
    /// The name in `/proc/PID/comm`.
    pub name: String,
    /// The state letter of `/proc/PID/stat`; X from when the process begins to end.
    pub state: char,
    /// Number of threads.
    pub threads: usize,
    /// Process id of the tracer; 0: nobody traces it.
    pub tracer: i32,
    /// All of its real, effective and saved ids are those of pct.
    pub same_user: bool,
    /// Its memory files can be opened. With that the kernel itself says that pct may trace it.
    pub may_trace: bool,
    /// pct has CAP_SYS_PTRACE (over it).
    pub capable: bool,
    /// Yama's `ptrace_scope`. `None`: the kernel has no Yama.
    pub yama: Option<u8>,
    /// The target is a descendant of pct.
    pub descendant: bool,
    /// The target is pct itself.
    pub is_self: bool,
    /// The executable's kind.
    pub class: Class,
    /// How it is linked.
    pub link: Link,
    /// What must still happen before the program's own code runs. `None`: it runs.
    pub loading: Option<Loading>,
    /// A Go program.
    pub go: bool,
    /// seccomp mode: 0 none, 1 strict, 2 filter.
    pub seccomp: u8,
    /// User shadow stacks are on.
    pub shadow_stack: bool,
    /// The sampler's note was found in a mapped shared library.
    pub library_mapped: bool,
    /// The sampler's note was found in the program itself.
    pub library_linked: bool,
    /// The C library in use has a `dlopen` that may be called.
    pub has_dlopen: bool,
    /// The program's text has the gadgets for a self-restoring call.
    pub has_gadgets: bool,
    /// The program is static, and its code may limit its own system calls ([`crate::limits`]).
    pub may_limit_itself: bool,
    /// The target has the same mount namespace and root as pct.
    pub same_files: bool,
    /// `/proc` is mounted in the target's root. The injected sampler reads there which code lies where.
    pub has_proc: bool,
    /// The target has its own handler for SIGPROF.
    pub sigprof_caught: bool,
    /// The target has its own handler for SIGSYS, by which a program learns of calls that it does not let happen.
    pub sigsys_caught: bool,
    /// The target handles all signals that the sampler could use for its clock (Go programs do).
    pub signals_taken: bool,
    /// Threads that block the sampler's signal use a good part of the CPU time.
    pub signals_blocked: bool,
    /// The program is a shell: what it executes gets the shell's own environment, not that of the C library.
    pub shell: bool,
}

/// What the user asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish {
    /// Only this method.
    pub method: Option<Method>,
    /// Sample children too.
    pub follow: bool,
    /// Sample by the wall clock, which only a controller that stays can do.
    pub wall: bool,
}

/// The chosen method, and why not the others.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The chosen method.
    pub method: Method,
    /// Every method with what speaks against it. `None`: it is possible.
    pub verdicts: Vec<(Method, Option<String>)>,
}

impl Plan {
    /// The methods that are usually better for such a program, with what speaks against them. Empty if the first
    /// choice was possible.
    pub fn left_out(&self, facts: &Facts) -> Vec<(Method, &str)> {
        let preferred = match facts.link {
            Link::Dynamic(_) => &[Method::Dlopen, Method::Blob][..],
            Link::Static | Link::StaticPie => &[Method::Blob],
        };
        let before = preferred.iter().take_while(|method| **method != self.method);
        let injected = matches!(self.method, Method::Mapped | Method::Linked);
        let against = |method: &Method| {
            let (_, why) = self.verdicts.iter().find(|(m, _)| m == method)?;
            Some((*method, why.as_deref()?))
        };
        before.filter(|_| !injected).filter_map(against).collect()
    }
}

/// Why pct cannot attach to a target at all. The target was not touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The process has ended and waits for its parent, or is giving its memory back.
    #[error("process {0} has ended already")]
    HasEnded(i32),
    /// The process is a kernel thread or has no executable.
    #[error("process {0} has no program of its own (a kernel thread, or it is ending)")]
    NoProgram(i32),
    /// The process is pct itself.
    #[error("process {0} is pct itself")]
    Oneself(i32),
    /// Another process traces it already.
    #[error(
        "process {pid} is traced by process {tracer} already: only one tracer can be there at a time; end it first"
    )]
    Traced {
        /// The target's process id.
        pid: i32,
        /// The tracer's process id.
        tracer: i32,
    },
    /// Yama forbids to trace it.
    #[error("process {pid}: not allowed by /proc/sys/kernel/yama/ptrace_scope = {scope}: {help}")]
    Yama {
        /// The target's process id.
        pid: i32,
        /// The value of `ptrace_scope`.
        scope: u8,
        /// What would help.
        help: &'static str,
    },
    /// The kernel's permission check fails.
    #[error("process {pid}: not allowed: {why}")]
    NotAllowed {
        /// The target's process id.
        pid: i32,
        /// Which check failed, and what would help.
        why: &'static str,
    },
    /// The program is a 32-bit or foreign one.
    #[error("process {0} is a 32-bit or foreign program: this build of pct samples 64-bit x86 programs only")]
    Foreign(i32),
    /// The requested method is not possible.
    #[error("process {pid}: {method} is not possible: {why}")]
    Method {
        /// The target's process id.
        pid: i32,
        /// The requested method.
        method: Method,
        /// Why not.
        why: String,
    },
}

/// Chooses a method for a target. Pure: everything it knows is in `facts`.
///
/// # Errors
/// A [`Refusal`] when no method works, or the requested one does not.
pub fn choose(facts: &Facts, wish: &Wish) -> Result<Plan, Refusal> {
    refuse(facts)?;
    let verdicts: Vec<(Method, Option<String>)> =
        Method::ALL.into_iter().map(|m| (m, against(m, facts, wish))).collect();
    let possible = |m: Method| verdicts.iter().any(|(v, why)| *v == m && why.is_none());
    if let Some(method) = wish.method {
        return match verdicts.iter().find(|(m, _)| *m == method) {
            Some((_, Some(why))) => Err(Refusal::Method { pid: facts.pid, method, why: why.clone() }),
            _ => Ok(Plan { method, verdicts }),
        };
    }
    let last = if wish.follow { Method::OutsideFollow } else { Method::Outside };
    let order = [Method::Mapped, Method::Linked, Method::Dlopen, Method::Blob, last];
    let method = order.into_iter().find(|m| possible(*m)).unwrap_or(last);
    Ok(Plan { method, verdicts })
}

/// The table of refusals: reasons that rule out every method.
fn refuse(f: &Facts) -> Result<(), Refusal> {
    let pid = f.pid;
    if matches!(f.state, 'Z' | 'X') {
        return Err(Refusal::HasEnded(pid));
    }
    if f.is_self {
        return Err(Refusal::Oneself(pid));
    }
    if f.tracer != 0 {
        return Err(Refusal::Traced { pid, tracer: f.tracer });
    }
    if !f.may_trace {
        return Err(not_allowed(f));
    }
    match f.class {
        Class::X86_64 => Ok(()),
        Class::Bits32 | Class::Foreign => Err(Refusal::Foreign(pid)),
        Class::None => Err(Refusal::NoProgram(pid)),
        Class::Hidden => Err(not_allowed(f)),
    }
}

/// Why the kernel forbids to trace the target. Yama decides when the files are opened. If they can be opened, Yama
/// has allowed it (to a parent, or because the target named pct by PR_SET_PTRACER).
fn not_allowed(f: &Facts) -> Refusal {
    let yama = |scope, help| Refusal::Yama { pid: f.pid, scope, help };
    if f.class == Class::None && f.same_user {
        return Refusal::NoProgram(f.pid);
    }
    match (f.yama, f.capable) {
        (Some(3), _) => return yama(3, "nobody may trace until the next boot"),
        (Some(2), false) => return yama(2, "only with CAP_SYS_PTRACE; run pct as root"),
        (Some(1), false) if f.same_user && !f.descendant => {
            return yama(1, "only a parent may; start the program with pct run, or run pct as root");
        }
        _ => {}
    }
    let why = if !f.same_user {
        "it belongs to another user; run pct as that user or as root"
    } else if !f.capable {
        "it is not dumpable (it changed its user, holds capabilities, or asked for it); run pct as root"
    } else {
        "a security module forbids it"
    };
    Refusal::NotAllowed { pid: f.pid, why }
}

/// What speaks against a method; `None`: it is possible.
fn against(method: Method, f: &Facts, wish: &Wish) -> Option<String> {
    let injecting = !matches!(method, Method::Outside | Method::OutsideFollow);
    if injecting && wish.wall {
        return Some("threads that wait can only be seen from outside".into());
    }
    if method == Method::Blob && wish.follow {
        return Some("nothing in a program that does not know the sampler starts it in a child".into());
    }
    if matches!(method, Method::Mapped | Method::Dlopen) && wish.follow && f.shell && !f.library_mapped {
        return Some("a shell passes an environment of its own to what it executes".into());
    }
    if method == Method::Outside && wish.follow {
        return Some("children are not followed; method 6 does".into());
    }
    if injecting && f.seccomp != 0 {
        let mode = if f.seccomp == 1 { "strict mode" } else { "a filter" };
        return Some(format!(
            "it is under seccomp ({mode}), which can kill it for a system call that pct makes in it"
        ));
    }
    if injecting && f.signals_blocked {
        return Some("the threads that do its work block all signals, the sampler's too".into());
    }
    if injecting && f.shadow_stack {
        return Some("it uses shadow stacks, which forbid the self-restoring call".into());
    }
    if injecting && !f.has_proc && wish.method.is_none() {
        return Some(
            "no /proc in its root: inside, the sampler could neither name code nor walk stacks".into(),
        );
    }
    let no = |why: &str| Some(why.to_owned());
    let dynamic = matches!(f.link, Link::Dynamic(_));
    match method {
        Method::Mapped if f.library_mapped => None,
        Method::Mapped => no("libpct.so is not mapped"),
        Method::Linked if f.library_linked => None,
        Method::Linked => no("the program is not linked with libpct.a"),
        Method::Dlopen if !dynamic => no("the program is static"),
        Method::Dlopen if f.go => no("a Go program's threads have no libc thread block"),
        Method::Dlopen if f.loading.is_some() => {
            f.loading.map(|what| format!("the program is still being loaded: {what}"))
        }
        Method::Dlopen if !f.has_dlopen => no("its C library has no dlopen that may be called"),
        Method::Dlopen if f.library_mapped => no("libpct.so is mapped already: method 1 turns it on"),
        Method::Dlopen | Method::Blob if !f.has_gadgets => {
            no("its text has no instructions to build a self-restoring call from")
        }
        Method::Dlopen | Method::Blob if f.signals_taken => {
            no("it handles every signal, so none is free for the sampler's clock")
        }
        Method::Blob if f.library_linked || f.library_mapped => {
            no("the sampler is in it already: method 1 turns it on")
        }
        Method::Blob if f.may_limit_itself && wish.method.is_none() => {
            no("its code can set a filter on system calls, which would kill it with the sampler inside")
        }
        Method::Dlopen | Method::Blob | Method::Outside | Method::OutsideFollow => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            pid: 4711,
            name: "prog".into(),
            state: 'S',
            threads: 1,
            tracer: 0,
            same_user: true,
            may_trace: true,
            capable: false,
            yama: None,
            descendant: false,
            is_self: false,
            class: Class::X86_64,
            link: Link::Dynamic(Libc::Glibc),
            loading: None,
            go: false,
            seccomp: 0,
            shadow_stack: false,
            library_mapped: false,
            library_linked: false,
            has_dlopen: true,
            has_gadgets: true,
            may_limit_itself: false,
            same_files: true,
            has_proc: true,
            sigprof_caught: false,
            sigsys_caught: false,
            signals_taken: false,
            signals_blocked: false,
            shell: false,
        }
    }

    fn chosen(change: impl FnOnce(&mut Facts)) -> Result<Method, Refusal> {
        let mut f = facts();
        change(&mut f);
        choose(&f, &Wish::default()).map(|p| p.method)
    }

    #[test]
    fn the_order_of_preference_is_1_3_2_4_5() {
        assert_eq!(chosen(|_| {}), Ok(Method::Dlopen));
        assert_eq!(chosen(|f| f.library_mapped = true), Ok(Method::Mapped));
        assert_eq!(chosen(|f| f.link = Link::Static), Ok(Method::Blob));
        assert_eq!(
            chosen(|f| {
                f.link = Link::StaticPie;
                f.library_linked = true;
            }),
            Ok(Method::Linked)
        );
        assert_eq!(chosen(|f| f.has_dlopen = false), Ok(Method::Blob));
        assert_eq!(chosen(|f| f.go = true), Ok(Method::Blob));
        assert_eq!(chosen(|f| f.has_gadgets = false), Ok(Method::Outside));
        assert_eq!(chosen(|f| f.signals_taken = true), Ok(Method::Outside));
        assert_eq!(chosen(|f| f.signals_blocked = true), Ok(Method::Outside));
    }

    #[test]
    fn under_seccomp_nothing_is_injected() {
        for mode in [1, 2] {
            assert_eq!(chosen(|f| f.seccomp = mode), Ok(Method::Outside));
        }
        assert_eq!(chosen(|f| f.shadow_stack = true), Ok(Method::Outside));
    }

    #[test]
    fn a_static_program_that_may_set_a_filter_later_is_sampled_from_outside_unless_asked_otherwise() {
        let mut limits = facts();
        (limits.link, limits.may_limit_itself) = (Link::Static, true);
        let method = |wish: Wish| choose(&limits, &wish).map(|plan| plan.method);
        assert_eq!(method(Wish::default()), Ok(Method::Outside));
        let blob = Wish { method: Some(Method::Blob), ..Wish::default() };
        assert_eq!(method(blob), Ok(Method::Blob));
    }

    #[test]
    fn without_a_proc_of_its_own_it_is_sampled_from_outside_unless_asked_otherwise() {
        assert_eq!(chosen(|f| f.has_proc = false), Ok(Method::Outside));
        let f = Facts { has_proc: false, ..facts() };
        let wish = Wish { method: Some(Method::Blob), ..Wish::default() };
        assert_eq!(choose(&f, &wish).unwrap().method, Method::Blob);
    }

    #[test]
    fn following_from_outside_is_method_6() {
        let mut f = facts();
        f.seccomp = 2;
        let plan = choose(&f, &Wish { follow: true, ..Wish::default() }).unwrap();
        assert_eq!(plan.method, Method::OutsideFollow);
        // method 2, which reaches children from inside, is better than method 6; the blob cannot reach them
        let mut f = facts();
        assert_eq!(choose(&f, &Wish { follow: true, ..Wish::default() }).unwrap().method, Method::Dlopen);
        f.shell = true;
        assert_eq!(
            choose(&f, &Wish { follow: true, ..Wish::default() }).unwrap().method,
            Method::OutsideFollow
        );
        assert_eq!(choose(&f, &Wish::default()).unwrap().method, Method::Dlopen);
        (f.shell, f.has_dlopen) = (false, false);
        assert_eq!(
            choose(&f, &Wish { follow: true, ..Wish::default() }).unwrap().method,
            Method::OutsideFollow
        );
    }

    #[test]
    fn waiting_is_seen_from_outside_only() {
        let mut wish = Wish { wall: true, ..Wish::default() };
        assert_eq!(choose(&facts(), &wish).unwrap().method, Method::Outside);
        wish.follow = true;
        assert_eq!(choose(&facts(), &wish).unwrap().method, Method::OutsideFollow);
        wish.method = Some(Method::Blob);
        assert!(choose(&facts(), &wish).unwrap_err().to_string().contains("only be seen from outside"));
    }

    #[test]
    fn a_forced_method_never_falls_through() {
        let wish = |n| Wish { method: Method::from_number(n), ..Wish::default() };
        assert_eq!(choose(&facts(), &wish(4)).unwrap().method, Method::Blob);
        assert_eq!(choose(&facts(), &wish(5)).unwrap().method, Method::Outside);
        let e = choose(&facts(), &wish(1)).unwrap_err();
        assert!(
            e.to_string().contains("method 1 (already mapped) is not possible: libpct.so is not mapped"),
            "{e}"
        );
    }

    #[test]
    fn every_refusal_names_its_cause() {
        assert_eq!(chosen(|f| f.state = 'Z'), Err(Refusal::HasEnded(4711)));
        assert_eq!(chosen(|f| f.tracer = 12), Err(Refusal::Traced { pid: 4711, tracer: 12 }));
        assert_eq!(chosen(|f| f.is_self = true), Err(Refusal::Oneself(4711)));
        assert_eq!(chosen(|f| f.class = Class::Bits32), Err(Refusal::Foreign(4711)));
        assert_eq!(chosen(|f| f.class = Class::None), Err(Refusal::NoProgram(4711)));
        let yama = |scope, change: fn(&mut Facts)| {
            chosen(|f| {
                (f.may_trace, f.yama) = (false, Some(scope));
                change(f);
            })
        };
        for scope in [1, 2, 3] {
            let refusal = yama(scope, |_| {}).unwrap_err();
            assert!(matches!(refusal, Refusal::Yama { scope: s, .. } if s == scope), "{refusal}");
            assert!(refusal.to_string().contains(&format!("ptrace_scope = {scope}")), "{refusal}");
        }
        assert!(matches!(yama(3, |f| f.capable = true), Err(Refusal::Yama { scope: 3, .. })));
        // these are forbidden, but not by Yama
        for change in [
            |f: &mut Facts| f.descendant = true,
            |f: &mut Facts| f.capable = true,
            |f: &mut Facts| f.same_user = false,
        ] {
            assert!(matches!(yama(1, change), Err(Refusal::NotAllowed { .. })));
        }
        assert!(matches!(yama(0, |_| {}), Err(Refusal::NotAllowed { .. })));
        // the kernel allows it: the target is a descendant, or it named pct
        assert_eq!(chosen(|f| f.yama = Some(1)), Ok(Method::Dlopen));
        assert!(matches!(
            chosen(|f| {
                f.may_trace = false;
                f.same_user = false;
            }),
            Err(Refusal::NotAllowed { why, .. }) if why.contains("another user")
        ));
        assert!(
            matches!(chosen(|f| f.may_trace = false), Err(Refusal::NotAllowed { why, .. }) if why.contains("dumpable"))
        );
        // a program whose executable pct may not read does have one
        let hidden = |f: &mut Facts| (f.may_trace, f.class) = (false, Class::Hidden);
        assert!(matches!(chosen(hidden), Err(Refusal::NotAllowed { why, .. }) if why.contains("dumpable")));
    }
}
