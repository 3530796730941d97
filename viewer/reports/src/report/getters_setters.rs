//! Accessors of a module's data structures: procedures named `STRUCTURE_get_FIELD` of arity 2 and
//! `STRUCTURE_set_FIELD` of arity 3.

use super::common::{Perf, ProcDesc, Rates, proc_desc};
use super::modules::find;
use crate::analysis::Failure;
use pct_deep::figures::{Desc, Own};
use pct_deep::{ProcLabel, Profile, PsId};
use serde::Serialize;
use std::collections::BTreeMap;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct GettersSettersReport {
    /// The module.
    pub module: String,
    /// Its data structures, by name.
    pub structures: Vec<Structure>,
}

/// A data structure.
#[derive(Clone, Debug, Serialize)]
pub struct Structure {
    /// Its name; may be empty.
    pub name: String,
    /// Its fields, by name.
    pub fields: Vec<Field>,
}

/// A field with an accessor.
#[derive(Clone, Debug, Serialize)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The procedure that reads it.
    pub getter: Option<Accessor>,
    /// The procedure that writes it.
    pub setter: Option<Accessor>,
    /// The sum of both, or the only one.
    pub summary: Perf,
}

/// A getter or a setter; several procedures (modes) count as one.
#[derive(Clone, Debug, Serialize)]
pub struct Accessor {
    /// The procedures.
    pub procs: Vec<ProcDesc>,
    /// Their cost.
    pub perf: Perf,
}

/// The parts of an accessor's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessorName<'a> {
    /// Data structure.
    pub structure: &'a str,
    /// Field.
    pub field: &'a str,
    /// Whether it writes.
    pub sets: bool,
}

/// Splits an accessor's name at the first `_get_` or `_set_`. `None`: the name or the arity is not that of an accessor.
#[must_use]
pub fn accessor_name(name: &str, arity: u32) -> Option<AccessorName<'_>> {
    let get = name.find("_get_");
    let set = name.find("_set_");
    let (at, sets) = match (get, set) {
        (Some(g), Some(s)) if s < g => (s, true),
        (Some(g), _) => (g, false),
        (None, Some(s)) => (s, true),
        (None, None) => return None,
    };
    let wanted = if sets { 3 } else { 2 };
    (arity == wanted).then(|| AccessorName { structure: &name[..at], field: &name[at + 5..], sets })
}

#[derive(Default)]
struct Accessors {
    getters: Vec<PsId>,
    setters: Vec<PsId>,
}

/// The report.
///
/// # Errors
/// There is no such module.
pub fn create(profile: &Profile, name: &str) -> Result<GettersSettersReport, Failure> {
    let module = find(profile, name)?;
    let rates = Rates::from_profile(profile);
    let mut found: BTreeMap<String, BTreeMap<String, Accessors>> = BTreeMap::new();
    for &ps in profile.module_procs(module) {
        let ProcLabel::Ordinary { decl_module, def_module, name, arity, .. } = profile.label(ps) else {
            continue;
        };
        if decl_module != def_module {
            continue;
        }
        let name = String::from_utf8_lossy(name);
        if let Some(a) = accessor_name(&name, arity) {
            let field =
                found.entry(a.structure.to_owned()).or_default().entry(a.field.to_owned()).or_default();
            if a.sets { &mut field.setters } else { &mut field.getters }.push(ps);
        }
    }
    let sum = |procs: &[PsId]| {
        procs.iter().fold((Own::default(), Desc::default()), |(own, desc), &ps| {
            let f = profile.ps_figures(ps);
            (own + f.own, desc + f.desc)
        })
    };
    let accessor = |procs: &[PsId]| {
        let (own, desc) = sum(procs);
        (!procs.is_empty()).then(|| Accessor {
            procs: procs.iter().map(|&ps| proc_desc(profile, ps)).collect(),
            perf: rates.row(&own, &desc),
        })
    };
    let structures = found
        .into_iter()
        .map(|(name, fields)| Structure {
            name,
            fields: fields
                .into_iter()
                .map(|(name, f)| {
                    let (g, s) = (sum(&f.getters), sum(&f.setters));
                    Field {
                        name,
                        getter: accessor(&f.getters),
                        setter: accessor(&f.setters),
                        summary: rates.row(&(g.0 + s.0), &(g.1 + s.1)),
                    }
                })
                .collect(),
        })
        .collect();
    Ok(GettersSettersReport { module: name.to_owned(), structures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accessors_need_the_word_and_the_arity() {
        let name = |n, a| accessor_name(n, a).map(|x| (x.structure.to_owned(), x.field.to_owned(), x.sets));
        assert_eq!(name("pred_info_get_name", 2), Some(("pred_info".into(), "name".into(), false)));
        assert_eq!(name("pred_info_set_name", 3), Some(("pred_info".into(), "name".into(), true)));
        assert_eq!(name("_get_x", 2), Some((String::new(), "x".into(), false)));
        assert_eq!(name("a_set_b_get_c", 3), Some(("a".into(), "b_get_c".into(), true)));
        assert_eq!(name("pred_info_get_name", 3), None);
        assert_eq!(name("forget_me", 2), None);
    }
}
