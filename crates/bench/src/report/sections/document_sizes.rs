//! How large documents are.

use crate::report::chart::{Across, Curve, CurveChart, CurvePanel, Style, Unit, grouped, hue};
use crate::report::data::Distribution;
use crate::report::model::{Figure, Material, Part, Section, Table};

pub(super) fn section(material: &Material<'_>) -> Section {
    let of_trial = || {
        let mut trials = material.trials.iter();
        trials.find(|trial| trial.header.workload == "document-sizes").map(Distribution::of_trial)
    };
    let found = material.sizes.clone().or_else(of_trial);
    let found = found.filter(|found| !found.curve.is_empty());
    let parts = found.as_ref().map(parts).unwrap_or_default();
    Section::new(
        "document-sizes",
        "Document sizes",
        parts,
        "flagstone-bench report DIR --documents FILE.jsonl",
    )
}

fn parts(found: &Distribution) -> Vec<Part> {
    let mut subtitle = Vec::new();
    if let Some(count) = found.count {
        subtitle.push(format!("{} documents", grouped(count as u64)));
    }
    if let Some(mean) = found.mean {
        subtitle.push(format!("mean {}", bytes(mean)));
    }
    if let Some((_, median)) = found.percentiles.iter().find(|(share, _)| *share == 0.5) {
        subtitle.push(format!("median {}", bytes(*median)));
    }
    // Percentiles alone are points of the curve; a whole distribution steps.
    let whole = found.curve.len() > found.percentiles.len();
    let curve = Curve {
        label: String::new(),
        color: hue(0),
        shape: 0,
        style: if whole { Style::Steps } else { Style::Marked },
        points: found.curve.clone(),
        spread: Vec::new(),
        dots: Vec::new(),
    };
    let noted =
        found.percentiles.iter().filter(|(share, _)| [0.5, 0.9, 0.99, 0.999].contains(share));
    let note = |(share, value): &(f64, f64)| {
        ((*value, *share), format!("{}: {}", name(*share), bytes(*value)))
    };
    let notes = noted.map(note).collect();
    let chart = CurveChart {
        title: "Share of documents up to a size".to_owned(),
        subtitle: subtitle.join(", "),
        panels: vec![CurvePanel {
            title: String::new(),
            across: (Across::Bytes, "Bytes of a document as JSON".to_owned()),
            up: (Unit::Share, "Share of documents".to_owned()),
            curves: vec![curve],
            notes,
        }],
        columns: 1,
        height: 280.0,
    };
    let mut table = Table::new(&["Percentile", "#Bytes"]);
    for (share, value) in &found.percentiles {
        table.rows.push(vec![name(*share), grouped(*value as u64)]);
    }
    let svg = chart.draw();
    vec![
        Part::Figure(Figure { id: "document-sizes".to_owned(), title: chart.title, svg }),
        Part::Table(table),
    ]
}

fn name(share: f64) -> String {
    match share {
        0.0 => "smallest".to_owned(),
        0.5 => "median".to_owned(),
        1.0 => "largest".to_owned(),
        share => format!("p{}", (share * 1e6).round() / 1e4),
    }
}

fn bytes(value: f64) -> String {
    format!("{} bytes", grouped(value.round() as u64))
}
