//! What the store takes on disk against how fast it is.

use crate::report::chart::{Point, ScatterChart, Swatch, Unit, hue};
use crate::report::data::mix_order;
use crate::report::model::{Figure, Material, Part, Section, distinct, workloads};

pub(super) fn section(material: &Material<'_>) -> Section {
    let cells = material.mixes();
    let counts = distinct(cells.iter().map(|cell| cell.partitions));
    let shape = |partitions: u64| counts.iter().position(|count| *count == partitions).unwrap_or(0);
    let mut points = Vec::new();
    for cell in &cells {
        let (rate, bytes) = (cell.rate(), cell.median(|summary| summary.disk_bytes as f64));
        let (workload, place) = (&cell.workload, cell.place());
        points.push(Point {
            at: (rate, bytes),
            color: hue(mix_order(workload)),
            shape: shape(cell.partitions),
            tip: format!(
                "{workload}, {place}: {}, {}",
                Unit::Rate.show(rate),
                Unit::Bytes.show(bytes)
            ),
        });
    }
    let mut colors = vec![(Swatch::Heading, "Workload".to_owned())];
    colors.extend(
        workloads(&cells)
            .into_iter()
            .map(|name| (Swatch::Color(hue(mix_order(name))), name.to_owned())),
    );
    let mut shapes = vec![(Swatch::Heading, "Partitions".to_owned())];
    shapes.extend(counts.iter().map(|count| (Swatch::Shape(shape(*count)), count.to_string())));
    let chart = ScatterChart {
        title: "Size on disk against operations a second".to_owned(),
        subtitle: format!(
            "{}; each mark is a cell of the matrix; size: the maximum of the last sixth of the run",
            material.engine
        ),
        x: (Unit::Count, "Operations a second".to_owned()),
        y: (Unit::Bytes, "Size on disk".to_owned()),
        points,
        legend: vec![colors, shapes],
    };
    let mut parts = Vec::new();
    if !chart.points.is_empty() {
        let svg = chart.draw();
        parts.push(Part::Figure(Figure { id: "size-rate".to_owned(), title: chart.title, svg }));
    }
    Section::new(
        "size-rate",
        "Size against rate",
        parts,
        "flagstone-bench matrix --workload put-heavy (balanced, delete-heavy, get-heavy) --out DIR",
    )
}
