//! The sections of a report: one file for each kind of figure.

mod mixes;
mod runs;
mod trials;

mod documents;
mod engines;
mod special;

use super::model::{Material, Section};

/// All sections, in the order of the page.
pub(super) fn all(material: &Material<'_>) -> Vec<Section> {
    let mut sections = vec![
        mixes::best(material),
        mixes::by_threads(material),
        mixes::by_partitions(material),
        mixes::size_rate(material),
        engines::engines(material),
        engines::latency(material),
        documents::load(material),
        documents::load_over_time(material),
        documents::documents(material),
        documents::documents_over_time(material),
        documents::document_sizes(material),
    ];
    sections.extend(special::sections(material));
    sections.push(runs::runs(material));
    sections.push(trials::trials(material));
    sections
}
