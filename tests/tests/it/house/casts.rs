//! How many `as` casts the code has. Most can lose bits, a sign or precision without a word; `from`, `try_from` and
//! `cast_signed` say what happens.
//!
//! Left out are tests, and the rooms where registers, addresses and counters of the processor are one thing:
//! `runtime/` and the fence around ptrace in attach. Casts inside macros are not seen.

use std::path::Path;

use syn::{spanned::Spanned, visit::Visit};

/// Casts and lines of code.
#[derive(Default)]
pub(crate) struct Count {
    pub(crate) casts: usize,
    pub(crate) lines: usize,
}

impl Count {
    /// Adds a source file.
    pub(crate) fn file(&mut self, path: &Path) {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.text(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    fn text(&mut self, text: &str) -> syn::Result<()> {
        let file = syn::parse_file(text)?;
        self.lines += text.lines().count();
        self.visit_file(&file);
        Ok(())
    }
}

impl<'ast> Visit<'ast> for Count {
    fn visit_expr_cast(&mut self, cast: &'ast syn::ExprCast) {
        self.casts += 1;
        syn::visit::visit_expr_cast(self, cast);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if super::arrows::is_test(&module.attrs) {
            let span = module.span();
            self.lines -= span.end().line - span.start().line;
        } else {
            syn::visit::visit_item_mod(self, module);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_are_counted_outside_of_tests() {
        let mut count = Count::default();
        let code = "fn f(x: u8) -> u64 {\n    (x as u32) as u64\n}\n";
        count.text(&format!("use a::B as _;\n{code}\n#[cfg(test)]\nmod tests {{\n{code}}}\n")).expect("code");
        assert_eq!((count.casts, count.lines), (2, 6));
    }
}
