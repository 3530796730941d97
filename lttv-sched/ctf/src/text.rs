//! Writes events as lines of text, in the layout of `babeltrace2 --clock-seconds --no-delta`:
//!
//! ```text
//! [1795295131.094746936] vm demo:tick: { cpu_id = 1 }, { vpid = 4052 }, { n = 3, name = "a" }
//! ```

use std::fmt::Write;

use crate::model::{Base, Bits, BitsKind, EnvValue, Role, Scope, TraceClass};
use crate::reader::{EventTime, Reader};
use crate::values::{FieldValue, View, float, integer};

/// Appends one line, without its end, for the current event of `r`.
pub fn line(out: &mut String, trace: &TraceClass, r: &Reader) {
    let (Some(head), Some(class)) = (r.head(), r.class()) else { return };
    match head.time {
        EventTime::Ns(t) => {
            let (sign, t) = (if t < 0 { "-" } else { "" }, t.unsigned_abs());
            let _ = write!(out, "[{sign}{}.{:09}] ", t / 1_000_000_000, t % 1_000_000_000);
        }
        EventTime::Overflow => out.push_str("[clock overflow] "),
        EventTime::Untimed => {}
    }
    origin(out, trace);
    let _ = write!(out, "{}: ", class.name);
    let start = out.len();
    for s in [Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext, Scope::Payload] {
        let before = out.len();
        if before > start {
            out.push_str(", ");
        }
        let empty = out.len();
        scope(out, r, s);
        if out.len() == empty {
            out.truncate(before);
        }
    }
}

/// Appends the fields of one scope, `{ n = 3, name = "a" }`. Appends nothing if the event has no such scope, or if it
/// is a packet context with only sizes, times and counters.
pub fn scope(out: &mut String, r: &Reader, scope: Scope) {
    let start = out.len();
    r.with(scope, |v| structure(out, v, scope == Scope::PacketContext));
    if scope == Scope::PacketContext && &out[start..] == "{ }" {
        out.truncate(start);
    }
}

/// `host:process:(pid) `, as far as the environment has these.
fn origin(out: &mut String, t: &TraceClass) {
    let mut any = false;
    if let Some(h) = t.env_text("hostname") {
        out.push_str(h);
        any = true;
    }
    if let Some(p) = t.env_text("procname") {
        let _ = write!(out, "{}{p}", if any { ":" } else { "" });
        any = true;
    }
    if let Some(EnvValue::Int(p)) = t.env("vpid") {
        let _ = write!(out, "{}({p})", if any { ":" } else { "" });
        any = true;
    }
    if any {
        out.push(' ');
    }
}

fn structure(out: &mut String, v: View<'_, '_>, packet: bool) {
    out.push('{');
    let mut comma = "";
    for (name, part) in v.parts() {
        if packet && is_packet_field(&part) {
            continue;
        }
        let _ = write!(out, "{comma} {name} = ");
        value(out, part);
        comma = ",";
    }
    out.push_str(" }");
}

/// Fields of a packet context that are not shown with each event.
fn is_packet_field(v: &View<'_, '_>) -> bool {
    match v.seen() {
        FieldValue::Bits(Bits { roles, .. }, _) => roles.iter().any(|r| *r != Role::Cpu),
        FieldValue::VarInt(v, _) => v.roles.iter().any(|r| *r != Role::Cpu),
        _ => false,
    }
}

/// Appends a field's value.
pub fn value(out: &mut String, v: View<'_, '_>) {
    match v.seen() {
        FieldValue::Bits(b, raw) => match b.kind {
            BitsKind::Float => general(out, float(b, raw)),
            BitsKind::Bool => out.push_str(if raw == 0 { "false" } else { "true" }),
            _ => match &b.mappings {
                Some(m) if b.kind != BitsKind::Map => {
                    let n = integer(b.signed(), raw);
                    let mut labels = m.labels(n).peekable();
                    out.push_str("( ");
                    if labels.peek().is_none() {
                        out.push_str("<unknown>");
                    }
                    let mut comma = "";
                    for l in labels {
                        let _ = write!(out, "{comma}\"{}\"", l.replace('\\', "\\\\").replace('"', "\\\""));
                        comma = ", ";
                    }
                    out.push_str(" : container = ");
                    number(out, b.base, n, b.len);
                    out.push_str(" )");
                }
                _ => number(out, b.base, integer(b.signed(), raw), b.len),
            },
        },
        FieldValue::VarInt(i, raw) => number(out, i.base, integer(i.signed, raw), 64),
        FieldValue::Text(t) => quoted(out, &t),
        FieldValue::Blob(b) => {
            out.push('{');
            for b in b {
                let _ = write!(out, " {b:02x}");
            }
            out.push_str(" }");
        }
        FieldValue::Struct => structure(out, v, false),
        FieldValue::Array(_) => {
            out.push('[');
            let mut comma = "";
            for (i, (_, e)) in v.parts().enumerate() {
                let _ = write!(out, "{comma} [{i}] = ");
                value(out, e);
                comma = ",";
            }
            out.push_str(" ]");
        }
        FieldValue::Variant(_, v) => {
            out.push_str("{ ");
            value(out, v);
            out.push_str(" }");
        }
        FieldValue::Optional(Some(v)) => {
            out.push_str("{ ");
            value(out, v);
            out.push_str(" }");
        }
        FieldValue::Optional(None) => out.push_str("{ }"),
    }
}

fn number(out: &mut String, base: Base, n: i128, len: u32) {
    // A negative number in another base than ten is shown as its bit pattern.
    let bits = || n.cast_unsigned() & if len >= 64 { u128::from(u64::MAX) } else { (1 << len) - 1 };
    let _ = match base {
        Base::Decimal => write!(out, "{n}"),
        Base::Hexadecimal => write!(out, "0x{:X}", bits()),
        Base::Octal => write!(out, "0{:o}", bits()),
        Base::Binary => write!(out, "0b{:0w$b}", bits(), w = len as usize),
    };
}

fn quoted(out: &mut String, t: &str) {
    out.push('"');
    for c in t.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{1B}' => out.push_str("\\e"),
            '\u{C}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{B}' => out.push_str("\\v"),
            '\\' | '\'' | '"' | '?' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// C's `%g`: six significant digits, the shorter of fixed and exponent notation.
fn general(out: &mut String, v: f64) {
    if !v.is_finite() {
        let s = if v.is_nan() { "nan" } else { "inf" };
        let _ = write!(out, "{}{s}", if v.is_sign_negative() { "-" } else { "" });
        return;
    }
    let e = format!("{v:.5e}");
    let (mantissa, exp) = e.split_once('e').unwrap_or((&e, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    if (-4..6).contains(&exp) {
        let s = format!("{v:.*}", usize::try_from(5 - exp).unwrap_or(0));
        out.push_str(if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.') } else { &s });
    } else {
        let m = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        let _ = write!(out, "{m}e{}{:02}", if exp < 0 { '-' } else { '+' }, exp.abs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_as_printf_g_makes_them() {
        for (v, want) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (-0.1, "-0.1"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (1.234_567_89, "1.23457"),
            (1e-5, "1e-05"),
            (f64::NAN, "nan"),
            (999_999.5, "1e+06"),
        ] {
            let mut s = String::new();
            general(&mut s, v);
            assert_eq!(s, want);
        }
    }
}
