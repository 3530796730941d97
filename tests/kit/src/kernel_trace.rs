//! A CTF trace in the form of LTTng's kernel tracer, of a simulated machine. Because the machine is simulated, what
//! happened is known exactly: counts of events, and who was on which CPU for how long.
//!
//! Each CPU has its own threads. They run, make system calls, are interrupted, and block until an interrupt wakes them.
//! Streams are written packet by packet, so a trace of any size needs little memory. The format is CTF 1.8 with LTTng's
//! compact event headers: 5 bits of event id and 27 bits of time, or both in full after a pause of 2^27 ns or more.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::Dice;

/// How large the trace and its machine are.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Octets to write, about: the trace ends with the packet that reaches them.
    pub octets: u64,
    /// CPUs.
    pub cpus: u32,
    /// Threads of each CPU.
    pub threads: u32,
    /// Other seeds give other traces.
    pub seed: u64,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Truth {
    /// Events by name.
    pub events: BTreeMap<&'static str, u64>,
    /// Nanoseconds on a CPU by thread id, interrupts of the thread included; the idle threads are not listed.
    pub on_cpu_ns: BTreeMap<i32, u64>,
    /// Time of the first and the last event, ns since 1970.
    pub span: Option<(i64, i64)>,
    /// Octets written.
    pub octets: u64,
}

impl Truth {
    /// Number of all events.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.events.values().sum()
    }

    fn add(&mut self, other: Truth) {
        for (name, n) in other.events {
            *self.events.entry(name).or_default() += n;
        }
        self.on_cpu_ns.extend(other.on_cpu_ns);
        self.octets += other.octets;
        let spans = [self.span, other.span].into_iter().flatten();
        self.span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }
}

/// The clock's value 0 in ns since 1970.
const CLOCK_OFFSET: i64 = 1_795_000_000_000_000_000;
/// Octets of a packet, padding included.
const PACKET: usize = 256 << 10;
/// Octets of a packet before its first event.
const PACKET_HEAD: usize = 4 + 16 + 4 + 8 + 5 * 8 + 8 + 4;
const UUID: [u8; 16] = *b"pct simulation 1";

const SWITCH: usize = 0;
const WAKING: usize = 1;
const IRQ_ENTRY: usize = 2;
const IRQ_EXIT: usize = 3;
/// The first event of system calls: entry and exit of each of [`CALLS`] in turn.
const FIRST_CALL: usize = 4;
const NAMES: [&str; 12] = [
    "sched_switch",
    "sched_waking",
    "irq_handler_entry",
    "irq_handler_exit",
    "syscall_entry_read",
    "syscall_exit_read",
    "syscall_entry_write",
    "syscall_exit_write",
    "syscall_entry_futex",
    "syscall_exit_futex",
    "syscall_entry_epoll_wait",
    "syscall_exit_epoll_wait",
];
/// Number of system calls.
const CALLS: usize = 4;

/// Writes a trace into a new folder.
///
/// # Errors
/// A file cannot be written; the folder exists and is not empty of a trace.
pub fn write(dir: &Path, shape: &Shape) -> io::Result<Truth> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join("metadata"), metadata())?;
    let each = shape.octets / u64::from(shape.cpus.max(1));
    let written: Vec<io::Result<Truth>> = std::thread::scope(|scope| {
        let cpus: Vec<_> = (0..shape.cpus)
            .map(|cpu| {
                scope.spawn(move || {
                    let file = File::create_new(dir.join(format!("channel0_{cpu}")))?;
                    let mut machine = Machine::new(cpu, shape, BufWriter::with_capacity(1 << 20, file));
                    machine.run(each)?;
                    Ok(machine.truth)
                })
            })
            .collect();
        cpus.into_iter()
            .map(|cpu| cpu.join().unwrap_or_else(|_| Err(io::Error::other("a writer panicked"))))
            .collect()
    });
    let mut truth = Truth::default();
    for of_cpu in written {
        truth.add(of_cpu?);
    }
    Ok(truth)
}

/// One CPU and its threads.
struct Machine<W> {
    cpu: u32,
    dice: Dice,
    out: W,
    packet: Vec<u8>,
    packets: u64,
    /// Time of the packet's first event.
    begun: u64,
    /// Time of the last event.
    last: u64,
    now: u64,
    /// The running thread and since when; 0: idle.
    running: (i32, u64),
    /// The threads: id, and the system call in which each is blocked.
    threads: Vec<(i32, Option<usize>)>,
    counts: [u64; NAMES.len()],
    truth: Truth,
}

impl<W: Write> Machine<W> {
    fn new(cpu: u32, shape: &Shape, out: W) -> Machine<W> {
        let first = 1000 + cpu * shape.threads.max(1);
        let id = |n: u32| i32::try_from(first + n).unwrap_or(i32::MAX);
        let now = 1_000_000_000 + u64::from(cpu) * 131;
        Machine {
            cpu,
            dice: Dice::new(shape.seed.wrapping_add(u64::from(cpu) * 7919)),
            out,
            packet: Vec::with_capacity(PACKET),
            packets: 0,
            begun: 0,
            last: 0,
            now,
            running: (0, now),
            threads: (0..shape.threads.max(1)).map(|n| (id(n), None)).collect(),
            counts: [0; NAMES.len()],
            truth: Truth::default(),
        }
    }

    fn run(&mut self, octets: u64) -> io::Result<()> {
        let start = self.now;
        self.switch_to(0, 0)?;
        while self.truth.octets < octets {
            self.idle();
            let woken = self.dice.index(self.threads.len());
            self.interrupt(Some(woken))?;
            self.switch_to(self.threads[woken].0, 0)?;
            self.turn(woken)?;
        }
        self.end_packet()?;
        self.out.flush()?;
        for (name, n) in NAMES.into_iter().zip(self.counts) {
            self.truth.events.insert(name, n);
        }
        let at = |clock: u64| CLOCK_OFFSET.saturating_add_unsigned(clock);
        self.truth.span = Some((at(start), at(self.last)));
        Ok(())
    }

    fn pass(&mut self, least: u64, more: u64) {
        self.now += least + self.dice.below(more);
    }

    /// Nothing to do: mostly short, now and then so long that a compact header has no room for the time.
    fn idle(&mut self) {
        if self.dice.one_in(20_000) {
            self.pass(150_000_000, 100_000_000);
        } else {
            self.pass(2_000, 60_000);
        }
    }

    /// A thread runs until it blocks; before that others may run in its place.
    fn turn(&mut self, mut thread: usize) -> io::Result<()> {
        loop {
            if let Some(call) = self.threads[thread].1.take() {
                self.pass(300, 500);
                self.exit(call)?;
            }
            for _ in 0..self.dice.below(8) {
                self.pass(500, 30_000);
                if self.dice.one_in(9) {
                    self.interrupt(None)?;
                }
                let call = self.dice.index(CALLS);
                self.entry(call)?;
                self.pass(200, 6_000);
                if self.dice.one_in(15) {
                    self.interrupt(None)?;
                }
                self.exit(call)?;
            }
            self.pass(500, 30_000);
            let next = self.dice.index(self.threads.len());
            if next == thread || !self.dice.one_in(3) {
                break;
            }
            // Another thread takes the CPU away.
            self.switch_to(self.threads[next].0, 0)?;
            thread = next;
        }
        let call = self.dice.index(CALLS);
        self.entry(call)?;
        self.pass(300, 2_000);
        self.threads[thread].1 = Some(call);
        self.switch_to(0, 1)
    }

    fn switch_to(&mut self, next: i32, state: i64) -> io::Result<()> {
        let (before, since) = self.running;
        if before != 0 {
            *self.truth.on_cpu_ns.entry(before).or_default() += self.now - since;
        }
        self.running = (next, self.now);
        self.begin(SWITCH, 64)?;
        self.comm(before);
        self.put(&before.to_le_bytes());
        self.put(&20_i32.to_le_bytes());
        self.put(&state.to_le_bytes());
        self.comm(next);
        self.put(&next.to_le_bytes());
        self.put(&20_i32.to_le_bytes());
        Ok(())
    }

    /// An interrupt, which may wake a thread.
    fn interrupt(&mut self, wakes: Option<usize>) -> io::Result<()> {
        let irq = i32::try_from(40 + self.cpu).unwrap_or(i32::MAX);
        self.begin(IRQ_ENTRY, 32)?;
        self.put(&irq.to_le_bytes());
        let name = format!("nvme0q{}\0", self.cpu);
        self.put(name.as_bytes());
        self.pass(300, 900);
        if let Some(thread) = wakes {
            let id = self.threads[thread].0;
            self.begin(WAKING, 28)?;
            self.comm(id);
            self.put(&id.to_le_bytes());
            self.put(&20_i32.to_le_bytes());
            self.put(&self.cpu.to_le_bytes());
            self.pass(200, 300);
        }
        self.begin(IRQ_EXIT, 8)?;
        self.put(&irq.to_le_bytes());
        self.put(&1_i32.to_le_bytes());
        self.pass(200, 400);
        Ok(())
    }

    fn entry(&mut self, call: usize) -> io::Result<()> {
        self.begin(FIRST_CALL + 2 * call, 16)?;
        let fd = 3 + self.dice.below(60);
        self.put(&fd.to_le_bytes());
        self.put(&4096_u64.to_le_bytes());
        Ok(())
    }

    fn exit(&mut self, call: usize) -> io::Result<()> {
        self.begin(FIRST_CALL + 2 * call + 1, 8)?;
        let result = self.dice.below(4097);
        self.put(&result.to_le_bytes());
        Ok(())
    }

    /// The name of a thread as the kernel has it: 16 octets.
    fn comm(&mut self, id: i32) {
        let name = if id == 0 { format!("swapper/{}", self.cpu) } else { format!("worker-{id}") };
        let mut comm = [0; 16];
        name.bytes().take(15).zip(&mut comm).for_each(|(from, to)| *to = from);
        self.put(&comm);
    }

    fn put(&mut self, octets: &[u8]) {
        self.packet.extend_from_slice(octets);
    }

    /// The header of an event at this time; `octets` is the most that its fields take.
    fn begin(&mut self, event: usize, octets: usize) -> io::Result<()> {
        if self.packet.len() + 13 + octets > PACKET {
            self.end_packet()?;
        }
        if self.packet.is_empty() {
            self.packet.resize(PACKET_HEAD, 0);
            (self.begun, self.last) = (self.now, self.now);
        }
        let id = u32::try_from(event).unwrap_or(0);
        if self.now - self.last < 1 << 27 {
            let low = u32::try_from(self.now & ((1 << 27) - 1)).unwrap_or(0);
            self.put(&(id | low << 5).to_le_bytes());
        } else {
            self.put(&[31]);
            self.put(&id.to_le_bytes());
            self.put(&self.now.to_le_bytes());
        }
        self.last = self.now;
        self.counts[event] += 1;
        Ok(())
    }

    fn end_packet(&mut self) -> io::Result<()> {
        if self.packet.is_empty() {
            return Ok(());
        }
        let bits = |octets: usize| octets as u64 * 8;
        let content = bits(self.packet.len());
        let mut head = Vec::with_capacity(PACKET_HEAD);
        head.extend_from_slice(&0xc1fc_1fc1_u32.to_le_bytes());
        head.extend_from_slice(&UUID);
        head.extend_from_slice(&0_u32.to_le_bytes());
        head.extend_from_slice(&u64::from(self.cpu).to_le_bytes());
        for word in [self.begun, self.last, content, bits(PACKET), self.packets, 0] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        head.extend_from_slice(&self.cpu.to_le_bytes());
        self.packet[..PACKET_HEAD].copy_from_slice(&head);
        self.packet.resize(PACKET, 0);
        self.out.write_all(&self.packet)?;
        self.packet.clear();
        self.packets += 1;
        self.truth.octets += PACKET as u64;
        Ok(())
    }
}

/// The metadata, as LTTng writes it.
fn metadata() -> String {
    let uuid: String = UUID
        .iter()
        .enumerate()
        .map(|(at, octet)| format!("{}{octet:02x}", if [4, 6, 8, 10].contains(&at) { "-" } else { "" }))
        .collect();
    let mut out = format!(
        r#"/* CTF 1.8 */
typealias integer {{ size = 5; align = 1; signed = false; }} := uint5_t;
typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;
typealias integer {{ size = 32; align = 8; signed = true; }} := int32_t;
typealias integer {{ size = 64; align = 8; signed = true; }} := int64_t;
trace {{
	major = 1; minor = 8; uuid = "{uuid}"; byte_order = le;
	packet.header := struct {{
		uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id;
	}};
}};
env {{
	hostname = "simulated"; domain = "kernel"; sysname = "Linux"; kernel_release = "6.1.0";
	tracer_name = "lttng-modules"; tracer_major = 2; tracer_minor = 13; tracer_patchlevel = 0;
}};
clock {{ name = "monotonic"; freq = 1000000000; offset = {CLOCK_OFFSET}; }};
typealias integer {{ size = 27; align = 1; signed = false; map = clock.monotonic.value; }} := uint27_clock_monotonic_t;
typealias integer {{ size = 64; align = 8; signed = false; map = clock.monotonic.value; }} := uint64_clock_monotonic_t;
struct packet_context {{
	uint64_clock_monotonic_t timestamp_begin; uint64_clock_monotonic_t timestamp_end;
	uint64_t content_size; uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id;
}};
struct event_header_compact {{
	enum : uint5_t {{ compact = 0 ... 30, extended = 31 }} id;
	variant <id> {{
		struct {{ uint27_clock_monotonic_t timestamp; }} compact;
		struct {{ uint32_t id; uint64_clock_monotonic_t timestamp; }} extended;
	}} v;
}} align(8);
stream {{ id = 0; event.header := struct event_header_compact; packet.context := struct packet_context; }};
"#
    );
    let comm = |name: &str| {
        format!("integer {{ size = 8; align = 8; signed = false; encoding = UTF8; base = 10; }} _{name}[16];")
    };
    for (id, name) in NAMES.iter().enumerate() {
        let fields = match id {
            SWITCH => format!(
                "{} int32_t _prev_tid; int32_t _prev_prio; int64_t _prev_state; {} int32_t _next_tid; int32_t _next_prio;",
                comm("prev_comm"),
                comm("next_comm")
            ),
            WAKING => format!("{} int32_t _tid; int32_t _prio; int32_t _target_cpu;", comm("comm")),
            IRQ_ENTRY => "int32_t _irq; string _name;".into(),
            IRQ_EXIT => "int32_t _irq; int32_t _ret;".into(),
            _ if id % 2 == 0 => "uint64_t _fd; uint64_t _count;".into(),
            _ => "int64_t _ret;".into(),
        };
        out += &format!(
            "event {{ name = \"{name}\"; id = {id}; stream_id = 0; fields := struct {{ {fields} }}; }};\n"
        );
    }
    out
}
