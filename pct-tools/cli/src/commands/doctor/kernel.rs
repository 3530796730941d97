//! Whether time in the kernel can be shown with the kernel's functions here, and what would change it.
//!
//! Tried as a user would: a program under the library with `kernel=on`; its file says what the kernel answered.

use nix::errno::Errno;
use pct_format::layout::header as at;
use pct_format::{File, Header};
use pct_profile::load::kernel_refusal;
use pct_symbols::kallsyms::{Kallsyms, KallsymsError};

/// The first kernel that can do it without harm to the program.
const NEEDED: (u64, u64) = (6, 11);

/// What decides it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    release: String,
    /// How samples in the kernel got their user stacks, 0 = there were none.
    join: u64,
    /// Why the kernel refused, 0 = it did not.
    errno: u64,
    /// The same in words.
    reason: Option<String>,
    paranoid: Option<String>,
    kptr_restrict: Option<String>,
    names: Names,
}

/// Whether the kernel's functions have names for this user.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Names {
    Readable,
    /// The kernel hides its addresses.
    Hidden,
    /// For another reason.
    Missing(String),
}

/// One line: yes or no, why, and what would change it. `bytes`: the trial's recording.
pub(super) fn line(bytes: Option<&[u8]>) -> String {
    let file = bytes.and_then(|bytes| File::parse(bytes).ok());
    let word = |at| file.as_ref().map_or(0, |file| Header::header_word(&file.header(), at));
    let setting = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
        text.map(|text| text.trim().to_owned())
    };
    let facts = Facts {
        release: setting("osrelease").unwrap_or_default(),
        join: word(at::KERNEL_JOIN),
        errno: word(at::KERNEL_ERRNO),
        reason: file.as_ref().and_then(|file| kernel_refusal::reason(&file.header())),
        paranoid: setting("perf_event_paranoid"),
        kptr_restrict: setting("kptr_restrict"),
        names: match Kallsyms::read("/proc/kallsyms".as_ref()) {
            Ok(_) | Err(KallsymsError::OtherBoot) => Names::Readable,
            Err(KallsymsError::Hidden) => Names::Hidden,
            Err(why) => Names::Missing(why.to_string()),
        },
    };
    format!("  kernel   {}\n", words(&facts))
}

fn words(facts: &Facts) -> String {
    let or_not_there = |value: &Option<String>| value.clone().unwrap_or_else(|| "not there".into());
    if version(&facts.release) < NEEDED {
        return format!(
            "functions: no, only the names of system calls: kernel {}.{} or later is needed, this is {}",
            NEEDED.0, NEEDED.1, facts.release
        );
    }
    let refused = i32::try_from(facts.errno).ok().filter(|errno| *errno != 0).map(Errno::from_raw);
    match refused {
        Some(Errno::EACCES) => format!(
            "functions: no, only the names of system calls: perf_event_paranoid is {}. For this boot: sysctl \
             kernel.perf_event_paranoid=1; or give the program CAP_PERFMON",
            or_not_there(&facts.paranoid)
        ),
        Some(errno) => format!(
            "functions: no, only the names of system calls: {}",
            facts.reason.as_deref().unwrap_or(errno.desc())
        ),
        None if facts.join == 0 => {
            "functions: no, only the names of system calls: that needs the clock sigtrap, which was not taken"
                .into()
        }
        None => match &facts.names {
            Names::Readable => "functions: yes (pct run --kernel on)".into(),
            Names::Hidden => {
                format!("functions: yes (pct run --kernel on), but without names: {}", unhide(facts))
            }
            Names::Missing(why) => {
                format!("functions: yes (pct run --kernel on), but without names: /proc/kallsyms: {why}")
            }
        },
    }
}

/// What hides the kernel's addresses, and what would show them. The kernel shows them to everybody only with
/// kptr_restrict 0 and perf_event_paranoid 1 or less, and with kptr_restrict 2 to nobody.
fn unhide(facts: &Facts) -> String {
    let number = |value: &Option<String>| value.as_deref().and_then(|value| value.parse::<i64>().ok());
    let hiding: Vec<(&str, &Option<String>, i64)> =
        [("kptr_restrict", &facts.kptr_restrict, 0), ("perf_event_paranoid", &facts.paranoid, 1)]
            .into_iter()
            .filter(|(_, value, most)| number(value).is_none_or(|value| value > *most))
            .collect();
    let are: Vec<String> = hiding
        .iter()
        .map(|(name, value, _)| format!("{name} is {}", value.as_deref().unwrap_or("not there")))
        .collect();
    let set: Vec<String> = hiding.iter().map(|(name, _, most)| format!("kernel.{name}={most}")).collect();
    if hiding.is_empty() {
        return "the kernel hides its addresses. Give pct CAP_SYSLOG".into();
    }
    let or_right = if number(&facts.kptr_restrict) == Some(2) { "" } else { "; or give pct CAP_SYSLOG" };
    format!("{}. For this boot: sysctl {}{or_right}", are.join(" and "), set.join(" "))
}

/// Major and minor number of a release such as `6.1.0-13-amd64`.
fn version(release: &str) -> (u64, u64) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_is_said_with_its_cure() {
        let facts = Facts {
            release: "6.18.44-x".into(),
            join: 1,
            errno: 0,
            reason: None,
            paranoid: Some("2".into()),
            kptr_restrict: Some("1".into()),
            names: Names::Readable,
        };
        assert!(words(&facts).contains("functions: yes"));
        let with = |change: fn(&mut Facts)| {
            let mut facts = facts.clone();
            change(&mut facts);
            words(&facts)
        };
        assert!(with(|f| f.release = "6.1.0-13-amd64".into()).contains("6.11 or later"));
        assert!(with(|f| (f.join, f.errno) = (0, 13)).contains("kernel.perf_event_paranoid=1"));
        let refused = with(|f| (f.join, f.errno, f.reason) = (0, 1, Some("so it is".into())));
        assert!(refused.ends_with("system calls: so it is"), "{refused}");
        assert!(with(|f| f.join = 0).contains("sigtrap, which was not taken"));
        let hidden = |kptr: &str, paranoid: &str| {
            let (kptr_restrict, paranoid) = (Some(kptr.to_owned()), Some(paranoid.to_owned()));
            words(&Facts { names: Names::Hidden, kptr_restrict, paranoid, ..facts.clone() })
        };
        assert!(hidden("1", "2").ends_with(
            "kptr_restrict is 1 and perf_event_paranoid is 2. For this boot: sysctl kernel.kptr_restrict=0 \
             kernel.perf_event_paranoid=1; or give pct CAP_SYSLOG"
        ));
        let already_0 = hidden("0", "2");
        assert!(!already_0.contains("kptr") && already_0.contains("perf_event_paranoid=1"), "{already_0}");
        assert!(!hidden("2", "1").contains("CAP_SYSLOG"), "nobody sees them then");
        let missing = with(|f| f.names = Names::Missing("no symbol in it".into()));
        assert!(missing.ends_with("/proc/kallsyms: no symbol in it"), "{missing}");
    }
}
