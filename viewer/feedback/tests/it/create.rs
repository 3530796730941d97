//! The two programs as users run them: options, exit codes, and where the output goes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use pct_feedback::synthetic::{Program, Stage, chain};

const CREATE: &str = env!("CARGO_BIN_EXE_mdprof_create_feedback");
const REPORT: &str = env!("CARGO_BIN_EXE_mdprof_report_feedback");
const PROG: &str = "mdprof_create_feedback";

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap()
}
fn out(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).unwrap()
}
fn err(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}
fn status(o: &Output) -> i32 {
    o.status.code().unwrap()
}

/// A folder with a profile and its program representation.
struct Made {
    folder: tempfile::TempDir,
}

impl Made {
    fn new(program: &Program) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let octets = pct_deep::to_octets(&program.data().unwrap(), pct_deep::Version::V9).unwrap();
        fs::write(folder.path().join("x.data"), octets).unwrap();
        fs::write(folder.path().join("x.procrep"), program.rep()).unwrap();
        Self { folder }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
    /// Runs with options, on the profile, into `f`.
    fn create(&self, options: &[&str]) -> Output {
        let (data, feedback) = (self.text("x.data"), self.text("f"));
        let args: Vec<&str> = options.iter().copied().chain([data.as_str(), feedback.as_str()]).collect();
        run(CREATE, &args)
    }
    /// The feedback file, after a run that must succeed.
    fn feedback(&self, options: &[&str]) -> String {
        let _ = fs::remove_file(self.path("f"));
        let o = self.create(options);
        assert_eq!(status(&o), 0, "{}", err(&o));
        fs::read_to_string(self.path("f")).unwrap()
    }
}

fn shop() -> Program {
    let stage = |work, needs: &[usize]| Stage { lead: 500, work, needs: needs.to_vec() };
    chain(&[stage(9000, &[]), stage(8000, &[]), stage(7000, &[0]), stage(10, &[1])], 1)
}

const ASK: &str = "--implicit-parallelism";

#[test]
fn every_wrong_option_has_its_message() {
    let numeric = |name: &str| format!("option `{name}' requires a numeric argument; `x' is not numeric");
    let cases: Vec<(Vec<String>, String)> = [
        (vec!["--x"], "unrecognized option `--x'".to_owned()),
        (vec!["-x"], "unrecognized option `-x'".to_owned()),
        (vec!["--no-x"], "unrecognized option `--no-x'".to_owned()),
        (vec!["--report=yes"], "option `--report' does not allow an argument".to_owned()),
        (vec!["-v"], "option `-v' needs an argument".to_owned()),
        (vec!["--verbosity"], "option `--verbosity' needs an argument".to_owned()),
        (vec!["-vx"], numeric("-v")),
        (
            vec!["--no-desired-parallelism"],
            "cannot negate option `--desired-parallelism' -- only boolean, maybe and accumulating options can be negated"
                .to_owned(),
        ),
        (
            vec!["-v-"],
            "cannot negate option `-v' -- only boolean, maybe and accumulating options can be negated".to_owned(),
        ),
    ]
    .into_iter()
    .map(|(a, m)| (a.into_iter().map(str::to_owned).collect(), m))
    .chain(
        [
            "sparking-cost",
            "sparking-delay",
            "barrier-cost",
            "future-signal-cost",
            "future-wait-cost",
            "context-wakeup-delay",
            "clique-cost-threshold",
            "call-site-cost-threshold",
        ]
        .into_iter()
        .flat_map(|n| [format!("--ipar-{n}"), format!("--implicit-parallelism-{n}")])
        .map(|name| (vec![name.clone(), "x".to_owned()], numeric(&name))),
    )
    .chain(
        [
            "--desired-parallelism",
            "--ipar-speedup-threshold",
            "--implicit-parallelism-speedup-threshold",
            "--ipar-speedup-alg",
            "--implicit-parallelism-dependant-conjunctions-algorithm",
            "--ipar-best-par-alg",
            "--ipar-alg-for-finding-best-par",
            "--implicit-parallelism-best-parallelisation-algorithm",
        ]
        .into_iter()
        .map(|n| (vec![n.to_owned()], format!("option `{n}' needs an argument"))),
    )
    .collect();
    for (args, message) in cases {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let o = run(CREATE, &args);
        let text = err(&o);
        assert!(text.starts_with(&format!("{PROG}: error parsing options: {message}\nusage: ")), "{text}");
        assert_eq!((status(&o), out(&o).as_str()), (1, ""));
    }
    let o = run(REPORT, &["--desired-parallelism", "2"]);
    assert!(err(&o).starts_with(
        "mdprof_report_feedback: error parsing options: unrecognized option `--desired-parallelism'\n"
    ));
    assert_eq!(status(&o), 1);
}

#[test]
fn every_wrong_value_is_told_and_nothing_is_done() {
    let made = Made::new(&shop());
    for (options, messages) in [
        (vec!["--desired-parallelism", "1"], vec!["desired parallelism level should be > 1."]),
        (vec!["--desired-parallelism", "a"], vec!["desired parallelism level should be a number."]),
        (vec!["--desired-parallelism", "nan"], vec!["desired parallelism level should be a number."]),
        (vec!["--ipar-speedup-threshold", "0.99"], vec!["speedup threshold should be >= 1."]),
        (vec!["--ipar-speedup-threshold", ""], vec!["speedup threshold should be a number."]),
        (vec!["--ipar-speedup-alg", "num_vars"], vec!["num_vars is not a speedup estimate algorithm."]),
        (
            vec!["--ipar-best-par-alg", "complete-size(-1)"],
            vec!["complete-size(-1) is not an algorithm for finding the best parallelisation."],
        ),
        (
            vec![
                "--desired-parallelism",
                "0",
                "--ipar-speedup-threshold",
                "x",
                "--ipar-speedup-alg",
                "y",
                "--ipar-best-par-alg",
                "z",
            ],
            vec![
                "desired parallelism level should be > 1.",
                "speedup threshold should be a number.",
                "y is not a speedup estimate algorithm.",
                "z is not an algorithm for finding the best parallelisation.",
            ],
        ),
    ] {
        let o = made.create(&[vec![ASK], options.clone()].concat());
        let wanted: String = messages.iter().map(|m| format!("{PROG}: error: {m}\n")).collect();
        assert_eq!((err(&o), out(&o), status(&o)), (wanted, String::new(), 0));
        assert!(!made.path("f").exists());
        // A user who requests nothing gets no message.
        let o = made.create(&options);
        assert_eq!(err(&o), format!("{PROG}: options do not request any form of feedback\n"));
        assert_eq!(status(&o), 0);
    }
    made.feedback(&[ASK, "--no-ipar-dep-conjs", "--ipar-speedup-alg", "num_vars"]);
}

#[test]
fn version_and_help_come_before_all_else_and_verbosity_is_bounded() {
    let version = format!("version {}, on {}.\n", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let o = run(CREATE, &["--help", "-V", "a"]);
    assert_eq!((out(&o), status(&o)), (format!("{PROG}: Mercury deep profiler\n{version}"), 0));
    let o = run(REPORT, &["-hV"]);
    assert!(out(&o).starts_with("mdprof_report_feedback: Mercury deep profiler\nversion: "), "{}", out(&o));
    let o = run(CREATE, &["-v7", "-h"]);
    assert_eq!(err(&o), format!("{PROG}: warning: verbosity level should not exceed 4.\n"));
    assert!(out(&o).starts_with("usage: ") && status(&o) == 0);
    let o = run(CREATE, &["--verbosity=-1", "-h"]);
    assert_eq!(err(&o), format!("{PROG}: warning: verbosity level should not be negative.\n"));
    for program in [CREATE, REPORT] {
        for args in [&[][..], &["a", "b", "c"]] {
            let o = run(program, args);
            assert!(err(&o).starts_with("usage: ") && out(&o).is_empty() && status(&o) == 1);
        }
    }
    // All options are in the usage text.
    let usage = out(&run(CREATE, &["-h"]));
    for option in pct_feedback::create::OPTIONS {
        let name = option.name;
        assert!(usage.contains(&format!("--{name}")) || usage.contains(&format!("--no-{name}")), "{name}");
    }
}

#[test]
fn every_option_arrives_in_the_file_under_each_of_its_names() {
    let made = Made::new(&shop());
    let params = |options: &[&str]| {
        let text = made.feedback(&[&[ASK], options].concat());
        let at = text.find("candidate_par_conjunctions_params(").unwrap();
        let rest = &text[at + "candidate_par_conjunctions_params(".len()..];
        rest[..rest.find("), [").unwrap()].to_owned()
    };
    let default = "8.0, no, 100, 1000, 100, 100, 200, 1000, 2000, 2000, 1.01, \
                   parallelise_dep_conjs(estimate_speedup_by_overlap), affbp_complete_branches(1000)";
    assert_eq!(params(&[]), default);
    let changed = "2.5, yes, 1, 2, 3, 4, 5, 6, 7, 8, 1.5, parallelise_dep_conjs(estimate_speedup_naively), affbp_greedy";
    let numbers =
        ["sparking-cost", "sparking-delay", "barrier-cost", "future-signal-cost", "future-wait-cost"];
    for (prefix, dep_alg, best) in [
        ("ipar", "ipar-speedup-alg", "ipar-best-par-alg"),
        (
            "implicit-parallelism",
            "implicit-parallelism-dependant-conjunctions-algorithm",
            "implicit-parallelism-best-parallelisation-algorithm",
        ),
        ("ipar", "ipar-speedup-alg", "ipar-alg-for-finding-best-par"),
    ] {
        let mut options =
            vec!["--desired-parallelism=2.5".to_owned(), format!("--{prefix}-intermodule-var-use")];
        for (i, name) in numbers.iter().enumerate() {
            options.push(format!("--{prefix}-{name}={}", i + 1));
        }
        options.push(format!("--{prefix}-context-wakeup-delay=6"));
        options.push(format!("--{prefix}-clique-cost-threshold=7"));
        options.push(format!("--{prefix}-call-site-cost-threshold=8"));
        options.push(format!("--{prefix}-speedup-threshold=1.5"));
        options.push(format!("--{dep_alg}=naive"));
        options.push(format!("--{best}=greedy"));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        assert_eq!(params(&options), changed);
    }
    for (name, no) in [
        ("--ipar-dep-conjs", "--no-ipar-dep-conjs"),
        ("--implicit-parallelism-dependant-conjunctions", "--no-implicit-parallelism-dependant-conjunctions"),
    ] {
        assert!(params(&[name, no]).contains("do_not_parallelise_dep_conjs"));
        assert_eq!(params(&[no, name]), default);
    }
    for (text, wanted) in [
        (" complete ", "affbp_complete"),
        ("greedy", "affbp_greedy"),
        ("complete-size ( 7 ) ", "affbp_complete_size(7)"),
        ("complete-branches(0)", "affbp_complete_branches(0)"),
    ] {
        let params = params(&["--ipar-best-par-alg", text]);
        assert!(params.ends_with(wanted), "{params}");
    }
    for bad in [
        "Greedy",
        "greedy x",
        "complete-size",
        "complete-size()",
        "complete-branches(1",
        "complete-size(1.0)",
    ] {
        let o = made.create(&[ASK, "--ipar-best-par-alg", bad]);
        assert_eq!(
            err(&o),
            format!("{PROG}: error: {bad} is not an algorithm for finding the best parallelisation.\n")
        );
    }
}

#[test]
fn the_report_of_a_file_is_what_its_maker_printed() {
    let made = Made::new(&shop());
    for options in
        [&[][..], &["--ipar-speedup-alg=naive"], &["--no-ipar-dep-conjs"], &["--ipar-best-par-alg=complete"]]
    {
        let _ = fs::remove_file(made.path("f"));
        let o = made.create(&[&[ASK, "--report", "-v0"], options].concat());
        assert_eq!((status(&o), err(&o)), (0, String::new()));
        let text = out(&o);
        assert!(
            text.starts_with("Feedback report for ./chain:\n\n")
                // Stages depend on each other across every cut.
                && text.contains("pred m.body/2-0\n") != options.contains(&"--no-ipar-dep-conjs"),
            "{text}"
        );
        let read = run(REPORT, &[&made.text("f")]);
        assert_eq!((out(&read), status(&read)), (text, 0));
    }
    // Both ways to request it give the same. The candidates depend only on the input.
    assert_eq!(made.feedback(&[ASK]), made.feedback(&["--candidate-parallel-conjunctions"]));
}

#[test]
fn messages_are_printed_up_to_the_verbosity() {
    let made = Made::new(&shop());
    let said = |v: &str| {
        let _ = fs::remove_file(made.path("f"));
        err(&made.create(&[ASK, v]))
    };
    assert_eq!(said("-v0"), "");
    assert_eq!(said("-v1"), "");
    let warnings = said("-v2");
    assert!(
        warnings.starts_with(
            "Warning:\n  clique 15  Cannot compute cost of recursive calls: This clique doesn't appear to have an entry \
             procedure\n\n"
        ),
        "{warnings}"
    );
    assert!(!warnings.contains("Info:"));
    let all = said("-v4");
    let info = "Info:\n  Proc: pred m.body/2-0\n  Root goal\n  Found 3 conjuncts above callsite threshold\n\n\
                Info:\n  Proc: pred m.body/2-0\n  Root goal\n  Found 1 conjunctions with a positive speedup due to \
                parallelisation\n\n";
    assert!(all.contains(info), "{all}");
    assert!(all.contains(
        "Warning:\n  Proc: pred lib.stage0_work/0-0\n  Could not look up proc defn, perhaps this procedure is built-in\n\n"
    ));
}

#[test]
fn a_file_of_another_program_or_with_candidates_is_left_alone() {
    let made = Made::new(&shop());
    let refuse = |text: &str, message: &str| {
        fs::write(made.path("f"), text).unwrap();
        let o = made.create(&[ASK]);
        assert_eq!(status(&o), 1);
        assert_eq!(err(&o).replace(&made.text("f"), "F"), message);
        assert_eq!(fs::read_to_string(made.path("f")).unwrap(), text);
    };
    refuse("", "F: Unexpected end of file\n");
    refuse(
        "Mercury Compiler Feedback\n18\n./chain\n[].\n",
        "F: Incorrect file format version; expected 19\n",
    );
    refuse("x\n", "F: Incorrect file format\n");
    refuse(
        "Mercury Compiler Feedback\n19\n./other\n[].\n",
        "F: The name of the program the feedback is for didn't match, is this the right feedback file?\n\
         Expected: './chain' Got: './other'\n",
    );
    refuse(
        "Mercury Compiler Feedback\n19\n./chain\n[x].\n",
        "F: Expected fcw_candidate_parallel_conjunctions/1 on line 4\n",
    );
    let full = made.feedback(&[ASK]);
    refuse(
        &full,
        &format!("{PROG}: F: it holds candidate parallel conjunctions already, which are not overwritten\n"),
    );
    // A file without candidates gets them, and keeps its permissions.
    fs::write(made.path("f"), "Mercury Compiler Feedback\n19\n  ./chain \n[].\n").unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(made.path("f"), fs::Permissions::from_mode(0o640)).unwrap();
    let o = made.create(&[ASK]);
    assert_eq!(status(&o), 0, "{}", err(&o));
    assert_eq!(fs::read_to_string(made.path("f")).unwrap(), full);
    assert_eq!(fs::metadata(made.path("f")).unwrap().permissions().mode() & 0o777, 0o640);
    // If the path is a link, its target is written.
    fs::remove_file(made.path("f")).unwrap();
    fs::write(made.path("real"), "Mercury Compiler Feedback\n19\n./chain\n[].\n").unwrap();
    std::os::unix::fs::symlink("real", made.path("f")).unwrap();
    assert_eq!(status(&made.create(&[ASK])), 0);
    assert!(fs::symlink_metadata(made.path("f")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(made.path("real")).unwrap(), full);
    // No temporary file is left.
    let mut names: Vec<String> = fs::read_dir(made.folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["f", "real", "x.data", "x.procrep"]);
}

#[test]
fn a_feedback_file_that_cannot_be_written_is_told_with_the_messages() {
    let made = Made::new(&shop());
    let (data, to) = (made.text("x.data"), made.text("none/f"));
    let o = run(CREATE, &[ASK, "-v2", &data, &to]);
    assert_eq!(status(&o), 1);
    assert!(
        err(&o).starts_with(&format!("{PROG}: {to}: No such file or directory\nWarning:\n")),
        "{}",
        err(&o)
    );
    let o = run(CREATE, &[ASK, &data, &made.folder.path().display().to_string()]);
    assert_eq!(status(&o), 1);
    assert!(err(&o).ends_with(": Is a directory\n"), "{}", err(&o));
}

#[test]
fn bad_input_is_refused_in_the_tools_words() {
    let made = Made::new(&shop());
    let refuse = |message: &str| {
        let o = made.create(&[ASK]);
        let text = err(&o).replace(&made.text("x"), "X");
        assert!(text.starts_with(message), "{text}");
        assert_eq!((status(&o), out(&o).as_str()), (1, ""));
        assert!(!made.path("f").exists());
        text
    };
    let rep = fs::read(made.path("x.procrep")).unwrap();
    // If it is cut at any point, it is invalid.
    for len in [0, 20, rep.len() / 2, rep.len() - 1] {
        fs::write(made.path("x.procrep"), &rep[..len]).unwrap();
        refuse(&format!("{PROG}: Error reading procedure representation information file: X.procrep: "));
    }
    // The same if an octet inside a body is wrong: the determinism of the last goal.
    let mut damaged = rep.clone();
    let at = damaged.len() - 3;
    damaged[at] = 99;
    fs::write(made.path("x.procrep"), &damaged).unwrap();
    refuse(&format!("{PROG}: Error reading procedure representation information file: X.procrep: "));
    fs::remove_file(made.path("x.procrep")).unwrap();
    assert_eq!(
        refuse(PROG),
        format!("{PROG}: There is no readable procedure representation information file.\n")
    );
    // A representation of another program: the goals of the same procedure have other call sites.
    let stage = || Stage { lead: 5, work: 9000, needs: Vec::new() };
    let mut other = chain(&[stage(), stage()], 1);
    let body = other.find("body").unwrap();
    other.procs[body].body = Some(pct_feedback::synthetic::Code::scope(
        false,
        pct_feedback::synthetic::Code::conj(vec![pct_feedback::synthetic::Code::call(body, &[1, 11], &[11])]),
    ));
    fs::write(made.path("x.procrep"), other.rep()).unwrap();
    let text = refuse("");
    assert!(text.contains("Exception while analysing proc dynamic 3 (m.body/2-0)\n"), "{text}");
    assert!(text.contains(&format!("{PROG}: Counts do not add up at goal q;c1;")), "{text}");

    fs::write(made.path("x.data"), b"Mercury deep profiler data version 9\nx").unwrap();
    refuse(&format!("{PROG}: error reading X.data: "));
    fs::remove_file(made.path("x.data")).unwrap();
    refuse(&format!("{PROG}: error reading X.data: "));
    let o = run(CREATE, &[ASK, &made.text("x.dat"), &made.text("f")]);
    assert_eq!(status(&o), 1);
    let o = run(REPORT, &[&made.text("nothing")]);
    assert_eq!(
        (err(&o).replace(&made.text(""), ""), status(&o)),
        ("mdprof_report_feedback: nothing: No such file or directory\n\n".to_owned(), 1)
    );
}

#[test]
fn reading_tells_its_stages() {
    let made = Made::new(&shop());
    let o = made.create(&[ASK, "--debug-read-profile"]);
    let text = out(&o);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        &lines[..4],
        [
            "% Reading graph data...",
            "% Done.",
            "% Mapping static call sites to containing procedures...",
            "% Done."
        ]
    );
    let at = lines.iter().position(|l| *l == "% Reading program representation...").unwrap();
    let contour = made.text("x.contour");
    assert_eq!(
        lines[at + 1..],
        [
            "[\"m\"]",
            "% Done.",
            &format!("% Trying to read contour exclusion file `{contour}'..."),
            "% Couldn't open file.",
            "% Propagating measurements up call graph...",
            "% Done.",
            "% Summarizing information...",
            "\t% Summarizing proc dynamics with coverage...",
            "\t% Summarizing call site dynamics...",
            "\t% Summarizing modules...",
            "% Done.",
        ]
    );
    fs::write(made.path("x.procrep"), b"x").unwrap();
    let text = out(&made.create(&[ASK, "--debug-read-profile"]));
    assert!(text.contains("% Reading program representation...\n% Error: "), "{text}");
}

/// The known facts about the real sample: the candidate and its figures.
#[test]
fn the_sample_has_one_candidate() {
    let Some(data) = pct_kit::real("deep/mandelbrot/Deep.data") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.feedback");
    let o = run(CREATE, &["-v", "0", ASK, &data.display().to_string(), &file.display().to_string()]);
    assert_eq!((status(&o), err(&o)), (0, String::new()));
    let text = out(&run(REPORT, &[&file.display().to_string()]));
    let at =
        text.find("    pred mandelbrot.my_map/3-0\n\n      Path: s2-na;\n      Dependent: no\n").unwrap();
    assert!(text[at..].contains(
        "      NumCalls: 200\n      SeqTime: 2,023,529.72\n      ParTime: 1,013,765.36\n      SparkCost: 100.00\n"
    ));
    assert!(text.contains("    # of par conjunctions:     1\n"));
}
