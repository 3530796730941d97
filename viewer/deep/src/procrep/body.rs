//! Decodes procedure bodies.
//!
//! ```text
//! procedure  file: strref, variable table, count H, H head variables, goal, determinism byte
//! variables  version 5: width byte (0, 1, 2 for 1, 2, 4 octets), count, (var, strref name)...
//!            version 6: flag byte 4*width + 2*names + types; if names: num n,
//!            n times (var, strref name, [types: type num])
//! head var   var, initial inst byte, final inst byte
//! goal       type byte, fields, determinism byte
//! info       strref file, int32 line, count, vars bound: ends the fields of goals 7 to 19
//! ```
//! A count is an int32 (negative: 0), a strref an int32 name code, a var as wide as the table says.
//!
//! | goal | fields | goal | fields |
//! |---|---|---|---|
//! | 1 conj | count, goals | 11 assign | target, source |
//! | 2 disj | count, goals | 12 cast | output, input |
//! | 3 switch | byte 0 can fail / 1 cannot, var, count, cases | 13 test | var, var |
//! | 4 if-then-else | 3 goals | 14 foreign | vars |
//! | 5 negation | goal | 15 higher order | closure, vars |
//! | 6 scope | byte 1 cut, goal | 16 method | class info, short method, vars |
//! | 7, 8 (de)construct | var, cons, vars | 17 call, 18 builtin | module, name, vars |
//! | 9, 10 partial 7, 8 | var, cons, maybe-vars | 19 event | name, vars |
//!
//! A case is functor, short arity, count of further (functor, arity), goal.

use super::goal::{
    AtomicGoal, AtomicKind, Case, Detism, Goal, GoalKind, HeadVar, Inst, NamedVar, Procedure, Var,
};
use super::types::{StringTable, Type};
use crate::cursor::{Cursor, Decoded, Fault};
use crate::error::{DeepError, ErrorCode};

/// Goals nested deeper than this are refused, because code that walks a body may be recursive.
const MAX_DEPTH: u32 = 1000;

#[derive(Clone, Copy)]
enum Width {
    One,
    Two,
    Four,
}

struct Body<'a, 'b> {
    cursor: &'a mut Cursor<'b>,
    strings: &'a StringTable<'b>,
    width: Width,
}

pub(super) fn procedure<'b>(
    cursor: &mut Cursor<'b>,
    strings: &StringTable<'b>,
    version: u32,
    types: u32,
) -> Decoded<Procedure> {
    let mut body = Body { cursor, strings, width: Width::One };
    let file = body.strref()?;
    let mut vars = if version >= 6 { body.vars_6(types)? } else { body.vars_5()? };
    let vars_in_file = vars.iter().map(|v| v.var).collect();
    vars.sort_by_key(|v| v.var);
    if let Some(pair) = vars.windows(2).find(|p| p[0].var == p[1].var) {
        let message = format!("duplicate variable {}", pair[0].var.0);
        return Err(DeepError::new(ErrorCode::DuplicateVar, message).at(body.cursor.offset()).into());
    }
    let mut head = Vec::new();
    for _ in 0..body.count()? {
        head.push(HeadVar { var: body.var()?, initial: body.inst()?, last: body.inst()? });
    }
    let goal = body.goal(0)?;
    let detism = body.detism()?;
    if !body.cursor.at_end() {
        let message = "limit mismatch: the procedure is shorter than its size field says";
        return Err(DeepError::new(ErrorCode::LimitMismatch, message).at(body.cursor.offset()).into());
    }
    Ok(Procedure { file, vars, vars_in_file, head, body: goal, detism })
}

impl Body<'_, '_> {
    fn strref(&mut self) -> Decoded<String> {
        let at = self.cursor.offset();
        let code = self.cursor.int32()?.cast_unsigned();
        strref(self.strings, code, at)
    }
    /// An int32 that is a number of elements, each of at least one octet.
    fn count(&mut self) -> Decoded<u32> {
        let n = u32::try_from(self.cursor.int32()?).unwrap_or(0);
        if u64::from(n) > self.cursor.rest_of_file() { Err(self.cursor.truncated()) } else { Ok(n) }
    }
    fn var(&mut self) -> Decoded<Var> {
        Ok(Var(match self.width {
            Width::One => u32::from(self.cursor.byte()?),
            Width::Two => u32::from(self.cursor.short()?),
            Width::Four => self.cursor.int32()?.cast_unsigned(),
        }))
    }
    fn vars(&mut self) -> Decoded<Vec<Var>> {
        (0..self.count()?).map(|_| self.var()).collect()
    }
    fn maybe_vars(&mut self) -> Decoded<Vec<Option<Var>>> {
        let mut vars = Vec::new();
        for _ in 0..self.count()? {
            vars.push(match self.cursor.byte()? {
                0 => None,
                1 => Some(self.var()?),
                n => {
                    return Err(self
                        .cursor
                        .bad_byte(ErrorCode::BadMore, format!("unexpected octet {n} before a variable")));
                }
            });
        }
        Ok(vars)
    }
    fn inst(&mut self) -> Decoded<Inst> {
        Ok(match self.cursor.byte()? {
            0 => Inst::Free,
            1 => Inst::Ground,
            2 => Inst::Other,
            n => return Err(self.cursor.bad_byte(ErrorCode::BadInst, format!("unexpected inst {n}"))),
        })
    }
    fn detism(&mut self) -> Decoded<Detism> {
        let n = self.cursor.byte()?;
        Detism::from_number(n).ok_or_else(|| {
            self.cursor.bad_byte(ErrorCode::BadDeterminism, format!("unexpected determinism {n}"))
        })
    }
    fn set_width(&mut self, n: u8) -> Decoded<()> {
        self.width = match n {
            0 => Width::One,
            1 => Width::Two,
            2 => Width::Four,
            _ => {
                return Err(self
                    .cursor
                    .bad_byte(ErrorCode::BadVarFlag, format!("unexpected width {n} of variables")));
            }
        };
        Ok(())
    }
    fn vars_5(&mut self) -> Decoded<Vec<NamedVar>> {
        let width = self.cursor.byte()?;
        self.set_width(width)?;
        let mut vars = Vec::new();
        for _ in 0..self.count()? {
            vars.push(NamedVar { var: self.var()?, name: self.strref()?, type_number: None });
        }
        Ok(vars)
    }
    fn vars_6(&mut self, types: u32) -> Decoded<Vec<NamedVar>> {
        let flag = self.cursor.byte()?;
        let (names, typed) = (flag & 2 != 0, flag & 1 != 0);
        if typed && !names {
            return Err(self
                .cursor
                .bad_byte(ErrorCode::BadVarFlag, "variables with types but no names".to_owned()));
        }
        self.set_width(flag >> 2)?;
        let mut vars = Vec::new();
        if names {
            for _ in 0..self.cursor.count()? {
                let (var, name) = (self.var()?, self.strref()?);
                let type_number = if typed { Some(type_number(self.cursor, types)?) } else { None };
                vars.push(NamedVar { var, name, type_number });
            }
        }
        Ok(vars)
    }

    fn goals(&mut self, depth: u32) -> Decoded<Vec<Goal>> {
        (0..self.count()?).map(|_| self.goal(depth)).collect()
    }
    fn boxed(&mut self, depth: u32) -> Decoded<Box<Goal>> {
        Ok(Box::new(self.goal(depth)?))
    }
    fn goal(&mut self, depth: u32) -> Decoded<Goal> {
        if depth > MAX_DEPTH {
            let message = format!("goals nested deeper than {MAX_DEPTH}");
            return Err(DeepError::new(ErrorCode::TooDeep, message).at(self.cursor.offset()).into());
        }
        let inside = depth + 1;
        let kind = match self.cursor.byte()? {
            1 => GoalKind::Conj(self.goals(inside)?),
            2 => GoalKind::Disj(self.goals(inside)?),
            3 => self.switch(inside)?,
            4 => {
                let (cond, then, other) = (self.goal(inside)?, self.goal(inside)?, self.goal(inside)?);
                GoalKind::IfThenElse(Box::new([cond, then, other]))
            }
            5 => GoalKind::Neg(self.boxed(inside)?),
            6 => {
                let cut = match self.cursor.byte()? {
                    0 => false,
                    1 => true,
                    n => return Err(self.cursor.bad_byte(ErrorCode::BadCut, format!("unexpected cut {n}"))),
                };
                GoalKind::Scope { cut, goal: self.boxed(inside)? }
            }
            n => GoalKind::Atomic(self.atomic(n)?),
        };
        Ok(Goal { kind, detism: self.detism()? })
    }
    fn switch(&mut self, inside: u32) -> Decoded<GoalKind> {
        let can_fail = match self.cursor.byte()? {
            0 => true,
            1 => false,
            n => {
                return Err(self
                    .cursor
                    .bad_byte(ErrorCode::BadSwitch, format!("unexpected can-fail octet {n} of a switch")));
            }
        };
        let var = self.var()?;
        let mut cases = Vec::new();
        for _ in 0..self.count()? {
            let mut functors = vec![(self.strref()?, self.cursor.short()?)];
            for _ in 0..self.count()? {
                functors.push((self.strref()?, self.cursor.short()?));
            }
            cases.push(Case { functors, goal: self.goal(inside)? });
        }
        Ok(GoalKind::Switch { can_fail, var, cases })
    }
    fn atomic(&mut self, kind: u8) -> Decoded<AtomicGoal> {
        let kind = match kind {
            7 => AtomicKind::Construct { var: self.var()?, cons: self.strref()?, args: self.vars()? },
            8 => AtomicKind::Deconstruct { var: self.var()?, cons: self.strref()?, args: self.vars()? },
            9 => AtomicKind::PartialConstruct {
                var: self.var()?,
                cons: self.strref()?,
                args: self.maybe_vars()?,
            },
            10 => AtomicKind::PartialDeconstruct {
                var: self.var()?,
                cons: self.strref()?,
                args: self.maybe_vars()?,
            },
            11 => AtomicKind::Assign { target: self.var()?, source: self.var()? },
            12 => AtomicKind::Cast { output: self.var()?, input: self.var()? },
            13 => AtomicKind::Test { first: self.var()?, second: self.var()? },
            14 => AtomicKind::Foreign { args: self.vars()? },
            15 => AtomicKind::HigherOrder { closure: self.var()?, args: self.vars()? },
            16 => AtomicKind::Method {
                typeclass_info: self.var()?,
                method: self.cursor.short()?,
                args: self.vars()?,
            },
            17 => AtomicKind::Call { module: self.strref()?, name: self.strref()?, args: self.vars()? },
            18 => AtomicKind::Builtin { module: self.strref()?, name: self.strref()?, args: self.vars()? },
            19 => AtomicKind::Event { name: self.strref()?, args: self.vars()? },
            n => {
                return Err(self
                    .cursor
                    .bad_byte(ErrorCode::BadGoalType, format!("unexpected goal type {n}")));
            }
        };
        Ok(AtomicGoal { kind, file: self.strref()?, line: self.cursor.int32()?, bound: self.vars()? })
    }
}

fn strref(strings: &StringTable<'_>, code: u32, at: u64) -> Decoded<String> {
    strings.text(code).ok_or_else(|| {
        Fault::from(
            DeepError::new(ErrorCode::BadNameCode, format!("name code {code:#x} does not decode")).at(at),
        )
    })
}

/// A number of a type in a table that has `below` entries so far.
fn type_number(cursor: &mut Cursor<'_>, below: u32) -> Decoded<u32> {
    let at = cursor.offset();
    let n = cursor.num()?;
    u32::try_from(n).ok().filter(|&n| n < below).ok_or_else(|| {
        DeepError::new(ErrorCode::BadTypeNumber, format!("type {n} is not defined before it is used"))
            .at(at)
            .into()
    })
}

/// Decodes entry `n` of a type table.
pub(super) fn type_entry(cursor: &mut Cursor<'_>, strings: &StringTable<'_>, n: u32) -> Decoded<Type> {
    let numbers = |cursor: &mut Cursor<'_>, count: u32| -> Decoded<Vec<u32>> {
        (0..count).map(|_| type_number(cursor, n)).collect()
    };
    Ok(match cursor.byte()? {
        args @ 0..=4 => {
            let at = cursor.offset();
            let name = strref(strings, cursor.int32()?.cast_unsigned(), at)?;
            let count = if args == 4 { cursor.count()? } else { u32::from(args) };
            Type::Defined { name, args: numbers(cursor, count)? }
        }
        5 => Type::Builtin("int"),
        6 => Type::Builtin("uint"),
        7 => Type::Builtin("float"),
        8 => Type::Builtin("string"),
        9 => Type::Builtin("char"),
        10 => {
            let count = cursor.count()?;
            Type::Tuple(numbers(cursor, count)?)
        }
        11 => {
            let count = cursor.count()?;
            Type::Pred(numbers(cursor, count)?)
        }
        12 => {
            let count = cursor.count()?;
            Type::Func { args: numbers(cursor, count)?, result: type_number(cursor, n)? }
        }
        13 => Type::Var(cursor.num()?),
        14 => Type::Builtin("int8"),
        15 => Type::Builtin("uint8"),
        16 => Type::Builtin("int16"),
        17 => Type::Builtin("uint16"),
        18 => Type::Builtin("int32"),
        19 => Type::Builtin("uint32"),
        20 => Type::Builtin("int64"),
        21 => Type::Builtin("uint64"),
        kind => {
            return Err(cursor.bad_byte(ErrorCode::BadTypeKind, format!("unexpected kind of type {kind}")));
        }
    })
}
