//! Servers that take profiles, and how each wants to have them.
//!
//! | protocol | request | profile |
//! |---|---|---|
//! | Pyroscope | `POST /ingest?name=SERVICE{labels}&from=&until=&format=pprof` | pprof as a file of a form |
//! | Parca | `POST /api/profiles/writeraw` (its gRPC service as JSON) | pprof in base64 |
//! | OTLP | `POST /v1development/profiles` | `ExportProfilesServiceRequest`, as of profiles.proto 1.9 |
//!
//! Labels are service, version, host and environment. No process ids, no command lines, no folders.

use super::sum::Sum;
use crate::ask::Names;
use crate::http::{Outcome, Server};
use crate::root::content_hash;
use base64::Engine as _;
use pct_formats::Format;
use pct_profile::Profile;
use std::fmt::Write as _;
use std::str::FromStr;

/// What a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Grafana Pyroscope.
    Pyroscope,
    /// Parca.
    Parca,
    /// OpenTelemetry's profiles.
    Otlp,
}

/// Why a word is no protocol.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// It names none.
    #[error("expected pyroscope=URL, parca=URL or otlp=URL")]
    Unknown,
    /// It is left out of this program.
    #[error(
        "this pct-fleet was built without OpenTelemetry's profiles, whose schema is still being developed \
         (cargo install --path pct-tools/fleet --features otlp)"
    )]
    LeftOut,
}

impl Protocol {
    /// Its word on the command line.
    #[must_use]
    pub fn as_word(self) -> &'static str {
        match self {
            Self::Pyroscope => "pyroscope",
            Self::Parca => "parca",
            Self::Otlp => "otlp",
        }
    }
}

impl FromStr for Protocol {
    type Err = ProtocolError;

    fn from_str(word: &str) -> Result<Self, ProtocolError> {
        let all = [Self::Pyroscope, Self::Parca, Self::Otlp];
        let found = all.into_iter().find(|protocol| protocol.as_word() == word);
        match found.ok_or(ProtocolError::Unknown)? {
            Self::Otlp if !cfg!(feature = "otlp") => Err(ProtocolError::LeftOut),
            protocol => Ok(protocol),
        }
    }
}

/// A server that takes profiles.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// What it speaks.
    pub protocol: Protocol,
    /// The server.
    pub server: Server,
    /// Which names are sent.
    pub names: Names,
}

/// An interval's begin and end, in seconds since 1970.
fn seconds(sum: &Sum) -> (i64, i64) {
    let begin = sum.ts / 1_000_000;
    (begin, begin + crate::INTERVAL_S)
}

/// The labels of a series; those without a value are left out.
fn labels(sum: &Sum) -> impl Iterator<Item = (&'static str, &str)> {
    let all = [("version", &sum.version), ("host", &sum.host), ("env", &sum.env)];
    all.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.as_str()))
}

impl Receiver {
    /// What the shipper's state says that it is of.
    #[must_use]
    pub(super) fn title(&self) -> String {
        format!("{}={}", self.protocol.as_word(), self.server.url())
    }

    /// Sends the profile of an interval.
    pub(super) fn send(&self, profile: &Profile, sum: &Sum) -> Outcome {
        match self.protocol {
            Protocol::Pyroscope => self.send_to_pyroscope(profile, sum),
            Protocol::Parca => self.send_to_parca(profile, sum),
            Protocol::Otlp => self.send_otlp(profile, sum),
        }
    }

    fn send_to_pyroscope(&self, profile: &Profile, sum: &Sum) -> Outcome {
        let mut name = tame(&sum.service);
        let labels: Vec<String> = labels(sum).map(|(key, value)| format!("{key}={}", tame(value))).collect();
        let _ = write!(name, "{{{}}}", labels.join(","));
        let (from, until) = seconds(sum);
        let path =
            format!("/ingest?name={}&from={from}&until={until}&format=pprof&spyName=pct", encoded(&name));
        let octets = pprof(profile);
        // No file has a hash of itself in it.
        let boundary = format!("pct-{}", content_hash(&octets));
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"profile.pb.gz\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        let body = [head.as_bytes(), &octets, tail.as_bytes()].concat();
        self.server.post(&path, &format!("multipart/form-data; boundary={boundary}"), &body)
    }

    fn send_to_parca(&self, profile: &Profile, sum: &Sum) -> Outcome {
        let name = if sum.kind == "wall" { "process_wall" } else { "process_cpu" };
        let label = |(name, value): (&str, &str)| serde_json::json!({ "name": name, "value": value });
        let labels: Vec<_> = [("__name__", name), ("service", sum.service.as_str())]
            .into_iter()
            .chain(labels(sum))
            .map(label)
            .collect();
        let raw = base64::engine::general_purpose::STANDARD.encode(pprof(profile));
        let body = serde_json::json!({
            "series": [{ "labels": { "labels": labels }, "samples": [{ "rawProfile": raw }] }]
        });
        self.server.post("/api/profiles/writeraw", "application/json", body.to_string().as_bytes())
    }

    #[cfg(not(feature = "otlp"))]
    fn send_otlp(&self, _: &Profile, _: &Sum) -> Outcome {
        Outcome::Later(ProtocolError::LeftOut.to_string())
    }

    #[cfg(feature = "otlp")]
    fn send_otlp(&self, profile: &Profile, sum: &Sum) -> Outcome {
        let attributes = [
            ("service.name", sum.service.as_str()),
            ("service.version", &sum.version),
            ("host.name", &sum.host),
            ("deployment.environment.name", &sum.env),
        ];
        let attributes = attributes.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>();
        let body = pct_formats::export::otlp::write_of(profile, &profile.cells, &attributes);
        match self.server.post("/v1development/profiles", "application/x-protobuf", &body) {
            Outcome::Accepted(said) => rejected(&said).map_or(Outcome::Accepted(said), Outcome::Refused),
            other => other,
        }
    }
}

/// Why a collector rejected the profile that it answers with success, if it did:
/// `ExportProfilesServiceResponse.partial_success`.
#[cfg(feature = "otlp")]
fn rejected(said: &[u8]) -> Option<String> {
    use pct_formats::protobuf::{Fields, Value};
    let partial = Fields::new(said).find_map(|field| match field {
        (1, Value::Bytes(octets)) => Some(octets),
        _ => None,
    })?;
    let (mut count, mut why) = (0, String::new());
    for field in Fields::new(partial) {
        match field {
            (1, Value::Number(number)) => count = number,
            (2, Value::Bytes(octets)) => why = String::from_utf8_lossy(octets).into_owned(),
            _ => {}
        }
    }
    (count > 0).then(|| format!("the collector rejected it: {why}"))
}

fn pprof(profile: &Profile) -> Vec<u8> {
    pct_formats::export(profile, &profile.cells, Format::Pprof)
}

/// A name or value without the letters that end one in Pyroscope's `name{key=value,...}`.
fn tame(text: &str) -> String {
    text.chars().map(|c| if "{}=,\"".contains(c) || c.is_control() { '_' } else { c }).collect()
}

/// Text within the query of a URL.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || b"-_.~".contains(&octet) {
            out.push(char::from(octet));
        } else {
            let _ = write!(out, "%{octet:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_end_a_name() {
        assert_eq!(tame("a{b=\"c\",d}"), "a_b__c__d_");
        assert_eq!(encoded("shop{a=b c}"), "shop%7Ba%3Db%20c%7D");
    }

    #[test]
    fn protocols_have_their_words() {
        for protocol in [Protocol::Pyroscope, Protocol::Parca] {
            assert_eq!(protocol.as_word().parse(), Ok(protocol));
        }
        assert_eq!("carrier-pigeon".parse::<Protocol>(), Err(ProtocolError::Unknown));
    }
}
