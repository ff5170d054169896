//! Runs the guides of the server as readers do: the blocks of a page one after another, as one
//! script, on a port of its own. A block `text` is what the block before it must print. Part of
//! `cargo xtask examples`.

use crate::clients;
use crate::programs::{TEST_BUILD, built};
use std::path::Path;
use std::process::{Command, Stdio};

const PAGES: [&str; 2] = ["docs/guide/server.md", "docs/guide/http.md"];
/// Below the root: what the scripts write.
const FOLDER: &str = "target/guides";
/// The programs that the blocks of a shell call.
const PROGRAMS: [&str; 4] = ["bash", "curl", "gzip", "openssl"];
/// The port and the address that the guides name.
const PORT: &str = "27017";
const ANYWHERE: &str = "0.0.0.0";

/// What a reader does by hand: a server runs in another terminal, until the next one is started or
/// its users are changed. A request that is refused, and a program that hangs, is a failure.
const PRELUDE: &str = r#"set -euo pipefail
limit() { if type -P timeout > /dev/null; then timeout 60 "$@"; else "$@"; fi; }
curl() { limit curl -sS --fail-with-body "$@"; }
server=
# Also by a part of a pipe, whose child the server is not.
stop() {
  if ! [ "$server" ] || ! kill "$server" 2> /dev/null; then return 0; fi
  while kill -0 "$server" 2> /dev/null; do sleep 0.05; done
  if ! grep -q ' stopped' serve.log; then cat serve.log; return 1; fi
}
trap 'status=$?; for job in $(jobs -p); do kill "$job" 2> /dev/null || :; done; exit $status' EXIT
serve() {
  case "$*" in *--listen*) ;; *) set -- "$@" --listen "127.0.0.1:$PORT" ;; esac
  : > serve.log
  "$TOOL" serve "$@" > /dev/null 2> serve.log &
  server=$!
  for _ in $(seq 600); do
    if grep -q ' ready' serve.log; then return; fi
    if ! kill -0 "$server"; then break; fi
    sleep 0.1
  done
  cat serve.log
  return 1
}
flagstone() {
  case $1 in
    serve) stop; shift; serve "$@" ;;
    user) stop; "$TOOL" "$@" ;;
    *) limit "$TOOL" "$@" ;;
  esac
}
"#;

/// Runs all pages. Returns whether they succeeded, and what could not be run, and why.
pub(crate) fn run(root: &Path) -> (bool, Vec<String>) {
    let is_missing = |program: &&&str| {
        let mut probe = Command::new(program);
        probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // OpenSSL does not know the option: what counts is whether it is there.
        probe.status().is_err()
    };
    if let Some(program) = PROGRAMS.iter().find(is_missing) {
        return (true, vec![format!("guides: {program} is not installed")]);
    }
    let python = match clients::python(root) {
        Ok(python) => python,
        Err(why) => return (true, vec![format!("guides: {why}")]),
    };
    let (modules, missing) = match clients::modules(root) {
        Ok(modules) => (Some(modules), Vec::new()),
        Err(why) => (None, vec![format!("guides, blocks of Node: {why}")]),
    };
    if !crate::ci::cargo(root).args(TEST_BUILD).status().is_ok_and(|status| status.success()) {
        return (false, missing);
    }
    let ok = PAGES.iter().all(|page| {
        println!("---- the blocks of {page}");
        let ran = run_page(root, page, &python, modules.as_deref());
        if let Err(why) = &ran {
            println!("---- {page} failed: {why}");
        }
        ran.is_ok()
    });
    (ok, missing)
}

fn run_page(root: &Path, page: &str, python: &Path, modules: Option<&Path>) -> Result<(), String> {
    let shown = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let path = root.join(page);
    let text = std::fs::read_to_string(&path).map_err(|error| shown(&path, error))?;
    let name = path.file_stem().unwrap_or_default();
    let folder = root.join(FOLDER).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| shown(&folder, error))?;
    if let Some(modules) = modules {
        let link = folder.join("node_modules");
        link_to(modules, &link).map_err(|error| shown(&link, error))?;
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
    let port = free.map_err(|error| format!("no free port: {error}"))?.port().to_string();
    let mut script = PRELUDE.to_owned();
    for (name, content) in files(&text, &port, modules.is_some(), &mut script) {
        let path = folder.join(name);
        std::fs::write(&path, content).map_err(|error| shown(&path, error))?;
    }
    script.push_str("stop\n");
    let path = folder.join("script.sh");
    std::fs::write(&path, script).map_err(|error| shown(&path, error))?;
    let tool = built("flagstone").map_err(|error| format!("the tool: {error}"))?;
    let mut bash = Command::new("bash");
    bash.arg("script.sh").current_dir(&folder).stdin(Stdio::null());
    bash.env("TOOL", tool).env("PYTHON", python).env("PORT", port);
    match bash.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{status}; see {}", folder.display())),
        Err(error) => Err(format!("bash: {error}")),
    }
}

/// Appends the blocks of a page to `script`, and returns the files that it needs.
fn files(page: &str, port: &str, has_node: bool, script: &mut String) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut output = None;
    for (number, (language, text)) in blocks(page).into_iter().enumerate() {
        let text = text.replace(PORT, port).replace(ANYWHERE, "127.0.0.1");
        let (run, file) = match language {
            "sh" => {
                script.push_str(&format!("{{\n{text}}} > out{number}\n"));
                output = Some(number);
                continue;
            }
            "python" => ("\"$PYTHON\"", format!("block{number}.py")),
            "js" if has_node => ("node", format!("block{number}.mjs")),
            "text" => {
                if let Some(output) = output {
                    script.push_str(&format!("diff -u expected{output} out{output}\n"));
                    files.push((format!("expected{output}"), text));
                }
                continue;
            }
            _ => {
                output = None;
                continue;
            }
        };
        script.push_str(&format!("limit {run} {file} > out{number}\n"));
        files.push((file, text));
        output = Some(number);
    }
    files
}

/// Returns the language and the text of each block.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.split_once('\n')).collect()
}

#[cfg(unix)]
fn link_to(modules: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(modules, link)
}

#[cfg(not(unix))]
fn link_to(_modules: &Path, _link: &Path) -> std::io::Result<()> {
    Err(std::io::Error::other("the server needs Unix"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_a_program_and_the_text_after_it_what_it_prints() {
        let page = "# A\n```sh\ncurl :27017\n```\n\n```text\n1\n```\n```js\na()\n```\n\
                    ```text\n2\n```\n```ini\n[Unit]\n```\n```text\nno output\n```\n";
        let mut script = String::new();
        let files = files(page, "4711", true, &mut script);
        let lines: Vec<_> = script.lines().collect();
        let expected = [
            "{",
            "curl :4711",
            "} > out0",
            "diff -u expected0 out0",
            "limit node block2.mjs > out2",
            "diff -u expected2 out2",
        ];
        assert_eq!(lines, expected);
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["expected0", "block2.mjs", "expected2"]);
    }

    #[test]
    fn what_cannot_be_run_is_left_out_with_its_output() {
        let mut script = String::new();
        let files = files("```js\na()\n```\n```text\n2\n```\n", "1", false, &mut script);
        assert!(files.is_empty() && script.is_empty());
    }

    #[test]
    fn every_page_has_blocks_of_a_shell_and_all_but_one_language_is_run() {
        for page in PAGES {
            let text = std::fs::read_to_string(crate::root().join(page)).unwrap();
            let found = blocks(&text);
            assert!(found.iter().any(|(language, _)| *language == "sh"), "{page}");
            for (language, _) in found {
                let is_known = ["sh", "python", "js", "text", "ini"].contains(&language);
                assert!(is_known, "{page}: a block of {language}, which nobody runs");
            }
        }
    }
}
