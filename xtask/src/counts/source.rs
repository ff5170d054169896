//! What the source says: names of types, and functions whose arguments do not say what they are.

use crate::tidy::{Files, after_generics, after_item, is_test};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// What was found in the crates, without what is for tests alone.
#[derive(Default)]
pub(super) struct Source {
    /// By name of a type: the crates with the files that define one. Several in one file are one:
    /// a file has them for different systems.
    types: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    functions: usize,
    with_tuple: usize,
    with_bool: usize,
}

impl Source {
    /// Reads the crates of the workspace.
    pub(super) fn read(files: &Files) -> Self {
        let mut source = Self::default();
        for (path, text) in files.ending(".rs") {
            let Some((name, file)) =
                path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
            else {
                continue;
            };
            let is_for_tests = file.contains("/tests/") || file.ends_with("tests.rs");
            if let (false, Ok(stream)) = (is_for_tests, text.parse()) {
                let is_impl = false;
                source.items(name, path, stream, is_impl);
            }
        }
        source
    }

    /// Reads the tokens of a file, or those in brackets. `is_impl`: its types belong to a trait.
    fn items(&mut self, name: &str, file: &str, stream: TokenStream, is_impl: bool) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let word = |at: usize| match tokens.get(at) {
            Some(TokenTree::Ident(ident)) => ident.to_string(),
            Some(TokenTree::Punct(mark)) => mark.as_char().to_string(),
            _ => String::new(),
        };
        let (mut at, mut has_impl) = (0, false);
        while let Some(token) = tokens.get(at) {
            match (token, word(at).as_str()) {
                (TokenTree::Punct(_), "#") if is_test(tokens.get(at + 1)) => {
                    at = after_item(&tokens, at);
                    continue;
                }
                (TokenTree::Ident(_), "struct" | "enum" | "union" | "trait" | "type") => {
                    let (keyword, defined) = (word(at), word(at + 1));
                    has_impl |= keyword == "trait";
                    let is_own = keyword != "type" || !is_impl;
                    if is_own && defined.starts_with(char::is_uppercase) {
                        let crates = self.types.entry(defined).or_default();
                        crates.entry(name.to_owned()).or_default().insert(file.to_owned());
                    }
                }
                (TokenTree::Ident(_), "impl") => has_impl = true,
                (TokenTree::Ident(_), "fn") if !word(at + 1).is_empty() => {
                    has_impl = false;
                    self.functions += 1;
                    let arguments = tokens.get(after_generics(&tokens, at + 2));
                    if let Some(arguments) = arguments.and_then(in_brackets) {
                        let types = types_of(arguments);
                        self.with_tuple += usize::from(types.contains(&Argument::Tuple));
                        self.with_bool += usize::from(types.contains(&Argument::Bool));
                    }
                }
                (TokenTree::Group(group), _) => {
                    let is_braces = group.delimiter() == Delimiter::Brace;
                    self.items(name, file, group.stream(), is_braces && has_impl);
                    has_impl &= !is_braces;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Returns the counts as lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let within = |crates: &BTreeMap<String, BTreeSet<String>>| {
            let most = crates.iter().max_by_key(|(_, files)| files.len());
            most.filter(|(_, files)| files.len() > 1)
                .map(|(name, files)| (files.len(), name.clone()))
        };
        let mut ambiguous: Vec<(usize, String)> = (self.types.iter())
            .filter_map(|(name, crates)| {
                within(crates).map(|(count, of)| (count, format!("{name} {count} in {of}")))
            })
            .collect();
        ambiguous.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
        let shared = self.types.values().filter(|crates| crates.len() > 1).count();
        let list: Vec<&str> = ambiguous.iter().map(|(_, text)| text.as_str()).collect();
        vec![
            format!("names of types: {}", self.types.len()),
            format!("  that mean several within one crate: {}", ambiguous.len()),
            format!("    {}", list.join(", ")),
            format!("  that are in several crates: {shared}"),
            format!("functions: {}", self.functions),
            format!("  with a tuple as an argument: {}", self.with_tuple),
            format!("  with a bool as an argument: {}", self.with_bool),
        ]
    }
}

#[derive(PartialEq)]
enum Argument {
    Tuple,
    Bool,
    Other,
}

/// Returns what the arguments of a function are.
fn types_of(arguments: TokenStream) -> Vec<Argument> {
    let (mut found, mut depth, mut before) = (Vec::new(), 0, String::new());
    let mut tokens = arguments.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let text = token.to_string();
        match text.as_str() {
            "<" => depth += 1,
            ">" if before != "-" => depth -= 1,
            // A colon after a pattern, not one of a path.
            ":" if depth == 0 && before != ":" => {
                while let Some(prefix) = tokens.next_if(|next| is_prefix(&next.to_string())) {
                    // The name of a lifetime.
                    tokens.next_if(|_| prefix.to_string() == "'");
                }
                let is_last =
                    |next: Option<&TokenTree>| next.is_none_or(|next| next.to_string() == ",");
                found.push(match tokens.next() {
                    Some(first) if in_brackets(&first).is_some_and(|inside| !inside.is_empty()) => {
                        Argument::Tuple
                    }
                    Some(first) if first.to_string() == "bool" && is_last(tokens.peek()) => {
                        Argument::Bool
                    }
                    Some(colon) if colon.to_string() == ":" => continue,
                    Some(first) => {
                        depth += i32::from(first.to_string() == "<");
                        Argument::Other
                    }
                    None => Argument::Other,
                });
            }
            _ => {}
        }
        before = text;
    }
    found
}

/// Returns whether this may stand before the type of an argument.
fn is_prefix(text: &str) -> bool {
    matches!(text, "&" | "mut" | "'")
}

fn in_brackets(token: &TokenTree) -> Option<TokenStream> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
            Some(group.stream())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_several_things_and_arguments_without_names_are_counted() {
        let files = Files::of(&[
            (
                "crates/a/src/lib.rs",
                "struct State; enum Kind {} impl Iterator for State { type Item = u8; }\n\
                 trait Walk { type Item; fn f(&self, (a, b): (u8, &str), c: bool); }\n\
                 #[cfg(test)] mod tests { struct State; fn g(b: bool) {} }",
            ),
            (
                "crates/a/src/b.rs",
                "pub struct State<T>(T); #[cfg(unix)] enum One {} #[cfg(windows)] enum One {}\n\
                 pub fn h<F: Fn(bool) -> bool>(f: F, of: &'static (u8, u8), m: Map<bool, bool>) {\n\
                 fn inner(x: std::vec::Vec<(u8, u8)>, y: ()) {} }",
            ),
            ("crates/b/src/lib.rs", "type Kind = u8;"),
            ("crates/b/src/tests.rs", "struct Kind;"),
            ("crates/b/tests/it.rs", "struct State;"),
        ]);
        let lines = [
            "names of types: 4",
            "  that mean several within one crate: 1",
            "    State 2 in a",
            "  that are in several crates: 1",
            "functions: 3",
            "  with a tuple as an argument: 2",
            "  with a bool as an argument: 1",
        ];
        assert_eq!(Source::read(&files).lines(), lines);
    }
}
