//! Procedure labels and the names that people see.
//!
//! A label is generic over its string: [`StrId`](crate::StrId) inside a profile, `&[u8]` or
//! `Vec<u8>` where labels of two files are compared.

/// Predicate or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PredOrFunc {
    /// A predicate.
    Pred,
    /// A function; its arity includes the result.
    Func,
}

/// The identity of a procedure. The order is that of printed program representations: ordinary before special,
/// predicates before functions, then field by field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcLabel<S> {
    /// A procedure in the source (or a lambda, or a specialised copy).
    Ordinary {
        /// Predicate or function.
        kind: PredOrFunc,
        /// The module that declares it: "the module" of the procedure.
        decl_module: S,
        /// The module that contains its code. It differs if code was copied between modules.
        def_module: S,
        /// Its name.
        name: S,
        /// Number of arguments; for a function including the result.
        arity: u32,
        /// Mode number.
        mode: u32,
    },
    /// A compiler generated procedure of a type.
    Special {
        /// The type.
        type_name: S,
        /// The type's module: "the module" of the procedure.
        type_module: S,
        /// The module that contains its code.
        def_module: S,
        /// `__Unify__`, `__Compare__`, `__CompareRep__` or `__Index__`.
        pred_name: S,
        /// Arity of the type.
        arity: u32,
        /// Mode number.
        mode: u32,
    },
}

impl<S> ProcLabel<S> {
    /// The module that counts for modules, contours and accessors.
    pub fn module(&self) -> &S {
        match self {
            Self::Ordinary { decl_module, .. } => decl_module,
            Self::Special { type_module, .. } => type_module,
        }
    }
    /// The module that contains the procedure's code.
    pub fn def_module(&self) -> &S {
        match self {
            Self::Ordinary { def_module, .. } | Self::Special { def_module, .. } => def_module,
        }
    }
    /// The arity of the procedure (for a function including its result) or of the special's type.
    pub fn arity(&self) -> u32 {
        match self {
            Self::Ordinary { arity, .. } | Self::Special { arity, .. } => *arity,
        }
    }
    /// The mode number.
    pub fn mode(&self) -> u32 {
        match self {
            Self::Ordinary { mode, .. } | Self::Special { mode, .. } => *mode,
        }
    }
    /// The same label with each string replaced.
    pub fn map<'a, T>(&'a self, mut f: impl FnMut(&'a S) -> T) -> ProcLabel<T> {
        match self {
            Self::Ordinary { kind, decl_module, def_module, name, arity, mode } => ProcLabel::Ordinary {
                kind: *kind,
                decl_module: f(decl_module),
                def_module: f(def_module),
                name: f(name),
                arity: *arity,
                mode: *mode,
            },
            Self::Special { type_name, type_module, def_module, pred_name, arity, mode } => {
                ProcLabel::Special {
                    type_name: f(type_name),
                    type_module: f(type_module),
                    def_module: f(def_module),
                    pred_name: f(pred_name),
                    arity: *arity,
                    mode: *mode,
                }
            }
        }
    }
}

/// Why a label has no refined name. The raw name is shown instead, and the file is not refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// The name of a special procedure is not one of the four known ones.
    #[error("unknown special predicate name {0}")]
    SpecialPred(String),
    /// `TypeSpecOf__` without pred, func or pred_or_func.
    #[error("typespec: neither pred nor func: {0}")]
    TypeSpec(String),
    /// `IntroducedFrom__` without pred or func.
    #[error("lambda: neither pred nor func: {0}")]
    Lambda(String),
}

impl BadName {
    /// The warning's code: `bad_special_pred` or `bad_proc_name`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SpecialPred(_) => "bad_special_pred",
            Self::TypeSpec(_) | Self::Lambda(_) => "bad_proc_name",
        }
    }
}

impl<S: AsRef<[u8]>> ProcLabel<S> {
    /// The raw name: `module.name/arity-mode`, `predname for module.type/arity mode m`.
    pub fn raw_name(&self) -> String {
        match self {
            Self::Ordinary { kind, decl_module, name, arity, mode, .. } => {
                format!("{}.{}/{arity}{}-{mode}", text(decl_module), text(name), plus_one(*kind))
            }
            Self::Special { type_name, type_module, pred_name, arity, mode, .. } => format!(
                "{} for {}.{}/{arity} mode {mode}",
                text(pred_name),
                text(type_module),
                text(type_name)
            ),
        }
    }
    /// The refined name without the module.
    ///
    /// # Errors
    /// The label has no refined name; show [`ProcLabel::raw_name`].
    pub fn unqualified_name(&self) -> Result<String, BadName> {
        match self {
            Self::Ordinary { .. } => self.refined(),
            Self::Special { type_name, .. } => self.special_name(text(type_name)),
        }
    }
    /// The refined name with the module.
    ///
    /// # Errors
    /// The label has no refined name; show [`ProcLabel::raw_name`].
    pub fn qualified_name(&self) -> Result<String, BadName> {
        match self {
            Self::Ordinary { decl_module, .. } => Ok(format!("{}.{}", text(decl_module), self.refined()?)),
            Self::Special { type_name, type_module, .. } => {
                self.special_name(format!("{}.{}", text(type_module), text(type_name)))
            }
        }
    }

    fn special_name(&self, of: impl std::fmt::Display) -> Result<String, BadName> {
        let Self::Special { pred_name, arity, mode, .. } = self else {
            unreachable!("called for special labels only")
        };
        let short = match pred_name.as_ref() {
            b"__Unify__" => "Unify",
            b"__Compare__" => "Compare",
            b"__CompareRep__" => "CompareRep",
            b"__Index__" => "Index",
            _ => return Err(BadName::SpecialPred(text(pred_name).into_owned())),
        };
        Ok(if *mode == 0 {
            format!("{short} for {of}/{arity}")
        } else {
            format!("{short} for {of}/{arity} mode {mode}")
        })
    }

    fn refined(&self) -> Result<String, BadName> {
        let Self::Ordinary { kind, name, arity, mode, .. } = self else {
            unreachable!("called for ordinary labels only")
        };
        let plus = plus_one(*kind);
        let name = text(name);
        if let Some(rest) = name.strip_prefix("TypeSpecOf__") {
            let rest = ["pred__", "func__", "pred_or_func__"]
                .iter()
                .find_map(|k| rest.strip_prefix(k))
                .ok_or_else(|| BadName::TypeSpec(name.clone().into_owned()))?;
            if let Some((before, spec)) = rest.split_once("__[")
                && let Some((spec, _)) = spec.split_once(']')
            {
                return Ok(format!("{before}/{arity}{plus}-{mode} [{spec}]"));
            }
        } else if let Some(rest) = name.strip_prefix("IntroducedFrom__") {
            let rest = ["pred__", "func__"]
                .iter()
                .find_map(|k| rest.strip_prefix(k))
                .ok_or_else(|| BadName::Lambda(name.clone().into_owned()))?;
            if let [container @ .., line, _] = segments(rest).as_slice() {
                return Ok(format!("{} lambda line {line}/{arity}{plus}", container.join("__")));
            }
        }
        Ok(format!("{name}/{arity}{plus}-{mode}"))
    }
}

fn text<S: AsRef<[u8]>>(s: &S) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(s.as_ref())
}

fn plus_one(kind: PredOrFunc) -> &'static str {
    match kind {
        PredOrFunc::Pred => "",
        PredOrFunc::Func => "+1",
    }
}

/// Splits at `__`. A separator must have a character of its segment before it.
fn segments(text: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    let mut rest = text;
    loop {
        let first = rest.chars().next().map_or(0, char::len_utf8);
        match rest[first..].find("__") {
            Some(at) => {
                segments.push(&rest[..first + at]);
                rest = &rest[first + at + 2..];
            }
            None => {
                segments.push(rest);
                return segments;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordinary(
        kind: PredOrFunc,
        module: &'static str,
        name: &'static str,
        arity: u32,
    ) -> ProcLabel<&'static str> {
        ProcLabel::Ordinary { kind, decl_module: module, def_module: module, name, arity, mode: 0 }
    }
    fn special(pred_name: &'static str, mode: u32) -> ProcLabel<&'static str> {
        ProcLabel::Special {
            type_name: "list",
            type_module: "list",
            def_module: "list",
            pred_name,
            arity: 1,
            mode,
        }
    }

    #[test]
    fn names_follow_the_table() {
        use PredOrFunc::{Func, Pred};
        let div = ordinary(Func, "float", "/", 3);
        assert_eq!(div.qualified_name().unwrap(), "float.//3+1-0");
        assert_eq!(div.raw_name(), "float.//3+1-0");
        let lambda = ordinary(Func, "m", "IntroducedFrom__pred__main__12__1", 3);
        assert_eq!(lambda.qualified_name().unwrap(), "m.main lambda line 12/3+1");
        let spec = ordinary(Pred, "array", "TypeSpecOf__pred__copy_subarray__[T = string]_0", 6);
        assert_eq!(spec.qualified_name().unwrap(), "array.copy_subarray/6-0 [T = string]");
        assert_eq!(
            ordinary(Pred, "m", "IntroducedFrom__func____x__y__7__2", 1).unqualified_name().unwrap(),
            "__x__y lambda line 7/1"
        );
        assert_eq!(ordinary(Pred, "m", "lambda_m_m_12", 2).unqualified_name().unwrap(), "lambda_m_m_12/2-0");
        assert_eq!(special("__Unify__", 1).qualified_name().unwrap(), "Unify for list.list/1 mode 1");
        assert_eq!(special("__CompareRep__", 0).unqualified_name().unwrap(), "CompareRep for list/1");
        assert_eq!(special("__Index__", 2).raw_name(), "__Index__ for list.list/1 mode 2");
    }

    #[test]
    fn failed_forms_fall_back_and_unknown_kinds_are_reported() {
        use PredOrFunc::Pred;
        let name = |n| ordinary(Pred, "m", n, 1).unqualified_name();
        assert_eq!(name("TypeSpecOf__pred__q").unwrap(), "TypeSpecOf__pred__q/1-0");
        assert_eq!(name("TypeSpecOf__pred__q__[x").unwrap(), "TypeSpecOf__pred__q__[x/1-0");
        assert_eq!(name("IntroducedFrom__pred__q").unwrap(), "IntroducedFrom__pred__q/1-0");
        assert_eq!(name("IntroducedFrom__x__q").unwrap_err().code(), "bad_proc_name");
        assert_eq!(name("TypeSpecOf__x__q").unwrap_err().code(), "bad_proc_name");
        assert_eq!(special("__Solve__", 0).qualified_name().unwrap_err().code(), "bad_special_pred");
    }

    #[test]
    fn a_separator_needs_a_character_before_it() {
        assert_eq!(segments("a__b"), ["a", "b"]);
        assert_eq!(segments("__a__b"), ["__a", "b"]);
        assert_eq!(segments("a____b"), ["a", "__b"]);
        assert_eq!(segments("é__"), ["é", ""]);
        assert_eq!(segments(""), [""]);
    }
}
