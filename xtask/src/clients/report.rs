//! The list of steps, and what came of them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// The steps, in the order of the list: the group and the name of each.
pub(super) struct Steps(Vec<(String, String)>);

/// What the lines that a client has printed say.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// `ok`, or `-` for a step that the client cannot do.
    steps: BTreeMap<String, &'static str>,
    /// What was left out of a step: the step, the piece and the reason.
    without: Vec<String>,
    pub(super) failures: Vec<String>,
}

/// What came of a client.
pub(super) enum Outcome {
    Ran(Ran),
    /// It cannot be run here, and why.
    Missing(String),
    /// The servers could not be run, and why.
    Broken(String),
}

/// A client with what came of it.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
}

impl Steps {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let (Some(group), Some(name), Some(_)) = (words.next(), words.next(), words.next())
            else {
                let expected = "expected a group, a name and what is tried";
                return Err(format!("line {}: {expected}, found {line:?}", number + 1));
            };
            steps.push((group.to_owned(), name.to_owned()));
        }
        Ok(Self(steps))
    }

    /// Returns the steps of some groups.
    pub(super) fn of(&self, groups: &[&str]) -> Vec<&str> {
        let of_groups = self.0.iter().filter(|(group, _)| groups.contains(&group.as_str()));
        of_groups.map(|(_, name)| name.as_str()).collect()
    }

    /// Returns what the output of a client says of the steps of its groups. A step that it does not
    /// name has failed.
    pub(super) fn judge(&self, groups: &[&str], output: &str) -> Ran {
        let mut ran = Ran::default();
        for line in output.lines() {
            if let Some(name) = line.strip_prefix("ok ") {
                ran.steps.entry(name.to_owned()).or_insert("ok");
            } else if let Some(failure) = line.strip_prefix("FAILED ") {
                let name = failure.split(':').next().unwrap_or_default();
                ran.steps.insert(name.to_owned(), "FAILED");
                ran.failures.push(failure.to_owned());
            } else if let Some(piece) = line.strip_prefix("without ") {
                if let Some((name, _)) = piece.split_once(": all: ") {
                    ran.steps.insert(name.to_owned(), "-");
                }
                ran.without.push(piece.to_owned());
            }
        }
        for name in self.of(groups) {
            if !ran.steps.contains_key(name) {
                ran.steps.insert(name.to_owned(), "FAILED");
                ran.failures.push(format!("{name}: the program says nothing of this step"));
            }
        }
        ran
    }
}

impl Outcome {
    /// Returns whether nothing failed.
    pub(super) fn is_well(&self) -> bool {
        match self {
            Self::Ran(ran) => ran.failures.is_empty(),
            Self::Missing(_) => true,
            Self::Broken(_) => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran(ran) => {
                let done = ran.steps.values().filter(|what| **what == "ok").count();
                write!(f, "{done} steps went well, {} failures", ran.failures.len())?;
                ran.failures.iter().try_for_each(|failure| write!(f, "\nFAILED {failure}"))
            }
            Self::Missing(missing) => write!(f, "not run: {missing}"),
            Self::Broken(why) => write!(f, "FAILED {why}"),
        }
    }
}

/// Returns a table of steps and clients, what was left out, and what did not run.
pub(super) fn table(steps: &Steps, rows: &[Row]) -> String {
    let ran: Vec<_> = rows
        .iter()
        .filter_map(|row| match &row.outcome {
            Outcome::Ran(ran) => Some((row.name, ran)),
            _ => None,
        })
        .collect();
    let mut text = format!("{:<16}", "");
    for (name, _) in &ran {
        let _ = write!(text, " {name:>13}");
    }
    for (_, name) in &steps.0 {
        if ran.iter().any(|(_, ran)| ran.steps.contains_key(name)) {
            let _ = write!(text, "\n{name:<16}");
            for (_, ran) in &ran {
                let _ = write!(text, " {:>13}", ran.steps.get(name).unwrap_or(&""));
            }
        }
    }
    let mut without: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, ran) in &ran {
        for piece in &ran.without {
            without.entry(piece).or_default().push(name);
        }
    }
    text.push_str("\n\nLeft out, and why:");
    for (piece, names) in without {
        let _ = write!(text, "\n  {piece} ({})", names.join(", "));
    }
    for row in rows {
        if !matches!(row.outcome, Outcome::Ran(_)) {
            let _ = write!(text, "\n{}: {}", row.name, row.outcome);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_not_named_has_failed() {
        let steps = Steps::parse("# x\ndriver a  text\ndriver b  text\nshell  c  text").unwrap();
        assert_eq!(steps.of(&["driver", "shell"]), ["a", "b", "c"]);
        let ran = steps.judge(&["driver"], "ok a\n");
        assert_eq!(ran.failures, ["b: the program says nothing of this step"]);
        let ran = steps.judge(&["driver"], "without a: all: none\nok a\nFAILED b: line 1: x\n");
        assert_eq!(ran.failures, ["b: line 1: x"]);
        assert_eq!(ran.steps["a"], "-");
        assert!(Steps::parse("driver a").is_err());
        let missing = Outcome::Missing("go is not installed".to_owned());
        let rows = [
            Row { name: "node", outcome: Outcome::Ran(ran) },
            Row { name: "go", outcome: missing },
        ];
        let text = table(&steps, &rows);
        assert!(text.contains("a: all: none (node)"), "{text}");
        assert!(text.contains("go: not run: go is not installed"), "{text}");
        assert!(!rows[0].outcome.is_well() && rows[1].outcome.is_well());
    }
}
