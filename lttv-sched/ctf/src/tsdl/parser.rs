//! Recursive descent from tokens to [`ast`](super::ast).

use super::ast::{
    Attr, AttrValue, Block, Decl, Declarator, Dim, Entry, Enumerator, FieldEntry, TypeExpr, TypeKind,
};
use super::lexer::{Lexer, Tok};
use crate::error::MetaError;
use crate::model::MAX_DEPTH;

type Result<T> = std::result::Result<T, MetaError>;

/// Passes each entry of a text to `each` as soon as it is parsed. Only the tokens of one entry are in memory at a time:
/// metadata with hundreds of thousands of event classes is many times larger as tokens or as a tree than as classes.
pub(crate) fn parse(text: &[u8], each: &mut dyn FnMut(Entry) -> Result<()>) -> Result<()> {
    entries(text, &mut |parser| {
        while *parser.peek() != Tok::End {
            if !parser.eat(';') {
                each(parser.root_entry()?)?;
            }
        }
        Ok(())
    })
}

/// The blocks of a text that begin with these words. The rest is not parsed.
pub(crate) fn blocks(text: &[u8], words: &[&str]) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    entries(text, &mut |parser| {
        while parser.eat(';') {}
        if let (Tok::Word(word), Tok::Sign('{')) = (parser.peek(), parser.ahead(1))
            && words.contains(word)
            && let Entry::Block(block) = parser.root_entry()?
        {
            found.push(block);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Words that begin a block of the root.
const BLOCKS: [&str; 6] = ["trace", "env", "clock", "stream", "event", "callsite"];

/// Calls `each` with a parser for each entry of the root: up to a `;` or, for blocks, to the closing brace,
/// outside all braces.
fn entries(text: &[u8], each: &mut dyn FnMut(&mut Parser<'_>) -> Result<()>) -> Result<()> {
    let mut lexer = Lexer::new(text);
    let mut parser = Parser { toks: Vec::new(), at: 0, depth: 0 };
    let (mut open, mut block) = (0usize, false);
    loop {
        let (token, line) = lexer.next_token()?;
        let last = token == Tok::End;
        let ends = match token {
            Tok::Sign('{') => {
                block |=
                    open == 0 && matches!(&parser.toks[..], [(Tok::Word(word), _)] if BLOCKS.contains(word));
                open += 1;
                false
            }
            Tok::Sign('}') => {
                open = open.saturating_sub(1);
                open == 0 && block
            }
            Tok::Sign(';') => open == 0,
            _ => last,
        };
        parser.toks.push((token, line));
        if ends {
            if !last {
                parser.toks.push((Tok::End, line));
            }
            (parser.at, parser.depth, block) = (0, 0, false);
            each(&mut parser)?;
            parser.toks.clear();
            if last {
                return Ok(());
            }
        }
    }
}

struct Parser<'t> {
    toks: Vec<(Tok<'t>, usize)>,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> &Tok<'t> {
        &self.toks[self.at.min(self.toks.len() - 1)].0
    }

    fn ahead(&self, n: usize) -> &Tok<'t> {
        &self.toks[(self.at + n).min(self.toks.len() - 1)].0
    }

    fn line(&self) -> usize {
        self.toks[self.at.min(self.toks.len() - 1)].1
    }

    fn next(&mut self) -> Tok<'t> {
        let t = self.peek().clone();
        self.at += 1;
        t
    }

    fn eat(&mut self, c: char) -> bool {
        let yes = *self.peek() == Tok::Sign(c);
        self.at += usize::from(yes);
        yes
    }

    fn eat_word(&mut self, w: &str) -> bool {
        let yes = matches!(self.peek(), Tok::Word(x) if *x == w);
        self.at += usize::from(yes);
        yes
    }

    fn fail<T>(&self, expected: &str) -> Result<T> {
        Err(MetaError::new(self.line(), format!("syntax error: expected {expected}, found {}", self.peek())))
    }

    fn need(&mut self, c: char) -> Result<()> {
        if self.eat(c) { Ok(()) } else { self.fail(&Tok::Sign(c).to_string()) }
    }

    fn expect_word(&mut self, what: &str) -> Result<String> {
        match *self.peek() {
            Tok::Word(word) => {
                self.at += 1;
                Ok(word.to_owned())
            }
            _ => self.fail(what),
        }
    }

    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(MetaError::new(self.line(), format!("types nested deeper than {MAX_DEPTH}")));
        }
        let r = f(self);
        self.depth -= 1;
        r
    }

    fn root_entry(&mut self) -> Result<Entry> {
        if let (Tok::Word(w), Tok::Sign('{')) = (self.peek(), self.ahead(1))
            && BLOCKS.contains(w)
        {
            let (word, line) = (w.to_string(), self.line());
            self.at += 2;
            if word == "callsite" {
                self.skip_braces()?;
                return Ok(Entry::Block(Block { word, line, entries: Vec::new() }));
            }
            let mut entries = Vec::new();
            while !self.eat('}') {
                if !self.eat(';') {
                    entries.push(self.block_entry()?);
                }
            }
            // LTTng and the others end a block with `;`. A missing one does no harm.
            self.eat(';');
            return Ok(Entry::Block(Block { word, line, entries }));
        }
        match self.decl()? {
            Some(d) => Ok(Entry::Decl(d)),
            None => self.fail("a block, a type alias or a named type"),
        }
    }

    /// Skips to the `}` that closes the current block.
    fn skip_braces(&mut self) -> Result<()> {
        let mut open = 1;
        while open > 0 {
            match self.peek() {
                Tok::End => return self.fail("`}`"),
                Tok::Sign('{') => open += 1,
                Tok::Sign('}') => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
        self.eat(';');
        Ok(())
    }

    /// A `typealias`, `typedef`, or named struct, variant or enum. None if the next tokens are something else.
    fn decl(&mut self) -> Result<Option<Decl>> {
        let line = self.line();
        if self.eat_word("typealias") {
            let ty = self.type_expr(true)?;
            self.abstract_stars();
            let dims = self.dims()?;
            self.need('A')?;
            let name = self.alias_name()?;
            self.need(';')?;
            return Ok(Some(Decl::Alias { ty, dims, name, line }));
        }
        if self.eat_word("typedef") {
            let ty = self.type_expr(false)?;
            let declarators = self.declarators()?;
            return Ok(Some(Decl::Typedef { ty, declarators, line }));
        }
        // `struct name { ... };` and the like, but not `struct name field;`.
        if let (Tok::Word(w), Tok::Word(_)) = (self.peek(), self.ahead(1)) {
            let declares = match *w {
                "struct" => *self.ahead(2) == Tok::Sign('{'),
                "variant" | "enum" => matches!(self.ahead(2), Tok::Sign('{' | '<' | ':')),
                _ => false,
            };
            if declares {
                let start = self.at;
                let ty = self.type_expr(false)?;
                if self.eat(';') {
                    return Ok(Some(Decl::Named { ty }));
                }
                // A field whose type is defined in place.
                self.at = start;
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn abstract_stars(&mut self) {
        while self.eat('*') {}
    }

    /// Words (and pointer stars) on the right of `:=` in a typealias.
    fn alias_name(&mut self) -> Result<String> {
        let mut name = self.expect_word("a type name")?;
        loop {
            match self.peek() {
                Tok::Word(w) => {
                    name.push(' ');
                    name.push_str(w);
                }
                Tok::Sign('*') => name.push('*'),
                _ => return Ok(name),
            }
            self.at += 1;
        }
    }

    fn block_entry(&mut self) -> Result<Entry> {
        if let Some(d) = self.decl()? {
            return Ok(Entry::Decl(d));
        }
        let line = self.line();
        let path = match self.peek() {
            Tok::Text(_) => match self.next() {
                Tok::Text(t) => t,
                _ => unreachable!("just seen"),
            },
            _ => self.dotted("an attribute")?,
        };
        if self.eat('A') {
            let ty = self.type_expr(true)?;
            self.need(';')?;
            return Ok(Entry::TypeAttr { path, ty, line });
        }
        self.need('=')?;
        let value = self.attr_value()?;
        self.need(';')?;
        Ok(Entry::Attr(Attr { path, value, line }))
    }

    fn dotted(&mut self, what: &str) -> Result<String> {
        let mut path = self.expect_word(what)?;
        while matches!(self.peek(), Tok::Sign('.' | 'P')) {
            self.at += 1;
            path.push('.');
            path.push_str(&self.expect_word("a name after `.`")?);
        }
        Ok(path)
    }

    fn attr_value(&mut self) -> Result<AttrValue> {
        match self.peek() {
            Tok::Text(_) => {
                let mut s = String::new();
                while let Tok::Text(t) = self.peek() {
                    s.push_str(t);
                    self.at += 1;
                }
                Ok(AttrValue::Text(s))
            }
            Tok::Word(_) => Ok(AttrValue::Word(self.dotted("a value")?)),
            _ => Ok(AttrValue::Int(self.int()?)),
        }
    }

    fn int(&mut self) -> Result<i128> {
        let neg = self.eat('-');
        if !neg {
            self.eat('+');
        }
        match self.peek() {
            Tok::Int(v) => {
                let v = i128::from(*v);
                let v = if neg { -v } else { v };
                if v < i128::from(i64::MIN) {
                    return Err(MetaError::new(self.line(), format!("integer {v} does not fit 64 bits")));
                }
                self.at += 1;
                Ok(v)
            }
            _ => self.fail("an integer"),
        }
    }

    /// A type. `whole`: all words belong to it (no field name follows).
    fn type_expr(&mut self, whole: bool) -> Result<TypeExpr> {
        self.nested(|p| p.type_expr_inner(whole))
    }

    fn type_expr_inner(&mut self, whole: bool) -> Result<TypeExpr> {
        while self.eat_word("const") {}
        let line = self.line();
        let w = self.expect_word("a type")?;
        let kind = match (w.as_str(), self.peek()) {
            ("integer", Tok::Sign('{')) => TypeKind::Integer(self.attrs()?),
            ("floating_point", Tok::Sign('{')) => TypeKind::Float(self.attrs()?),
            ("string", Tok::Sign('{')) => TypeKind::String(self.attrs()?),
            ("string", _) => TypeKind::String(Vec::new()),
            ("struct", _) => {
                let name = self.opt_name();
                let body = if self.eat('{') { Some(self.fields()?) } else { None };
                let align = self.align()?;
                if name.is_none() && body.is_none() {
                    return self.fail("a name or `{` after `struct`");
                }
                TypeKind::Struct { name, body, align }
            }
            ("variant", _) => {
                let name = self.opt_name();
                let tag = if self.eat('<') {
                    let t = self.dotted("a tag")?;
                    self.need('>')?;
                    Some(t)
                } else {
                    None
                };
                let body = if self.eat('{') { Some(self.fields()?) } else { None };
                if name.is_none() && body.is_none() {
                    return self.fail("a name or `{` after `variant`");
                }
                TypeKind::Variant { name, tag, body }
            }
            ("enum", _) => {
                let name = self.opt_name();
                let container = if self.eat(':') { Some(Box::new(self.type_expr(true)?)) } else { None };
                let body = if self.eat('{') { Some(self.enumerators()?) } else { None };
                if name.is_none() && body.is_none() {
                    return self.fail("a name or `{` after `enum`");
                }
                TypeKind::Enum { name, container, body }
            }
            _ => {
                let mut name = w;
                // The last one of several words is the field's name, unless the type is alone.
                while matches!(self.peek(), Tok::Word(_))
                    && (whole || matches!(self.ahead(1), Tok::Word(_) | Tok::Sign('*')))
                {
                    let more = self.expect_word("a type")?;
                    if more != "const" {
                        name.push(' ');
                        name.push_str(&more);
                    }
                }
                TypeKind::Name(name)
            }
        };
        Ok(TypeExpr { line, kind })
    }

    /// The name of a struct, variant or enum: a word before `{`, `<`, `:` or another word.
    fn opt_name(&mut self) -> Option<String> {
        match self.peek() {
            Tok::Word(_) => self.expect_word("").ok(),
            _ => None,
        }
    }

    fn align(&mut self) -> Result<Option<u64>> {
        if !matches!((self.peek(), self.ahead(1)), (Tok::Word("align"), Tok::Sign('('))) {
            return Ok(None);
        }
        self.at += 2;
        let line = self.line();
        let v = self.int()?;
        self.need(')')?;
        u64::try_from(v).map(Some).map_err(|_| MetaError::new(line, format!("alignment {v}")))
    }

    fn attrs(&mut self) -> Result<Vec<Attr>> {
        self.need('{')?;
        let mut out = Vec::new();
        while !self.eat('}') {
            let line = self.line();
            let path = self.dotted("an attribute or `}`")?;
            self.need('=')?;
            let value = self.attr_value()?;
            self.need(';')?;
            out.push(Attr { path, value, line });
        }
        Ok(out)
    }

    fn fields(&mut self) -> Result<Vec<FieldEntry>> {
        self.nested(|p| {
            let mut out = Vec::new();
            while !p.eat('}') {
                if p.eat(';') {
                    continue;
                }
                if let Some(d) = p.decl()? {
                    out.push(FieldEntry::Decl(d));
                    continue;
                }
                let line = p.line();
                let ty = p.type_expr(false)?;
                let declarators = p.declarators()?;
                out.push(FieldEntry::Field { ty, declarators, line });
            }
            Ok(out)
        })
    }

    fn declarators(&mut self) -> Result<Vec<Declarator>> {
        let mut out = Vec::new();
        loop {
            self.abstract_stars();
            let name = self.expect_word("a field name")?;
            out.push(Declarator { name, dims: self.dims()? });
            if self.eat(';') {
                return Ok(out);
            }
            if !self.eat(',') {
                return self.fail("`;`, `,` or `[`");
            }
        }
    }

    fn dims(&mut self) -> Result<Vec<Dim>> {
        let mut dims = Vec::new();
        while self.eat('[') {
            let line = self.line();
            dims.push(match self.peek() {
                Tok::Word(_) => Dim::Field(self.dotted("a length")?),
                _ => {
                    let v = self.int()?;
                    Dim::Fixed(
                        u64::try_from(v)
                            .map_err(|_| MetaError::new(line, format!("array length {v} is below 0")))?,
                    )
                }
            });
            self.need(']')?;
            if dims.len() > MAX_DEPTH {
                return Err(MetaError::new(line, format!("arrays nested deeper than {MAX_DEPTH}")));
            }
        }
        Ok(dims)
    }

    fn enumerators(&mut self) -> Result<Vec<Enumerator>> {
        let mut out = Vec::new();
        while !self.eat('}') {
            let line = self.line();
            let label = match self.peek() {
                Tok::Text(_) | Tok::Word(_) => match self.next() {
                    Tok::Text(text) => text,
                    Tok::Word(word) => word.to_owned(),
                    _ => unreachable!("just seen"),
                },
                _ => return self.fail("a label or `}`"),
            };
            let range = if self.eat('=') {
                let lo = self.int()?;
                let hi = if self.eat('E') { self.int()? } else { lo };
                Some((lo, hi))
            } else {
                None
            };
            out.push(Enumerator { label, range, line });
            if !self.eat(',') && *self.peek() != Tok::Sign('}') {
                return self.fail("`,` or `}`");
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Result<Vec<Entry>> {
        let mut all = Vec::new();
        super::parse(text, &mut |entry| {
            all.push(entry);
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn a_wrong_bracket_is_an_error_with_its_line() {
        let e = parse(b"/* CTF 1.8 */\n\ntypealias integer { size = 8; ] := u8;").unwrap_err();
        assert_eq!(e.line, 3);
        assert!(e.what.contains("`]`"), "{}", e.what);
    }

    #[test]
    fn types_of_several_words_end_before_the_field_name() {
        let e = parse(b"struct s { unsigned long long a[2], b; const uint8_t string; };").unwrap();
        let [Entry::Decl(Decl::Named { ty: TypeExpr { kind: TypeKind::Struct { body: Some(b), .. }, .. } })] =
            &e[..]
        else {
            panic!("{e:?}")
        };
        let [FieldEntry::Field { ty, declarators, .. }, FieldEntry::Field { declarators: d2, .. }] = &b[..]
        else {
            panic!("{b:?}")
        };
        assert!(matches!(&ty.kind, TypeKind::Name(n) if n == "unsigned long long"));
        assert_eq!(declarators.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(d2[0].name, "string");
    }

    #[test]
    fn deep_nesting_is_refused() {
        let t = format!("{}{}", "struct a { struct ", "{ struct ".repeat(500));
        assert!(parse(t.as_bytes()).unwrap_err().what.contains("nested"));
    }
}
