//! Profiles that are pushed to servers: each comes once, whatever happens, and what does not come is counted.

use crate::common::server::{Reply, Request, Server};
use crate::common::{Scene, kills_itself, run_until_killed};
use base64::Engine as _;
use pct_fleet::ask::Names;
use pct_fleet::http::{self, Encryption};
use pct_fleet::ship::{Config, Limits, Outcome, Protocol, Receiver, Target, pass};
use pct_profile::flat::Order;
use pct_profile::{By, Flat, Profile, Split};
use std::collections::BTreeMap;
use std::path::Path;

fn config(scene: &Scene, protocol: Protocol, url: &str) -> Config {
    let server = http::Server::parse(url, Encryption::Required).unwrap();
    Config { to: Target::Receiver(Receiver { protocol, server, names: Names::All }), ..scene.config() }
}

fn push(scene: &Scene, protocol: Protocol, url: &str) -> Outcome {
    pass(&config(scene, protocol, url), scene.now_ns(), &mut |_| {}).unwrap()
}

/// The file in a form with one file.
fn file_of_form(request: &Request) -> Vec<u8> {
    let boundary = request.content_type.split_once("boundary=").unwrap().1;
    let delimiter = format!("--{boundary}\r\n");
    assert!(request.body.starts_with(delimiter.as_bytes()));
    let at = |needle: &[u8]| request.body.windows(needle.len()).position(|window| window == needle).unwrap();
    let begin = at(b"\r\n\r\n") + 4;
    let head = std::str::from_utf8(&request.body[..begin]).unwrap();
    assert!(head.contains("name=\"profile\"; filename="), "{head}");
    request.body[begin..at(format!("\r\n--{boundary}--").as_bytes())].to_vec()
}

/// The pprof file of a request to Pyroscope or Parca.
fn pprof(protocol: Protocol, request: &Request) -> Vec<u8> {
    if protocol == Protocol::Pyroscope {
        return file_of_form(request);
    }
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let raw = body["series"][0]["samples"][0]["rawProfile"].as_str().unwrap();
    base64::engine::general_purpose::STANDARD.decode(raw).unwrap()
}

fn read(octets: &[u8]) -> Profile {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pb.gz");
    std::fs::write(&path, octets).unwrap();
    pct_formats::import(&path).unwrap()
}

/// Samples and own nanoseconds by function.
fn figures(profile: &Profile) -> BTreeMap<String, (u64, u64)> {
    let flat = Flat::count_cells(profile, &profile.cells, Some(By::Function), Split::Merged, Order::Own);
    let name = |row: &pct_profile::flat::Row| row.label.unwrap().name(profile);
    flat.rows
        .iter()
        .filter(|row| row.own.samples > 0)
        .map(|row| (name(row), (row.own.samples, row.own.cpu_ns())))
        .collect()
}

fn added(all: impl IntoIterator<Item = BTreeMap<String, (u64, u64)>>) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (name, (samples, ns)) in all.into_iter().flatten() {
        let sum = sums.entry(name).or_default();
        *sum = (sum.0 + samples, sum.1 + ns);
    }
    sums
}

/// Nanoseconds in what a server got.
fn received(protocol: Protocol, requests: &[Request]) -> i64 {
    let ns = requests.iter().map(|request| read(&pprof(protocol, request)).total().cpu_ns()).sum::<u64>();
    i64::try_from(ns).unwrap()
}

/// What the shipper's state says: accepted, lost, unsure.
fn noted(scene: &Scene) -> (i64, i64, i64) {
    let text = std::fs::read(scene.state.join("state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let number = |name: &str| state["pushed"][name].as_i64().unwrap();
    (number("accepted_ns"), number("lost_ns"), number("unsure_ns"))
}

/// Recordings of two versions; gives their CPU nanoseconds.
fn recordings(scene: &Scene) -> i64 {
    (0..4).map(|number| scene.recording("shop", number, 1 + number / 2)).sum()
}

#[test]
fn what_a_server_decodes_is_what_pct_report_says() {
    for protocol in [Protocol::Pyroscope, Protocol::Parca] {
        let scene = Scene::new();
        let expected = recordings(&scene);
        let paths: Vec<_> = (0..4).map(|number| scene.path(number)).collect();
        let report = pct_profile::load::load(&paths, &pct_profile::load::Options::default()).unwrap();
        let server = Server::start(|_| Reply::Answer(200, Vec::new()));
        let outcome = push(&scene, protocol, &server.url);
        assert_eq!((outcome.delivered, outcome.waiting, outcome.problems.len()), (1, 0, 0), "{outcome:?}");
        let requests = server.requests();
        assert!(requests.len() > 4, "a profile for each minute: {}", requests.len());
        let decoded = requests.iter().map(|request| figures(&read(&pprof(protocol, request))));
        assert_eq!(added(decoded), figures(&report));
        assert_eq!((received(protocol, &requests), noted(&scene)), (expected, (expected, 0, 0)));
        // Nothing is new: nothing is sent.
        push(&scene, protocol, &server.url);
        assert_eq!(server.requests().len(), requests.len());
        for request in &requests {
            assert_eq!(request.method, "POST");
        }
    }
}

#[test]
fn each_protocol_says_service_version_host_and_time() {
    let scene = Scene::new();
    scene.recording("shop", 0, 1);
    let server = Server::start(|_| Reply::Answer(200, Vec::new()));
    push(&scene, Protocol::Pyroscope, &server.url);
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    let begin = crate::common::BEGIN_NS / 60_000_000_000 * 60;
    let name = "shop%7Bversion%3D1.1%2Chost%3Dhost-a%2Cenv%3Dtest%7D";
    let path = |at: u64| format!("/ingest?name={name}&from={at}&until={}&format=pprof&spyName=pct", at + 60);
    assert_eq!(paths, [path(begin), path(begin + 60)]);

    let scene = Scene::new();
    scene.recording("shop", 0, 1);
    let server = Server::start(|_| Reply::Answer(200, Vec::new()));
    push(&scene, Protocol::Parca, &server.url);
    let request = server.requests().remove(0);
    assert_eq!(
        (request.path.as_str(), request.content_type.as_str()),
        ("/api/profiles/writeraw", "application/json")
    );
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let labels = &body["series"][0]["labels"]["labels"];
    let label = |name: &str, value: &str| serde_json::json!({ "name": name, "value": value });
    let expected = [
        ("__name__", "process_cpu"),
        ("service", "shop"),
        ("version", "1.1"),
        ("host", "host-a"),
        ("env", "test"),
    ];
    assert_eq!(*labels, serde_json::json!(expected.map(|(name, value)| label(name, value))));
}

#[test]
fn names_of_machine_code_are_sent_only_on_demand_and_nothing_private_ever() {
    let scene = Scene::new();
    recordings(&scene);
    let server = Server::start(|_| Reply::Answer(200, Vec::new()));
    let mut config = config(&scene, Protocol::Pyroscope, &server.url);
    if let Target::Receiver(receiver) = &mut config.to {
        receiver.names = Names::WithoutMachineCode;
    }
    pass(&config, scene.now_ns(), &mut |_| {}).unwrap();
    for request in server.requests() {
        let profile = read(&file_of_form(&request));
        for name in figures(&profile).into_keys() {
            assert!(name.starts_with('['), "{name}");
        }
        let ids: Vec<_> = profile.objects.iter().filter_map(|object| object.build_id.clone()).collect();
        assert!(ids.iter().any(|id| id == "123456789abcdef0"), "{ids:?}");
        let mut octets = request.path.into_bytes();
        let mut packed = &file_of_form(&Request { path: String::new(), ..request })[..];
        std::io::copy(&mut flate2::read::GzDecoder::new(&mut packed), &mut octets).unwrap();
        for private in ["secret", "hunter2", "host-of-the-file", "/home", "password", "3777111", "3777112"] {
            let found = octets.windows(private.len()).any(|window| window == private.as_bytes());
            assert!(!found, "{private}");
        }
    }
}

#[test]
fn a_server_that_is_away_gets_all_when_it_is_back() {
    let scene = Scene::new();
    let expected = recordings(&scene);
    let mut asked = 0;
    let server = Server::start(move |_| {
        asked += 1;
        Reply::Answer(if asked <= 3 { 503 } else { 200 }, b"not now".to_vec())
    });
    let outcome = push(&scene, Protocol::Pyroscope, &server.url);
    assert_eq!((outcome.waiting, outcome.delivered), (1, 0), "{outcome:?}");
    assert!(outcome.problems[0].contains("status 503: not now"), "{:?}", outcome.problems);
    // Nobody listens there: a free port.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = Scene { state: scene.dir.path().join("other"), ..scene.on("host-b") };
    gone.recording("shop", 0, 1);
    let outcome = push(&gone, Protocol::Parca, &format!("http://{nobody}"));
    assert_eq!((outcome.waiting, outcome.unsure_ns), (1, 0), "{outcome:?}");
    while push(&scene, Protocol::Pyroscope, &server.url).waiting > 0 {
        assert!(server.requests().len() < 100);
    }
    let requests = server.requests();
    assert_eq!((received(Protocol::Pyroscope, &requests[3..]), noted(&scene)), (expected, (expected, 0, 0)));
}

#[test]
fn what_is_refused_is_lost_and_what_has_no_answer_is_not_sent_again() {
    let scene = Scene::new();
    let expected = recordings(&scene);
    let mut asked = 0;
    let server = Server::start(move |_| {
        asked += 1;
        match asked {
            1 => Reply::Answer(422, b"no such tenant".to_vec()),
            2 => Reply::HangUp,
            _ => Reply::Answer(200, Vec::new()),
        }
    });
    let first = push(&scene, Protocol::Pyroscope, &server.url);
    assert_eq!((first.waiting, first.problems.len()), (1, 2), "{first:?}");
    assert!(first.lost_ns > 0 && first.unsure_ns > 0, "{first:?}");
    let second = push(&scene, Protocol::Pyroscope, &server.url);
    assert_eq!((second.waiting, second.unsure_ns), (0, 0), "{second:?}");
    let requests = server.requests();
    let mut paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), requests.len(), "nothing twice");
    let accepted = received(Protocol::Pyroscope, &requests[2..]);
    let sums = (first.lost_ns.cast_signed(), first.unsure_ns.cast_signed());
    assert_eq!(noted(&scene), (accepted, sums.0, sums.1));
    assert_eq!(accepted + sums.0 + sums.1, expected);
}

#[test]
fn what_a_full_spool_drops_is_lost_to_the_nanosecond() {
    let mut scene = Scene::new();
    let dropped = recordings(&scene);
    let mut asked = 0;
    // It takes two profiles, then nothing.
    let server = Server::start(move |_| {
        asked += 1;
        Reply::Answer(if asked <= 2 { 200 } else { 503 }, Vec::new())
    });
    push(&scene, Protocol::Pyroscope, &server.url);
    scene.limits = Limits { bytes: 1, ..Limits::default() };
    let outcome = push(&scene, Protocol::Pyroscope, &server.url);
    assert_eq!(outcome.waiting, 0, "{outcome:?}");
    let accepted = received(Protocol::Pyroscope, &server.requests()[..2]);
    assert!(accepted > 0);
    assert_eq!(noted(&scene), (accepted, dropped - accepted, 0));
}

/// What a child does in `killed_at_every_step_of_pushing`.
#[test]
#[ignore = "a part of killed_at_every_step_of_pushing"]
fn pushes_until_it_is_killed() {
    kills_itself(|scene, step| {
        let url = std::fs::read_to_string(scene.dir.path().join("url")).unwrap();
        pass(&config(scene, Protocol::Pyroscope, &url), scene.now_ns(), step).unwrap();
    });
}

#[test]
fn killed_at_every_step_of_pushing() {
    let server = || Server::start(|_| Reply::Answer(200, Vec::new()));
    let whole = Scene::new();
    let expected = whole.recording("shop", 0, 1) + whole.recording("shop", 1, 2);
    let mut steps = 0;
    pass(&config(&whole, Protocol::Pyroscope, &server().url), whole.now_ns(), &mut |_| steps += 1).unwrap();
    assert!(steps > 30, "{steps} steps");
    let mut with_doubt = 0;
    for dies_at in 1..=steps {
        let scene = Scene::new();
        let expected_here = scene.recording("shop", 0, 1) + scene.recording("shop", 1, 2);
        assert_eq!(expected_here, expected);
        let server = server();
        std::fs::write(scene.dir.path().join("url"), &server.url).unwrap();
        run_until_killed("live::push::pushes_until_it_is_killed", &scene, dies_at);
        push(&scene, Protocol::Pyroscope, &server.url);
        let requests = server.requests();
        let mut paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), requests.len(), "nothing twice; killed at step {dies_at}");
        let (accepted, lost, unsure) = noted(&scene);
        assert_eq!((accepted + unsure, lost), (expected, 0), "killed at step {dies_at}");
        let arrived = received(Protocol::Pyroscope, &requests);
        assert!(accepted <= arrived && arrived <= accepted + unsure, "killed at step {dies_at}");
        with_doubt += u64::from(unsure > 0);
        assert!(!Path::new(&scene.state).join("spool/1").exists(), "killed at step {dies_at}");
    }
    assert!(with_doubt > 0, "the test never killed it while it was sending");
}

#[cfg(feature = "otlp")]
mod otlp {
    use super::*;
    use pct_formats::protobuf::{Fields, Value, numbers};

    fn each(octets: &[u8], field: u64) -> Vec<&[u8]> {
        let wanted = |(number, value)| match value {
            Value::Bytes(octets) if number == field => Some(octets),
            _ => None,
        };
        Fields::new(octets).filter_map(wanted).collect()
    }

    #[test]
    fn a_collector_decodes_the_sums_and_the_service() {
        let scene = Scene::new();
        let expected = recordings(&scene);
        let server = Server::start(|_| Reply::Answer(200, Vec::new()));
        let outcome = push(&scene, Protocol::Otlp, &server.url);
        assert_eq!((outcome.waiting, outcome.problems.len()), (0, 0), "{outcome:?}");
        let mut sum = 0;
        for request in server.requests() {
            assert_eq!(
                (request.path.as_str(), request.content_type.as_str()),
                ("/v1development/profiles", "application/x-protobuf")
            );
            let resource = each(&request.body, 1)[0];
            let attribute = |octets: &[u8]| {
                let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
                (text(each(octets, 1)[0]), text(each(each(octets, 2)[0], 1)[0]))
            };
            let attributes: BTreeMap<String, String> =
                each(each(resource, 1)[0], 1).into_iter().map(attribute).collect();
            let names: Vec<&str> = attributes.keys().map(String::as_str).collect();
            assert_eq!(
                names,
                ["deployment.environment.name", "host.name", "service.name", "service.version"]
            );
            assert_eq!(attributes["service.name"], "shop");
            let profile = each(each(resource, 2)[0], 2)[0];
            for sample in each(profile, 2) {
                sum += numbers(Value::Bytes(each(sample, 4)[0])).iter().sum::<u64>();
            }
        }
        assert_eq!((i64::try_from(sum).unwrap(), noted(&scene)), (expected, (expected, 0, 0)));
    }

    #[test]
    fn what_a_collector_rejects_in_an_answer_of_success_is_lost() {
        let scene = Scene::new();
        let expected = scene.recording("shop", 0, 1);
        // partial_success { rejected_profiles: 1, error_message: "full" }
        let server = Server::start(|_| Reply::Answer(200, b"\x0a\x08\x08\x01\x12\x04full".to_vec()));
        let outcome = push(&scene, Protocol::Otlp, &server.url);
        assert!(outcome.problems.iter().all(|problem| problem.contains("full")), "{outcome:?}");
        assert_eq!(noted(&scene), (0, expected, 0));
    }
}
