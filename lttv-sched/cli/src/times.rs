//! Times as typed and as shown.

use lttv_engine::time::Time;

/// A time as typed. `span` is asked for when the time is relative to the traces.
///
/// # Errors
/// What cannot be understood, or that the traces have no time.
pub fn parse(text: &str, span: impl FnOnce() -> Option<(Time, Time)>) -> Result<Time, String> {
    let wrong = || format!("time `{text}`: expected seconds (12.5), ns (12500000000), +1.5s, +20ms or 50%");
    let needs = |s: Option<(Time, Time)>| {
        s.ok_or_else(|| format!("time `{text}`: the traces have no timed event to count from"))
    };
    if let Some(p) = text.strip_suffix('%') {
        let p: f64 = p.parse().ok().filter(|p: &f64| p.is_finite()).ok_or_else(wrong)?;
        let (a, b) = needs(span())?;
        #[expect(clippy::cast_precision_loss, reason = "a share of the span needs no more")]
        let offset = (i128::from(b.ns()) - i128::from(a.ns())) as f64 * p / 100.0;
        return Ok(Time(a.ns().saturating_add(offset as i64)));
    }
    if let Some(rest) = text.strip_prefix('+') {
        return Ok(needs(span())?.0.saturating_add(offset(rest, 9).ok_or_else(wrong)?));
    }
    if let Some(ns) = text.strip_suffix("ns") {
        return ns.parse().map(Time).map_err(|_| wrong());
    }
    if let Some(s) = text.strip_suffix('s') {
        return decimal(s, 9).map(Time).ok_or_else(wrong);
    }
    // What `events` prints can be pasted: seconds have a point, ns have none.
    let ns = if text.contains('.') { decimal(text, 9) } else { text.parse().ok() };
    ns.map(Time).ok_or_else(wrong)
}

/// Shifts of clocks as typed: the sum of those for all traces (ns), and those with the name of a trace.
///
/// # Errors
/// A shift that is no length of time.
pub fn clock_shifts(texts: &[String]) -> Result<(i64, Vec<(String, i64)>), String> {
    let (mut all, mut named) = (0i64, Vec::new());
    for text in texts {
        let (name, length) = text.rsplit_once('=').map_or((None, text.as_str()), |(name, t)| (Some(name), t));
        let ns = offset(length, 0).ok_or_else(|| {
            format!("--clock-shift {text}: expected ns (-3000000) or a time with a unit (-3ms)")
        })?;
        match name {
            Some(name) => named.push((name.to_string(), ns)),
            None => all = all.saturating_add(ns),
        }
    }
    Ok((all, named))
}

/// A length of time with a unit, or without one in units of 10^-9 s times 10^`digits`.
fn offset(text: &str, digits: u32) -> Option<i64> {
    let units = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
    let unit =
        units.iter().find_map(|(unit, digits)| text.strip_suffix(unit).map(|number| (number, *digits)));
    let (number, digits) = unit.unwrap_or((text, digits));
    decimal(number.strip_prefix('+').unwrap_or(number), digits)
}

/// A decimal number times 10^digits, exactly; more digits after the point are cut.
fn decimal(text: &str, digits: u32) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(t) => (true, t),
        None => (false, text),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && part.is_empty() || !whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut v: i128 = 0;
    for i in 0..whole.len() + digits as usize {
        let d = whole
            .as_bytes()
            .get(i)
            .or_else(|| part.as_bytes().get(i.checked_sub(whole.len())?))
            .unwrap_or(&b'0');
        v = v.checked_mul(10)?.checked_add(i128::from(d - b'0'))?;
    }
    i64::try_from(if negative { -v } else { v }).ok()
}

/// Seconds with nine digits after the point; `-` for events without a time.
pub fn shown(t: Time) -> String {
    if t == Time::UNTIMED {
        return "-".into();
    }
    let (sign, ns) = (if t.ns() < 0 { "-" } else { "" }, t.ns().unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// A length of time with a unit that suits it.
pub fn duration(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let f = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", f / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", f / 1e6),
        _ => format!("{:.3} s", f / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_in_every_form() {
        let span = || Some((Time(1_000), Time(3_000)));
        for (text, want) in [
            ("1.5", 1_500_000_000),
            ("-4.74999", -4_749_990_000),
            ("1500", 1500),
            ("7ns", 7),
            ("2s", 2_000_000_000),
            ("+1us", 2_000),
            ("+0.5us", 1_500),
            ("+2", 2_000_001_000),
            ("50%", 2_000),
            ("0%", 1_000),
        ] {
            assert_eq!(parse(text, span), Ok(Time(want)), "{text}");
        }
        for text in ["", "x", "1.2.3", "+", "%", "1.x", "99999999999999999999", "+1h", "nan%"] {
            assert!(parse(text, span).is_err(), "{text}");
        }
        assert!(parse("50%", || None).unwrap_err().contains("no timed event"));
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_typed(ns in (i64::MIN + 1)..) {
            prop_assert_eq!(parse(&shown(Time(ns)), || None), Ok(Time(ns)));
        }
    }
}
