//! The modules of a crate, read from its files, and what each names of the others.
//!
//! proc-macro2 splits the text into tokens, so comments and literals do not count. Modules and
//! items for tests alone are left out. A re-export leads to the module it names.

use super::files::Files;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;

/// The segments of a path, from the root of the crate.
pub(super) type Path = Vec<String>;

/// A module, in a file of its own or inside one.
#[derive(Default)]
pub(super) struct Module {
    /// The file that contains it.
    pub(super) file: String,
    /// The module of that file.
    pub(super) of_file: Path,
    /// The modules it declares, in their order.
    pub(super) children: Vec<String>,
    /// The names it imports, and their paths as written. The name of a glob is `*`.
    imports: Vec<(String, Path)>,
    /// The paths it names, as written.
    mentions: Vec<Mention>,
}

struct Mention {
    path: Path,
    line: usize,
    /// The type of an `impl Type`.
    is_impl: bool,
}

/// The modules of a crate by their paths.
#[derive(Default)]
pub(super) struct Modules(pub(super) BTreeMap<Path, Module>);

/// A module needs another.
#[derive(Debug)]
pub(super) struct Need {
    pub(super) from: Path,
    pub(super) to: Path,
    /// The path as it is written.
    pub(super) what: String,
    pub(super) line: usize,
    /// It is an `impl Type` outside the file of the type: each needs the other.
    pub(super) is_impl: bool,
}

impl Modules {
    /// Reads the crate whose root is the file `root`. A file that is no Rust is left out: the
    /// compiler refuses it.
    pub(super) fn read(files: &Files, root: &str) -> Self {
        let mut modules = Self::default();
        modules.read_file(files, Path::new(), root);
        modules
    }

    fn read_file(&mut self, files: &Files, path: Path, file: &str) {
        let Some(stream) = files.get(file).and_then(|text| text.parse::<TokenStream>().ok()) else {
            return;
        };
        let module = Module { file: file.into(), of_file: path.clone(), ..Module::default() };
        self.0.insert(path.clone(), module);
        self.read_items(files, &path, stream);
    }

    /// Reads the tokens of `module`, those inside of brackets included.
    fn read_items(&mut self, files: &Files, module: &Path, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let text = |at: usize| tokens.get(at).map(plain).unwrap_or_default();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let word = plain(token);
            match (token, word.as_str()) {
                (TokenTree::Punct(_), "#") if is_test(tokens.get(at + 1)) => {
                    at = after_item(&tokens, at);
                    continue;
                }
                (TokenTree::Ident(_), "mod") if matches!(text(at + 2).as_str(), ";" | "{}") => {
                    let (name, inside) = (text(at + 1), tokens.get(at + 2));
                    self.declare(files, module, name, inside);
                    at += 3;
                }
                (TokenTree::Ident(_), "use") if text(at + 1) != "<" => {
                    let is_use = true;
                    at = self.read_path(module, &tokens, at + 1, is_use);
                }
                (TokenTree::Ident(_), "impl") => {
                    self.read_impl(module, &tokens, at + 1);
                    at += 1;
                }
                (TokenTree::Ident(_), "crate" | "super" | "self") => {
                    let is_use = false;
                    at = self.read_path(module, &tokens, at, is_use);
                }
                (TokenTree::Group(group), _) => {
                    let first = group.stream().into_iter().next();
                    // The path of `pub(in path)` says who sees the item.
                    if first.is_none_or(|first| plain(&first) != "in") {
                        self.read_items(files, module, group.stream());
                    }
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// Adds the module `name`, which `inside` holds if it is in the same file.
    fn declare(&mut self, files: &Files, parent: &Path, name: String, inside: Option<&TokenTree>) {
        let path: Path = parent.iter().chain([&name]).cloned().collect();
        let Some(above) = self.0.get_mut(parent) else { return };
        above.children.push(name);
        let (file, of_file) = (above.file.clone(), above.of_file.clone());
        if let Some(TokenTree::Group(group)) = inside {
            self.0.insert(path.clone(), Module { file, of_file, ..Module::default() });
            return self.read_items(files, &path, group.stream());
        }
        let stem = file.trim_end_matches(".rs");
        let (folder, last) = stem.rsplit_once('/').unwrap_or(("", stem));
        let folder = if matches!(last, "lib" | "main" | "mod") { folder } else { stem };
        // Modules between that of the file and this one are folders, too.
        let below = path[of_file.len()..].join("/");
        for file in [format!("{folder}/{below}.rs"), format!("{folder}/{below}/mod.rs")] {
            if files.get(&file).is_some() {
                self.read_file(files, path.clone(), &file);
            }
        }
    }

    /// Reads the path, or the tree of paths of a `use`, that begins at `at`. Returns its end.
    fn read_path(&mut self, module: &Path, tokens: &[TokenTree], at: usize, is_use: bool) -> usize {
        let line = tokens.get(at).map_or(0, |token| token.span().start().line);
        let mut leaves = Vec::new();
        let end = leaves_of(Path::new(), tokens, at, is_use, &mut leaves);
        let Some(module) = self.0.get_mut(module) else { return end };
        for (name, path) in leaves {
            let is_path = path.len() > 1 && matches!(path[0].as_str(), "crate" | "super" | "self");
            if is_path {
                module.mentions.push(Mention { path: path.clone(), line, is_impl: false });
            }
            if is_use {
                module.imports.push((name, path));
            }
        }
        end.max(at + 1)
    }

    /// Notes the type of `impl<..> Type<..> {`, unless it is the `impl` of a trait.
    fn read_impl(&mut self, module: &Path, tokens: &[TokenTree], start: usize) {
        let at = after_generics(tokens, start);
        let (mut leaves, is_use) = (Vec::new(), false);
        let end = after_generics(tokens, leaves_of(Path::new(), tokens, at, is_use, &mut leaves));
        let next = tokens.get(end).map(plain).unwrap_or_default();
        let line = tokens.get(at).map_or(0, |token| token.span().start().line);
        if let (Some((_, path)), "{}" | "where") = (leaves.pop(), next.as_str())
            && let Some(module) = self.0.get_mut(module)
        {
            module.mentions.push(Mention { path, line, is_impl: true });
        }
    }

    /// Returns what the modules need of each other, in the order of their paths and lines.
    pub(super) fn needs(&self) -> Vec<Need> {
        let mut needs = Vec::new();
        for (path, module) in &self.0 {
            for mention in &module.mentions {
                let Some((found, _)) = self.resolve(path, &mention.path, 9) else { continue };
                let to = self.0[&found].of_file.clone();
                let (from, what) = (module.of_file.clone(), mention.path.join("::"));
                let Mention { line, is_impl, .. } = *mention;
                needs.push(Need { from, to, what, line, is_impl });
            }
        }
        needs
    }

    /// Returns the module that `path` leads to from `module`, or the one with the item it names and
    /// false; `None` if it leads to another crate. An import may lead over `steps` others.
    fn resolve(&self, module: &Path, path: &[String], steps: usize) -> Option<(Path, bool)> {
        let mut at = module.clone();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => at.clear(),
                "self" | "*" => {}
                "super" => drop(at.pop()),
                _ => {
                    let below: Path = at.iter().chain([name]).cloned().collect();
                    let import = |(own, to): &&(String, Path)| own == name && *to != [name.clone()];
                    if self.0.contains_key(&below) {
                        at = below;
                    } else if let Some((_, to)) = self.0.get(&at)?.imports.iter().find(import) {
                        let is_module;
                        (at, is_module) = self.resolve(&at, to, steps.checked_sub(1)?)?;
                        if !is_module {
                            return Some((at, false));
                        }
                    } else {
                        // A longer path that begins here leads to another crate.
                        return (index > 0 || path.len() == 1).then_some((at, false));
                    }
                }
            }
        }
        self.0.contains_key(&at).then_some((at, true))
    }
}

/// Returns `{}` for a group in braces, otherwise the token.
fn plain(token: &TokenTree) -> String {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => "{}".into(),
        TokenTree::Group(_) | TokenTree::Literal(_) => String::new(),
        TokenTree::Ident(ident) => ident.to_string(),
        TokenTree::Punct(punct) => punct.as_char().into(),
    }
}

/// Returns whether `group` is that of an attribute for tests alone.
pub(crate) fn is_test(group: Option<&TokenTree>) -> bool {
    let text = group.map(ToString::to_string).unwrap_or_default().replace(' ', "");
    ["[cfg(test)]", "[cfg(all(test,", "[test]", "[cfg(doctest)]", "[cfg(all(doctest,"]
        .iter()
        .any(|mark| text.starts_with(mark))
}

/// Returns the end of the item, field or statement whose attributes begin at `at`.
pub(crate) fn after_item(tokens: &[TokenTree], mut at: usize) -> usize {
    const ITEMS: [&str; 12] = [
        "fn", "mod", "impl", "struct", "enum", "trait", "type", "const", "static", "use", "unsafe",
        "extern",
    ];
    let text = |at: usize| tokens.get(at).map(plain).unwrap_or_default();
    while text(at) == "#" {
        at += 2;
    }
    if text(at) == "pub" {
        at += 1;
        at += usize::from(matches!(tokens.get(at), Some(TokenTree::Group(_))));
    }
    // The commas of an item belong to its generics.
    let is_item = ITEMS.contains(&text(at).as_str());
    while let Some(token) = tokens.get(at) {
        at += 1;
        match plain(token).as_str() {
            "{}" | ";" => break,
            "," if !is_item => break,
            _ => {}
        }
    }
    at
}

/// Returns the end of the generics that begin at `at`, or `at` if there are none.
pub(crate) fn after_generics(tokens: &[TokenTree], mut at: usize) -> usize {
    let text = |at: usize| tokens.get(at).map(plain).unwrap_or_default();
    let mut depth = 0_i32;
    while at < tokens.len() {
        match text(at).as_str() {
            "<" => depth += 1,
            // That of an arrow closes nothing.
            ">" if text(at - 1) != "-" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + usize::from(text(at) == ">");
        }
        at += 1;
    }
    at
}

/// Adds each path of the tree `a::{b, c::{d as e, self}, f::*}` that begins at `at`, with the name
/// it has here. Returns the end of the tree.
fn leaves_of(
    mut path: Path,
    tokens: &[TokenTree],
    mut at: usize,
    is_use: bool,
    leaves: &mut Vec<(String, Path)>,
) -> usize {
    let text = |at: usize| tokens.get(at).map(plain).unwrap_or_default();
    loop {
        match tokens.get(at) {
            Some(TokenTree::Group(group)) if is_use && text(at) == "{}" => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut start = 0;
                while start < inside.len() {
                    // Over the comma.
                    start = leaves_of(path.clone(), &inside, start, is_use, leaves) + 1;
                }
                return at + 1;
            }
            Some(TokenTree::Ident(name)) if path.is_empty() || *name != "self" => {
                path.push(name.to_string());
            }
            Some(TokenTree::Punct(mark)) if is_use && mark.as_char() == '*' => {
                path.push("*".into())
            }
            Some(TokenTree::Ident(_)) => {}
            _ => break,
        }
        at += 1;
        if !(text(at) == ":" && text(at + 1) == ":") {
            break;
        }
        at += 2;
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if is_use && text(at) == "as" {
        name = text(at + 1);
        at += 2;
    }
    leaves.push((name, path));
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a:2 b` for each need: a module, the line, and the module that it needs.
    fn needs(files: &[(&str, &str)]) -> Vec<String> {
        let needs = Modules::read(&Files::of(files), "x/lib.rs").needs();
        let shown = |need: &Need| {
            let mark = if need.is_impl { " impl" } else { "" };
            format!("{}:{} {}{mark}", need.from.join("/"), need.line, need.to.join("/"))
        };
        needs.iter().map(shown).collect()
    }

    #[test]
    fn a_re_export_leads_to_the_module_that_defines_the_item() {
        let files = [
            ("x/lib.rs", "mod a;\nmod b;\nuse b::C as D;\npub use b::*;\npub use b::*;"),
            ("x/a.rs", "use crate::D;\nfn f(d: D) { crate::D::Flush }"),
            ("x/b/mod.rs", "mod c;\npub(crate) use c::C;"),
            ("x/b/c.rs", "use std::Flush;\npub enum C { Flush }"),
        ];
        assert_eq!(needs(&files), ["a:1 b/c", "a:2 b/c"]);
    }

    #[test]
    fn grouped_imports_and_paths_in_macros_lead_to_each_module() {
        let files = [
            ("x/lib.rs", "mod a;\nmod b { pub mod i; }\nmod c;"),
            (
                "x/a.rs",
                "use crate::{b as d, c::{self, d::D, e::{self, f::*}}, };\n\
                 fn g() -> impl A + use<'_> { assert!(crate::b::i::j::<u8>()) }",
            ),
            ("x/b/i.rs", "fn h() { super::super::c::k(); self.x }"),
            ("x/c/mod.rs", "mod d;\nmod e;"),
            ("x/c/d.rs", ""),
            ("x/c/e.rs", "mod m { use super::super::d; }"),
        ];
        let all = ["a:1 ", "a:1 c", "a:1 c/d", "a:1 c/e", "a:1 c/e", "a:2 b/i", "b/i:1 c"];
        assert_eq!(needs(&files), [&all[..], &["c/e:1 c/d"]].concat());
    }

    #[test]
    fn an_impl_of_a_type_is_told_from_that_of_a_trait() {
        let files = [
            ("x/lib.rs", "mod a;\nmod b;"),
            ("x/a.rs", "pub struct A;"),
            (
                "x/b.rs",
                "use crate::a::A;\nimpl<T: Fn() -> u8> A<T> where T: Copy {}\n\
                 unsafe impl F for A {}\nimpl<T> H<T> for A<T> {}\nimpl C {}",
            ),
        ];
        assert_eq!(needs(&files), ["b:1 a", "b:2 a impl", "b:5 b impl"]);
    }

    #[test]
    fn imports_in_a_ring_and_files_that_are_no_rust_end_the_search_and_nothing_else() {
        let files = [
            ("x/lib.rs", "mod a;\nmod b;\npub use a::X;"),
            ("x/a.rs", "pub use crate::X;\nuse crate::X;"),
            ("x/b.rs", "fn ("),
        ];
        assert!(needs(&files).is_empty());
        for text in ["use", "use ::a::b;", "mod", "impl", "#[cfg(test)]", "crate::"] {
            assert!(needs(&[("x/lib.rs", text)]).is_empty(), "{text}");
        }
    }
}
