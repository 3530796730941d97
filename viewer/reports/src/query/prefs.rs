//! The twelve preferences. Each is a field of the query, printed and parsed side by side.

use super::words::{
    AllocFields, Boxes, CallseqFields, Colour, Contour, Cost, Developer, Inactive, Incl, MemFields,
    PortFields, Qualify, Scope, Summarise, TimeFields, TimeFormat, parse_int,
};
use std::fmt;
use std::str::FromStr;

/// Which columns performance tables have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Port counts.
    pub port: PortFields,
    /// Ticks and seconds.
    pub time: TimeFields,
    /// Call sequence numbers.
    pub callseqs: CallseqFields,
    /// Allocations.
    pub allocs: AllocFields,
    /// Memory.
    pub memory: MemFields,
}

impl Fields {
    /// All columns that can be shown at once.
    pub const ALL: Fields = Fields {
        port: PortFields::Counts,
        time: TimeFields::All,
        callseqs: CallseqFields::PerCall,
        allocs: AllocFields::PerCall,
        memory: MemFields::WordsPerCall,
    };
}

/// A criterion for ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostOrder {
    /// What is counted.
    pub cost: Cost,
    /// With or without descendants.
    pub incl: Incl,
    /// Overall or per call.
    pub scope: Scope,
}

impl CostOrder {
    /// Used if a cost order is needed and the preference names none.
    pub const DEFAULT: CostOrder =
        CostOrder { cost: Cost::Callseqs, incl: Incl::Total, scope: Scope::Overall };
}

/// Order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// File, then line.
    Context,
    /// Displayed name.
    Name,
    /// The largest first.
    Cost(CostOrder),
}

impl Order {
    /// The criterion of a cost order, or the default.
    #[must_use]
    pub fn cost(self) -> CostOrder {
        match self {
            Order::Cost(c) => c,
            Order::Context | Order::Name => CostOrder::DEFAULT,
        }
    }
}

/// All preferences of a reader. Every link contains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefs {
    /// Columns.
    pub fields: Fields,
    /// Lines around tables.
    pub boxes: Boxes,
    /// Shading of column groups.
    pub colour: Colour,
    /// Number of ancestors on a clique page; `None`: all. Negative numbers mean 0.
    pub ancestors: Option<i64>,
    /// Procedures listed for each type of recursion.
    pub recursion_procs: i64,
    /// Whether call sites with several callees are one row.
    pub summarise: Summarise,
    /// Order of rows.
    pub order: Order,
    /// Contour exclusion on caller pages.
    pub contour: Contour,
    /// Kept for old links.
    pub time_format: TimeFormat,
    /// Module qualification of names.
    pub qualify: Qualify,
    /// Call sites never called.
    pub inactive_sites: Inactive,
    /// Procedures never called.
    pub inactive_procs: Inactive,
    /// Modules never called.
    pub inactive_modules: Inactive,
    /// Developer mode.
    pub developer: Developer,
}

impl Prefs {
    /// The preferences of a reader who has chosen nothing. `times_matter`: the program itself has more than 10 ticks in
    /// the profile.
    #[must_use]
    pub fn default_for(times_matter: bool) -> Prefs {
        Prefs {
            fields: Fields {
                port: PortFields::Counts,
                time: if times_matter { TimeFields::Ticks } else { TimeFields::None },
                callseqs: CallseqFields::Overall,
                allocs: AllocFields::None,
                memory: MemFields::Words,
            },
            boxes: Boxes::Box,
            colour: Colour::Groups,
            ancestors: Some(5),
            recursion_procs: 20,
            summarise: Summarise::NoSum,
            order: Order::Context,
            contour: Contour::Ignore,
            time_format: TimeFormat::Thousands,
            qualify: Qualify::WhenDifferent,
            inactive_sites: Inactive::Hide,
            inactive_procs: Inactive::Hide,
            inactive_modules: Inactive::Hide,
            developer: Developer::Off,
        }
    }

    /// The same preferences for a profile that was made of samples, with memory or without it: columns that are not
    /// known are left out and do not order rows.
    #[must_use]
    pub fn of_samples(mut self, memory: bool) -> Prefs {
        self.fields = Fields {
            port: PortFields::None,
            time: TimeFields::Time,
            callseqs: CallseqFields::None,
            allocs: match self.fields.allocs {
                AllocFields::Overall | AllocFields::PerCall if memory => AllocFields::Overall,
                _ => AllocFields::None,
            },
            memory: match self.fields.memory {
                MemFields::Words | MemFields::WordsPerCall if memory => MemFields::Words,
                MemFields::Bytes | MemFields::BytesPerCall if memory => MemFields::Bytes,
                _ => MemFields::None,
            },
        };
        if let Order::Cost(order) = &mut self.order {
            if !(memory && matches!(order.cost, Cost::Allocs | Cost::Words)) {
                order.cost = Cost::Time;
            }
            order.scope = Scope::Overall;
        }
        self
    }

    /// The preferences of a reader who has chosen nothing, for a profile that was made of samples.
    #[must_use]
    pub fn default_of_samples(memory: bool) -> Prefs {
        let order = Order::Cost(CostOrder { cost: Cost::Time, incl: Incl::Total, scope: Scope::Overall });
        let mut prefs = Prefs { order, ..Prefs::default_for(true) };
        prefs.fields.allocs = AllocFields::Overall;
        prefs.fields.memory = MemFields::Bytes;
        prefs.of_samples(memory)
    }

    /// The default with every column (for programs; never from a query).
    #[must_use]
    pub fn with_all_fields(times_matter: bool) -> Prefs {
        Prefs { fields: Fields::ALL, ..Prefs::default_for(times_matter) }
    }
}

/// The preferences of a query, which the owner of the profile resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefsIndication {
    /// Given in the query.
    Given(Prefs),
    /// Not given, or not understood.
    Default,
    /// Every column; for internal callers.
    DefaultWithAllFields,
}

impl PrefsIndication {
    /// Resolves the preferences for a profile whose times mean something or not.
    #[must_use]
    pub fn resolve(self, times_matter: bool) -> Prefs {
        match self {
            PrefsIndication::Given(prefs) => prefs,
            PrefsIndication::Default => Prefs::default_for(times_matter),
            PrefsIndication::DefaultWithAllFields => Prefs::with_all_fields(times_matter),
        }
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fields { port, time, callseqs, allocs, memory } = *self;
        write!(
            f,
            "{}-{}-{}-{}-{}",
            port.as_word(),
            time.as_word(),
            callseqs.as_word(),
            allocs.as_word(),
            memory.as_word()
        )
    }
}

/// The text is malformed. All of it is then ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecognised;

fn split<const N: usize>(s: &str, separator: char) -> Result<[&str; N], Unrecognised> {
    let mut parts = [""; N];
    let mut pieces = s.split(separator);
    for part in &mut parts {
        *part = pieces.next().ok_or(Unrecognised)?;
    }
    if pieces.next().is_some() { Err(Unrecognised) } else { Ok(parts) }
}

impl FromStr for Fields {
    type Err = Unrecognised;
    fn from_str(s: &str) -> Result<Self, Unrecognised> {
        let [port, time, callseqs, allocs, memory] = split(s, '-')?;
        Ok(Fields {
            port: PortFields::parse(port).ok_or(Unrecognised)?,
            time: TimeFields::parse(time).ok_or(Unrecognised)?,
            callseqs: CallseqFields::parse(callseqs).ok_or(Unrecognised)?,
            allocs: AllocFields::parse(allocs).ok_or(Unrecognised)?,
            memory: MemFields::parse(memory).ok_or(Unrecognised)?,
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Context => f.write_str("context"),
            Order::Name => f.write_str("name"),
            Order::Cost(CostOrder { cost, incl, scope }) => {
                write!(f, "cost-{}-{}-{}", cost.as_word(), incl.as_word(), scope.as_word())
            }
        }
    }
}

impl FromStr for Order {
    type Err = Unrecognised;
    fn from_str(s: &str) -> Result<Self, Unrecognised> {
        match s {
            "context" => return Ok(Order::Context),
            "name" => return Ok(Order::Name),
            _ => {}
        }
        let ["cost", cost, incl, scope] = split(s, '-')? else { return Err(Unrecognised) };
        Ok(Order::Cost(CostOrder {
            cost: Cost::parse(cost).ok_or(Unrecognised)?,
            incl: Incl::parse(incl).ok_or(Unrecognised)?,
            scope: Scope::parse(scope).ok_or(Unrecognised)?,
        }))
    }
}

impl fmt::Display for Prefs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/", self.fields, self.boxes.as_word(), self.colour.as_word())?;
        match self.ancestors {
            Some(n) => write!(f, "{n}")?,
            None => f.write_str("no")?,
        }
        write!(
            f,
            "/{}/{}/{}/{}/{}/{}/{}{}{}/{}",
            self.recursion_procs,
            self.summarise.as_word(),
            self.order,
            self.contour.as_word(),
            self.time_format.as_word(),
            self.qualify.as_word(),
            self.inactive_sites.as_word(),
            self.inactive_procs.as_word(),
            self.inactive_modules.as_word(),
            self.developer.as_word(),
        )
    }
}

impl FromStr for Prefs {
    type Err = Unrecognised;
    fn from_str(s: &str) -> Result<Self, Unrecognised> {
        let [
            fields,
            boxes,
            colour,
            ancestors,
            recursion,
            summarise,
            order,
            contour,
            time,
            qualify,
            inactive,
            dev,
        ] = split(s, '/')?;
        let mut letters = inactive.chars();
        let mut inactive = || {
            let letter = letters.next().ok_or(Unrecognised)?;
            Inactive::parse(letter.encode_utf8(&mut [0; 4])).ok_or(Unrecognised)
        };
        let (inactive_sites, inactive_procs, inactive_modules) = (inactive()?, inactive()?, inactive()?);
        if letters.next().is_some() {
            return Err(Unrecognised);
        }
        Ok(Prefs {
            fields: fields.parse()?,
            boxes: Boxes::parse(boxes).ok_or(Unrecognised)?,
            colour: Colour::parse(colour).ok_or(Unrecognised)?,
            ancestors: match ancestors {
                "no" => None,
                n => Some(parse_int(n).ok_or(Unrecognised)?),
            },
            recursion_procs: parse_int(recursion).ok_or(Unrecognised)?,
            summarise: Summarise::parse(summarise).ok_or(Unrecognised)?,
            order: order.parse()?,
            contour: Contour::parse(contour).ok_or(Unrecognised)?,
            time_format: TimeFormat::parse(time).ok_or(Unrecognised)?,
            qualify: Qualify::parse(qualify).ok_or(Unrecognised)?,
            inactive_sites,
            inactive_procs,
            inactive_modules,
            developer: Developer::parse(dev).ok_or(Unrecognised)?,
        })
    }
}
