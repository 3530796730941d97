//! The transitions: what each event changes.

use std::sync::Arc;

use lttv_engine::call::Event;
use lttv_engine::source::EventHead;
use lttv_engine::time::Time;

use super::{
    COMM_LEN, Cpu, CpuMode, DeviceMode, Execution, KernelEvent, Mode, Status, SystemState, Thread, ThreadKey,
    ThreadKind,
};

/// First number among the event's fields of these names.
fn number(event: &Event<'_>, names: &[&str]) -> Option<i64> {
    names.iter().find_map(|name| event.field(name)?.as_i64())
}

fn text(event: &Event<'_>, names: &[&str]) -> Option<Arc<str>> {
    names.iter().find_map(|name| event.field(name)?.as_str().map(Arc::from))
}

fn small(event: &Event<'_>, names: &[&str]) -> Option<u32> {
    u32::try_from(number(event, names)?).ok()
}

/// The option of `prctl` that names the calling thread.
const PR_SET_NAME: i64 = 15;

/// Bits of the numeric `rwbs` field of block events: write, discard.
const WRITES: i64 = 0b11;

fn new_thread(key: ThreadKey, now: Time) -> Thread {
    let idle = key.tid == 0;
    let bottom = Execution {
        // The idle threads are part of the kernel, that is never in doubt.
        mode: if idle { Mode::Syscall } else { Mode::Unknown },
        submode: "".into(),
        entry: now,
        change: now,
        cpu_time: 0,
    };
    Thread {
        key,
        tgid: None,
        ppid: None,
        created: None,
        inserted: now,
        name: "".into(),
        path: "".into(),
        exec_file: None,
        kind: if idle { ThreadKind::Kernel } else { ThreadKind::Unknown },
        cpu: None,
        status: Status::Unnamed,
        status_since: now,
        stack: vec![bottom],
        files: std::collections::BTreeMap::new(),
        freed: false,
        switched_out: false,
    }
}

impl Thread {
    /// Accounts CPU time up to now to what is executing.
    fn account(&mut self, now: Time) {
        let running = self.status == Status::Run || self.status == Status::Exit;
        if let Some(top) = self.stack.last_mut() {
            if running && top.mode != Mode::Unknown {
                top.cpu_time = top.cpu_time.saturating_add(now.since(top.change));
            }
            top.change = now;
        }
    }

    fn enter_status(&mut self, status: Status, now: Time) {
        if self.status != status {
            (self.status, self.status_since) = (status, now);
        }
    }

    /// Takes the command name that an event tells in a field of this name; the latest event is right. Nearly always it
    /// is the name that the thread has, so nothing is allocated for it.
    fn rename(&mut self, event: &Event<'_>, field: &str) {
        let comm = event.field(field);
        let comm = comm.as_ref().and_then(|comm| comm.as_str());
        if let Some(comm) = comm.filter(|comm| !comm.is_empty() && **comm != *self.name) {
            self.name = comm.into();
        }
    }

    /// It runs another file now; the kernel names it after that file.
    fn execute(&mut self, path: Arc<str>) {
        let file = path.rsplit('/').next().unwrap_or(&path);
        let comm = &file[..file.floor_char_boundary(COMM_LEN)];
        if !comm.is_empty() {
            self.name = comm.into();
        }
        self.path = path;
    }

    fn push(&mut self, mode: Mode, submode: Arc<str>, now: Time) {
        self.account(now);
        self.stack.push(Execution { mode, submode, entry: now, change: now, cpu_time: 0 });
    }

    /// Leaves a mode; false when it is not the innermost one or the bottom.
    fn pop(&mut self, mode: Mode, now: Time) -> bool {
        if self.stack.len() < 2 || self.top().mode != mode {
            return false;
        }
        self.account(now);
        let inner = self.stack.pop().map_or(0, |top| top.cpu_time);
        if let Some(top) = self.stack.last_mut() {
            top.cpu_time = top.cpu_time.saturating_add(inner);
            top.change = now;
        }
        true
    }
}

impl SystemState {
    /// The number of the thread whose event it is, by the state before the event: of the thread that runs on the
    /// event's CPU; where no event of the kernel tells who that is, of the one that the event itself names as its own.
    /// That it is about another thread, one that it wakes say, does not make it that thread's.
    pub fn thread_of_event(&self, event: &Event<'_>) -> Option<i64> {
        let running = self.running(event.head.cpu).map(|thread| thread.key.tid);
        running.or_else(|| event.field("vtid")?.as_i64())
    }

    fn cpu_mut(&mut self, cpu: u32) -> &mut Cpu {
        self.cpus.entry(cpu).or_insert_with(|| Cpu { modes: vec![CpuMode::Unknown], ..Cpu::default() })
    }

    fn thread_mut(&mut self, key: ThreadKey, now: Time) -> &mut Thread {
        Arc::make_mut(self.threads.entry(key).or_insert_with(|| Arc::new(new_thread(key, now))))
    }

    fn running_mut(&mut self, cpu: u32) -> Option<&mut Thread> {
        let key = self.cpus.get(&cpu)?.running?;
        self.threads.get_mut(&key).map(Arc::make_mut)
    }

    pub(super) fn apply(&mut self, kind: KernelEvent, detail: &Arc<str>, event: &Event<'_>) {
        let (now, cpu) = (event.time, event.head.cpu);
        let known_cpu = cpu != EventHead::NO_CPU;
        match kind {
            KernelEvent::Switch if known_cpu => self.switch(event, cpu, now),
            KernelEvent::Wakeup => self.wakeup(event, cpu, now),
            KernelEvent::Fork => self.fork(event, cpu, now),
            KernelEvent::Exit => {
                if let Some(tid) = number(event, &["tid", "pid"]) {
                    let thread = self.thread_mut(ThreadKey::new(tid, cpu), now);
                    thread.rename(event, "comm");
                    thread.enter_status(Status::Exit, now);
                }
            }
            KernelEvent::Rename => {
                if let Some(tid) = number(event, &["tid", "pid"]) {
                    self.thread_mut(ThreadKey::new(tid, cpu), now).rename(event, "newcomm");
                }
            }
            KernelEvent::Free => self.free(event, cpu),
            KernelEvent::Exec => self.exec(event, cpu, now),
            KernelEvent::SyscallEntry if known_cpu => self.syscall_entry(detail, event, cpu, now),
            KernelEvent::SyscallExit if known_cpu => self.syscall_exit(event, cpu, now),
            KernelEvent::IrqEntry | KernelEvent::SoftIrqEntry | KernelEvent::TrapEntry if known_cpu => {
                self.enter(kind, event, cpu, now);
            }
            KernelEvent::IrqExit | KernelEvent::SoftIrqExit | KernelEvent::TrapExit if known_cpu => {
                self.leave(kind, event, cpu, now);
            }
            KernelEvent::SoftIrqRaise => {
                if let Some(number) = small(event, &["vec"]) {
                    let softirq = self.softirqs.entry(number).or_default();
                    softirq.pending = softirq.pending.saturating_add(1);
                }
            }
            KernelEvent::BlockIssue => self.block_issue(event),
            KernelEvent::BlockComplete => {
                if let Some(device) = event.field("dev").and_then(|dev| dev.as_u64())
                    && self.devices.get_mut(&device).is_none_or(|modes| modes.pop().is_none())
                {
                    self.oddities.unmatched_exits += 1;
                }
            }
            KernelEvent::DumpProcess => self.dump_process(event, now),
            KernelEvent::DumpFile => {
                let (pid, fd) = (number(event, &["pid"]), small(event, &["fd"]));
                if let (Some(pid), Some(fd), Some(name)) = (pid, fd, text(event, &["filename"])) {
                    self.thread_mut(ThreadKey::new(pid, cpu), now).files.insert(fd, name);
                }
            }
            KernelEvent::DumpInterrupt => {
                if let (Some(irq), Some(name)) = (small(event, &["irq"]), text(event, &["action", "name"])) {
                    self.irq_names.insert(irq, name);
                }
            }
            KernelEvent::DumpDevice => {
                let device = event.field("dev").and_then(|dev| dev.as_u64());
                if let (Some(device), Some(name)) = (device, text(event, &["diskname"])) {
                    self.device_names.insert(device, name);
                }
            }
            KernelEvent::DumpEnd => self.dump_end(now),
            // Without its CPU the event does not tell whose state it changes.
            _ => {}
        }
    }

    fn switch(&mut self, event: &Event<'_>, cpu: u32, now: Time) {
        let (Some(prev), Some(next)) =
            (number(event, &["prev_tid", "prev_pid"]), number(event, &["next_tid", "next_pid"]))
        else {
            return;
        };
        let (prev, next) = (ThreadKey::new(prev, cpu), ThreadKey::new(next, cpu));
        if self.cpu_mut(cpu).running.is_some_and(|running| running != prev) {
            self.oddities.wrong_previous += 1;
            // Its own switch was lost: it does not run any more, that much is sure.
            let lost = self.running_mut(cpu).filter(|thread| thread.status == Status::Run);
            if let Some(lost) = lost {
                lost.account(now);
                lost.enter_status(Status::Unnamed, now);
            }
        }
        let prev_state = number(event, &["prev_state"]).unwrap_or(0);
        let thread = self.thread_mut(prev, now);
        thread.rename(event, "prev_comm");
        thread.account(now);
        thread.cpu = Some(cpu);
        if matches!(thread.status, Status::Exit | Status::Zombie | Status::Dead) {
            thread.enter_status(Status::Zombie, now);
            thread.switched_out = true;
        } else {
            thread.enter_status(if prev_state == 0 { Status::WaitCpu } else { Status::Wait }, now);
        }
        if thread.switched_out && thread.freed {
            self.threads.remove(&prev);
        }
        let thread = self.thread_mut(next, now);
        thread.rename(event, "next_comm");
        if let Some(top) = thread.stack.last_mut() {
            top.change = now;
        }
        if thread.status != Status::Exit {
            thread.enter_status(Status::Run, now);
        }
        thread.cpu = Some(cpu);
        let in_trap = thread.top().mode == Mode::Trap;
        let state = self.cpu_mut(cpu);
        state.running = Some(next);
        state.first_switch.get_or_insert(now);
        state.last_switch = Some(now);
        state.modes = vec![if next.tid == 0 { CpuMode::Idle } else { CpuMode::Busy }];
        if in_trap {
            state.modes.push(CpuMode::Trap);
        }
    }

    fn wakeup(&mut self, event: &Event<'_>, cpu: u32, now: Time) {
        let Some(tid) = number(event, &["tid", "pid"]) else { return };
        let thread = self.thread_mut(ThreadKey::new(tid, cpu), now);
        thread.rename(event, "comm");
        // Who is woken while on its CPU, or exiting, goes on as it is.
        if !matches!(thread.status, Status::Run | Status::Exit | Status::Zombie | Status::Dead) {
            thread.enter_status(Status::WaitCpu, now);
        }
    }

    fn fork(&mut self, event: &Event<'_>, cpu: u32, now: Time) {
        let Some(child) = number(event, &["child_tid", "child_pid"]) else { return };
        let parent = number(event, &["parent_tid", "parent_pid"]);
        let of_parent = parent.and_then(|tid| self.thread(ThreadKey::new(tid, cpu)));
        let inherited = of_parent.map(|parent| (parent.name.clone(), parent.path.clone(), parent.kind));
        let key = ThreadKey::new(child, cpu);
        // The number of a thread that has exited may be given again.
        if self.thread(key).is_some_and(|thread| matches!(thread.status, Status::Zombie | Status::Dead)) {
            self.threads.remove(&key);
        }
        let known = self.threads.contains_key(&key);
        let tgid = number(event, &["child_pid"]);
        let thread = self.thread_mut(key, now);
        thread.ppid = number(event, &["parent_pid"]).or(parent);
        thread.tgid = tgid;
        if known {
            thread.rename(event, "child_comm");
            self.oddities.children_known += 1;
            return;
        }
        thread.created = Some(now);
        thread.cpu = (cpu != EventHead::NO_CPU).then_some(cpu);
        thread.enter_status(Status::WaitFork, now);
        if let Some((name, path, kind)) = inherited {
            (thread.name, thread.path, thread.kind) = (name, path, kind);
        }
        thread.rename(event, "child_comm");
        // A child begins by returning from the call that made it.
        let kernel = thread.kind == ThreadKind::Kernel;
        if let Some(bottom) = thread.stack.first_mut() {
            bottom.mode = if kernel { Mode::Syscall } else { Mode::User };
        }
    }

    fn free(&mut self, event: &Event<'_>, cpu: u32) {
        let Some(tid) = number(event, &["tid", "pid"]) else { return };
        let key = ThreadKey::new(tid, cpu);
        let Some(thread) = self.threads.get_mut(&key).map(Arc::make_mut) else { return };
        thread.freed = true;
        let on_cpu = matches!(thread.status, Status::Run | Status::Exit);
        if thread.switched_out || !on_cpu {
            self.threads.remove(&key);
        }
    }

    fn exec(&mut self, event: &Event<'_>, cpu: u32, now: Time) {
        let Some(path) = text(event, &["filename"]) else { return };
        let key = match number(event, &["tid", "pid"]) {
            Some(tid) => ThreadKey::new(tid, cpu),
            None => match self.cpus.get(&cpu).and_then(|cpu| cpu.running) {
                Some(running) => running,
                None => return,
            },
        };
        self.thread_mut(key, now).execute(path);
    }

    fn syscall_entry(&mut self, name: &Arc<str>, event: &Event<'_>, cpu: u32, now: Time) {
        let Some(thread) = self.running_mut(cpu).filter(|thread| thread.key.tid != 0) else { return };
        if thread.stack.len() == 1 && thread.top().mode == Mode::Unknown {
            // Who makes a system call was running its own code.
            thread.stack[0].mode = Mode::User;
        }
        let name = if name.is_empty() {
            number(event, &["id"]).map_or_else(|| name.clone(), |id| id.to_string().into())
        } else {
            name.clone()
        };
        match &*name {
            "execve" | "execveat" => thread.exec_file = text(event, &["filename"]),
            "prctl" if number(event, &["option"]) == Some(PR_SET_NAME) => {
                thread.rename(event, "arg2");
            }
            _ => {}
        }
        thread.push(Mode::Syscall, name, now);
    }

    fn syscall_exit(&mut self, event: &Event<'_>, cpu: u32, now: Time) {
        let Some(thread) = self.running_mut(cpu).filter(|thread| thread.key.tid != 0) else { return };
        if let Some(path) = thread.exec_file.take()
            && number(event, &["ret"]) == Some(0)
        {
            thread.execute(path);
        }
        if thread.pop(Mode::Syscall, now) {
            return;
        }
        if thread.stack.len() == 1 && thread.top().mode == Mode::Unknown {
            // The entry was before the trace began; it returns to its own code.
            thread.stack[0].mode = Mode::User;
            thread.stack[0].change = now;
        } else {
            self.oddities.unmatched_exits += 1;
        }
    }

    fn enter(&mut self, kind: KernelEvent, event: &Event<'_>, cpu: u32, now: Time) {
        let (mode, cpu_mode, fields) = names(kind);
        let number = small(event, fields).unwrap_or(0);
        let state = self.cpu_mut(cpu);
        state.modes.push(cpu_mode);
        match mode {
            Mode::Irq => state.irqs.push(number),
            Mode::SoftIrq => state.softirqs.push(number),
            _ => state.traps.push(number),
        }
        match mode {
            Mode::Irq => *self.irqs.entry(number).or_default() += 1,
            Mode::SoftIrq => {
                let softirq = self.softirqs.entry(number).or_default();
                softirq.pending = softirq.pending.saturating_sub(1);
                softirq.running = softirq.running.saturating_add(1);
            }
            _ => *self.traps.entry(number).or_default() += 1,
        }
        let name = self.irq_names.get(&number).filter(|_| mode == Mode::Irq).cloned();
        let name = name.unwrap_or_else(|| number.to_string().into());
        if let Some(thread) = self.running_mut(cpu) {
            thread.push(mode, name, now);
        }
    }

    fn leave(&mut self, kind: KernelEvent, event: &Event<'_>, cpu: u32, now: Time) {
        let (mode, cpu_mode, fields) = names(kind);
        let state = self.cpu_mut(cpu);
        let stack = match mode {
            Mode::Irq => &mut state.irqs,
            Mode::SoftIrq => &mut state.softirqs,
            _ => &mut state.traps,
        };
        let number = stack.pop().or_else(|| small(event, fields)).unwrap_or(0);
        let mut matched = state.modes.len() > 1 && state.mode() == cpu_mode;
        if matched {
            state.modes.pop();
        }
        if mode == Mode::SoftIrq {
            let softirq = self.softirqs.entry(number).or_default();
            softirq.running = softirq.running.saturating_sub(1);
        } else {
            let counts = if mode == Mode::Irq { &mut self.irqs } else { &mut self.traps };
            counts.entry(number).and_modify(|count| *count = count.saturating_sub(1));
        }
        if let Some(thread) = self.running_mut(cpu) {
            matched &= thread.pop(mode, now);
        }
        if !matched {
            self.oddities.unmatched_exits += 1;
        }
    }

    fn block_issue(&mut self, event: &Event<'_>) {
        let Some(device) = event.field("dev").and_then(|dev| dev.as_u64()) else { return };
        let writes = event.field("rwbs").is_some_and(|rwbs| match rwbs.as_str() {
            Some(text) => text.contains(['W', 'D']),
            None => rwbs.as_i64().is_some_and(|bits| bits & WRITES != 0),
        });
        let mode = if writes { DeviceMode::BusyWriting } else { DeviceMode::BusyReading };
        self.devices.entry(device).or_default().push(mode);
    }

    fn dump_process(&mut self, event: &Event<'_>, now: Time) {
        let Some(tid) = number(event, &["tid"]) else { return };
        let cpu = small(event, &["cpu"]).unwrap_or(0);
        let kind = match number(event, &["type"]) {
            Some(0) => ThreadKind::User,
            Some(1) => ThreadKind::Kernel,
            _ => ThreadKind::Unknown,
        };
        let status = match number(event, &["status"]) {
            Some(1) => Status::WaitFork,
            Some(2) => Status::WaitCpu,
            Some(3) => Status::Exit,
            Some(4) => Status::Zombie,
            Some(5) => Status::Wait,
            Some(7) => Status::Dead,
            _ => Status::Unnamed,
        };
        let thread = self.thread_mut(ThreadKey::new(tid, cpu), now);
        thread.rename(event, "name");
        thread.tgid = number(event, &["pid"]).or(thread.tgid);
        thread.ppid = number(event, &["ppid"]).or(thread.ppid);
        if kind != ThreadKind::Unknown {
            thread.kind = kind;
        }
        // What events of the trace have said since is newer than the dump.
        if thread.status == Status::Unnamed {
            thread.enter_status(status, now);
        }
    }

    fn dump_end(&mut self, now: Time) {
        for thread in self.threads.values_mut() {
            if thread.stack[0].mode != Mode::Unknown {
                continue;
            }
            let thread = Arc::make_mut(thread);
            let kernel = thread.kind == ThreadKind::Kernel;
            thread.stack[0].mode = if kernel { Mode::Syscall } else { Mode::User };
            thread.stack[0].change = now;
            if thread.status == Status::Unnamed {
                thread.enter_status(if kernel { Status::Wait } else { Status::Run }, now);
            }
        }
    }
}

/// Mode of the thread, mode of the CPU, fields with the number.
fn names(kind: KernelEvent) -> (Mode, CpuMode, &'static [&'static str]) {
    match kind {
        KernelEvent::IrqEntry | KernelEvent::IrqExit => (Mode::Irq, CpuMode::Irq, &["irq"]),
        KernelEvent::SoftIrqEntry | KernelEvent::SoftIrqExit => (Mode::SoftIrq, CpuMode::SoftIrq, &["vec"]),
        _ => (Mode::Trap, CpuMode::Trap, &["trapnr", "trap_id", "trap"]),
    }
}
