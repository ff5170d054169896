//! What one Rust file declares and what it names: items, imports, paths, `impl` blocks.
//!
//! It reads tokens, not a syntax tree: a parser takes the arguments of macros for opaque, and there
//! `crate::a::B` names a file as well. Items count where a module can hold them, paths everywhere.

use super::token::{Token, tokens};
use std::collections::BTreeSet;

/// A module of a file: the file itself, or `mod name { .. }` in it.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// `a::b` for `crate::a::b`; empty for the root.
    pub(super) module: String,
    pub(super) items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
}

/// One name that a `use` brings in.
#[derive(Debug)]
pub(super) struct Import {
    /// `None` for a glob, whose path is then that of the module.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
    pub(super) at: usize,
    /// `pub`, `pub(crate)` and so on.
    pub(super) public: bool,
}

/// A path in code, beside imports.
#[derive(Debug)]
pub(super) struct Mention {
    /// The index of the scope in which it occurs.
    pub(super) scope: usize,
    pub(super) path: Vec<String>,
    pub(super) at: usize,
}

/// What a file declares and names.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The first is the file's own module.
    pub(super) scopes: Vec<Scope>,
    /// Paths of two or more names.
    pub(super) mentions: Vec<Mention>,
    /// Names alone that may be items which a glob brings in, and where they occur first.
    pub(super) bare: Vec<(String, usize)>,
    /// The types of its `impl Type { .. }`, without those of traits.
    pub(super) impls: Vec<Mention>,
    /// Whether it declares modules of other files.
    pub(super) has_modules: bool,
    /// Whether it holds more than modules and imports.
    pub(super) has_code: bool,
}

impl Source {
    /// Reads `code`, the live code of the file of `module`.
    pub(super) fn of(module: &str, code: &str) -> Self {
        let mut reader = Reader {
            tokens: tokens(code),
            at: 0,
            depth: 0,
            open: vec![(0, 0)],
            source: Self::default(),
        };
        reader.source.scopes.push(Scope { module: module.into(), ..Scope::default() });
        reader.read();
        reader.source
    }

    /// Whether it names `name` outside its imports.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.bare.iter().any(|(bare, _)| bare == name)
            || self.mentions.iter().any(|mention| mention.path[0] == name)
    }
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    /// How many brackets of any kind are open.
    depth: usize,
    /// The modules around this place: index of the scope, depth of its items.
    open: Vec<(usize, usize)>,
    source: Source,
}

impl<'a> Reader<'a> {
    /// The text of the token `ahead` of this one; empty at the end.
    fn peek(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn behind(&self, back: usize) -> &'a str {
        self.at.checked_sub(back).and_then(|at| self.tokens.get(at)).map_or("", |token| token.text)
    }

    fn scope(&self) -> (usize, usize) {
        self.open.last().copied().unwrap_or((0, 0))
    }

    fn read(&mut self) {
        while let Some(&token) = self.tokens.get(self.at) {
            match token.text {
                "(" | "[" | "{" => self.depth += 1,
                ")" | "]" | "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.open.len() > 1 && self.depth < self.scope().1 {
                        self.open.pop();
                    }
                }
                "use" if self.peek(1) != "<" => {
                    self.import();
                    continue;
                }
                // `pub(in path)` says who sees an item, and names nothing of it.
                "in" if self.behind(1) == "(" && self.behind(2) == "pub" => {
                    while !matches!(self.peek(0), ")" | "") {
                        self.at += 1;
                    }
                    continue;
                }
                _ if token.is_name() => {
                    let in_module = self.depth == self.scope().1;
                    if !(in_module && self.item(token)) {
                        self.path(token);
                        continue;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Notes the item whose keyword is `token`, in a module; false if it is no such keyword.
    fn item(&mut self, token: Token<'a>) -> bool {
        let next = self.peek(1);
        match token.text {
            "mod" if self.peek(2) == "{" => {
                let (outer, _) = self.scope();
                let module = join(&self.source.scopes[outer].module, next);
                self.source.scopes.push(Scope { module, ..Scope::default() });
                self.open.push((self.source.scopes.len() - 1, self.depth + 1));
                self.at += 2;
                self.depth += 1;
            }
            "mod" => {
                self.source.has_modules = true;
                self.at += 1;
            }
            "struct" | "enum" | "union" | "trait" | "fn" | "type" | "static"
                if next.starts_with(|c: char| c.is_alphabetic() || c == '_') =>
            {
                self.declare(if next == "mut" { self.peek(2) } else { next });
            }
            // Not of a generic parameter or a raw pointer.
            "const" if !matches!(self.behind(1), "<" | "," | "*") => {
                if !matches!(next, "fn" | "unsafe" | "async" | "extern") {
                    self.declare(next);
                }
            }
            "impl" if matches!(self.behind(1), "" | "}" | ";" | "]" | "{" | "unsafe") => {
                self.source.has_code = true;
                self.implementation();
            }
            "macro_rules" => {
                self.declare(self.peek(2));
                self.at += 1;
            }
            _ => return false,
        }
        true
    }

    /// Notes an item and steps onto its name.
    fn declare(&mut self, name: &str) {
        self.source.has_code = true;
        let (scope, _) = self.scope();
        self.source.scopes[scope].items.insert(name.into());
        self.at += 1;
    }

    /// Notes the type of `impl<..> Type<..> {`, unless it is the `impl` of a trait. Nothing is
    /// consumed: the paths in the head are read as all others are.
    fn implementation(&mut self) {
        let mut ahead = 1;
        if self.peek(ahead) == "<" {
            ahead = self.behind_generics(ahead);
        }
        let start = ahead;
        let mut path = Vec::new();
        while let Some(token) = self.tokens.get(self.at + ahead).filter(|token| token.is_name()) {
            path.push(String::from(token.text));
            ahead += 1;
            if self.peek(ahead) != "::" {
                break;
            }
            ahead += 1;
        }
        if self.peek(ahead) == "<" {
            ahead = self.behind_generics(ahead);
        }
        if !path.is_empty() && matches!(self.peek(ahead), "{" | "where") {
            let (scope, _) = self.scope();
            let at = self.tokens[self.at + start].at;
            self.source.impls.push(Mention { scope, path, at });
        }
    }

    /// Where the `<` that is `ahead` is closed, plus one.
    fn behind_generics(&self, mut ahead: usize) -> usize {
        let mut depth = 0_i32;
        loop {
            match self.peek(ahead) {
                "<" => depth += 1,
                // Not the arrow of `Fn() -> T`.
                ">" if self.peek(ahead - 1) != "-" => depth -= 1,
                "" => return ahead,
                _ => {}
            }
            ahead += 1;
            if depth == 0 {
                return ahead;
            }
        }
    }

    /// Reads a path that begins with `token`, or one name alone.
    fn path(&mut self, token: Token<'a>) {
        let before = self.behind(1);
        let mut path = vec![token.text];
        while self.peek(1) == "::" {
            self.at += 2;
            match self.tokens.get(self.at) {
                Some(next) if next.is_name() => path.push(next.text),
                // `::<T>`, or the `::` of a macro's pattern.
                _ => {
                    self.at -= 1;
                    break;
                }
            }
        }
        self.at += 1;
        // A field or method, the rest of `<T>::name` or `::name`.
        if matches!(before, "." | "::") {
            return;
        }
        if path.len() > 1 {
            let (scope, _) = self.scope();
            let path = path.into_iter().map(String::from).collect();
            self.source.mentions.push(Mention { scope, path, at: token.at });
        } else if self.depth == self.scope().1 && self.peek(0) == "!" {
            self.source.has_code = true;
            self.source.bare.push((token.text.into(), token.at));
        } else if before != "fn" {
            let like_item = token.text.starts_with(char::is_uppercase)
                || matches!(self.peek(0), "(" | "!" | "::")
                || matches!(before, "(" | ",") && matches!(self.peek(0), ")" | ",");
            if like_item {
                self.source.bare.push((token.text.into(), token.at));
            }
        }
    }

    /// Reads a `use` declaration.
    fn import(&mut self) {
        let public = matches!(self.behind(1), "pub" | ")");
        let mut imports = Vec::new();
        self.at += 1;
        if self.peek(0) == "::" {
            // An outside crate.
            while !matches!(self.peek(0), ";" | "") {
                self.at += 1;
            }
            return;
        }
        self.import_tree(&[], &mut imports);
        let (scope, _) = self.scope();
        let imports = imports.into_iter().map(|import| Import { public, ..import });
        self.source.scopes[scope].imports.extend(imports);
    }

    /// `a::{b, c::{d as e, self}, f::*}`: one import a leaf. Ends behind the tree.
    fn import_tree(&mut self, prefix: &[String], found: &mut Vec<Import>) {
        let mut path = prefix.to_vec();
        let at = self.tokens.get(self.at).map_or(0, |token| token.at);
        let mut leaf = |name: Option<String>, path: Vec<String>| {
            found.push(Import { name, path, at, public: false });
        };
        loop {
            match self.peek(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | ";" | "") {
                        self.import_tree(&path, found);
                        if self.peek(0) == "," {
                            self.at += 1;
                        } else if self.peek(0) != "}" {
                            return;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    return leaf(None, path);
                }
                "self" if !path.is_empty() => self.at += 1,
                _ if self.tokens.get(self.at).is_some_and(Token::is_name) => {
                    path.push(self.peek(0).into());
                    self.at += 1;
                }
                _ => return,
            }
            match self.peek(0) {
                "::" => self.at += 1,
                "as" => {
                    let name = self.peek(1).into();
                    self.at += 2;
                    return leaf(Some(name), path);
                }
                _ => {
                    let name = path.last().cloned();
                    return leaf(name, path);
                }
            }
        }
    }
}

/// `a` and `b` to `a::b`.
pub(super) fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.into() } else { format!("{module}::{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(code: &str) -> Vec<String> {
        let source = Source::of("a", code);
        let shown = |import: &Import| {
            let name = import.name.as_deref().unwrap_or("*");
            format!("{}={name}", import.path.join("::"))
        };
        source.scopes.iter().flat_map(|scope| scope.imports.iter().map(shown)).collect()
    }

    #[test]
    fn nested_imports_are_one_import_a_name() {
        let code = "use crate::{a, b::{self, c as d, e::*}, }; fn f() -> impl A + use<'_> { }";
        let expected = ["crate::a=a", "crate::b=b", "crate::b::c=d", "crate::b::e=*"];
        assert_eq!(imports(code), expected);
        assert!(imports("use ::a::b; use $crate::c; use").is_empty());
    }

    #[test]
    fn items_are_those_of_modules_and_not_of_bodies() {
        let code = "pub const fn a<const N: usize>(p: *const T) { struct X; }\nstatic mut B: u8 = 0;\n\
                    macro_rules! c { () => { struct Y; } }\nmod d { enum E {} }\nimpl A { fn z() {} }\n\
                    type F = fn(u8);";
        let source = Source::of("m", code);
        let items: Vec<Vec<&str>> =
            source.scopes.iter().map(|s| s.items.iter().map(String::as_str).collect()).collect();
        assert_eq!(items, [vec!["B", "F", "a", "c"], vec!["E"]]);
        assert_eq!(source.scopes[1].module, "m::d");
    }

    #[test]
    fn paths_are_found_also_in_macros_and_not_after_dots_or_in_visibility() {
        let code = "pub(in crate::no) fn f(a: crate::b::C) { assert!(d::e(), x.y::<u8>()); \
                    <T as G>::h(); ::std::z(); 0..i::J }";
        let source = Source::of("m", code);
        let paths: Vec<String> = source.mentions.iter().map(|m| m.path.join("::")).collect();
        assert_eq!(paths, ["crate::b::C", "d::e", "i::J"]);
    }

    #[test]
    fn an_impl_of_a_type_is_told_from_that_of_a_trait() {
        let code = "impl a::B {} impl<T: Fn() -> u8> C<T> where T: Copy {} impl D for E {}\n\
                    unsafe impl F for G {} impl<T> H<T> for I<T> {} fn f() -> impl J { k }";
        let source = Source::of("m", code);
        let paths: Vec<String> = source.impls.iter().map(|m| m.path.join("::")).collect();
        assert_eq!(paths, ["a::B", "C"]);
    }

    #[test]
    fn a_file_of_modules_and_imports_alone_holds_no_code() {
        assert!(!Source::of("", "#![allow(x)]\nmod a;\npub use a::B; extern crate c;").has_code);
        for code in
            ["fn f() {}", "impl A {}", "id!(a);", "const _: () = ();", "mod a { fn f() {} }"]
        {
            assert!(Source::of("", code).has_code, "{code}");
        }
    }
}
