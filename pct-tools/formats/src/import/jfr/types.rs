//! What the events and constants of a chunk consist of, as its metadata says.

use super::fields::{Fields, Text};
use rustc_hash::FxHashMap;

/// Elements within elements are at most so many deep, and so are values within values.
pub(super) const DEEPEST: usize = 32;

/// Most fields of a value, with those of the values in it.
const MOST_FIELDS: usize = 4_096;

/// What the numbers of a field are of: bytes, or a time in this unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Ticks,
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
    Bytes,
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    /// The id of its type.
    pub(super) class: i64,
    /// It is the key of a constant.
    pub(super) is_constant: bool,
    pub(super) is_array: bool,
    pub(super) measure: Option<Measure>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// The types of a chunk, by their ids.
#[derive(Default)]
pub(super) struct Classes {
    by_id: FxHashMap<i64, Class>,
}

/// A part of the tree that the metadata is.
#[derive(Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn of_name(&self, name: &str) -> impl Iterator<Item = &Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    fn read(o: &mut Fields<'_>, texts: &[String], depth: usize) -> Option<Self> {
        if depth > DEEPEST {
            return None;
        }
        let text = |o: &mut Fields<'_>| texts.get(usize::try_from(o.number(4)?).ok()?).cloned();
        let name = text(o)?;
        let attributes = (0..o.count()?).map(|_| Some((text(o)?, text(o)?))).collect::<Option<_>>()?;
        let children = (0..o.count()?).map(|_| Self::read(o, texts, depth + 1)).collect::<Option<_>>()?;
        Some(Self { name, attributes, children })
    }
}

impl Classes {
    /// Reads the contents of a metadata event, behind its size and kind.
    pub(super) fn read(mut o: Fields<'_>) -> Option<Self> {
        // Start, duration, and the number of this metadata.
        for _ in 0..3 {
            o.long()?;
        }
        let texts = (0..o.count()?).map(|_| match o.text()? {
            Text::Here(text) => Some(text),
            _ => Some(String::new()),
        });
        let texts = texts.collect::<Option<Vec<String>>>()?;
        let root = Element::read(&mut o, &texts, 0)?;
        let classes: Vec<&Element> =
            root.of_name("metadata").flat_map(|metadata| metadata.of_name("class")).collect();
        let names: FxHashMap<&str, &str> = classes
            .iter()
            .filter_map(|class| Some((class.attribute("id")?, class.attribute("name")?)))
            .collect();
        let by_id = classes.iter().filter_map(|class| {
            let fields = class.of_name("field").filter_map(|field| Field::read(field, &names));
            let name = class.attribute("name")?.to_owned();
            Some((class.attribute("id")?.parse().ok()?, Class { name, fields: fields.collect() }))
        });
        let mut by_id: FxHashMap<i64, Class> = by_id.collect();
        let mut sizes = FxHashMap::default();
        let ids: Vec<i64> = by_id.keys().copied().collect();
        let endless: Vec<i64> = ids
            .into_iter()
            .filter(|id| size(&by_id, *id, &mut sizes).is_none_or(|n| n > MOST_FIELDS))
            .collect();
        by_id.retain(|id, _| !endless.contains(id));
        Some(Self { by_id })
    }

    pub(super) fn class(&self, id: i64) -> Option<&Class> {
        self.by_id.get(&id)
    }

    /// The id of the type of this name.
    pub(super) fn id_of(&self, name: &str) -> Option<i64> {
        self.by_id.iter().find(|(_, class)| class.name == name).map(|(id, _)| *id)
    }

    /// Ids and names of the types that have this field.
    pub(super) fn with_field(&self, field: &str) -> impl Iterator<Item = (i64, &Class)> {
        let has = move |class: &Class| class.fields.iter().any(|known| known.name == field);
        self.by_id.iter().filter(move |(_, class)| has(class)).map(|(id, class)| (*id, class))
    }
}

/// How many fields a value of a type has, with those of the values in it. `None`: it would be in itself.
fn size(by_id: &FxHashMap<i64, Class>, id: i64, known: &mut FxHashMap<i64, Option<usize>>) -> Option<usize> {
    if let Some(known) = known.get(&id) {
        return *known;
    }
    known.insert(id, None);
    let Some(class) = by_id.get(&id) else { return Some(1) };
    let mut sum = 1usize;
    for field in &class.fields {
        let inside = if field.is_constant { 1 } else { size(by_id, field.class, known)? };
        sum = sum.saturating_add(inside);
    }
    known.insert(id, Some(sum));
    Some(sum)
}

impl Field {
    fn read(field: &Element, names: &FxHashMap<&str, &str>) -> Option<Self> {
        let measure = field.of_name("annotation").find_map(|annotation| {
            let unit = annotation.attribute("value").or_else(|| annotation.attribute("value-0"));
            match (*names.get(annotation.attribute("class")?)?, unit) {
                ("jdk.jfr.Timespan" | "jdk.jfr.Timestamp", Some("TICKS")) => Some(Measure::Ticks),
                ("jdk.jfr.Timespan", Some("MICROSECONDS")) => Some(Measure::Microseconds),
                ("jdk.jfr.Timespan", Some("MILLISECONDS")) => Some(Measure::Milliseconds),
                ("jdk.jfr.Timespan", Some("SECONDS")) => Some(Measure::Seconds),
                ("jdk.jfr.Timespan", None | Some("NANOSECONDS")) => Some(Measure::Nanoseconds),
                ("jdk.jfr.DataAmount", None | Some("BYTES")) => Some(Measure::Bytes),
                _ => None,
            }
        });
        Some(Self {
            name: field.attribute("name")?.to_owned(),
            class: field.attribute("class")?.parse().ok()?,
            is_constant: field.attribute("constantPool") == Some("true"),
            is_array: field.attribute("dimension") == Some("1"),
            measure,
        })
    }
}
