//! The sections of a report: one file for each kind of figure.

mod best;
mod document_sizes;
mod documents;
mod engines;
mod latency;
mod load;
mod overlay;
mod run;
mod runs;
mod scaling;
mod size_rate;
mod special;
mod trials;

use super::model::{Material, Section};

/// All sections, in the order of the page.
pub(super) fn all(material: &Material<'_>) -> Vec<Section> {
    let mut sections = vec![
        best::section(material),
        scaling::by_threads(material),
        scaling::by_partitions(material),
        size_rate::section(material),
        engines::section(material),
        latency::section(material),
        load::section(material),
        load::over_time(material),
        documents::section(material),
        documents::over_time(material),
        document_sizes::section(material),
    ];
    sections.extend(special::sections(material));
    sections.push(runs::section(material));
    sections.push(trials::section(material));
    sections
}
