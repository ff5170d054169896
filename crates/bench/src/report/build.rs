//! A report as a whole.

use super::chart::{Figure, Unit};
use super::data::{DocumentSizes, TUNING};
use super::model::{Material, distinct};
use super::page::{Page, html};
use super::sections::SECTIONS;
use crate::record::{Machine, Trial};

/// A report of many trials.
#[derive(Clone, Debug)]
pub struct Report {
    html: String,
    figures: Vec<Figure>,
}

impl Report {
    /// Draws the figures of `trials` and of the sizes of documents. Repeated trials become their
    /// median.
    ///
    /// About 20 KB and some milliseconds a trial.
    #[must_use]
    pub fn new(trials: &[Trial], documents: Option<&DocumentSizes>) -> Self {
        let material = Material::new(trials, documents);
        let mut sections = Vec::new();
        for (id, title, missing, draw) in SECTIONS {
            let mut page = Page::default();
            draw(&material, &mut page);
            sections.push(([id, title, missing], page));
        }
        let html = html(&header(&material), &sections);
        Self { html, figures: sections.into_iter().flat_map(|(_, page)| page.figures).collect() }
    }

    /// The report as one HTML page: no script, and nothing is loaded from elsewhere.
    #[must_use]
    pub fn html(&self) -> String {
        self.html.clone()
    }

    /// All figures, in the order of the page.
    #[must_use]
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }
}

fn header(material: &Material<'_>) -> Vec<(&'static str, String)> {
    let trials = material.trials;
    let all = |of: &dyn Fn(&Trial) -> String| -> Vec<String> {
        distinct(trials.iter().map(of).filter(|text| !text.is_empty()))
    };
    let started = all(&|trial| trial.header.started.clone());
    let mut lines = vec![("Trials", trials.len().to_string())];
    if let (Some(first), Some(last)) = (started.first(), started.last()) {
        let span = if first == last { first.clone() } else { format!("{first} to {last}") };
        lines.push(("Measured", span));
    }
    let engine = |trial: &Trial| {
        let header = &trial.header;
        match header.engine_version.strip_prefix(&header.engine) {
            Some(version) => format!("{} {}", header.engine, version.trim()),
            None => format!("{} {}", header.engine, header.engine_version),
        }
    };
    lines.push(("Engines", all(&engine).join(", ")));
    lines.push(("Commit", all(&|trial| trial.header.commit.clone()).join(", ")));
    lines.push(("Machine", all(&|trial| machine(&trial.header.machine)).join("; ")));
    let tuning = |trial: &Trial| match trial.header.options.get(TUNING).and_then(|v| v.as_str()) {
        Some(tuning) if !tuning.is_empty() => format!("{}: {tuning}", trial.header.engine),
        _ => String::new(),
    };
    lines.extend(all(&tuning).into_iter().map(|tuning| ("Tuning", tuning)));
    if material.cells.left_out > 0 {
        let text = format!(
            "{} of the trials have other options than most of their workload, or are of an older \
             commit: figures of cells leave them out, the tables at the end hold them.",
            material.cells.left_out
        );
        lines.push(("Left out", text));
    }
    lines
}

fn machine(machine: &Machine) -> String {
    let memory = Unit::Bytes.show(machine.memory_bytes as f64);
    let Machine { cpu, cores, system, file_system, .. } = machine;
    format!("{cpu}, {cores} logical processors, {memory} of memory, {system}, {file_system}")
}
