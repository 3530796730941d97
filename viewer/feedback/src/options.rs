//! Command lines by getopt's conventions, with the original tools' messages.
//!
//! `--name`, `--name value`, `--name=value`, `--no-name` for flags, `-v2`, `-v 2`, bundled short flags, `-x-` to negate
//! one. `--` ends the options. Options and plain arguments may be mixed.

/// The argument of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None: the option can be negated.
    Flag,
    /// An integer.
    Int,
    /// Any text.
    Text,
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// The name under which values are stored; the first long one.
    pub name: &'static str,
    /// Other long names.
    pub aliases: &'static [&'static str],
    /// The short name.
    pub short: Option<char>,
    /// Its argument.
    pub takes: Takes,
}

/// The value of an option that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a flag.
    Flag(bool),
    /// Of an integer option.
    Int(i64),
    /// Of a text option.
    Text(String),
}

/// A parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The options given, by name, in order.
    pub values: Vec<(&'static str, Value)>,
    /// Plain arguments.
    pub arguments: Vec<String>,
}

impl Parsed {
    /// The last value given for an option.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().rev().find(|(n, _)| *n == name).map(|(_, v)| v)
    }
    /// The last value of a flag.
    pub fn flag(&self, name: &str, default: bool) -> bool {
        match self.get(name) {
            Some(Value::Flag(on)) => *on,
            _ => default,
        }
    }
    /// The last value of an integer option.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.get(name) {
            Some(Value::Int(n)) => *n,
            _ => default,
        }
    }
}

/// Parses a command line.
///
/// # Errors
/// The message for the first option that is wrong.
pub fn parse(options: &[Opt], args: impl IntoIterator<Item = String>) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            parsed.arguments.extend(args);
            break;
        }
        if let Some(long) = arg.strip_prefix("--") {
            long_option(options, long, &mut args, &mut parsed)?;
        } else if let Some(short) = arg.strip_prefix('-').filter(|s| !s.is_empty()) {
            short_options(options, short, &mut args, &mut parsed)?;
        } else {
            parsed.arguments.push(arg);
        }
    }
    Ok(parsed)
}

fn long_option(
    options: &[Opt],
    text: &str,
    args: &mut impl Iterator<Item = String>,
    parsed: &mut Parsed,
) -> Result<(), String> {
    let find = |name: &str| options.iter().find(|o| o.name == name || o.aliases.contains(&name));
    let (name, given) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let shown = format!("--{name}");
    if let Some(option) = find(name) {
        let value = match (option.takes, given) {
            (Takes::Flag, None) => Value::Flag(true),
            (Takes::Flag, Some(_)) => return Err(format!("option `{shown}' does not allow an argument")),
            (takes, given) => argument(takes, &shown, given.or_else(|| args.next()))?,
        };
        parsed.values.push((option.name, value));
        return Ok(());
    }
    let Some(option) = name.strip_prefix("no-").and_then(find) else {
        return Err(format!("unrecognized option `{shown}'"));
    };
    if option.takes != Takes::Flag {
        return Err(format!(
            "cannot negate option `--{}' -- only boolean, maybe and accumulating options can be negated",
            option.name
        ));
    }
    if given.is_some() {
        return Err(format!("option `{shown}' does not allow an argument"));
    }
    parsed.values.push((option.name, Value::Flag(false)));
    Ok(())
}

fn short_options(
    options: &[Opt],
    text: &str,
    args: &mut impl Iterator<Item = String>,
    parsed: &mut Parsed,
) -> Result<(), String> {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let shown = format!("-{c}");
        let option = options
            .iter()
            .find(|o| o.short == Some(c))
            .ok_or_else(|| format!("unrecognized option `{shown}'"))?;
        if option.takes == Takes::Flag {
            let negated = rest == "-";
            parsed.values.push((option.name, Value::Flag(!negated)));
            if negated {
                return Ok(());
            }
            continue;
        }
        if rest == "-" {
            return Err(format!(
                "cannot negate option `{shown}' -- only boolean, maybe and accumulating options can be negated"
            ));
        }
        let given = if rest.is_empty() { args.next() } else { Some(rest.to_owned()) };
        parsed.values.push((option.name, argument(option.takes, &shown, given)?));
        return Ok(());
    }
    Ok(())
}

fn argument(takes: Takes, shown: &str, given: Option<String>) -> Result<Value, String> {
    let text = given.ok_or_else(|| format!("option `{shown}' needs an argument"))?;
    match takes {
        Takes::Int => text
            .parse()
            .map(Value::Int)
            .map_err(|_| format!("option `{shown}' requires a numeric argument; `{text}' is not numeric")),
        _ => Ok(Value::Text(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: &[Opt] = &[
        Opt { name: "help", aliases: &[], short: Some('h'), takes: Takes::Flag },
        Opt { name: "verbosity", aliases: &["loud"], short: Some('v'), takes: Takes::Int },
        Opt { name: "alg", aliases: &[], short: None, takes: Takes::Text },
    ];
    fn parse_args(args: &[&str]) -> Result<Parsed, String> {
        parse(OPTIONS, args.iter().map(|a| (*a).to_owned()))
    }

    #[test]
    fn every_form_is_understood() {
        let parsed =
            parse_args(&["a", "-hv2", "--loud", "3", "b", "--alg=x=y", "--no-help", "--", "--c"]).unwrap();
        assert_eq!(parsed.arguments, ["a", "b", "--c"]);
        assert_eq!(parsed.int("verbosity", 9), 3);
        assert!(!parsed.flag("help", true));
        assert_eq!(parsed.get("alg"), Some(&Value::Text("x=y".to_owned())));
        assert_eq!(parse_args(&["-v", "-1"]).unwrap().int("verbosity", 0), -1);
        assert!(!parse_args(&["-h", "-h-"]).unwrap().flag("help", true));
        assert_eq!(parse_args(&["-"]).unwrap().arguments, ["-"]);
    }

    #[test]
    fn every_fault_has_its_message() {
        for (args, message) in [
            (vec!["--x"], "unrecognized option `--x'"),
            (vec!["-x"], "unrecognized option `-x'"),
            (vec!["--alg"], "option `--alg' needs an argument"),
            (vec!["--help=1"], "option `--help' does not allow an argument"),
            (vec!["-vx"], "option `-v' requires a numeric argument; `x' is not numeric"),
            (
                vec!["--no-alg"],
                "cannot negate option `--alg' -- only boolean, maybe and accumulating options can be negated",
            ),
        ] {
            assert_eq!(parse_args(&args), Err(message.to_owned()));
        }
    }
}
