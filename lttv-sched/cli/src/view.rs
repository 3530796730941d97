//! `lttv view`: the timeline of traces in a browser.

use pct_text::complain;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use lttv_engine::kept::Kept;
use lttv_engine::source::Source;
use lttv_page::{Origin, Shown, Store, TimelinePage};
use pct_server::view::Served;

use crate::args::{Format, ViewArgs};
use crate::line;
use crate::output::Out;
use crate::session::Session;

/// The traces of the command line, which are opened again when they have changed.
struct Typed {
    paths: Vec<PathBuf>,
    options: lttv_ctf::Options,
    kept: Option<Arc<dyn Kept>>,
    /// Labels of the traces that were opened at first, by path.
    labels: Vec<(PathBuf, String)>,
}

impl Typed {
    fn from_session(s: &Session) -> Typed {
        let (paths, options) = s.typed();
        let sources = s.sources().map(|source| source.identity().path().to_owned());
        let labels = sources.zip(s.labels().iter().cloned()).collect();
        Typed { paths: paths.to_vec(), options: options.clone(), kept: s.kept(), labels }
    }

    fn shown(&self, source: &Arc<dyn Source>) -> Shown {
        let path = source.identity().path();
        let known = self.labels.iter().find(|label| label.0 == path);
        Shown {
            name: known.map_or_else(|| path.display().to_string(), |label| label.1.clone()),
            source: source.clone(),
            recording: None,
            notes: source.warnings().iter().map(ToString::to_string).collect(),
            kept: self.kept.clone(),
        }
    }
}

impl Origin for Typed {
    fn stamp(&self) -> u64 {
        lttv_sources::stamp(&self.paths)
    }

    fn is_written(&self) -> bool {
        self.paths.iter().any(|path| pct_profile::load::is_running(path))
    }

    fn open(&self) -> Result<Vec<Shown>, String> {
        let opened = self.paths.iter().flat_map(|path| lttv_sources::open(path, &self.options));
        let (mut shown, mut failed) = (Vec::new(), None);
        for opened in opened {
            match opened {
                Ok(opened) => shown.push(self.shown(&opened.source)),
                Err(why) => failed = Some(why.to_string()),
            }
        }
        // Half of the traces would look as if there were no more. What could not be opened at first does not count.
        match failed {
            Some(why) if shown.len() < self.labels.len() => Err(why),
            _ => Ok(shown),
        }
    }
}

/// Serves the timeline until a page asks to quit.
///
/// # Errors
/// The port is taken; the output cannot be written.
pub fn run(s: &mut Session, args: &ViewArgs) -> anyhow::Result<()> {
    let typed = Typed::from_session(s);
    let stamp = typed.stamp();
    let store =
        Store::new(s.sources().map(|source| typed.shown(source)).collect()).map_err(anyhow::Error::msg)?;
    let span = store.span();
    let (from, to) = (s.from.map_or(span.0, |t| t.ns()), s.to.map_or(span.1, |t| t.ns()));
    let page = TimelinePage::following(Box::new(typed), store, stamp);
    let mut served = Served::serve_answers(Arc::new(page), &format!("from={from}&to={to}"), args.port)?;
    let mut out = Out::new(Format::Text);
    line!(&mut out, "{}", served.url());
    out.finish()?;
    if !args.common.quiet {
        complain!(
            "lttv: open the address in a browser; it is secret and ends with Ctrl-C or `quit` on the page"
        );
    }
    if !args.no_open
        && std::io::stdout().is_terminal()
        && let Err(e) = served.open_browser()
    {
        complain!("lttv: no browser is started: {e}");
    }
    Ok(served.run()?)
}
