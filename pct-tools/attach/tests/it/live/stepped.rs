//! Functions of assembly without unwind data return to where the walk says.
//!
//! A program is stopped at moments that chance gives it. Where it stands in such code, its stack is walked; then it is
//! stepped, an instruction at a time, until that function has returned: that address and that stack pointer are the
//! truth. Or it is stepped all the time, and its stack walked before each instruction of such code: what has been
//! called and has not returned is the truth.
//!
//! `PCT_TEST_STEPPED` names another program, with arguments, whose first thread is stopped instead: `PCT_TEST_STEPPED=
//! "ffmpeg -v error -threads 1 -i FILE -f null -"`.

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use pct_attach::memory::{Memory, ProcessMemory};
use pct_attach::ptrace::sys::Regs;
use pct_attach::unwind::{Shared, StackWalker, Unwind};
use pct_unwind::EXACT;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

/// Most steps up to a return.
const MOST_STEPS: usize = 400_000;

#[derive(Debug, Default)]
struct Tally {
    stops: usize,
    right: usize,
    wrong: Vec<String>,
    cut: usize,
    /// It did not return within [`MOST_STEPS`].
    long: usize,
}

/// The program, traced from before its first instruction; killed if this process ends.
struct Stepped {
    child: Child,
    pid: Pid,
    memory: ProcessMemory,
}

impl Stepped {
    fn start(command: &mut Command) -> Stepped {
        let child = command.stdout(Stdio::null()).stdin(Stdio::null()).spawn().expect("it starts");
        let id = child.id() as i32;
        let pid = Pid::from_raw(id);
        ptrace::seize(pid, ptrace::Options::PTRACE_O_EXITKILL).expect("seized");
        Stepped { child, pid, memory: ProcessMemory::open(id, false).expect("its memory") }
    }

    /// Waits for its next stop: the signal that is to be passed on. `None`: it has ended.
    fn wait(&self) -> Option<Option<Signal>> {
        match waitpid(self.pid, Some(WaitPidFlag::__WALL)).expect("a child") {
            WaitStatus::Stopped(_, Signal::SIGTRAP | Signal::SIGSTOP) | WaitStatus::PtraceEvent(..) => {
                Some(None)
            }
            WaitStatus::Stopped(_, signal) => Some(Some(signal)),
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Stops it after a time.
    fn stop_after(&self, micros: u64) -> Option<()> {
        std::thread::sleep(Duration::from_micros(micros));
        ptrace::interrupt(self.pid).ok()?;
        while let Some(signal) = self.wait()? {
            ptrace::cont(self.pid, signal).ok()?;
        }
        Some(())
    }

    fn step(&self) -> Option<()> {
        let mut signal = None;
        loop {
            ptrace::step(self.pid, signal).ok()?;
            signal = self.wait()?;
            if signal.is_none() {
                return Some(());
            }
        }
    }

    fn regs(&self) -> Regs {
        ptrace::getregs(self.pid).expect("it is stopped")
    }

    /// Whether its next instruction calls or returns.
    fn next_flow(&self, rip: u64) -> Option<Flow> {
        let mut code = [0; 4];
        self.memory.read(rip, &mut code).ok()?;
        let opcode =
            code.iter().copied().find(|byte| !matches!(byte, 0x40..=0x4f | 0xf2 | 0xf3 | 0x3e | 0x66));
        let modrm = code.iter().skip_while(|byte| **byte != 0xff).nth(1).copied().unwrap_or(0);
        Some(match opcode {
            Some(0xe8) => Flow::Call,
            Some(0xff) if modrm & 0x38 == 0x10 => Flow::Call,
            Some(0xc2 | 0xc3) => Flow::Return,
            _ => Flow::Other,
        })
    }

    /// Steps until the function in which it stands has returned: where to, and the stack pointer then.
    fn step_out(&self) -> Option<(u64, u64)> {
        let mut depth = 0;
        for _ in 0..MOST_STEPS {
            let flow = self.next_flow(self.regs().rip)?;
            self.step()?;
            match flow {
                Flow::Call => depth += 1,
                Flow::Return if depth == 0 => {
                    let regs = self.regs();
                    return Some((regs.rip, regs.rsp));
                }
                Flow::Return => depth -= 1,
                Flow::Other => {}
            }
        }
        None
    }
}

enum Flow {
    Call,
    Return,
    Other,
}

fn stepped(command: &mut Command, wanted: usize) -> Tally {
    let mut program = Stepped::start(command);
    let mut walker = StackWalker::new(256, Rc::new(Shared::default()));
    let mut tally = Tally::default();
    let mut chance = 1u64;
    let mut stops = || -> Option<()> {
        for round in 0..40 * wanted {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            program.stop_after(chance >> 53)?;
            if round % 64 == 0 {
                walker.refresh(program.pid.as_raw(), &program.memory);
            }
            let regs = program.regs();
            if walker.is_without_data(regs.rip) {
                tally.stops += 1;
                let mut frames = Vec::new();
                let cut = walker.walk(&regs, &program.memory, &mut frames);
                let first = frames.first().copied();
                match (cut, first, program.step_out()) {
                    (_, _, None) => tally.long += 1,
                    (None, Some(first), Some(truth)) if (first.entry & !EXACT, first.cfa) == truth => {
                        tally.right += 1
                    }
                    (None, first, Some(truth)) => {
                        tally.wrong.push(format!("{:#x}: {first:x?}, in truth {truth:x?}", regs.rip));
                    }
                    (Some(_), ..) => tally.cut += 1,
                }
            }
            if tally.stops >= wanted {
                return None;
            }
            ptrace::cont(program.pid, None).ok()?;
        }
        None
    };
    stops();
    // It may have ended.
    let _ = program.child.kill();
    let _ = program.child.wait();
    tally
}

fn kernels(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/victims/kernels.c");
    let out = folder.join("kernels");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-fomit-frame-pointer", "-no-pie"]).arg(source).arg("-o").arg(&out);
    assert!(compiler.status().expect("a C compiler").success());
    out
}

#[test]
fn assembly_without_unwind_data_returns_to_where_the_walk_says() {
    let here = tempfile::tempdir().expect("a folder");
    let other = std::env::var("PCT_TEST_STEPPED").ok();
    let (mut command, wanted) = match &other {
        Some(words) => {
            let mut words = words.split_whitespace();
            let mut command = Command::new(words.next().expect("a program"));
            command.args(words);
            (command, 2000)
        }
        None => {
            let mut command = Command::new(kernels(here.path()));
            command.arg("600");
            (command, 600)
        }
    };
    let tally = stepped(&mut command, wanted);
    let Tally { stops, right, wrong, cut, long } = &tally;
    eprintln!("{stops} stops, {right} right, {} wrong, {cut} cut, {long} too long to tell", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(other.is_some() || *right == wanted, "{tally:?}");
}

/// At each instruction of such code that runs within `STEPS` steps, whatever the moments that chance gives a profiler.
#[test]
fn each_instruction_of_assembly_without_unwind_data_has_its_callers() {
    /// Two rounds of the program, of about 3,000 instructions each, and what is left of the one in which it is stopped.
    const STEPS: usize = 9000;
    let here = tempfile::tempdir().expect("a folder");
    let mut program = Stepped::start(Command::new(kernels(here.path())).arg("600"));
    let mut walker = StackWalker::new(256, Rc::new(Shared::default()));
    program.stop_after(20_000).expect("it runs");
    walker.refresh(program.pid.as_raw(), &program.memory);
    // Return addresses and the stack pointers behind them.
    let mut called: Vec<(u64, u64)> = Vec::new();
    let (mut places, mut wrong) = (BTreeSet::new(), BTreeMap::new());
    for _ in 0..STEPS {
        let regs = program.regs();
        if walker.is_without_data(regs.rip) {
            places.insert(regs.rip);
            let mut frames = Vec::new();
            let cut = walker.walk(&regs, &program.memory, &mut frames);
            let walked = frames.iter().map(|frame| (frame.entry & !EXACT, frame.cfa));
            let is_right = walked.take(called.len()).eq(called.iter().rev().copied());
            if cut.is_some() || !is_right {
                wrong.entry(regs.rip).or_insert_with(|| format!("{cut:?} {frames:x?}, in truth {called:x?}"));
            }
        }
        let flow = program.next_flow(regs.rip).expect("code");
        program.step().expect("it runs");
        let now = program.regs();
        match flow {
            Flow::Call => {
                let mut word = [0; 8];
                program.memory.read(now.rsp, &mut word).expect("the return address");
                called.push((u64::from_ne_bytes(word), now.rsp + 8));
            }
            Flow::Return => drop(called.pop()),
            Flow::Other => {}
        }
    }
    let _ = program.child.kill();
    let _ = program.child.wait();
    eprintln!("{} instructions", places.len());
    assert!(wrong.is_empty(), "{} of {}: {wrong:#x?}", wrong.len(), places.len());
    assert!(places.len() > 150, "{}", places.len());
}
