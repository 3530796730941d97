//! Parses typed times and shows times.

use std::sync::OnceLock;

use jiff::civil::{DateTime, Time as TimeOfDay};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use lttv_engine::time::Time;

/// How times are shown, and the zone of times of day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shown {
    /// Seconds since the clock's origin. Typed times of day are local.
    #[default]
    Seconds,
    /// Local date and time of day.
    Local,
    /// Date and time of day in UTC.
    Utc,
}

impl Shown {
    fn zone(self) -> TimeZone {
        if self == Shown::Utc { TimeZone::UTC } else { TimeZone::system() }
    }
}

static SHOWN: OnceLock<(Shown, TimeZone)> = OnceLock::new();

/// Sets how all times of this process are shown. Only the first call has an effect.
pub fn show_as(shown: Shown) {
    let _ = SHOWN.set((shown, shown.zone()));
}

fn zone() -> TimeZone {
    SHOWN.get().map_or_else(|| Shown::default().zone(), |(_, zone)| zone.clone())
}

/// The date and time of day of a time, if the calendar has it.
fn zoned(t: Time, zone: TimeZone) -> Option<Zoned> {
    Some(Timestamp::from_nanosecond(t.ns().into()).ok()?.to_zoned(zone))
}

/// A date with a time of day, or a time of day on the day of `first`.
fn wall_clock(text: &str, zone: TimeZone, first: impl FnOnce() -> Option<Time>) -> Option<Time> {
    let (text, zone) = match text.strip_suffix(['Z', 'z']) {
        Some(text) => (text, TimeZone::UTC),
        None => (text, zone),
    };
    let date_time = match text.parse::<TimeOfDay>() {
        Ok(time) => zoned(first()?, zone.clone())?.date().to_datetime(time),
        Err(_) => text.parse::<DateTime>().ok()?,
    };
    let ns = date_time.to_zoned(zone).ok()?.timestamp().as_nanosecond();
    i64::try_from(ns).ok().map(Time)
}

/// Parses a typed time. `span` is called if the time is relative to the traces.
///
/// # Errors
/// The text is invalid, or the traces have no time.
pub fn parse(text: &str, span: impl Fn() -> Option<(Time, Time)>) -> Result<Time, String> {
    let wrong = || {
        format!(
            "time `{text}`: expected seconds (12.5), ns (12500000000), +1.5s, +20ms, 50%, 17:46:23 or 2016-03-04 17:46:23.5"
        )
    };
    let needs = |s: Option<(Time, Time)>| {
        s.ok_or_else(|| format!("time `{text}`: the traces have no timed event to count from"))
    };
    if let Some(p) = text.strip_suffix('%') {
        let p: f64 = p.parse().ok().filter(|p: &f64| p.is_finite()).ok_or_else(wrong)?;
        let (a, b) = needs(span())?;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a share of the span needs no more; what is too large is cut to the ends"
        )]
        let offset = ((i128::from(b.ns()) - i128::from(a.ns())) as f64 * p / 100.0) as i64;
        return Ok(Time(a.ns().saturating_add(offset)));
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
    if text.contains(':') {
        return wall_clock(text, zone(), || Some(span()?.0)).ok_or_else(wrong);
    }
    // Output of `events` can be pasted: seconds have a point, ns do not.
    if text.contains('.') {
        return decimal(text, 9).map(Time).ok_or_else(wrong);
    }
    let ns: i64 = text.parse().map_err(|_| wrong())?;
    let seconds = |t: Time| t.ns().div_euclid(1_000_000_000);
    match span() {
        // Whole seconds, as people copy them from elsewhere. The second of the first event begins before that event.
        Some((first, last))
            if ns != 0
                && !(first.ns()..=last.ns()).contains(&ns)
                && (seconds(first)..=seconds(last).saturating_add(1)).contains(&ns) =>
        {
            Ok(Time(ns.saturating_mul(1_000_000_000)))
        }
        _ => Ok(Time(ns)),
    }
}

/// Typed clock shifts: the sum of those for all traces (ns), and those with the name of a trace.
///
/// # Errors
/// A shift is not a length of time.
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

/// A length of time with a unit. Without one, its unit is 10^-9 s times 10^`digits`.
fn offset(text: &str, digits: u32) -> Option<i64> {
    let units = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
    let unit =
        units.iter().find_map(|(unit, digits)| text.strip_suffix(unit).map(|number| (number, *digits)));
    let (number, digits) = unit.unwrap_or((text, digits));
    decimal(number.strip_prefix('+').unwrap_or(number), digits)
}

/// A decimal number times 10^digits, exactly. Further digits after the point are cut.
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

/// Seconds with nine digits after the point, or date and time of day ([`show_as`]); `-` for events without a time.
pub fn shown(t: Time) -> String {
    if t == Time::UNTIMED {
        return "-".into();
    }
    if let Some((Shown::Local | Shown::Utc, zone)) = SHOWN.get()
        && let Some(zoned) = zoned(t, zone.clone())
    {
        return zoned.strftime("%Y-%m-%d %H:%M:%S.%9f").to_string();
    }
    let (sign, ns) = (if t.ns() < 0 { "-" } else { "" }, t.ns().unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// A length of time with a suitable unit.
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

    #[test]
    fn whole_numbers_are_seconds_where_the_traces_lie() {
        let span = || Some((Time(1_457_113_582_500_000_000), Time(1_457_113_590_000_000_007)));
        let seconds = |n: i64| Ok(Time(n * 1_000_000_000));
        assert_eq!(parse("1457113583", span), seconds(1_457_113_583));
        assert_eq!(parse("1457113582", span), seconds(1_457_113_582), "the second of the first event");
        assert_eq!(parse("1457113591", span), seconds(1_457_113_591), "the end of the last second");
        assert_eq!(parse("1457113599", span), Ok(Time(1_457_113_599)));
        assert_eq!(parse("1457113583000000001", span), Ok(Time(1_457_113_583_000_000_001)));
        // The clock counts from its start: both readings are possible, but only ns are within the traces.
        assert_eq!(parse("5", || Some((Time(0), Time(9_000_000_000)))), Ok(Time(5)));
    }

    #[test]
    fn times_of_day_are_of_the_day_of_the_first_event() {
        let first = || Some(Time(1_457_113_582_500_000_000));
        let utc = |text: &str| wall_clock(text, TimeZone::UTC, first).map(Time::ns);
        assert_eq!(utc("17:46:23"), Some(1_457_113_583_000_000_000));
        assert_eq!(utc("2016-03-04 17:46:23.5"), Some(1_457_113_583_500_000_000));
        assert_eq!(utc("2016-03-04T17:46:23.5Z"), Some(1_457_113_583_500_000_000));
        assert_eq!(
            wall_clock("18:46:23", TimeZone::fixed(jiff::tz::offset(1)), first),
            Some(Time(1_457_113_583_000_000_000))
        );
        assert_eq!(utc("25:00:00"), None);
        assert_eq!(utc("2016-02-30 10:00:00"), None);
        assert_eq!(wall_clock("10:00:00", TimeZone::UTC, || None), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_typed(ns in (i64::MIN + 1)..) {
            prop_assert_eq!(parse(&shown(Time(ns)), || None), Ok(Time(ns)));
        }
    }
}
