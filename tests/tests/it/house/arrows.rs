//! Which module of a crate uses which: read from the source with `syn`, tests left out.
//!
//! A path is followed to the file that defines what it names: through `use` and `pub use`, through names of modules.
//! Passing a name on (`pub use child::Thing`) is no arrow, using it is. A method call is no arrow: its type was named
//! somewhere. Paths inside macros are found by their tokens.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{spanned::Spanned, visit::Visit};

/// Where one file uses another.
struct Arrow {
    from: usize,
    to: usize,
    line: usize,
    name: String,
}

/// One module: a file, or an inline module of a file.
#[derive(Default)]
struct Module {
    file: usize,
    children: BTreeMap<String, usize>,
    parent: Option<usize>,
    /// Name in this module -> path as written.
    aliases: BTreeMap<String, Vec<String>>,
    /// Paths of `use x::*`.
    globs: Vec<Vec<String>>,
    /// Items that are defined here.
    items: BTreeSet<String>,
    /// Paths that its code names, with their lines; `true` if a single name may be a local variable.
    paths: Vec<(Vec<String>, usize)>,
}

/// Files that use each other, all of them.
pub(crate) struct Circle {
    pub(crate) members: Vec<String>,
    /// The arrows between them, for people.
    pub(crate) arrows: String,
}

/// The modules of a crate and their arrows.
pub(crate) struct Map {
    files: Vec<String>,
    /// Folder names of the module that a file holds, from the root of the crate.
    module_paths: Vec<Vec<String>>,
    arrows: Vec<Arrow>,
}

#[derive(Default)]
struct Reader {
    src: PathBuf,
    files: Vec<String>,
    module_paths: Vec<Vec<String>>,
    modules: Vec<Module>,
}

impl Map {
    /// Reads the crate whose sources are in `src`: its library, or its program where there is no library.
    pub(crate) fn read(src: &Path) -> Map {
        let root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|path| path.exists());
        let root = root.unwrap_or_else(|| panic!("{}: no lib.rs and no main.rs", src.display()));
        let mut reader = Reader { src: src.to_owned(), ..Reader::default() };
        reader.file(&root, src, None, Vec::new());
        let mut arrows = Vec::new();
        for (id, module) in reader.modules.iter().enumerate() {
            for (path, line) in &module.paths {
                if let Some(to) = reader.resolve(id, path)
                    && to != module.file
                {
                    arrows.push(Arrow { from: module.file, to, line: *line, name: path.join("::") });
                }
            }
        }
        Map { files: reader.files, module_paths: reader.module_paths, arrows }
    }

    pub(crate) fn circles_of_files(&self) -> Vec<Circle> {
        let edges = self.arrows.iter().map(|arrow| (arrow.from, arrow.to)).collect();
        circles(self.files.len(), &edges)
            .into_iter()
            .map(|members| self.circle(&members, |file| file))
            .collect()
    }

    /// Circles between the children of one module, each child taken with all that is below it.
    pub(crate) fn circles_of_folders(&self) -> Vec<Circle> {
        let mut found = Vec::new();
        let parents: BTreeSet<&[String]> =
            self.module_paths.iter().filter_map(|path| path.split_last()).map(|(_, parent)| parent).collect();
        for parent in parents {
            // The file that stands for a child and all below it.
            let stand_in = |file: usize| {
                let path = &self.module_paths[file];
                (path.len() > parent.len() && path.starts_with(parent)).then(|| {
                    let child = &path[..=parent.len()];
                    self.module_paths.iter().position(|other| other == child).expect("a module has a file")
                })
            };
            let edges = self
                .arrows
                .iter()
                .filter_map(|arrow| Some((stand_in(arrow.from)?, stand_in(arrow.to)?)))
                .filter(|(from, to)| from != to)
                .collect();
            for members in circles(self.files.len(), &edges) {
                found.push(self.circle(&members, |file| stand_in(file).unwrap_or(usize::MAX)));
            }
        }
        found
    }

    fn circle(&self, members: &BTreeSet<usize>, stand_in: impl Fn(usize) -> usize) -> Circle {
        let mut reasons: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        for arrow in &self.arrows {
            let (from, to) = (stand_in(arrow.from), stand_in(arrow.to));
            if from != to && members.contains(&from) && members.contains(&to) {
                let name = arrow.name.rsplit("::").next().unwrap_or(&arrow.name);
                let reasons = reasons.entry((from, to)).or_default();
                if !reasons.iter().any(|reason| reason.starts_with(&format!("{name} "))) {
                    reasons.push(format!("{name} ({}:{})", self.files[arrow.from], arrow.line));
                }
            }
        }
        let line = |((from, to), reasons): ((usize, usize), Vec<String>)| {
            format!("    {} -> {}: {}", self.files[from], self.files[to], reasons.join(", "))
        };
        Circle {
            members: members.iter().map(|&member| self.files[member].clone()).collect(),
            arrows: reasons.into_iter().map(line).collect::<Vec<_>>().join("\n"),
        }
    }
}

impl Reader {
    /// Reads a file as module `path`; `folder` is where its children are.
    fn file(&mut self, file: &Path, folder: &Path, parent: Option<usize>, path: Vec<String>) -> usize {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.strip_prefix(&self.src).unwrap_or(file).to_string_lossy().into_owned();
        self.files.push(name);
        self.module_paths.push(path);
        let number = self.files.len() - 1;
        self.module(number, folder, parent, &syntax.items)
    }

    fn module(&mut self, file: usize, folder: &Path, parent: Option<usize>, items: &[syn::Item]) -> usize {
        let id = self.modules.len();
        self.modules.push(Module { file, parent, ..Module::default() });
        for item in items {
            if !is_test(attributes(item)) {
                self.item(id, folder, item);
            }
        }
        id
    }

    fn item(&mut self, id: usize, folder: &Path, item: &syn::Item) {
        match item {
            syn::Item::Mod(module) => {
                let name = module.ident.to_string();
                let below = folder.join(&name);
                let file = self.modules[id].file;
                let child = match &module.content {
                    Some((_, items)) => self.module(file, &below, Some(id), items),
                    None => {
                        let written = module.attrs.iter().find_map(path_attribute);
                        let places = match written {
                            Some(written) => [folder.join(&written), folder.join(&written)],
                            None => [folder.join(format!("{name}.rs")), below.join("mod.rs")],
                        };
                        // Made when the crate is built, or for another system.
                        let Some(place) = places.iter().find(|place| place.exists()) else { return };
                        let mut path = self.module_paths[file].clone();
                        path.push(name.clone());
                        self.file(place, &below, Some(id), path)
                    }
                };
                self.modules[id].children.insert(name, child);
            }
            syn::Item::Use(item) => {
                let passed_on = !matches!(item.vis, syn::Visibility::Inherited);
                self.uses(id, &mut Vec::new(), &item.tree, passed_on);
            }
            other => {
                if let Some(name) = name_of(other) {
                    self.modules[id].items.insert(name);
                }
                // A `use` inside a function counts for the whole module.
                let mut visitor = Paths { paths: Vec::new(), uses: Vec::new() };
                visitor.visit_item(other);
                self.modules[id].paths.append(&mut visitor.paths);
                for tree in visitor.uses {
                    self.uses(id, &mut Vec::new(), &tree, false);
                }
            }
        }
    }

    fn uses(&mut self, id: usize, prefix: &mut Vec<String>, tree: &syn::UseTree, passed_on: bool) {
        let mut take = |name: String, mut path: Vec<String>, line: usize| {
            if path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            if !passed_on {
                self.modules[id].paths.push((path.clone(), line));
            }
            self.modules[id].aliases.insert(name, path);
        };
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.uses(id, prefix, &path.tree, passed_on);
                prefix.pop();
            }
            syn::UseTree::Name(name) => {
                let word = name.ident.to_string();
                let path = prefix.iter().cloned().chain([word.clone()]).collect();
                let word = if word == "self" { prefix.last().cloned().unwrap_or(word) } else { word };
                take(word, path, name.span().start().line);
            }
            syn::UseTree::Rename(rename) => {
                let path = prefix.iter().cloned().chain([rename.ident.to_string()]).collect();
                take(rename.rename.to_string(), path, rename.span().start().line);
            }
            syn::UseTree::Glob(_) => {
                self.modules[id].globs.push(prefix.clone());
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.uses(id, prefix, tree, passed_on);
                }
            }
        }
    }

    /// The file that defines what `path` names when module `id` says it; none for other crates, for local names, and
    /// for the name of a module alone.
    fn resolve(&self, id: usize, path: &[String]) -> Option<usize> {
        self.follow(id, path, 0)
    }

    fn follow(&self, id: usize, path: &[String], depth: usize) -> Option<usize> {
        if depth > 12 {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => 0,
            "self" => id,
            "super" => self.modules[id].parent?,
            "Self" => return None,
            _ => {
                rest = path;
                id
            }
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                at = self.modules[at].parent?;
                rest = after;
                continue;
            }
            let module = &self.modules[at];
            if let Some(&child) = module.children.get(name) {
                at = child;
                rest = after;
                continue;
            }
            if module.items.contains(name) {
                return Some(module.file);
            }
            if let Some(alias) = module.aliases.get(name) {
                // `use other_crate::Thing`, or `use thing` for the crate `thing` itself.
                if alias.len() == 1 && alias[0] == *name {
                    return None;
                }
                let whole: Vec<String> = alias.iter().chain(after).cloned().collect();
                return self.follow(at, &whole, depth + 1);
            }
            return module.globs.iter().find_map(|glob| {
                let whole: Vec<String> = glob.iter().chain(rest).cloned().collect();
                self.follow(at, &whole, depth + 1)
            });
        }
        None
    }
}

/// Collects the paths that code names.
struct Paths {
    paths: Vec<(Vec<String>, usize)>,
    uses: Vec<syn::UseTree>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.paths.push((names, path.span().start().line));
        syn::visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.uses.push(item.tree.clone());
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            syn::visit::visit_impl_item_fn(self, function);
        }
    }
}

impl Paths {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.paths.push((std::mem::take(&mut path), line));
                    }
                    line = word.span().start().line;
                    path.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
                other => {
                    self.paths.push((std::mem::take(&mut path), line));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.paths.push((path, line));
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &syn::Item) -> Option<String> {
    Some(match item {
        syn::Item::Const(item) => item.ident.to_string(),
        syn::Item::Enum(item) => item.ident.to_string(),
        syn::Item::Fn(item) => item.sig.ident.to_string(),
        syn::Item::Macro(item) => item.ident.as_ref()?.to_string(),
        syn::Item::Static(item) => item.ident.to_string(),
        syn::Item::Struct(item) => item.ident.to_string(),
        syn::Item::Trait(item) => item.ident.to_string(),
        syn::Item::Type(item) => item.ident.to_string(),
        syn::Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// Whether code is for tests alone: `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ..))]`.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("test") {
            return true;
        }
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let words = list.tokens.to_string();
        list.path.is_ident("cfg")
            && !words.starts_with("not")
            && words.split(|sign: char| !sign.is_alphanumeric() && sign != '_').any(|word| word == "test")
    })
}

/// The file of `#[path = "file"]`.
fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
    pair.path.is_ident("path").then(|| text.value())
}

/// Sets of two or more nodes each of which reaches all others of its set.
fn circles(nodes: usize, edges: &BTreeSet<(usize, usize)>) -> Vec<BTreeSet<usize>> {
    let reach = |start: usize, forth: bool| {
        let mut seen = BTreeSet::from([start]);
        let mut stack = vec![start];
        while let Some(node) = stack.pop() {
            for &(from, to) in edges {
                let (here, there) = if forth { (from, to) } else { (to, from) };
                if here == node && seen.insert(there) {
                    stack.push(there);
                }
            }
        }
        seen
    };
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    for node in 0..nodes {
        if found.iter().any(|circle| circle.contains(&node)) {
            continue;
        }
        let circle: BTreeSet<usize> = reach(node, true).intersection(&reach(node, false)).copied().collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

#[test]
fn circles_are_found_and_chains_are_not() {
    let edges = BTreeSet::from([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]);
    assert_eq!(circles(5, &edges), [BTreeSet::from([0, 1, 2])]);
}

#[test]
fn arrows_are_followed_to_the_file_that_defines_a_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("lib.rs", "mod a; mod b; mod c; mod d; pub use b::Thing;");
    write("a.rs", "use crate::Thing; fn f(thing: Thing) { println!(\"{}\", crate::c::g()); }");
    write("b.rs", "pub struct Thing; #[cfg(test)] mod tests { use crate::a; fn h() { a::f() } }");
    write("c.rs", "use crate::d; pub fn g() { d::look() }");
    write("d.rs", "pub fn look() { super::a::f() }");
    let circles = Map::read(folder.path()).circles_of_files();
    assert_eq!(circles.len(), 1, "{}", circles[0].arrows);
    assert_eq!(circles[0].members, ["a.rs", "c.rs", "d.rs"]);
}
