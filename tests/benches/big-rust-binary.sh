#!/bin/sh
# Makes a big Rust debug binary (some 270 MB by default) for the symbol benches.
#
#   usage: tests/benches/big-rust-binary.sh OUT-DIR [CRATES] [TYPES-PER-CRATE] [OPT-LEVEL]
#
# OUT-DIR gets a small workspace of generated crates (std only, nothing is downloaded) and, at the end,
# OUT-DIR/big: the program with full debug information. Each type is put through hash maps, B-trees, sorts,
# iterator chains and formatting, so the file looks like a large real one: thousands of instances of generic
# code, deep inlining at OPT-LEVEL 1, long names. Nothing is random: the same arguments give the same program.
set -eu
out=${1:?"usage: $0 OUT-DIR [CRATES] [TYPES-PER-CRATE] [OPT-LEVEL]"}
crates=${2:-5}
types=${3:-40}
opt=${4:-0}
mkdir -p "$out/src"
members=
deps=
main=
i=0
while [ "$i" -lt "$crates" ]; do
    p=$out/part$i
    mkdir -p "$p/src"
    printf '[package]\nname = "part%s"\nversion = "0.1.0"\nedition = "2021"\n' "$i" >"$p/Cargo.toml"
    members="$members \"part$i\","
    deps="${deps}part$i = { path = \"part$i\" }
"
    main="$main    total = total.wrapping_add(part$i::run(n));
"
    awk -v types="$types" -v part="$i" 'BEGIN {
        print "#![allow(dead_code)]"
        print "use std::collections::{BTreeMap, HashMap, HashSet, VecDeque, BinaryHeap};"
        print "use std::sync::{Arc, Mutex};"
        for (t = 0; t < types; t++) {
            printf "#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]\n"
            printf "pub struct Item%d { pub id: u64, pub name: String, pub tags: Vec<u%d>, pub next: Option<Box<Item%d>> }\n", t, (t % 2) ? 32 : 16, t
            printf "#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]\n"
            printf "pub enum Event%d { Made(Item%d), Moved { from: u32, to: u64 }, Gone }\n", t, t
            printf "pub mod work%d {\n    use super::*;\n", t
            printf "    pub fn make(n: u64) -> Vec<Item%d> { (0..n).map(|i| Item%d { id: i.wrapping_mul(0x9e3779b97f4a7c15) >> 40, name: format!(\"item {}\", i), tags: (0..(i %% 7)).map(|x| x as _).collect(), next: None }).collect() }\n", t, t
            printf "    pub fn index(v: &[Item%d]) -> HashMap<Item%d, usize> { v.iter().cloned().enumerate().map(|(i, x)| (x, i)).collect() }\n", t, t
            printf "    pub fn tree(v: &[Item%d]) -> BTreeMap<Item%d, Vec<Event%d>> { let mut m = BTreeMap::new(); for x in v { m.entry(x.clone()).or_insert_with(Vec::new).push(Event%d::Made(x.clone())); m.entry(x.clone()).or_default().push(Event%d::Moved { from: 1, to: x.id }); } m.retain(|k, _| k.id %% 5 != 1); m }\n", t, t, t, t, t
            printf "    pub fn ordered(mut v: Vec<Item%d>) -> Vec<Item%d> { v.sort(); v.sort_unstable_by(|a, b| b.name.cmp(&a.name)); v.dedup_by_key(|x| x.id); v.sort_by_cached_key(|x| x.name.clone()); v }\n", t, t
            printf "    pub fn queue(v: &[Item%d]) -> u64 { let mut q: VecDeque<Event%d> = v.iter().cloned().map(Event%d::Made).collect(); let mut h: BinaryHeap<Item%d> = v.iter().cloned().collect(); let mut s: HashSet<Event%d> = HashSet::new(); let mut n = 0; while let Some(e) = q.pop_front() { match &e { Event%d::Made(x) => n += x.id, Event%d::Moved { from, to } => n += *from as u64 + to, Event%d::Gone => {} } s.insert(e); } while let Some(x) = h.pop() { n = n.wrapping_add(x.id); } n + s.len() as u64 }\n", t, t, t, t, t, t, t, t
            printf "    pub fn shared(v: Vec<Item%d>) -> Arc<Mutex<HashMap<u64, Box<dyn Fn(u64) -> Option<Item%d> + Send>>>> { let m: Arc<Mutex<HashMap<u64, Box<dyn Fn(u64) -> Option<Item%d> + Send>>>> = Default::default(); for x in v { let y = x.clone(); m.lock().unwrap().insert(x.id, Box::new(move |n| if n > 3 { Some(y.clone()) } else { None })); } m }\n", t, t, t
            printf "    pub fn words(v: &[Item%d]) -> String { v.iter().zip(v.iter().rev()).filter(|(a, b)| a != b).take_while(|(a, _)| a.id < 1 << 40).flat_map(|(a, b)| [a.name.as_str(), b.name.as_str()]).collect::<Vec<_>>().join(\", \") + &format!(\"{:?}\", v.first()) }\n", t
            printf "    pub fn run(n: u64) -> u64 { let v = make(n); let i = index(&v); let t = tree(&v); let w = words(&v); let s = shared(v.clone()); let q = queue(&v); let o = ordered(v); let c = s.lock().unwrap().values().filter_map(|f| f(n)).count(); (i.len() + t.len() + w.len() + o.len() + c) as u64 + q }\n"
            printf "}\n"
        }
        print "pub fn run(n: u64) -> u64 { let mut t = 0u64;"
        for (t = 0; t < types; t++) printf "    t = t.wrapping_add(work%d::run(n));\n", t
        print "    t\n}"
    }' >"$p/src/lib.rs"
    i=$((i + 1))
done
{
    printf '[package]\nname = "big"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n%s\n' "$deps"
    printf '[workspace]\nmembers = [%s]\n\n[profile.dev]\nopt-level = %s\ndebug = 2\nincremental = false\n' "$members" "$opt"
} >"$out/Cargo.toml"
{
    printf 'fn main() {\n    let n = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(50u64);\n    let mut total = 0u64;\n%s' "$main"
    printf '    println!("{total}");\n}\n'
} >"$out/src/main.rs"
(cd "$out" && CARGO_TARGET_DIR="$out/target" RUSTFLAGS= cargo build -q)
cp -f "$out/target/debug/big" "$out/big"
ls -l "$out/big"
