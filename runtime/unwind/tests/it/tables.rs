//! pct's rule for every row of real objects' unwind data equals framehop's.
//!
//! For each function of the objects below and each of its rows, one step from the same registers over the same memory
//! must give the same return address, stack pointer and frame pointer. The memory is a function of the address, so a
//! load from a wrong address gives a wrong number.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, Unwinder};
use object::{Object, ObjectSection, ObjectSegment};
use pct_unwind::full::Regs;
use pct_unwind::reader::Section;
use pct_unwind::rule::{Rule, RuleKind};
use pct_unwind::stack::Memory;
use pct_unwind::table::{FdeRef, Header, Table, adopt_list, buckets_for, index_by_scan, scan};
use pct_unwind::{Gregs, cfi};

const SP: u64 = 0x7000_0000_1000;
const BP: u64 = 0x7000_0000_2000;

fn word_at(addr: u64) -> u64 {
    // Above every stack pointer that occurs, and different for each address.
    0x7000_1000_0000 + (addr & 0xff_ffff) * 8
}

struct Synthetic;

impl Memory for Synthetic {
    fn peek(&self, addr: u64) -> Option<u64> {
        Some(word_at(addr))
    }
}

/// Return address, stack pointer, frame pointer of the caller.
type Caller = Option<(u64, u64, u64)>;

fn ours(table: &Table<'_>, fde: &cfi::Fde<'_>, pc: u64) -> Result<Caller, RuleKind> {
    let rule = table.rule(pc).expect("covered");
    let load = |base: u64| word_at(base.wrapping_add(rule.load() as u64));
    let cfa = match rule.kind() {
        RuleKind::Sp => SP.wrapping_add(rule.offset() as u64),
        RuleKind::Bp => BP.wrapping_add(rule.offset() as u64),
        RuleKind::LoadSp => load(SP).wrapping_add(rule.offset() as u64),
        RuleKind::LoadBp => load(BP).wrapping_add(rule.offset() as u64),
        RuleKind::End => return Ok(None),
        RuleKind::Full => {
            let mut gregs = Gregs::default();
            gregs.0[15] = SP;
            gregs.0[10] = BP;
            gregs.0[16] = pc;
            let regs = Regs::all(&gregs).caller(fde, pc, &mut Synthetic).map_err(|_| RuleKind::Full)?;
            return Ok(regs.map(|r| (r.get(16).unwrap(), r.get(7).unwrap(), r.get(6).unwrap_or(0))));
        }
        other => return Err(other),
    };
    let bp = if rule.bp() == 0 { BP } else { word_at(cfa.wrapping_add(rule.bp() as u64)) };
    Ok(Some((word_at(cfa - 8), cfa, bp)))
}

/// The same step with gimli's reader of unwind data and expressions: the slow oracle for what framehop does not follow.
fn gimli_says(eh: &[u8], eh_addr: u64, pc: u64) -> Option<Caller> {
    use gimli::{CfaRule, EhFrame, EndianSlice, LittleEndian, Register, RegisterRule, UnwindSection};
    let frames = EhFrame::new(eh, LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(eh_addr);
    let fde = frames.fde_for_address(&bases, pc, EhFrame::cie_from_offset).ok()?;
    let mut context = gimli::UnwindContext::new();
    let row = fde.unwind_info_for_address(&frames, &bases, &mut context, pc).ok()?;
    let register = |r: Register| match r.0 {
        6 => BP,
        7 => SP,
        16 => pc,
        _ => 0,
    };
    let compute = |e: gimli::UnwindExpression<usize>, first: Option<u64>| {
        let expression: gimli::Expression<EndianSlice<'_, LittleEndian>> = e.get(&frames).ok()?;
        let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 3 };
        let mut run = expression.evaluation(encoding);
        if let Some(v) = first {
            run.set_initial_value(v);
        }
        let mut state = run.evaluate().ok()?;
        loop {
            state = match state {
                gimli::EvaluationResult::Complete => break,
                gimli::EvaluationResult::RequiresRegister { register: r, .. } => {
                    run.resume_with_register(gimli::Value::Generic(register(r))).ok()?
                }
                gimli::EvaluationResult::RequiresMemory { address, .. } => {
                    run.resume_with_memory(gimli::Value::Generic(word_at(address))).ok()?
                }
                _ => return None,
            };
        }
        match run.value_result() {
            Some(v) => v.to_u64(u64::MAX).ok(),
            None => match run.result().first()?.location {
                gimli::Location::Address { address } => Some(address),
                _ => None,
            },
        }
    };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register: r, offset } => register(*r).wrapping_add(*offset as u64),
        CfaRule::Expression(e) => compute(*e, None)?,
    };
    let restored = |r: u16| {
        Some(match row.register(Register(r)) {
            None | Some(RegisterRule::SameValue) => {
                if r == 7 {
                    cfa
                } else {
                    register(Register(r))
                }
            }
            Some(RegisterRule::Offset(k)) => word_at(cfa.wrapping_add(k as u64)),
            Some(RegisterRule::ValOffset(k)) => cfa.wrapping_add(k as u64),
            Some(RegisterRule::Register(from)) => register(from),
            Some(RegisterRule::Expression(e)) => word_at(compute(e, Some(cfa))?),
            Some(RegisterRule::ValExpression(e)) => compute(e, Some(cfa))?,
            _ => return None,
        })
    };
    if matches!(row.register(Register(16)), Some(RegisterRule::Undefined)) {
        return Some(None);
    }
    Some(Some((restored(16)?, restored(7)?, restored(6)?)))
}

#[derive(Debug, Default)]
struct Tally {
    functions: usize,
    rows: usize,
    same: usize,
    full: usize,
    signal: usize,
    bad: usize,
    /// framehop gives up or stops but pct has an answer: registers that framehop does not follow.
    only_ours: usize,
    different: usize,
}

fn compare(path: &str) -> Option<Tally> {
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).expect("an object");
    let section =
        |name: &str| file.section_by_name(name).map(|s| (s.address(), s.data().expect("data").to_vec()));
    let (eh_addr, eh) = section(".eh_frame")?;
    let (hdr_addr, hdr) = section(".eh_frame_hdr")?;
    let lo = file.segments().map(|s| s.address()).min()?;
    let hi = file.segments().map(|s| s.address() + s.size()).max()?;

    let eh_section = Section { bytes: &eh, addr: eh_addr };
    let header = Header::parse(&Section { bytes: &hdr, addr: hdr_addr }).expect("header");
    assert_eq!(header.eh_frame, eh_addr);
    let (at, n) = header.list.expect("list");
    let mut index: Vec<FdeRef> = hdr[at..]
        .chunks_exact(8)
        .take(n)
        .map(|c| FdeRef {
            pc: u32::from_le_bytes(c[..4].try_into().unwrap()),
            fde: u32::from_le_bytes(c[4..].try_into().unwrap()),
        })
        .collect();
    assert!(adopt_list(&mut index, hdr_addr, lo, eh_addr));
    let mut scanned = vec![FdeRef::default(); eh.len() / 16];
    let by_scan = index_by_scan(&eh_section, lo, &mut scanned);
    scanned.truncate(by_scan);
    scanned.sort_by_key(|e| (e.pc, e.fde));
    let mut listed = index.clone();
    listed.sort_by_key(|e| (e.pc, e.fde));
    assert_eq!(scanned, listed, "{path}: the walk over .eh_frame finds what the linker listed");
    let mut buckets = vec![0; buckets_for(n)];
    let table = Table::new(lo, eh_section, &index, &mut buckets);

    let mut unwinder: UnwinderX86_64<Vec<u8>, MayAllocateDuringUnwind> = UnwinderX86_64::new();
    unwinder.add_module(Module::new(
        path.to_string(),
        lo..hi,
        lo,
        ExplicitModuleSectionInfo {
            base_svma: lo,
            eh_frame_svma: Some(eh_addr..eh_addr + eh.len() as u64),
            eh_frame: Some(eh.clone()),
            eh_frame_hdr_svma: Some(hdr_addr..hdr_addr + hdr.len() as u64),
            eh_frame_hdr: Some(hdr.clone()),
            ..Default::default()
        },
    ));
    let mut cache: CacheX86_64<MayAllocateDuringUnwind> = CacheX86_64::new();
    let mut tally = Tally::default();
    scan(&eh_section, |_, fde| {
        tally.functions += 1;
        let mut starts = Vec::new();
        fde.each_row(|from, _| starts.push(from)).expect("well formed");
        starts.push(fde.begin + fde.len - 1);
        for pc in starts {
            if !fde.covers(pc) || table.find(pc).map(|f| f.begin) != Some(fde.begin) {
                continue;
            }
            tally.rows += 1;
            let kind = table.rule(pc).map(Rule::kind);
            tally.full += usize::from(kind == Some(RuleKind::Full));
            let mine = ours(&table, fde, pc);
            let mut regs = UnwindRegsX86_64::new(pc, SP, BP);
            // It is not the first frame, so that framehop does not search for hints in the code.
            let address = FrameAddress::from_return_address(pc + 1).expect("not zero");
            let theirs = unwinder.unwind_frame(address, &mut regs, &mut cache, &mut |a| Ok(word_at(a)));
            let theirs = theirs.map(|ra| ra.map(|ra| (ra, regs.sp(), regs.bp())));
            match (mine, theirs) {
                (Err(RuleKind::Signal), _) => tally.signal += 1,
                (Err(_), _) => tally.bad += 1,
                (Ok(m), Ok(t)) if m == t => tally.same += 1,
                // If the CFA is in another register or computed, framehop gives up or guesses by frame pointer.
                (Ok(m), t) => {
                    let exact = gimli_says(&eh, eh_addr, pc);
                    if exact == Some(m) {
                        tally.only_ours += 1;
                    } else {
                        if tally.different < 5 {
                            eprintln!(
                                "{path}: {pc:#x}: {kind:?}: ours {m:x?}, framehop's {t:x?}, gimli's {exact:x?}"
                            );
                        }
                        tally.different += 1;
                    }
                }
            }
        }
    });
    Some(tally)
}

#[test]
fn every_row_of_real_objects_has_the_same_rule_as_framehop_gives() {
    let own = std::env::current_exe().expect("own path");
    let mut seen = 0;
    for path in [
        own.to_str().expect("utf-8"),
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib/x86_64-linux-gnu/libgcc_s.so.1",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/bin/python3.11",
        "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
    ] {
        let Some(tally) = compare(path) else {
            pct_kit::skip(&format!("{path} is not here or has no unwind data"));
            continue;
        };
        eprintln!("{path}: {tally:?}");
        assert_eq!((tally.different, tally.bad), (0, 0), "{path}");
        assert!(tally.rows > 0 && tally.same + tally.only_ours + tally.signal == tally.rows);
        // What framehop cannot follow is rare, and mostly hand-written assembler.
        assert!(tally.only_ours * 50 < tally.rows, "{path}: {tally:?}");
        seen += 1;
    }
    assert!(seen >= 2);
}
