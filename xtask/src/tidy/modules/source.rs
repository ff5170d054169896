//! The names that a Rust file declares and uses: items, imports, paths, `impl` blocks.
//!
//! The reader works on tokens, not on a syntax tree: to a parser the arguments of macros are
//! opaque, but `crate::a::B` names a file there, too. Items count where a module can have them,
//! paths everywhere.

use super::token::{Token, tokens};
use std::collections::BTreeSet;

/// A module of a file: the file itself, or `mod name { .. }` in it.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// The path, `a::b` for `crate::a::b`; empty for the root.
    pub(super) module: String,
    pub(super) items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
}

/// A name that a `use` imports.
#[derive(Debug)]
pub(super) struct Import {
    /// The name, or `None` for a glob, whose path is then that of the module.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
    pub(super) at: usize,
    /// Whether the import has `pub`, `pub(crate)` or the like.
    pub(super) public: bool,
}

/// A path in code that is not an import.
#[derive(Debug)]
pub(super) struct Mention {
    /// The index of the scope in which it occurs.
    pub(super) scope: usize,
    pub(super) path: Vec<String>,
    pub(super) at: usize,
}

/// The declarations and uses of a file.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The modules; the first is that of the file.
    pub(super) scopes: Vec<Scope>,
    /// The paths of two or more names.
    pub(super) mentions: Vec<Mention>,
    /// Single names that a glob may import, with their first places.
    pub(super) bare: Vec<(String, usize)>,
    /// The types of all `impl Type { .. }`; an `impl` of a trait does not count.
    pub(super) impls: Vec<Mention>,
    /// Whether the file declares modules in other files.
    pub(super) has_modules: bool,
    /// Whether the file has more than modules and imports.
    pub(super) has_code: bool,
}

impl Source {
    /// Reads `code`, the code of the file of `module` without tests.
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

    /// Returns whether the file uses `name` outside of imports.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.bare.iter().any(|(bare, _)| bare == name)
            || self.mentions.iter().any(|mention| mention.path[0] == name)
    }
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    /// The number of open brackets of any kind.
    depth: usize,
    /// The modules around this place: the index of the scope and the depth of its items.
    open: Vec<(usize, usize)>,
    source: Source,
}

impl<'a> Reader<'a> {
    /// Returns the text of the token that is `ahead` tokens after this one; empty at the end.
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
                // The path of `pub(in path)` says who sees the item and uses nothing.
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

    /// Notes the item whose keyword is `token`. Returns false if it is no keyword of an item.
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
            // The `const` of a generic parameter or a raw pointer is no item.
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

    /// Notes an item and moves to its name.
    fn declare(&mut self, name: &str) {
        self.source.has_code = true;
        let (scope, _) = self.scope();
        self.source.scopes[scope].items.insert(name.into());
        self.at += 1;
    }

    /// Notes the type of `impl<..> Type<..> {`, unless it is the `impl` of a trait. Consumes
    /// nothing: the paths in the head are read like all others.
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

    /// Returns the distance to the token after the `>` that closes the `<` at distance `ahead`.
    fn behind_generics(&self, mut ahead: usize) -> usize {
        let mut depth = 0_i32;
        loop {
            match self.peek(ahead) {
                "<" => depth += 1,
                // The `>` of the arrow in `Fn() -> T` closes nothing.
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

    /// Reads the path, or the single name, that begins with `token`.
    fn path(&mut self, token: Token<'a>) {
        let before = self.behind(1);
        let mut path = vec![token.text];
        while self.peek(1) == "::" {
            self.at += 2;
            match self.tokens.get(self.at) {
                Some(next) if next.is_name() => path.push(next.text),
                // It is `::<T>`, or the `::` of a macro's pattern.
                _ => {
                    self.at -= 1;
                    break;
                }
            }
        }
        self.at += 1;
        // It is a field or method, or the rest of `<T>::name` or `::name`.
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
            // It is an outside crate.
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

    /// Reads `a::{b, c::{d as e, self}, f::*}` as one import for each leaf. Ends after the tree.
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

/// Joins `a` and `b` to `a::b`.
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
        let code = "pub const fn a<const N: usize>(p: *const T) { struct X; }\n\
                    static mut B: u8 = 0;\nmacro_rules! c { () => { struct Y; } }\n\
                    mod d { enum E {} }\nimpl A { fn z() {} }\n\
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
