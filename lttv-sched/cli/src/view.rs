//! `lttv view`: the timeline of traces in a browser.

use std::sync::Arc;

use lttv_page::{Shown, Store, TimelinePage};
use pct_server::view::Served;

use crate::args::{Format, ViewArgs};
use crate::line;
use crate::output::Out;
use crate::session::Session;

/// Serves the timeline until a page asks to quit.
///
/// # Errors
/// The port is taken; the output cannot be written.
pub fn run(s: &mut Session, args: &ViewArgs) -> anyhow::Result<()> {
    let labels = s.labels().to_vec();
    let shown = s.sources().zip(labels).map(|(source, name)| Shown {
        name,
        source: source.clone(),
        recording: None,
        notes: source.warnings().iter().map(ToString::to_string).collect(),
    });
    let store = Store::new(shown.collect()).map_err(anyhow::Error::msg)?;
    let span = store.span();
    let (from, to) = (s.from.map_or(span.0, |t| t.ns()), s.to.map_or(span.1, |t| t.ns()));
    let served = Served::of(Arc::new(TimelinePage::new(store)), &format!("from={from}&to={to}"), args.port)?;
    let mut out = Out::new(Format::Text);
    line!(&mut out, "{}", served.url());
    out.finish()?;
    if !args.common.quiet {
        complain!(
            "lttv: open the address in a browser; it is secret and ends with Ctrl-C or `quit` on the page"
        );
    }
    Ok(served.run()?)
}
