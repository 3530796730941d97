//! Names that cannot be searched for: functions called `of` or `look`, types called `Place` or `Found`.
//!
//! Such a name says nothing about what the thing gives or holds, and a search for it finds the whole house. Names
//! inside macros and in tests are not seen.

use std::path::Path;

use syn::visit::Visit;

/// Functions that must be named after what they give or do.
const FUNCTIONS: &[&str] = &["of", "word", "put", "look", "take", "middle"];
/// Types that should be named after what they hold: each of these words may name one type, not several.
const TYPES: &[&str] = &["Place", "Step", "Found", "End", "Known", "Seen", "Held", "Look", "One", "Meaning"];

/// Definitions in a source file that have one of these names: the line, and the name.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) functions: Vec<(usize, String)>,
    pub(crate) types: Vec<(usize, String)>,
    /// The names in `impl Trait for Type` are the trait's choice: they count where the trait is defined.
    in_impl_of_trait: bool,
}

/// Reads a source file.
pub(crate) fn vague_names(path: &Path) -> Names {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    in_text(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn in_text(text: &str) -> syn::Result<Names> {
    let mut names = Names::default();
    names.visit_file(&syn::parse_file(text)?);
    Ok(names)
}

impl Names {
    fn function(&mut self, signature: &syn::Signature) {
        let name = &signature.ident;
        if !self.in_impl_of_trait && FUNCTIONS.iter().any(|vague| name == vague) {
            self.functions.push((name.span().start().line, name.to_string()));
        }
    }

    fn type_named(&mut self, name: &syn::Ident) {
        if TYPES.iter().any(|vague| name == vague) {
            self.types.push((name.span().start().line, name.to_string()));
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig);
        syn::visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let outer = std::mem::replace(&mut self.in_impl_of_trait, item.trait_.is_some());
        syn::visit::visit_item_impl(self, item);
        self.in_impl_of_trait = outer;
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_named(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_named(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_named(&item.ident);
        syn::visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.type_named(&item.ident);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !super::arrows::is_test(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vague_names_are_found_where_they_are_chosen() {
        let code = "struct Place;\nimpl Place {\n    fn of() {}\n    fn offset() {}\n}\ntrait T {\n    fn look();\n}\n\
                    impl T for Place {\n    fn look() {}\n}\nfn f() {\n    enum Step {}\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn put() {}\n}\n";
        let names = in_text(code).expect("code");
        let line_and_name = |(line, name): (usize, String)| format!("{line} {name}");
        let functions: Vec<String> = names.functions.into_iter().map(line_and_name).collect();
        let types: Vec<String> = names.types.into_iter().map(line_and_name).collect();
        assert_eq!(
            (functions, types),
            (vec!["3 of".into(), "7 look".into()], vec!["1 Place".into(), "13 Step".into()])
        );
    }
}
