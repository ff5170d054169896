//! A report as a whole.

use super::chart::Figure;
use super::data::{DocumentSizes, TUNING};
use super::model::{Material, Part, Section};
use super::{page, sections};
use crate::record::{Machine, Trial};

/// A report of many trials. All its figures are drawn when it is created.
#[derive(Clone, Debug)]
pub struct Report {
    sections: Vec<Section>,
    header: page::Header,
}

impl Report {
    /// Draws the figures of `trials` and of the sizes of documents. Repeated trials become their
    /// median.
    ///
    /// About 20 KB and some milliseconds a trial.
    #[must_use]
    pub fn new(trials: &[Trial], documents: Option<&DocumentSizes>) -> Self {
        let material = Material::new(trials, documents);
        Self { sections: sections::all(&material), header: header(&material) }
    }

    /// The report as one HTML page: no script, and nothing is loaded from elsewhere.
    #[must_use]
    pub fn html(&self) -> String {
        page::html(&self.header, &self.sections)
    }

    /// All figures, in the order of the page.
    #[must_use]
    pub fn figures(&self) -> Vec<&Figure> {
        fn collect<'a>(parts: &'a [Part], out: &mut Vec<&'a Figure>) {
            for part in parts {
                match part {
                    Part::Figure(figure) => out.push(figure),
                    Part::Folded(_, parts) => collect(parts, out),
                    Part::Table(_) | Part::Note(_) => {}
                }
            }
        }
        let mut out = Vec::new();
        for parts in self.sections.iter().filter_map(|section| section.content.as_ref().ok()) {
            collect(parts, &mut out);
        }
        out
    }
}

fn header(material: &Material<'_>) -> page::Header {
    let trials = material.trials;
    let all = |of: &dyn Fn(&Trial) -> String| -> Vec<String> {
        super::model::distinct(trials.iter().map(of).filter(|text| !text.is_empty()))
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
    page::Header { lines }
}

fn machine(machine: &Machine) -> String {
    let memory = super::chart::Unit::Bytes.show(machine.memory_bytes as f64);
    let Machine { cpu, cores, system, file_system, .. } = machine;
    format!("{cpu}, {cores} logical processors, {memory} of memory, {system}, {file_system}")
}
