//! The text of a module's procedures.

use crate::analysis::Failure;
use crate::subject::Subject;
use serde::Serialize;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleRepReport {
    /// The module.
    pub module: String,
    /// Its text.
    pub text: String,
}

/// The report.
///
/// # Errors
/// There is no program representation, it is broken, or it has no such module.
pub fn create(subject: &Subject, name: &str) -> Result<ModuleRepReport, Failure> {
    let rep = subject.procrep()?;
    let module = rep
        .module(name)
        .ok_or_else(|| Failure(format!("The program representation has no module named {name}.")))?;
    let text = rep
        .module_text(module)
        .map_err(|e| Failure(format!("Error reading procedure representation information file: {e}")))?;
    Ok(ModuleRepReport { module: name.to_owned(), text })
}
