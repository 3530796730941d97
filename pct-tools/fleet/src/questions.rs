//! The three questions that people ask, as SQL text for the engines that they have.
//!
//! The same question in each dialect; the differences are how files are named, how lists are opened, and how
//! a sum is filtered. Group first, open lists of frames last: that is what keeps a flame graph of days quick.

use crate::INTERVAL_S;

/// Whose dialect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Engine {
    /// DuckDB.
    Duckdb,
    /// Apache Spark.
    Spark,
    /// ClickHouse, or chDB.
    Clickhouse,
    /// Apache DataFusion, with URLs as tables (its command line, or `enable_url_table`).
    Datafusion,
}

/// Which samples.
#[derive(clap::Args, Clone, Debug)]
pub struct Which {
    /// Only this service.
    #[arg(long)]
    pub service: Option<String>,
    /// Only this version of it.
    #[arg(long)]
    pub release: Option<String>,
    /// Only this host.
    #[arg(long)]
    pub host: Option<String>,
    /// Only this environment.
    #[arg(long)]
    pub env: Option<String>,
    /// What is counted: cpu or wall.
    #[arg(long, default_value = "cpu")]
    pub kind: String,
    /// Only from this time on: 2026-11-20T14:00 in UTC, or seconds since 1970.
    #[arg(long, value_parser = time)]
    pub from: Option<i64>,
    /// Only before this time.
    #[arg(long, value_parser = time)]
    pub to: Option<i64>,
    /// Seconds that a row of the root sums up ([`crate::root::interval_s`]).
    #[arg(skip = INTERVAL_S)]
    pub interval_s: i64,
}

impl Default for Which {
    /// All of the CPU time.
    fn default() -> Self {
        let (service, release, host, env, from, to) = (None, None, None, None, None, None);
        Self { service, release, host, env, kind: "cpu".to_owned(), from, to, interval_s: INTERVAL_S }
    }
}

impl Which {
    /// The start of the interval that `from` lies in: rows have the time of their interval's start.
    #[must_use]
    pub fn from_interval(&self) -> Option<i64> {
        self.from.map(|from| from - from.rem_euclid(self.interval_s * 1_000_000))
    }

    /// In words, for titles: `shop 1.42.0 on host-a`.
    #[must_use]
    pub fn title(&self) -> String {
        let mut words = vec![self.service.clone().unwrap_or_else(|| "all services".to_owned())];
        words.extend(self.release.clone());
        words.extend(self.host.as_ref().map(|host| format!("on {host}")));
        words.join(" ")
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Question {
    /// Which functions the time was spent in.
    Top {
        /// Columns to tell apart: `host`, `service`, `version`.
        by: Vec<String>,
        /// Rows.
        limit: u32,
    },
    /// What two versions of a service spend in a function and in what it calls, as shares of each one's time.
    Diff {
        /// The older version.
        old: String,
        /// The newer one.
        new: String,
        /// Rows.
        limit: u32,
    },
    /// Whole stacks as folded lines, for flame graphs.
    Flame,
}

/// A time as microseconds since 1970.
fn time(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse::<i64>() {
        return seconds.checked_mul(1_000_000).ok_or_else(|| "out of range".to_owned());
    }
    let with_zone = if text.ends_with('Z') { text.to_owned() } else { format!("{text}Z") };
    let padded = match with_zone.len() {
        // `2026-11-20T14:00Z` and `2026-11-20Z` are complete enough for people.
        11 => with_zone.replace('Z', "T00:00:00Z"),
        17 => with_zone.replace('Z', ":00Z"),
        _ => with_zone,
    };
    padded
        .parse::<jiff::Timestamp>()
        .map(|time| time.as_microsecond())
        .map_err(|_| "expected a time such as 2026-11-20T14:00, or seconds since 1970".to_owned())
}

/// Text as an SQL literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

impl Engine {
    fn table(self, root: &str, name: &str) -> String {
        let levels = match name {
            "samples" => "/*/*",
            "locations" => "",
            _ => "/*",
        };
        let files = format!("{root}/{name}{levels}/part-*.parquet");
        match self {
            Self::Duckdb => format!("read_parquet({}, union_by_name = true)", literal(&files)),
            Self::Spark => format!("parquet.`{}`", files.replace('`', "``")),
            Self::Clickhouse => format!("file({}, Parquet)", literal(&files)),
            // A folder with all below it; a file that is being written has another extension. In a table's name a
            // backslash is a letter.
            Self::Datafusion => format!("'{}/{name}/'", root.replace('\'', "''")),
        }
    }

    /// Any one of the equal lists of a group.
    fn any_list(self) -> &'static str {
        match self {
            Self::Duckdb | Self::Spark | Self::Clickhouse => "min(frames)",
            Self::Datafusion => "first_value(frames)",
        }
    }

    /// The microseconds of `ts`, as a number.
    fn microseconds(self) -> &'static str {
        match self {
            Self::Duckdb => "epoch_us(ts)",
            Self::Spark => "unix_micros(ts)",
            Self::Clickhouse => "toUnixTimestamp64Micro(ts)",
            Self::Datafusion => "arrow_cast(ts, 'Int64')",
        }
    }

    /// The innermost frame's build-id and address.
    fn leaf(self) -> (&'static str, &'static str) {
        match self {
            Self::Duckdb => ("s.frames[1].build_id", "s.frames[1].addr"),
            Self::Spark => ("s.frames[0].build_id", "s.frames[0].addr"),
            Self::Clickhouse => ("s.frames[1].1", "s.frames[1].2"),
            Self::Datafusion => ("s.frames[1]['build_id']", "s.frames[1]['addr']"),
        }
    }

    /// A stack's part of its version's time. DataFusion divides integers to integers.
    fn share(self) -> &'static str {
        match self {
            Self::Duckdb | Self::Spark | Self::Clickhouse => "v / tot",
            Self::Datafusion => "v / cast(tot as double)",
        }
    }

    fn sum_if(self, value: &str, condition: &str) -> String {
        match self {
            Self::Duckdb => format!("coalesce(sum({value}) filter (where {condition}), 0)"),
            Self::Spark | Self::Clickhouse | Self::Datafusion => {
                format!("sum(case when {condition} then {value} else 0 end)")
            }
        }
    }

    /// Rows (the columns in `keep`, a number `i` from the leaf, build-id `b`, address `a`) of all frames of
    /// `w`'s stacks.
    fn opened(self, keep: &str) -> String {
        match self {
            Self::Duckdb => format!(
                "select {keep}, i, w.frames[i].build_id as b, w.frames[i].addr as a
                 from (select w.*, s.frames as frames, unnest(range(1, len(s.frames) + 1)) as i
                       from w join stacks s using (stack_id)) as w"
            ),
            Self::Spark => format!(
                "select {keep}, i, fr.build_id as b, fr.addr as a
                 from w join stacks s using (stack_id) lateral view posexplode(s.frames) as i, fr"
            ),
            Self::Clickhouse => format!(
                "select {keep}, i, fr.1 as b, fr.2 as a from w join stacks s using (stack_id)
                 array join s.frames as fr, arrayEnumerate(s.frames) as i"
            ),
            Self::Datafusion => format!(
                "select {keep}, i, fr['build_id'] as b, fr['addr'] as a
                 from (select w.*, unnest(s.frames) as fr,
                       unnest(range(1, cast(array_length(s.frames) as bigint) + 1)) as i
                       from w join stacks s using (stack_id)) as w"
            ),
        }
    }
}

/// The question as one SQL statement over the files below `root`.
#[must_use]
pub fn sql(engine: Engine, root: &str, which: &Which, question: &Question) -> String {
    let mut conditions = vec![format!("kind = {}", literal(&which.kind))];
    conditions.extend(which.release.iter().map(|version| format!("version = {}", literal(version))));
    conditions.extend(which.env.iter().map(|env| format!("env = {}", literal(env))));
    conditions.extend(which.service.iter().map(|service| format!("service = {}", literal(service))));
    conditions.extend(which.host.iter().map(|host| format!("host = {}", literal(host))));
    let ts = engine.microseconds();
    conditions.extend(which.from_interval().map(|from| format!("{ts} >= {from}")));
    conditions.extend(which.to.map(|to| format!("{ts} < {to}")));
    if let Question::Diff { old, new, .. } = question {
        conditions.push(format!("version in ({}, {})", literal(old), literal(new)));
    }
    let conditions = conditions.join(" and ");
    let table = |name| engine.table(root, name);
    // Hosts without symbols wrote `[object+0x1234]`; a name from any other host is better.
    let head = |keep: &str| {
        format!(
            "with w as (select {keep}, sum(value) as v from {} where {conditions} and value > 0 group by {keep}),
             stacks as (select stack_id, {} as frames from {} group by stack_id),
             locations as (select build_id, addr, depth,
             coalesce(min(case when function not like '[%' then function end), min(function)) as function
             from {} group by build_id, addr, depth)",
            table("samples"),
            engine.any_list(),
            table("stacks"),
            table("locations")
        )
    };
    let text = match question {
        Question::Top { by, limit } => {
            let (build, addr) = engine.leaf();
            let keep = std::iter::once("stack_id").chain(by.iter().map(String::as_str)).collect::<Vec<_>>();
            let shown: String = by.iter().map(|column| format!("{column}, ")).collect();
            format!(
                "{}
                 select {shown}l.function as function, sum(v) / 1e9 as cpu_s from w join stacks s using (stack_id)
                 join locations l on l.build_id = {build} and l.addr = {addr} where l.depth = 0
                 group by {shown}l.function order by cpu_s desc, function limit {limit}",
                head(&keep.join(", "))
            )
        }
        Question::Diff { old, new, limit } => format!(
            "{},
             f as ({}),
             n as (select distinct f.version as version, f.stack_id as stack_id, f.v as v, l.function as function
                   from f join locations l on l.build_id = f.b and l.addr = f.a),
             t as (select version, sum(v) as tot from w group by version)
             select function, {} as old, {} as new, {} - {} as change from n join t using (version)
             group by function order by abs(change) desc, function limit {limit}",
            head("version, stack_id"),
            engine.opened("version, w.stack_id as stack_id, v"),
            engine.sum_if(engine.share(), &format!("version = {}", literal(old))),
            engine.sum_if(engine.share(), &format!("version = {}", literal(new))),
            engine.sum_if(engine.share(), &format!("version = {}", literal(new))),
            engine.sum_if(engine.share(), &format!("version = {}", literal(old))),
        ),
        Question::Flame => {
            let names = match engine {
                Engine::Duckdb => "string_agg(function, ';' order by i desc, depth desc)",
                Engine::Datafusion => "array_to_string(array_agg(function order by i desc, depth desc), ';')",
                Engine::Spark => {
                    "array_join(transform(reverse(array_sort(collect_list(struct(i, depth, function)))), x -> x.function), ';')"
                }
                Engine::Clickhouse => {
                    "arrayStringConcat(arrayMap(x -> x.3, arrayReverseSort(groupArray((i, depth, function)))), ';')"
                }
            };
            format!(
                "{},
                 f as ({})
                 select {names} as stack, max(v) as ns from f join locations l on l.build_id = f.b and l.addr = f.a
                 group by f.stack_id order by stack, ns",
                head("stack_id"),
                engine.opened("w.stack_id as stack_id, v")
            )
        }
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join("\n") + ";\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_a_literal() {
        let which = Which { service: Some("x' or 'a'='a".into()), ..Which::default() };
        let top = Question::Top { by: vec!["host".into()], limit: 5 };
        let text = sql(Engine::Duckdb, "/r", &which, &top);
        assert!(text.contains("service = 'x'' or ''a''=''a'"), "{text}");
    }

    #[test]
    fn times_are_of_the_calendar_or_seconds() {
        assert_eq!(time("1457113583"), Ok(1_457_113_583_000_000));
        for text in ["2026-11-20T14:00", "2026-11-20T14:00:00", "2026-11-20T14:00:00Z"] {
            assert_eq!(time(text), Ok(1_795_183_200_000_000), "{text}");
        }
        assert_eq!(time("2026-11-20"), Ok(1_795_132_800_000_000));
        assert!(time("yesterday").is_err());
    }
}
