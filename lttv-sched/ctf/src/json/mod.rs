//! Parses CTF 2 metadata, a JSON text sequence `RS JSON LF ...`, into a [`TraceClass`].
//!
//! Each record is a fragment and may only refer to earlier ones. Traces of release candidate 7 are accepted with a
//! warning: field locations as arrays, enumeration types, `uuid` in classes, `default-clock-class-name`.

mod classes;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::MetaError;
use crate::model::{ClockClass, EnvValue, EventClass, FieldClass, Origin, Scope, StreamClass, TraceClass};
use rustc_hash::FxHashMap;

type Result<T> = std::result::Result<T, MetaError>;
type Object = Map<String, Value>;

/// Parses a JSON text sequence.
///
/// # Errors
/// The first record that is not JSON or not a valid fragment, with its first line.
pub fn parse(text: &[u8]) -> Result<TraceClass> {
    let mut l = Lowerer::default();
    let mut line = 1;
    for record in text.split(|b| *b == 0x1E) {
        let lines = memchr::memchr_iter(b'\n', record).count();
        if !record.iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
            l.line = line;
            // A packetized text may be padded with zeros.
            let end = record.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
            let v: Value = serde_json::from_slice(&record[..end])
                .map_err(|e| MetaError::new(line + e.line().saturating_sub(1), format!("JSON: {e}")))?;
            l.fragment(&v)?;
        }
        line += lines;
    }
    l.finish()
}

#[derive(Default)]
struct Lowerer {
    line: usize,
    preamble: bool,
    aliases: FxHashMap<String, FieldClass>,
    used: usize,
    seen_trace: bool,
    uuid: Option<[u8; 16]>,
    uid: Option<String>,
    env: Vec<(String, EnvValue)>,
    clocks: Vec<ClockClass>,
    packet_header: Option<FieldClass>,
    streams: Vec<StreamClass>,
    warnings: Vec<String>,
}

/// The scope of a field class. It decides what `default-clock-timestamp` means and whether a role has an effect.
type ClassScope = Option<Scope>;

impl Lowerer {
    fn err<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(MetaError::new(self.line, what))
    }

    fn warn(&mut self, what: &str) {
        let w = format!("line {}: {what}", self.line);
        if self.warnings.len() < 100 {
            self.warnings.push(w);
        }
    }

    fn fragment(&mut self, v: &Value) -> Result<()> {
        let Value::Object(o) = v else { return self.err("fragment that is not an object") };
        let kind = self.text(o, "type")?;
        if !self.preamble && kind != "preamble" {
            return self.err("the first fragment is not a preamble");
        }
        match kind {
            "preamble" => self.preamble(o),
            "field-class-alias" => self.alias(o),
            "trace-class" => self.trace(o),
            "clock-class" => self.clock(o),
            "data-stream-class" => self.stream(o),
            "event-record-class" => self.event(o),
            other => self.err(format!("fragment type `{other}` is not known")),
        }
    }

    fn preamble(&mut self, o: &Object) -> Result<()> {
        if self.preamble {
            return self.err("second preamble");
        }
        self.preamble = true;
        match self.uint(o, "version")? {
            Some(2) => {}
            v => {
                return self
                    .err(format!("version {}: expected 2", v.map_or("is absent".into(), |v| v.to_string())));
            }
        }
        if let Some(Value::Object(x)) = o.get("extensions") {
            let names: Vec<String> = x
                .iter()
                .flat_map(|(ns, v)| {
                    v.as_object().into_iter().flat_map(move |v| v.keys().map(move |k| format!("{ns}:{k}")))
                })
                .collect();
            if !names.is_empty() {
                return self.err(format!("needs extensions that are not known here: {}", names.join(", ")));
            }
        }
        self.uuid = self.uuid_of(o)?;
        Ok(())
    }

    fn uuid_of(&self, o: &Object) -> Result<Option<[u8; 16]>> {
        let Some(v) = o.get("uuid") else { return Ok(None) };
        let bytes: Option<Vec<u8>> = v
            .as_array()
            .and_then(|a| a.iter().map(|v| v.as_u64().and_then(|v| u8::try_from(v).ok())).collect());
        match bytes.and_then(|b| <[u8; 16]>::try_from(b).ok()) {
            Some(u) => Ok(Some(u)),
            None => self.err("uuid: expected 16 integers of 0 to 255"),
        }
    }

    fn text<'a>(&self, o: &'a Object, key: &str) -> Result<&'a str> {
        match self.opt_text(o, key)? {
            Some(t) => Ok(t),
            None => self.err(format!("`{key}` is missing")),
        }
    }

    fn opt_text<'a>(&self, o: &'a Object, key: &str) -> Result<Option<&'a str>> {
        match o.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(_) => self.err(format!("`{key}` is not a string")),
        }
    }

    fn uint(&self, o: &Object, key: &str) -> Result<Option<u64>> {
        match o.get(key) {
            None => Ok(None),
            Some(v) => match v.as_u64() {
                Some(n) => Ok(Some(n)),
                None => self.err(format!("`{key}` is not an unsigned integer")),
            },
        }
    }

    /// Namespace, name and uid of a class as one key.
    fn identity(&self, o: &Object) -> Result<Option<String>> {
        let uid = self.opt_text(o, "uid")?.map(str::to_string);
        let uid = match (uid, self.uuid_of(o)?) {
            (None, Some(u)) => Some(u.iter().map(|b| format!("{b:02x}")).collect()),
            (u, _) => u,
        };
        let parts = [self.opt_text(o, "namespace")?, self.opt_text(o, "name")?];
        Ok(uid.map(|u| parts.iter().flatten().map(|p| format!("{p}:")).chain([u]).collect()))
    }

    fn alias(&mut self, o: &Object) -> Result<()> {
        let name = self.text(o, "name")?.to_string();
        if self.aliases.contains_key(&name) {
            return self.err(format!("field class alias `{name}` is defined twice"));
        }
        let class = self.member(o, "field-class", None)?;
        self.aliases.insert(name, class);
        Ok(())
    }

    fn trace(&mut self, o: &Object) -> Result<()> {
        if std::mem::replace(&mut self.seen_trace, true) {
            return self.err("second trace class");
        }
        self.uid = self.identity(o)?;
        if o.contains_key("uuid") {
            self.warn("`uuid` of a trace class is from before CTF 2.0");
        }
        if let Some(Value::Object(env)) = o.get("environment") {
            for (k, v) in env {
                let v = match v {
                    Value::String(s) => EnvValue::Text(s.clone()),
                    Value::Number(n) => match n.as_i64().map(i128::from).or(n.as_u64().map(i128::from)) {
                        Some(n) => EnvValue::Int(n),
                        None => return self.err(format!("environment: `{k}` is not an integer")),
                    },
                    _ => return self.err(format!("environment: `{k}` is neither an integer nor a string")),
                };
                self.env.push((k.clone(), v));
            }
        }
        self.packet_header = self.structure(o, "packet-header-field-class", Scope::PacketHeader)?;
        Ok(())
    }

    fn clock(&mut self, o: &Object) -> Result<()> {
        let name = self.opt_text(o, "name")?.unwrap_or_default().to_string();
        let id = match self.opt_text(o, "id")? {
            Some(id) => id.to_string(),
            None if name.is_empty() => return self.err("clock class without id"),
            None => {
                self.warn("clock class without `id` is from before CTF 2.0");
                name.clone()
            }
        };
        if self.clocks.iter().any(|c| c.id == id) {
            return self.err(format!("clock class `{id}` is defined twice"));
        }
        let freq = self.uint(o, "frequency")?.unwrap_or(0);
        if freq == 0 {
            return self.err("clock class: `frequency`: expected an integer of 1 or more");
        }
        let uid = self.identity(o)?;
        let origin = match o.get("origin") {
            Some(Value::String(s)) if s == "unix-epoch" => Origin::UnixEpoch,
            Some(Value::Object(x)) => Origin::Other(format!("{x:?}")),
            Some(_) => return self.err("clock class: `origin`"),
            None if name == "monotonic" => Origin::UnixEpoch,
            None => uid.clone().map_or(Origin::Unknown, Origin::Other),
        };
        let (mut offset_s, mut offset) = (0, 0);
        if let Some(v) = o.get("offset-from-origin") {
            let Value::Object(x) = v else {
                return self.err("clock class: `offset-from-origin` is not an object");
            };
            match x.get("seconds") {
                None => {}
                Some(v) => match v.as_i64() {
                    Some(s) => offset_s = s,
                    None => return self.err("clock class: `seconds` is not an integer of 64 bits"),
                },
            }
            offset = i128::from(self.uint(x, "cycles")?.unwrap_or(0));
        }
        let description = self.opt_text(o, "description")?.unwrap_or_default().to_string();
        let precision = self.uint(o, "precision")?.unwrap_or(0);
        self.clocks.push(ClockClass {
            id,
            name,
            uid,
            description,
            freq,
            precision,
            offset_s,
            offset,
            origin,
        });
        Ok(())
    }

    fn stream(&mut self, o: &Object) -> Result<()> {
        let id = self.uint(o, "id")?.unwrap_or(0);
        if self.streams.iter().any(|s| s.id == id) {
            return self.err(format!("data stream class {id} is defined twice"));
        }
        let clock_id = match self.opt_text(o, "default-clock-class-id")? {
            Some(c) => Some(c),
            None => {
                let old = self.opt_text(o, "default-clock-class-name")?;
                if old.is_some() {
                    self.warn("`default-clock-class-name` is from before CTF 2.0");
                }
                old
            }
        };
        let clock = match clock_id {
            None => None,
            Some(c) => match self
                .clocks
                .iter()
                .position(|k| k.id == c || (o.contains_key("default-clock-class-name") && k.name == c))
            {
                Some(i) => Some(i),
                None => return self.err(format!("unknown clock class `{c}`")),
            },
        };
        let name = self.opt_text(o, "name")?.unwrap_or_default().to_string();
        let class = StreamClass {
            id,
            name,
            clock,
            packet_context: self.structure(o, "packet-context-field-class", Scope::PacketContext)?,
            event_header: self.structure(o, "event-record-header-field-class", Scope::EventHeader)?,
            event_context: self.structure(
                o,
                "event-record-common-context-field-class",
                Scope::CommonContext,
            )?,
            events: Vec::new(),
        };
        self.streams.push(class);
        Ok(())
    }

    fn event(&mut self, o: &Object) -> Result<()> {
        let id = self.uint(o, "id")?.unwrap_or(0);
        let stream = self.uint(o, "data-stream-class-id")?.unwrap_or(0);
        let class = EventClass {
            id,
            name: self.opt_text(o, "name")?.unwrap_or_default().to_string(),
            loglevel: log_level(o),
            uri: None,
            context: self.structure(o, "specific-context-field-class", Scope::SpecificContext)?.map(Arc::new),
            fields: self.structure(o, "payload-field-class", Scope::Payload)?.map(Arc::new),
        };
        let line = self.line;
        let Some(s) = self.streams.iter_mut().find(|s| s.id == stream) else {
            return self.err(format!("event record class of unknown data stream class {stream}"));
        };
        if s.events.iter().any(|e| e.id == id) {
            return Err(MetaError::new(
                line,
                format!("event record class {id} of data stream class {stream} is defined twice"),
            ));
        }
        s.events.push(class);
        Ok(())
    }

    fn finish(self) -> Result<TraceClass> {
        if !self.preamble {
            return self.err("no preamble");
        }
        Ok(TraceClass {
            major: 2,
            uuid: self.uuid,
            uid: self.uid,
            env: self.env,
            clocks: self.clocks,
            packet_header: self.packet_header,
            streams: self.streams,
            warnings: self.warnings,
        })
    }

    fn structure(&mut self, o: &Object, key: &str, scope: Scope) -> Result<Option<FieldClass>> {
        match o.get(key) {
            None => Ok(None),
            Some(v) => {
                let c = self.class(v, Some(scope), 0)?;
                if c.members().is_none() {
                    return self.err(format!("`{key}` is not a structure"));
                }
                Ok(Some(c))
            }
        }
    }

    fn member(&mut self, o: &Object, key: &str, place: ClassScope) -> Result<FieldClass> {
        match o.get(key) {
            Some(v) => self.class(v, place, 0),
            None => self.err(format!("`{key}` is missing")),
        }
    }
}

fn log_level(o: &Object) -> Option<i64> {
    let attributes = o.get("attributes").or_else(|| o.get("user-attributes"))?.as_object()?;
    ["lttng.org,2009", "babeltrace.org,2020"].iter().find_map(|ns| {
        let ns = attributes.get(*ns)?.as_object()?;
        ns.get("log-level").or_else(|| ns.get("loglevel")).and_then(Value::as_i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(records: &[&str]) -> Result<TraceClass> {
        parse(records.iter().map(|r| format!("\x1e{r}\n")).collect::<String>().as_bytes())
    }

    const PREAMBLE: &str = r#"{"type":"preamble","version":2}"#;

    #[test]
    fn wrong_records_are_errors_with_their_line() {
        for (records, line, what) in [
            (vec![r#"{"type":"trace-class"}"#], 1, "preamble"),
            (vec![r#"{"type":"preamble","version":3}"#], 1, "version 3"),
            (vec![r#"{"type":"preamble","version":2,"extensions":{"a":{"b":1}}}"#], 1, "a:b"),
            (vec![PREAMBLE, "{\n\"type\":,}"], 3, "JSON"),
            (vec![PREAMBLE, r#"{"type":"event-record-class"}"#], 2, "unknown data stream class 0"),
            (vec![PREAMBLE, r#"{"type":"data-stream-class","default-clock-class-id":"x"}"#], 2, "clock"),
            (
                vec![
                    PREAMBLE,
                    r#"{"type":"field-class-alias","name":"a","field-class":{"type":"fixed-length-unsigned-integer","length":65,"byte-order":"little-endian"}}"#,
                ],
                2,
                "65",
            ),
            (
                vec![PREAMBLE, r#"{"type":"data-stream-class","packet-context-field-class":"nope"}"#],
                2,
                "nope",
            ),
        ] {
            let e = tried(&records).expect_err(records[records.len() - 1]);
            assert!(e.line == line && e.what.contains(what), "{records:?}: {e}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_recursion_to_the_end() {
        let mut class = r#"{"type":"null-terminated-string"}"#.to_string();
        for _ in 0..50 {
            class = format!(r#"{{"type":"static-length-array","length":1,"element-field-class":{class}}}"#);
        }
        let alias = format!(r#"{{"type":"field-class-alias","name":"a","field-class":{class}}}"#);
        let user = r#"{"type":"field-class-alias","name":"b","field-class":{"type":"static-length-array","length":1,"element-field-class":"a"}}"#;
        assert!(tried(&[PREAMBLE, &alias, user]).is_ok());
        let mut deep = r#""a""#.to_string();
        for _ in 0..20 {
            deep = format!(r#"{{"type":"static-length-array","length":1,"element-field-class":{deep}}}"#);
        }
        let deep = format!(r#"{{"type":"field-class-alias","name":"c","field-class":{deep}}}"#);
        assert!(tried(&[PREAMBLE, &alias, &deep]).unwrap_err().what.contains("nested"));
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
