//! Compares the built-in translator with its peers on one program and the same addresses: time, memory, and answers.
//!
//!     tests/benches/big-rust-binary.sh /tmp/big
//!     cargo run --release -p pct-symbols --example symbols_bench -- /tmp/big/big [ADDRESSES] [ROUNDS]
//!
//! Addresses are spread at random over `.text`. Each contender is a process of its own that reads addresses and
//! prints function and line of every inlined frame. So its start, its output and all of its memory count. Rounds are
//! interleaved and medians are printed. The lines are compared with those of binutils `addr2line -a -f -C -i`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use object::{Object, ObjectSection};
use pct_symbols::translator::{Answers, Template};
use pct_symbols::{CodeAddr, Image, ObjectInfo, Options, Symbolizer};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|a| a == "--contender") {
        return contender(&args[2], Path::new(&args[3]));
    }
    let program = args.get(1).ok_or("usage: symbols_bench PROGRAM [ADDRESSES] [ROUNDS]")?;
    let count: usize = args.get(2).map_or(Ok(100_000), |a| a.parse())?;
    let rounds: usize = args.get(3).map_or(Ok(3), |a| a.parse())?;
    let addresses = pick(Path::new(program), count)?;
    let input: String = addresses.iter().fold(String::new(), |mut s, a| {
        let _ = writeln!(s, "{a:#x}");
        s
    });
    println!(
        "{program}: {} MB, {} distinct addresses, {rounds} rounds",
        std::fs::metadata(program)?.len() / 1_000_000,
        addresses.len()
    );
    let own = std::env::current_exe()?.to_string_lossy().into_owned();
    let contenders: Vec<(&str, Vec<&str>)> = vec![
        ("pct-symbols", vec![&own, "--contender", "built-in", program]),
        ("pct-symbols, 1 thread", vec![&own, "--contender", "one-thread", program]),
        ("addr2line crate", vec![&own, "--contender", "crate", program]),
        ("co-process addr2line -f -C", vec![&own, "--contender", "co-process", program]),
        ("addr2line -f -C", vec!["addr2line", "-f", "-C", "-e", program]),
        ("addr2line -a -f -C -i", vec!["addr2line", "-a", "-f", "-C", "-i", "-e", program]),
    ];
    let only = std::env::var("ONLY").ok();
    let mut times: HashMap<&str, Vec<f64>> = HashMap::new();
    let mut outputs: HashMap<&str, (String, u64)> = HashMap::new();
    for _ in 0..rounds {
        for (name, command) in &contenders {
            if only.as_ref().is_some_and(|o| !name.contains(o.as_str())) {
                continue;
            }
            let start = Instant::now();
            match run(command, &input) {
                Ok(output) => {
                    times.entry(name).or_default().push(start.elapsed().as_secs_f64());
                    outputs.insert(name, output);
                }
                Err(e) => println!("{name}: not run: {e}"),
            }
        }
    }
    let median = |name: &str| Some(pct_kit::median(times.get(name)?.clone()));
    let base = median("addr2line -a -f -C -i");
    println!("{:<30} {:>9} {:>9} {:>14}", "", "s", "peak MB", "x addr2line -i");
    for (name, _) in &contenders {
        if let (Some(t), Some((_, memory))) = (median(name), outputs.get(name)) {
            let ratio = base.map_or(String::new(), |b| format!("{:.1}", b / t));
            println!("{name:<30} {t:>9.3} {:>9} {ratio:>14}", memory / 1024);
        }
    }
    if let (Some(a), Some(b)) = (median("co-process addr2line -f -C"), median("addr2line -f -C")) {
        println!("co-process over addr2line < file: {:.2}", b / a);
    }
    let reference = outputs.get("addr2line -a -f -C -i").map(|o| parse(&o.0));
    if let Some(reference) = reference {
        for name in ["pct-symbols", "addr2line crate"] {
            if let Some(mine) = outputs.get(name) {
                compare(name, &parse(&mine.0), &reference);
            }
        }
    }
    Ok(())
}

/// Distinct addresses inside the program's text, in mixed-up order.
fn pick(program: &Path, count: usize) -> Outcome<Vec<u64>> {
    let data = std::fs::read(program)?;
    let elf = object::File::parse(&*data)?;
    let text = elf.section_by_name(".text").ok_or("no .text")?;
    let mut dice = pct_kit::Dice::new(1);
    let mut seen = std::collections::HashSet::new();
    let mut out = Vec::new();
    while out.len() < count.min(text.size() as usize / 2) {
        let address = text.address() + dice.below(text.size());
        if seen.insert(address) {
            out.push(address);
        }
    }
    Ok(out)
}

/// Runs a contender and returns its output and its peak memory in KiB.
fn run(command: &[&str], input: &str) -> Outcome<(String, u64)> {
    let mut child =
        Command::new(command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().ok_or("stdin")?;
    let mut stdout = child.stdout.take().ok_or("stdout")?;
    let id = child.id().to_string();
    let text = std::thread::scope(|scope| -> Outcome<(String, u64)> {
        scope.spawn(move || {
            let _ = stdin.write_all(input.as_bytes());
        });
        let mut text = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        let mut memory = 0;
        loop {
            let n = stdout.read(&mut buffer)?;
            memory = memory.max(pct_kit::peak_kib(&id));
            if n == 0 {
                break;
            }
            text.extend_from_slice(&buffer[..n]);
        }
        Ok((String::from_utf8_lossy(&text).into_owned(), memory))
    })?;
    let ended = child.wait()?;
    if ended.success() { Ok(text) } else { Err(format!("{ended}").into()) }
}

/// Innermost file:line of each address, parsed from the output of `addr2line -a -i -f`.
fn parse(text: &str) -> HashMap<u64, (String, usize)> {
    let mut out = HashMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(address) = line.strip_prefix("0x").and_then(|a| u64::from_str_radix(a, 16).ok()) else {
            continue;
        };
        let (mut place, mut depth) = (String::new(), 0);
        while lines.peek().is_some_and(|l| !l.starts_with("0x")) {
            lines.next();
            let at = lines.next().unwrap_or("").split(" (discriminator").next().unwrap_or("").to_string();
            if depth == 0 {
                place = at;
            }
            depth += 1;
        }
        out.insert(address, (place, depth));
    }
    out
}

fn compare(name: &str, mine: &HashMap<u64, (String, usize)>, theirs: &HashMap<u64, (String, usize)>) {
    let known = |p: &str| !p.starts_with("??") && !p.ends_with(":?") && !p.ends_with(":0");
    let (mut both, mut line, mut depth, mut only_mine, mut only_theirs) = (0, 0, 0, 0, 0);
    let mut shown = 0;
    for (address, (place, frames)) in mine {
        let Some((other, other_frames)) = theirs.get(address) else { continue };
        match (known(place), known(other)) {
            (true, true) => {
                both += 1;
                // Paths may be joined differently ("./", doubled slashes), so only the file's name and the line must
                // agree.
                let tail = |p: &str| p.rsplit('/').next().unwrap_or("").to_string();
                if tail(place) == tail(other) {
                    line += 1;
                } else if shown < 5 {
                    shown += 1;
                    println!("  {address:#x}: {name} {place}, addr2line {other}");
                }
                depth += usize::from(frames == other_frames);
            }
            (true, false) => only_mine += 1,
            (false, true) => only_theirs += 1,
            _ => {}
        }
    }
    println!(
        "{name}: line known to both {both}, equal {line}, equal depth {depth}; only ours {only_mine}, only theirs {only_theirs}"
    );
}

/// One contender: reads addresses from stdin and prints frames on stdout.
fn contender(kind: &str, program: &Path) -> Outcome<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let addresses: Vec<u64> = text
        .lines()
        .map(|l| u64::from_str_radix(l.trim_start_matches("0x"), 16))
        .collect::<Result<_, _>>()?;
    let mut out = String::with_capacity(addresses.len() * 200);
    if kind == "crate" {
        let loader = addr2line::Loader::new(program).map_err(|e| e.to_string())?;
        let mut sorted = addresses.clone();
        sorted.sort_unstable();
        for address in sorted {
            writeln!(out, "{address:#x}")?;
            let mut frames = loader.find_frames(address).map_err(|e| e.to_string())?;
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|f| f.demangle().ok());
                writeln!(out, "{}", name.as_deref().unwrap_or("??"))?;
                let place = frame.location.as_ref();
                let file = place.and_then(|l| l.file).unwrap_or("??");
                writeln!(out, "{file}:{}", place.and_then(|l| l.line).unwrap_or(0))?;
            }
        }
        std::io::stdout().write_all(out.as_bytes())?;
        return Ok(());
    }
    let mut options = Options::default();
    match kind {
        "one-thread" => options.threads = 1,
        "co-process" => {
            options.translator =
                Some(Template::parse("addr2line -f -C -e %o")?.with_answers(Answers::Fixed(2)));
        }
        _ => {}
    }
    let mut symbols = Symbolizer::new(options);
    let object = symbols.add(ObjectInfo::file(program));
    let image = Image::open(program)?;
    let offsets: Vec<u64> = addresses.iter().map(|a| image.offset_of_address(*a).unwrap_or(*a)).collect();
    symbols.resolve(offsets.iter().map(|o| (object, CodeAddr::Pc(*o))));
    for note in symbols.notes() {
        eprintln!("{note}");
    }
    for (address, offset) in addresses.iter().zip(offsets) {
        writeln!(out, "{address:#x}")?;
        for frame in symbols.frames(object, CodeAddr::Pc(offset)) {
            let file = frame.file.map_or("??", |f| symbols.text(f));
            writeln!(out, "{}\n{file}:{}", symbols.text(frame.function), frame.line)?;
        }
    }
    std::io::stdout().write_all(out.as_bytes())?;
    Ok(())
}
