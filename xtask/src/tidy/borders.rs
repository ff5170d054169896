//! Rules for functions that another language calls. A panic that left one would end the process.
//!
//! PyO3 catches those of what its macros export. Functions of C's convention catch them themselves.

use super::files::{Files, Finding, finding};

/// Where a test has each callback panic.
const TEST: &str = "python/tests/test_interface.py";
const MANIFEST: &str = "python/Cargo.toml";

/// Refuses a function of the Python package that does not catch panics, or that no test has panic,
/// and a build in which nothing can catch them.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    let tests = files.get(TEST).unwrap_or_default();
    for (path, text) in files.ending(".rs").filter(|(path, _)| path.starts_with("python/")) {
        for (at, convention) in text.match_indices("extern \"C") {
            let rest = &text[at + convention.len()..];
            let Some((_, rest)) = rest.split_once("\" fn ").filter(|(to, _)| to.len() < 10) else {
                continue;
            };
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            let body = rest.find("\n}").map_or(rest, |end| &rest[..end]);
            let what = if !["catch_unwind(", "called("].iter().any(|way| body.contains(way)) {
                format!("a panic can leave {name}: expected catch_unwind or called")
            } else if !body.contains(&format!("panics::at(\"{name}\")")) {
                format!("no test can have {name} panic: expected panics::at(\"{name}\")")
            } else if !tests.contains(&format!("\"{name}\"")) {
                format!("no test has {name} panic: expected it in {TEST}")
            } else {
                continue;
            };
            found.push(finding(path, text, at, what));
        }
    }
    let manifest = files.get(MANIFEST).unwrap_or_default();
    for (at, _) in manifest.match_indices("panic = \"abort\"") {
        found.push(finding(MANIFEST, manifest, at, "a panic would end Python".to_owned()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_that_lets_a_panic_out_or_has_no_test_is_refused() {
        let found = |body: &str, tests: &str| -> Vec<String> {
            let text = format!(
                "// A type: extern \"C\" fn()\nunsafe extern \"C\" fn f(a: A) {{\n{body}\n}}"
            );
            let files = [("python/src/a.rs", text.as_str()), (TEST, tests)];
            check(&Files::of(&files)).iter().map(ToString::to_string).collect()
        };
        let (tested, caught) = ("[\"f\"]", "    catch_unwind(|| panics::at(\"f\"))");
        assert_eq!(found(caught, tested), [""; 0]);
        for (body, tests, text) in [
            ("    panics::at(\"f\")", tested, "a panic can leave f"),
            ("    catch_unwind(|| 1)", tested, "no test can have f panic"),
            (caught, "[\"g\"]", "no test has f panic"),
        ] {
            let found = found(body, tests);
            assert!(found.len() == 1 && found[0].contains(&format!("a.rs:2: {text}")), "{found:?}");
        }
        let files = Files::of(&[(MANIFEST, "[profile.release]\npanic = \"abort\"\n")]);
        assert_eq!(check(&files).len(), 1);
    }
}
