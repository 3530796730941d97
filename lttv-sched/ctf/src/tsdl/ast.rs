//! TSDL as written: blocks, attributes, type expressions. No name is resolved here.

/// An entry of the root or of a block.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// `trace {}`, `stream {}`, ...
    Block(Block),
    /// `a.b = value;`
    Attr(Attr),
    /// `a.b := type;`
    TypeAttr { path: String, ty: TypeExpr, line: usize },
    /// `typealias`, `typedef`, or a named struct, variant or enum.
    Decl(Decl),
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) word: String,
    pub(crate) line: usize,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub(crate) struct Attr {
    /// Dotted name.
    pub(crate) path: String,
    pub(crate) value: AttrValue,
    pub(crate) line: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttrValue {
    Int(i128),
    Text(String),
    /// Dotted words.
    Word(String),
}

#[derive(Debug, Clone)]
pub(crate) enum Decl {
    Alias { ty: TypeExpr, dims: Vec<Dim>, name: String, line: usize },
    Typedef { ty: TypeExpr, declarators: Vec<Declarator>, line: usize },
    Named { ty: TypeExpr },
}

#[derive(Debug, Clone)]
pub(crate) struct TypeExpr {
    pub(crate) line: usize,
    pub(crate) kind: TypeKind,
}

#[derive(Debug, Clone)]
pub(crate) enum TypeKind {
    /// An alias: its words joined by one space.
    Name(String),
    Integer(Vec<Attr>),
    Float(Vec<Attr>),
    String(Vec<Attr>),
    Struct {
        name: Option<String>,
        body: Option<Vec<FieldEntry>>,
        align: Option<u64>,
    },
    Variant {
        name: Option<String>,
        tag: Option<String>,
        body: Option<Vec<FieldEntry>>,
    },
    Enum {
        name: Option<String>,
        container: Option<Box<TypeExpr>>,
        body: Option<Vec<Enumerator>>,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum FieldEntry {
    Field { ty: TypeExpr, declarators: Vec<Declarator>, line: usize },
    Decl(Decl),
}

#[derive(Debug, Clone)]
pub(crate) struct Declarator {
    pub(crate) name: String,
    pub(crate) dims: Vec<Dim>,
}

#[derive(Debug, Clone)]
pub(crate) enum Dim {
    Fixed(u64),
    /// Dotted path of the length field.
    Field(String),
}

#[derive(Debug, Clone)]
pub(crate) struct Enumerator {
    pub(crate) label: String,
    /// One value, or a range. None: one more than the last value.
    pub(crate) range: Option<(i128, i128)>,
    pub(crate) line: usize,
}
