//! The graph of files that need each other: paths are resolved through modules, imports and
//! re-exports.

use super::source::{Import, Scope, Source, join};
use crate::tidy::code::{Code, line_at};
use std::collections::BTreeMap;

/// The number of imports that a name may pass through. A longer chain is taken for a ring.
const STEPS: usize = 12;

/// The files of one crate, and what each needs of the others.
pub(crate) struct Graph {
    /// The paths of the files, relative to `src/`.
    pub(crate) files: Vec<String>,
    /// For each file, the files that it needs and a reason for each. A file that counts as another
    /// needs nothing, and no file needs it.
    pub(crate) needs: Vec<BTreeMap<usize, Reason>>,
}

/// The reason why a file needs another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    /// The path in code, or `impl Type` for an `impl` in the needed file.
    pub(crate) what: String,
    /// The file and line of the path, or those of the `impl`.
    pub(crate) file: usize,
    pub(crate) line: usize,
    pub(crate) is_impl: bool,
}

/// The target of a path.
enum Target {
    Module(String),
    File(usize),
    /// Another crate, or a name that is no item of a module: a variable, a type parameter.
    Outside,
    Unknown,
}

struct Crate {
    sources: Vec<Source>,
    /// The scope of each module: the index of the file, and of the scope in it.
    modules: BTreeMap<String, (usize, usize)>,
    /// For each file, the file that it counts as.
    homes: Vec<usize>,
}

impl Graph {
    /// Reads the files of a crate, given with their paths below `src/`.
    pub(crate) fn of(files: &[(&str, &Code)]) -> Self {
        let sources: Vec<Source> =
            files.iter().map(|(path, code)| Source::of(&module_of(path), &code.live)).collect();
        let mut modules = BTreeMap::new();
        for (file, source) in sources.iter().enumerate() {
            for (scope, Scope { module, .. }) in source.scopes.iter().enumerate() {
                modules.insert(module.clone(), (file, scope));
            }
        }
        let mut whole = Crate { sources, modules, homes: (0..files.len()).collect() };
        whole.join_spread_types(files);
        let mut graph = Self {
            files: files.iter().map(|(path, _)| String::from(*path)).collect(),
            needs: vec![BTreeMap::new(); files.len()],
        };
        for (file, (_, code)) in files.iter().enumerate() {
            whole.add_needs(file, &code.text, &mut graph);
        }
        graph
    }
}

/// Returns `a::b` for `a/b.rs` and `a/b/mod.rs`, and nothing for `lib.rs` and `main.rs`.
fn module_of(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let stem = match stem.rsplit_once('/') {
        Some((folder, "mod")) => folder,
        None if matches!(stem, "lib" | "main") => "",
        _ => stem,
    };
    stem.replace('/', "::")
}

/// Returns the folder of a file below `src/`; `None` for a file of `src/` itself.
fn folder(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder)
}

impl Crate {
    /// Lets each file with an `impl` of a type count as the file that declares the type, if both
    /// are in one folder below `src/`.
    fn join_spread_types(&mut self, files: &[(&str, &Code)]) {
        for file in 0..files.len() {
            for mention in &self.sources[file].impls {
                let module = &self.sources[file].scopes[mention.scope].module;
                let declared = self.node(&self.resolve(module, &mention.path, STEPS));
                let folder_of = |file: usize| folder(files[file].0);
                let Some(declared) = declared.filter(|&declared| {
                    folder_of(declared).is_some() && folder_of(declared) == folder_of(file)
                }) else {
                    continue;
                };
                let (old, home) = (self.homes[file], self.homes[declared]);
                self.homes.iter_mut().filter(|now| **now == old).for_each(|now| *now = home);
            }
        }
    }

    /// Notes that `from` needs `to`, unless both count as one file.
    fn add(&self, graph: &mut Graph, from: usize, to: usize, reason: Reason) {
        let (from, to) = (self.homes[from], self.homes[to]);
        if from == to {
            return;
        }
        let kept = graph.needs[from].entry(to).or_insert_with(|| reason.clone());
        let order = |reason: &Reason| (reason.is_impl, reason.file != from, reason.line);
        if order(&reason) < order(kept) {
            *kept = reason;
        }
    }

    /// Adds the files that `file` needs, and those that need it because of its `impl` blocks.
    fn add_needs(&self, file: usize, text: &str, graph: &mut Graph) {
        let source = &self.sources[file];
        if !source.has_code {
            return;
        }
        let reason =
            |at, what: String| Reason { what, file, line: line_at(text, at), is_impl: false };
        for scope in &source.scopes {
            for import in &scope.imports {
                let shown = source.has_modules && import.public;
                if shown && !import.name.as_deref().is_some_and(|name| source.uses(name)) {
                    continue;
                }
                let (target, glob) =
                    (self.resolve(&scope.module, &import.path, STEPS), import.name.is_none());
                let what = import.path.join("::") + if glob { "::*" } else { "" };
                if let Some(to) = self.node(&target) {
                    self.add(graph, file, to, reason(import.at, what));
                }
                if let (Target::Module(module), true) = (target, glob) {
                    for (name, at) in &source.bare {
                        let found = self.look_up(&module, name, true, STEPS);
                        if let Some(to) = self.node(&found) {
                            self.add(graph, file, to, reason(*at, name.clone()));
                        }
                    }
                }
            }
        }
        for mention in &source.mentions {
            let module = &source.scopes[mention.scope].module;
            if let Some(to) = self.node(&self.resolve(module, &mention.path, STEPS)) {
                self.add(graph, file, to, reason(mention.at, mention.path.join("::")));
            }
        }
        for mention in &source.impls {
            let module = &source.scopes[mention.scope].module;
            if let Some(from) = self.node(&self.resolve(module, &mention.path, STEPS)) {
                let what = format!("impl {}", mention.path.join("::"));
                self.add(graph, from, file, Reason { is_impl: true, ..reason(mention.at, what) });
            }
        }
    }

    /// Returns the file of a target, if that file has code and so counts.
    fn node(&self, target: &Target) -> Option<usize> {
        let file = match target {
            Target::Module(module) => self.modules.get(module)?.0,
            Target::File(file) => *file,
            Target::Outside | Target::Unknown => return None,
        };
        self.sources[file].has_code.then_some(file)
    }

    /// Returns the target of `path` in the module `from`.
    fn resolve(&self, from: &str, path: &[String], steps: usize) -> Target {
        let mut module = String::from(from);
        let mut anchored = false;
        let mut rest = path;
        while let [name, tail @ ..] = rest {
            match name.as_str() {
                "crate" => module.clear(),
                "super" => module.truncate(module.rfind("::").unwrap_or(0)),
                "self" => {}
                _ => match self.look_up(&module, name, tail.is_empty(), steps) {
                    Target::Module(next) => module = next,
                    Target::Unknown if anchored => {
                        // Items that a macro declares are not known by name.
                        return self
                            .modules
                            .get(&module)
                            .map_or(Target::Outside, |found| Target::File(found.0));
                    }
                    found => return found,
                },
            }
            anchored = true;
            rest = tail;
        }
        Target::Module(module)
    }

    /// Returns the target of `name` in `module`. The last name of a path is first looked for among
    /// items, every other one among modules.
    fn look_up(&self, module: &str, name: &str, last: bool, steps: usize) -> Target {
        let Some((&(file, scope), steps)) = self.modules.get(module).zip(steps.checked_sub(1))
        else {
            return Target::Outside;
        };
        let scope = &self.sources[file].scopes[scope];
        let child = join(module, name);
        let is_module = self.modules.contains_key(&child);
        if is_module && !last {
            return Target::Module(child);
        }
        if scope.items.contains(name) {
            return Target::File(file);
        }
        let named = |import: &&Import| import.name.as_deref() == Some(name);
        // `use name::..` inside `module` would look for itself.
        let mut outside = false;
        for import in scope.imports.iter().filter(named) {
            if import.path.len() == 1 && import.path[0] == name {
                continue;
            }
            match self.resolve(module, &import.path, steps) {
                Target::Outside | Target::Unknown => outside = true,
                found => return found,
            }
        }
        if is_module {
            return Target::Module(child);
        }
        if outside {
            return Target::Outside;
        }
        for import in scope.imports.iter().filter(|import| import.name.is_none()) {
            if let Target::Module(shown) = self.resolve(module, &import.path, steps) {
                match self.look_up(&shown, name, last, steps) {
                    Target::Outside | Target::Unknown => {}
                    found => return found,
                }
            }
        }
        Target::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a.rs:2 b.rs` for each need, in order: its place, and the file that is needed.
    fn needs(files: &[(&str, &str)]) -> Vec<String> {
        let codes: Vec<Code> = files.iter().map(|(_, text)| Code::of(text)).collect();
        let files: Vec<(&str, &Code)> =
            files.iter().zip(&codes).map(|((path, _), code)| (*path, code)).collect();
        let graph = Graph::of(&files);
        let mut found = Vec::new();
        for (from, needs) in graph.needs.iter().enumerate() {
            for (&to, reason) in needs {
                let mark = if reason.is_impl { " impl" } else { "" };
                let from = &graph.files[if reason.is_impl { from } else { reason.file }];
                found.push(format!("{from}:{} {}{mark}", reason.line, graph.files[to]));
            }
        }
        found
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_item() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use b::C as D;"),
            ("a.rs", "use crate::D;\nfn f(d: D) {}"),
            ("b/mod.rs", "mod c;\npub(crate) use c::C;"),
            ("b/c.rs", "pub struct C;"),
        ];
        assert_eq!(needs(&files), ["a.rs:1 b/c.rs"]);
    }

    #[test]
    fn a_door_with_code_is_a_node_and_its_re_exports_are_no_needs() {
        let files = [
            ("a/mod.rs", "mod b;\nmod c;\npub use b::B;\npub use c::C;\nfn f(c: C) {}"),
            ("a/b.rs", "use super::f;\npub struct B;"),
            ("a/c.rs", "pub struct C;"),
        ];
        assert_eq!(needs(&files), ["a/mod.rs:4 a/c.rs", "a/b.rs:1 a/mod.rs"]);
    }

    #[test]
    fn grouped_imports_lead_to_each_file() {
        let files = [
            ("main.rs", "mod a;"),
            ("a.rs", "use crate::{b, c::{d::D, e::{self}}};\nfn f() { b::g(); e::h() }"),
            ("b.rs", "pub fn g() {}"),
            ("c/mod.rs", "mod d;\nmod e;"),
            ("c/d.rs", "pub struct D;"),
            ("c/e.rs", "pub fn h() {}"),
        ];
        assert_eq!(needs(&files), ["a.rs:1 b.rs", "a.rs:1 c/d.rs", "a.rs:1 c/e.rs"]);
    }

    #[test]
    fn a_glob_leads_to_the_files_of_the_names_that_are_used() {
        let files = [
            ("a/mod.rs", "mod b;\nmod c;\nmod d;\nuse c::*;\nuse d::D;"),
            ("a/b.rs", "use super::*;\nfn f(x: C) {\ng() }"),
            ("a/c.rs", "pub struct C;\npub fn g() {}"),
            ("a/d.rs", "pub struct D;"),
            ("e.rs", "fn h() {}\nmod i;"),
            ("e/i.rs", "use super::*;\nfn j() {}"),
        ];
        assert_eq!(needs(&files), ["a/b.rs:2 a/c.rs", "e/i.rs:1 e.rs"]);
    }

    #[test]
    fn paths_are_resolved_from_the_module_they_stand_in() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            ("a.rs", "mod m {\nfn f() { super::g(); super::super::b::h(); c::k() }\n}\nfn g() {}"),
            ("b.rs", "fn h() { std::mem::take(x); c::k(); self::d::l() }\nmod d;"),
            ("b/d.rs", "made!(L);"),
            ("c.rs", "pub fn k() {}"),
        ];
        assert_eq!(needs(&files), ["a.rs:2 b.rs", "b.rs:1 b/d.rs"]);
    }

    #[test]
    fn the_file_of_a_type_needs_the_files_with_an_impl_of_it() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::a::A;\nimpl A { fn f() {} }"),
            ("c.rs", "use crate::a::A;\nimpl Clone for A {}"),
        ];
        assert_eq!(needs(&files), ["a.rs:2 b.rs impl", "b.rs:1 a.rs", "c.rs:1 a.rs"]);
    }

    #[test]
    fn files_of_a_folder_that_share_a_type_count_as_the_file_that_declares_it() {
        let files = [
            ("lib.rs", "mod a;\nmod d;\nmod e;"),
            ("a/mod.rs", "mod b;\nmod c;\nmod f;"),
            ("a/b.rs", "pub struct A;\nimpl A { fn b() -> super::c::C {} }"),
            ("a/c.rs", "use super::b::A;\npub struct C;\n\nimpl A { fn c(d: crate::d::D) {} }"),
            ("a/f.rs", "impl super::c::C {}"),
            ("d.rs", "pub struct D;"),
            ("e.rs", "fn e(a: crate::a::b::A,\nc: crate::a::c::C) {}"),
        ];
        assert_eq!(needs(&files), ["a/c.rs:4 d.rs", "e.rs:1 a/b.rs"]);
    }

    #[test]
    fn tests_comments_literals_and_other_crates_are_no_needs() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            (
                "a.rs",
                "//! [`crate::b::B`]\n// use crate::b::B;\nconst A: &str = \"crate::b::B\";\n\
                      #[cfg(test)]\nmod tests { use crate::b::B; }\nuse std::b::B;\nuse other::b;",
            ),
            ("b.rs", "pub struct B;"),
        ];
        assert!(needs(&files).is_empty());
    }

    #[test]
    fn imports_in_a_ring_end() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::*;\npub use b::*;\nuse self::x;"),
            ("a.rs", "pub use crate::*;\nfn f(x: X) { crate::x::y() }"),
            ("b.rs", "pub use crate::*;\nfn g() {}"),
        ];
        assert!(needs(&files).is_empty());
    }
}
